//! `posthaste completions` and `posthaste man`: made from the table of commands.

use std::path::Path;

use clap::CommandFactory;
use serde_json::json;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::failure::{Failure, internal, machine};
use crate::output::Output;

pub(super) fn completions(args: &CompletionsArgs, output: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "posthaste", &mut script);
    output.raw(&script)
}

/// Writes one page to stdout, or all pages into a folder.
pub(super) fn man(args: &ManArgs, output: &mut Output) -> Result<(), Failure> {
    match &args.out {
        Some(folder) => write_all(folder, output),
        None => {
            let mut page = Vec::new();
            let made = clap_mangen::Man::new(Cli::command()).render(&mut page);
            made.map_err(|e| internal(format!("no page: {e}")))?;
            output.raw(&page)
        }
    }
}

fn write_all(folder: &Path, output: &mut Output) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| machine("make the folder", folder, e))?;
    let made = clap_mangen::generate_to(Cli::command(), folder);
    made.map_err(|e| machine("write the pages into", folder, e))?;
    match output.json() {
        true => output.answer(&json!({ "folder": folder })),
        false => output.say(&format!("the pages are in {}", folder.display())),
    }
}
