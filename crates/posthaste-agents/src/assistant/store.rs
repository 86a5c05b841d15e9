//! The file of a conversation: records, one a line, flushed before anything follows from
//! them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::record::Record;

#[derive(Debug)]
pub(crate) struct ConversationFile {
    file: File,
    /// The end of the last whole record.
    end: u64,
}

impl ConversationFile {
    /// Opens the file, and returns its records. A line that was cut by a crash at the end
    /// is dropped; any other that cannot be read is an error.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Record>)> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            // Its name stands in the folder before anything in it is acked.
            path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut records = Vec::new();
        for (number, line) in bytes[..whole].split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let record = serde_json::from_slice(line).map_err(|error| {
                let why = format!("line {} of its conversation: {error}", number + 1);
                io::Error::new(io::ErrorKind::InvalidData, why)
            })?;
            records.push(record);
        }
        Ok((Self { file, end: whole as u64 }, records))
    }

    /// Appends records: all of them, on disk, or none.
    pub(crate) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            serde_json::to_writer(&mut bytes, record).map_err(io::Error::other)?;
            bytes.push(b'\n');
        }
        let written = self
            .file
            .seek(SeekFrom::Start(self.end))
            .and_then(|_| self.file.write_all(&bytes))
            .and_then(|()| self.file.set_len(self.end + bytes.len() as u64))
            .and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.end += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                let _ = self.file.set_len(self.end);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_there_after_a_crash_and_half_a_line_is_dropped() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("conversation");
        let (mut file, records) = ConversationFile::open(&path).expect("made");
        assert!(records.is_empty());
        let asked = |question| Record::Asked {
            question,
            call: String::new(),
            blocking: true,
            text: String::new(),
        };
        file.append(&[Record::Start, asked(1)]).expect("written");
        file.append(&[asked(2)]).expect("written");
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes.extend(br#"{"kind":"asked","ques"#);
        std::fs::write(&path, &bytes).expect("writable");
        let (mut file, records) = ConversationFile::open(&path).expect("opened");
        assert_eq!(records, [Record::Start, asked(1), asked(2)]);
        file.append(&[asked(3)]).expect("written");
        let (_, records) = ConversationFile::open(&path).expect("opened");
        assert_eq!(records.last(), Some(&asked(3)));
        assert_eq!(records.len(), 4);
    }

    #[test]
    fn a_damaged_line_is_named() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("conversation");
        std::fs::write(&path, "{\"kind\":\"start\"}\nrubbish\n{\"kind\":\"start\"}\n").expect("ok");
        let error = ConversationFile::open(&path).expect_err("damaged");
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
