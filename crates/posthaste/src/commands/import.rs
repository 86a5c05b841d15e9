//! `posthaste import`: takes over what a user has from another program.

mod cao;

use super::Session;
use crate::cli::{ImportArgs, ImportCommand};
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(args: ImportArgs, session: &Session, output: &mut Output) -> Result<(), Failure> {
    match args.command {
        ImportCommand::Cao { from, dry_run } => {
            cao::run(from, dry_run, &session.folder.path().join("profiles"), output)
        }
    }
}
