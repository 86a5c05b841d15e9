//! `posthaste install`: copies this program to a place that stays.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use directories::BaseDirs;
use serde_json::json;

use super::connect::programs;
use crate::cli::InstallArgs;
use crate::failure::{Failure, invalid, machine};
use crate::output::Output;

const NAME: &str = "posthaste";

pub(super) fn run(args: InstallArgs, output: &mut Output) -> Result<(), Failure> {
    let folder = match args.to {
        Some(folder) => folder,
        None => usual().ok_or_else(|| {
            invalid("there is no home folder").hint("name a folder with --to DIR")
        })?,
    };
    let folder = std::path::absolute(&folder).map_err(|e| machine("find", &folder, e))?;
    let (own, to) = (programs::own()?, folder.join(NAME));
    let same = fs::canonicalize(&to).is_ok_and(|there| there == own);
    if !same {
        copy(&own, &to).map_err(|e| machine("write", &to, e))?;
    }
    let found = programs::is_on_path(&folder);
    if output.json() {
        return output.answer(&json!({ "program": to, "copied": !same, "on_path": found }));
    }
    match same {
        true => output.say(&format!("{} is this very program: nothing to copy.", to.display()))?,
        false => output.say(&format!("{} is installed.", to.display()))?,
    }
    if !found {
        let place = folder.display();
        output.note(&format!(
            "{place} is not on your PATH: add `export PATH=\"{place}:$PATH\"` to your shell's \
             start file, or call it by its whole name"
        ));
    }
    Ok(())
}

fn usual() -> Option<PathBuf> {
    let dirs = BaseDirs::new()?;
    let bin = dirs.executable_dir().map(Path::to_owned);
    Some(bin.unwrap_or_else(|| dirs.home_dir().join(".local/bin")))
}

/// Copies beside the target, and then renames: a program that runs there is not
/// disturbed.
fn copy(own: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
    let draft = to.with_file_name(format!(".{NAME}.{:016x}.tmp", rand::random::<u64>()));
    let copied = fs::copy(own, &draft).and_then(|_| fs::rename(&draft, to));
    if copied.is_err() {
        let _ = fs::remove_file(&draft);
    }
    copied
}
