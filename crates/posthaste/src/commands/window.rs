//! `posthaste tmux-window`: shows a worker in a window of tmux until it ends.
//!
//! The hub opens the window, in the worker's own folder, for people who attach to the
//! session (`agents/supervisor/window.rs`). It outlives a hub that is killed.

use super::attach::{Leaving, conversation};
use super::interrupt::Interrupt;
use super::{Session, logs};
use crate::cli::{AttachArgs, LogsArgs, WindowArgs};
use crate::failure::{Failure, internal, invalid};
use crate::identity::DataFolder;
use crate::output::Output;

/// Number of entries of the conversation that are shown first.
const TAIL: usize = 200;

pub(super) async fn run(args: &WindowArgs, output: &mut Output) -> Result<(), Failure> {
    let (id, session) = here()?;
    if args.read_only {
        output.note("this shows what it writes; to write to it: posthaste send");
        // Ctrl-C is not for the window.
        let _interrupt = Interrupt::new()?;
        let args = LogsArgs { instance: id, follow: true, stderr: false, tail: None, raw: false };
        return logs::run(&args, &session, output).await;
    }
    let who = session.client()?.instance(&id).await?;
    let args = AttachArgs { instance: id, read_only: false, tail: TAIL, urgent: false };
    conversation::attach(&who, &args, &session, Leaving::ByTmux, output).await
}

/// Returns the worker whose folder this is, and the operator's way to its hub.
fn here() -> Result<(String, Session), Failure> {
    let folder =
        std::env::current_dir().map_err(|e| internal(format!("no working directory: {e}")))?;
    let id = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let data = folder.parent().and_then(std::path::Path::parent);
    let (Some(id), Some(data)) = (id, data) else {
        return Err(invalid("this is not the folder of a worker").into());
    };
    let session =
        Session { folder: DataFolder::new(data.to_owned()), hub: None, acting: None, token: None };
    Ok((id, session))
}
