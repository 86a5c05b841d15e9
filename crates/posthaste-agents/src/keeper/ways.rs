//! The ways of a worker's stdin, stdout and stderr, made before it runs.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::fs::fchown;
use std::process::Command;

use super::feed::Feed;
use super::pipe::Pipe;
use super::session::Session;
use super::terminal::Terminal;
use super::{Keep, Owner};
use crate::folder::{self, Folder};
use crate::settings::Stdin;

#[derive(Default)]
pub(super) struct Ways {
    /// The worker's stdout, unless the hub or a terminal reads it.
    pub(super) out: Option<Pipe>,
    /// The worker's stderr, unless it goes to a terminal.
    pub(super) err: Option<Pipe>,
    /// The worker's mail, if its stdin carries more than its task.
    pub(super) feed: Option<Feed>,
    /// The worker's stdin and stdout, if the hub holds a conversation with it.
    pub(super) session: Option<Session>,
}

impl Ways {
    /// Makes the ways and gives the worker its ends of them. The command holds those ends:
    /// a pipe closes when all its ends are.
    pub(super) fn of(
        keep: &Keep,
        folder: &Folder,
        terminal: Option<&Terminal>,
        command: &mut Command,
    ) -> Result<Self, String> {
        if let Some(terminal) = terminal {
            let equipped = terminal.equip(command, keep);
            return equipped
                .map(|()| Self::default())
                .map_err(|e| format!("cannot give it the terminal: {e}"));
        }
        let mute = |e: io::Error| format!("cannot speak with it: {e}");
        let (stderr, warns) = pipe(keep.owner)?;
        let err = output(folder::create(&folder.err()), stderr.into(), keep)?;
        let (stdout, says) = pipe(keep.owner)?;
        command.stdout(says).stderr(warns);
        let mut ways = Self { err: Some(err), ..Self::default() };
        match keep.stdin {
            Stdin::Task => {
                let task = File::open(folder.task());
                command.stdin(task.map_err(|e| format!("cannot read its task: {e}"))?);
            }
            Stdin::Mail => {
                // Opened before the worker runs, which may replace its files.
                let mail = folder::open(&folder.mail());
                let mail = mail.map_err(|e| format!("cannot read its mail: {e}"))?;
                let (from, to) = pipe(keep.owner)?;
                command.stdin(from);
                ways.feed = Some(Feed::new(mail, to.into()).map_err(mute)?);
            }
            Stdin::Session => {
                let (from, to) = pipe(keep.owner)?;
                command.stdin(from);
                let session =
                    Session::new(&folder.socket(), stdout.into(), to.into(), keep.output_bytes);
                ways.session = Some(session.map_err(mute)?);
                return Ok(ways);
            }
            Stdin::Terminal => return Err("it has no terminal".to_owned()),
        }
        ways.out = Some(output(folder::create(&folder.out()), stdout.into(), keep)?);
        Ok(ways)
    }
}

fn output(file: io::Result<File>, from: OwnedFd, keep: &Keep) -> Result<Pipe, String> {
    let file = file.map_err(|e| format!("cannot write its output: {e}"))?;
    Pipe::new(from, file, keep.output_bytes).map_err(|e| format!("cannot speak with it: {e}"))
}

/// Makes a pipe that belongs to the worker, which may open it again by a name like
/// `/dev/stderr`.
fn pipe(owner: Option<Owner>) -> Result<(PipeReader, PipeWriter), String> {
    let made = io::pipe().and_then(|(from, to)| {
        if let Some(Owner { uid, gid }) = owner {
            fchown(&from, Some(uid), Some(gid))?;
        }
        Ok((from, to))
    });
    made.map_err(|e| format!("cannot make a pipe: {e}"))
}
