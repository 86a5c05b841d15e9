//! `posthaste export`: writes every message as a line of JSON.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use posthaste_api::messages::{ExportQuery, MessageView};

use super::Session;
use crate::cli::ExportArgs;
use crate::failure::{Failure, machine};
use crate::output::Output;

pub(super) async fn run(
    args: ExportArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let mut export = client.export(&ExportQuery { after: args.after }).await?;
    // Only now: a refusal by the hub leaves the file as it was.
    let mut file = args.out.map(|path| Out::open(path, args.after.is_some())).transpose()?;
    let mut count = 0;
    let mut last = args.after;
    let done = loop {
        let message = match export.next().await {
            Ok(Some(message)) => message,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        match &mut file {
            Some(file) => file.write(&message)?,
            None => output.answer(&message)?,
        }
        count += 1;
        last = Some(message.seq);
    };
    match &mut file {
        Some(file) => file.finish()?,
        None => output.flush()?,
    }
    let last = last.map(|seq| format!("; the last is {seq}")).unwrap_or_default();
    let messages = if count == 1 { "message" } else { "messages" };
    output.note(&format!("{count} {messages} exported{last}"));
    done.map_err(|error| {
        output.note("it broke off: go on with --after and the last number");
        error.into()
    })
}

/// The file, and its path for errors.
struct Out {
    file: BufWriter<File>,
    path: PathBuf,
}

impl Out {
    /// Opens the file for its owner alone. An export that goes on appends to it.
    fn open(path: PathBuf, goes_on: bool) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(goes_on).truncate(!goes_on).mode(0o600);
        let file = options.open(&path).map_err(|e| unwritable(&path, e))?;
        Ok(Self { file: BufWriter::new(file), path })
    }

    fn write(&mut self, message: &MessageView) -> Result<(), Failure> {
        let line = serde_json::to_writer(&mut self.file, message).map_err(std::io::Error::from);
        let written = line.and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|e| unwritable(&self.path, e))
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let kept = self.file.flush().and_then(|()| {
            let file = self.file.get_ref();
            // A pipe cannot be flushed to a disk.
            if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
        });
        kept.map_err(|e| unwritable(&self.path, e))
    }
}

fn unwritable(path: &Path, error: std::io::Error) -> Failure {
    machine("write", path, error).into()
}
