//! Files that hold secrets: readable by their owner alone, complete or absent.
//!
//! A file is written under another name and then renamed, so a reader never finds half of
//! one and a full disk never costs the old one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes the folder and those above it, for the owner alone. An existing folder keeps its
/// permissions.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes the file, or replaces the existing one.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = draft(path, content)?;
    let moved = fs::rename(&draft, path);
    if moved.is_err() {
        let _ = fs::remove_file(&draft);
    }
    moved.and_then(|()| sync_folder(path))
}

/// Writes the file unless there is one. Of two concurrent calls, one succeeds.
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = draft(path, content)?;
    let linked = fs::hard_link(&draft, path);
    let _ = fs::remove_file(&draft);
    match linked {
        Ok(()) => sync_folder(path),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        // A file system without hard links: less strict, and still complete.
        Err(_) if !path.exists() => write(path, content),
        Err(e) => Err(e),
    }
}

/// Returns the content of the file, or `None` if there is none. Closes a file to other
/// users who could read it.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others could read this secret; closing it to them");
        // Only the owner can close the file; it may be used all the same.
        let _ = file.set_permissions(fs::Permissions::from_mode(mode & 0o700));
    }
    io::read_to_string(file).map(Some)
}

fn draft(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{:016x}.tmp", rand::random::<u64>()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written.map(|()| draft)
}

/// Flushes the folder, so that the name of the file is on disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder != Path::new("") => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let inner = scratch.path().join("a/b");
        folder(&inner).expect("made");
        let file = inner.join("operator.token");
        write(&file, b"one").expect("written");
        assert_eq!((mode(&inner), mode(&file)), (0o700, 0o600));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("ours");
        assert_eq!(read(&file).expect("readable").as_deref(), Some("one"));
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn create_never_overwrites_and_write_leaves_nothing_behind() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let file = scratch.path().join("join.token");
        assert_eq!(read(&file).expect("no error"), None);
        create(&file, b"first").expect("created");
        create(&file, b"second").expect("there already");
        assert_eq!(read(&file).expect("readable").as_deref(), Some("first"));
        write(&file, b"third").expect("written");
        assert_eq!(read(&file).expect("readable").as_deref(), Some("third"));
        assert_eq!(fs::read_dir(scratch.path()).expect("a folder").count(), 1);
    }
}
