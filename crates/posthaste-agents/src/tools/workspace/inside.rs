//! Opens a path that must not lead out of a folder.
//!
//! Linux resolves the whole path below the folder (`openat2` with `RESOLVE_BENEATH`): links
//! within the folder work, and those that lead out do not. Where the system cannot do that,
//! each part of the path is opened by itself and may be no link.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens a relative path without `..` below a folder.
pub(super) fn open(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, String> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(root, path, flags, Mode::empty(), how) {
            // An older kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Ok(open) => return Ok(open),
            Err(Errno::XDEV | Errno::LOOP) => {
                return Err(format!("{} leads out of the working directory", path.display()));
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    part_by_part(root, path, flags)
}

/// Returns where an open file stands, if the system tells. What it tells of its processes,
/// their variables among it, is no file of anybody's.
#[cfg(target_os = "linux")]
pub(super) fn place_of(open: &OwnedFd) -> Result<Option<std::path::PathBuf>, String> {
    use std::os::fd::AsRawFd;
    let system = rustix::fs::fstatfs(open).map_err(|error| error.to_string())?;
    if system.f_type == rustix::fs::PROC_SUPER_MAGIC {
        return Err("what the system tells of its processes is closed".to_owned());
    }
    Ok(std::fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).ok())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn place_of(_: &OwnedFd) -> Result<Option<std::path::PathBuf>, String> {
    Ok(None)
}

/// Opens a path of which no part is a symbolic link.
fn part_by_part(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, String> {
    let wrong = |error: Errno| match error {
        Errno::LOOP | Errno::MLINK => {
            format!("{} goes through a symbolic link, which is not followed here", path.display())
        }
        error => format!("{}: {error}", path.display()),
    };
    let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let part: &OsStr = part.as_os_str();
        let at = folder.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        let how = if parts.peek().is_some() { through } else { flags | OFlags::NOFOLLOW };
        let opened = rustix::fs::openat(at, part, how, Mode::empty());
        // A link that is opened as a folder is "no folder" to the system.
        let is_link = || {
            let about = rustix::fs::statat(at, part, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            about.is_ok_and(|about| rustix::fs::FileType::from_raw_mode(about.st_mode).is_symlink())
        };
        let opened = opened.map_err(|error| match error {
            Errno::NOTDIR if is_link() => wrong(Errno::LOOP),
            error => wrong(error),
        })?;
        folder = Some(opened);
    }
    folder.ok_or_else(|| "the path names no file".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn where_the_system_cannot_look_after_links_none_is_followed() {
        let scratch = tempfile::tempdir().expect("a folder");
        let root = scratch.path();
        std::fs::create_dir_all(root.join("in/deep")).expect("made");
        std::fs::write(root.join("in/deep/file"), "inside").expect("written");
        symlink("in", root.join("link")).expect("linked");
        symlink("in/deep/file", root.join("file")).expect("linked");
        let open = rustix::fs::open(root, OFlags::DIRECTORY, Mode::empty()).expect("open");
        let read = |path: &str| part_by_part(&open, Path::new(path), OFlags::RDONLY);
        assert!(read("in/deep/file").is_ok());
        assert!(read(".").is_ok() && read("in/deep").is_ok());
        for path in ["link/deep/file", "file", "link"] {
            let why = read(path).expect_err(path);
            assert!(why.contains("symbolic link"), "{path}: {why}");
        }
        assert!(read("in/none").expect_err("not there").contains("in/none"));
    }
}
