//! Files of other programs: read whole, and changed whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use posthaste_api::ApiError;
use posthaste_bridges::clients::{Edit, Server};
use posthaste_bridges::difference;
use posthaste_bridges::edit::Broken;

use super::HIDDEN;
use super::record::{Record, digest};
use crate::failure::{Failure, invalid, machine};

/// One file, as it is and as it should be.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
    /// The text before the first connect.
    pub(crate) before: Option<String>,
}

impl Change {
    pub(crate) fn is_one(&self) -> bool {
        self.old != self.new
    }

    /// Returns the change in the form of `diff -u`, without tokens.
    pub(crate) fn difference(&self, server: &Server) -> String {
        let name = self.path.to_string_lossy();
        let told = difference::unified(&name, self.old.as_deref(), self.new.as_deref());
        match server {
            Server::Http { token, .. } if !token.is_empty() => told.replace(token.as_str(), HIDDEN),
            _ => told,
        }
    }

    /// Replaces the old text with the new, unless another program has written since.
    pub(crate) fn write(&self, secret: bool) -> Result<(), Failure> {
        if read(&self.path)? != self.old {
            let told = format!("{} has changed in this moment", self.path.display());
            return Err(invalid(told).hint("nothing was written there: try again").into());
        }
        let done = match &self.new {
            Some(text) => write(&self.path, text.as_bytes(), secret),
            None => fs::remove_file(&self.path),
        };
        done.map_err(|e| machine("write", &self.path, e).into())
    }
}

/// Returns the changes that these edits make to the files as they are now.
pub(crate) fn changes(edits: &[Edit], known: Option<&Record>) -> Result<Vec<Change>, Failure> {
    let change = |edit: &Edit| {
        let path = meant(&edit.files);
        let old = read(&path)?;
        let now = old.as_deref().unwrap_or_default();
        let kept = known.and_then(|record| record.kept(&path));
        let before = match kept {
            None => old.clone(),
            // The file is as we left it, so the text before is known to the byte.
            Some(kept) if old.as_deref().map(digest) == Some(kept.written.clone()) => {
                kept.before.clone()
            }
            Some(kept) => {
                let earlier = kept.before.as_deref().unwrap_or_default();
                let rest = edit.take(now, earlier).map_err(|e| broken(&path, &e))?;
                (kept.before.is_some() || !rest.trim().is_empty() && rest.trim() != "{}")
                    .then_some(rest)
            }
        };
        let earlier = before.as_deref().unwrap_or_default();
        let new = edit.put(now, earlier).map_err(|e| broken(&path, &e))?;
        // A file that would be empty is not created, and one that we created is removed.
        let new = (before.is_some() || !new.is_empty()).then_some(new);
        Ok(Change { path, old, new, before })
    };
    edits.iter().map(change).collect()
}

/// Returns the file that exists among its possible names, with links resolved.
pub(crate) fn meant(files: &[PathBuf]) -> PathBuf {
    let there = files.iter().find(|file| file.exists()).or(files.first());
    let path = there.cloned().unwrap_or_default();
    fs::canonicalize(&path).unwrap_or(path)
}

pub(crate) fn read(path: &Path) -> Result<Option<String>, Failure> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(machine("read", path, e).into()),
    };
    String::from_utf8(bytes).map(Some).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        broken(path, &Broken { line, why: "this is no UTF-8 text".to_owned() }).into()
    })
}

pub(crate) fn broken(path: &Path, broken: &Broken) -> ApiError {
    invalid(format!("{}, {broken}", path.display())).hint("mend it first: nothing was changed")
}

/// Returns the folders above a file that do not exist yet, the outermost first.
pub(crate) fn missing_above(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Writes a temporary file, flushes it, and renames it; keeps the permissions of the old
/// file.
fn write(path: &Path, bytes: &[u8], secret: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mode = match fs::metadata(path) {
        Ok(old) => Some(old.permissions().mode() & 0o7777),
        Err(_) => secret.then_some(0o600),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{:016x}.tmp", rand::random::<u64>()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode.unwrap_or(0o666)).open(&draft)?;
    let written = (|| {
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written.and_then(|()| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_permissions_and_leaves_nothing_behind() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("a/b/settings.json");
        assert_eq!(missing_above(&path).len(), 2);
        write(&path, b"one", true).expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("ours");
        write(&path, b"two", true).expect("written");
        assert_eq!((mode(&path), fs::read(&path).expect("there")), (0o640, b"two".to_vec()));
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("a folder").count(), 1);
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_not_written_over() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("a.json");
        fs::write(&path, "theirs").expect("written");
        let old = Some("ours".to_owned());
        let change =
            Change { path: path.clone(), before: old.clone(), old, new: Some("new".to_owned()) };
        assert!(change.write(false).is_err());
        assert_eq!(fs::read(&path).expect("there"), b"theirs");
    }

    #[test]
    fn rubbish_is_refused_with_its_line() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("a.json");
        fs::write(&path, b"{\n\xff").expect("written");
        let Err(Failure::Told(error)) = read(&path) else { panic!("read") };
        assert!(error.message.contains("a.json, line 2"), "{error:?}");
    }
}
