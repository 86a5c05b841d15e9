//! Runs workers as another system user.
//!
//! Workers that run as the hub's own user can read all that the hub can, also its tokens.
//! With `agents.user` they run as another user. The hub and the keepers keep their user:
//! `setpriv` (of util-linux) changes the user of the worker alone, between its keeper and
//! its program. It gives the worker the groups of that user and takes every capability
//! from it.
//!
//! The data folder is closed to that user, so the files that a worker reads and writes
//! lie elsewhere: in a folder for each worker, in one that belongs to the hub.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use posthaste_core::ports::LaunchError;
use rustix::process::geteuid;

use crate::program;

/// The capabilities, with their bits in Linux, that the hub needs to run workers as
/// another user, to find their processes (only its owner may else read the environment
/// with the mark), to end them and to clean up after them.
const NEEDED: [(u32, &str); 6] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (19, "CAP_SYS_PTRACE"),
];

/// The folders of system programs.
const SYSTEM: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// A script that enters the folder and looks at the program, both named by variables. Its
/// exit code tells which of the two is closed.
const TRY: &str = "cd -- \"$PLACE\" 2>/dev/null || exit 10; [ -x \"$PROGRAM\" ] || exit 11";
const NO_FOLDER: i32 = 10;
const NO_PROGRAM: i32 = 11;

/// The user as whom workers run, if not the hub's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerUser {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub(crate) home: PathBuf,
    pub(crate) shell: String,
    setpriv: PathBuf,
}

impl WorkerUser {
    /// Looks up the user of this name or number, with the programs of this search path.
    /// Returns `None` if the name is empty or is the hub's own user, and an error if
    /// there is no such user or the hub may not switch to it.
    pub fn find(wanted: &str, path: Option<&OsStr>) -> Result<Option<Self>, LaunchError> {
        if wanted.is_empty() {
            return Ok(None);
        }
        let getent = system_program("getent", path)?;
        let entry = ask(&getent, wanted)?;
        let Some(Entry { name, uid, gid, home, shell }) = entry else {
            return Err(LaunchError {
                why: format!("there is no user `{wanted}` (agents.user)"),
                hint: Some(format!(
                    "make it, for example with `useradd --system {wanted}`, or name another"
                )),
                key: None,
            });
        };
        if uid == geteuid().as_raw() {
            return Ok(None);
        }
        check_capabilities(&name)?;
        let setpriv = system_program("setpriv", path)?;
        let user = Self { name, uid, gid, home, shell, setpriv };
        user.try_to_switch()?;
        Ok(Some(user))
    }

    /// Returns the words that run a command as this user.
    pub(crate) fn runs(&self, command: &[OsString]) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![
            self.setpriv.clone().into(),
            format!("--reuid={}", self.uid).into(),
            format!("--regid={}", self.gid).into(),
            "--init-groups".into(),
            "--inh-caps=-all".into(),
            "--ambient-caps=-all".into(),
            "--".into(),
        ];
        words.extend(command.iter().cloned());
        words
    }

    /// Tries to start a harmless command as this user, to learn whether real starts will
    /// work.
    fn try_to_switch(&self) -> Result<(), LaunchError> {
        let trial = self.runs(&[self.setpriv.clone().into(), "--version".into()]);
        let refused = |why: String| LaunchError {
            why: format!("workers cannot run as {} (agents.user): {why}", self.name),
            hint: Some("start the hub as root, or leave agents.user out".to_owned()),
            key: None,
        };
        let ran = run(&trial, &[]).map_err(|e| refused(e.to_string()))?;
        match ran.status.success() {
            true => Ok(()),
            false => Err(refused(String::from_utf8_lossy(&ran.stderr).trim().to_owned())),
        }
    }

    /// Checks whether this user can work in this folder and execute this program. A trial
    /// as this user decides, so that groups and access lists count as in a real start.
    pub(crate) fn check(&self, directory: &Path, program: &OsStr) -> Result<(), LaunchError> {
        let trial = self.runs(&["/bin/sh".into(), "-c".into(), TRY.into()]);
        let variables = [("PLACE", directory.as_os_str()), ("PROGRAM", program)];
        let ran = run(&trial, &variables)
            .map_err(|e| LaunchError::new(format!("cannot run {}: {e}", self.name), None))?;
        let closed = |what: String, hint: &str| {
            Err(LaunchError {
                why: format!("{what} for {}, as whom workers run (agents.user)", self.name),
                hint: Some(hint.to_owned()),
                key: None,
            })
        };
        match ran.status.code() {
            Some(0) => Ok(()),
            Some(NO_FOLDER) => closed(
                format!("{} is closed", directory.display()),
                "open it and every folder above it for that user, or name another working directory",
            ),
            Some(NO_PROGRAM) => closed(
                format!("the program {} is closed", Path::new(program).display()),
                "open it and every folder above it for that user, or install it for all users",
            ),
            _ => closed(
                format!("nothing could be tried ({})", ran.status),
                "`posthaste doctor` looks whether the hub can switch to that user",
            ),
        }
    }

    /// Makes the folder that holds the workers' folders, or checks the existing one.
    pub fn make_root(&self, root: &Path) -> Result<(), LaunchError> {
        match DirBuilder::new().mode(0o700).create(root) {
            Ok(()) => open_the_way(root).map_err(|e| self.wrong_root(root, e.to_string()))?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(self.wrong_root(root, e.to_string())),
        }
        self.check_root(root)
    }

    /// Checks that the folder belongs to the hub alone, so that no worker can replace the
    /// files of another, and that this user can reach it.
    pub fn check_root(&self, root: &Path) -> Result<(), LaunchError> {
        let found = fs::symlink_metadata(root).map_err(|e| self.wrong_root(root, e.to_string()))?;
        let why = match () {
            () if !found.is_dir() => "it is no folder".to_owned(),
            () if found.uid() != geteuid().as_raw() => {
                format!("it belongs to another user ({})", found.uid())
            }
            () if found.mode() & 0o022 != 0 => "others may write to it".to_owned(),
            () => match self.check(root, OsStr::new("/bin/sh")) {
                Ok(()) => return Ok(()),
                Err(error) => error.why,
            },
        };
        Err(self.wrong_root(root, why))
    }

    fn wrong_root(&self, root: &Path, why: String) -> LaunchError {
        let (root, user) = (root.display(), &self.name);
        LaunchError {
            why: format!("{root} cannot hold the files of workers that run as {user}: {why}"),
            hint: Some(format!(
                "set agents.folder to a folder that `{user}` can reach and only the hub can write to"
            )),
            key: None,
        }
    }

    /// Makes a worker's own folder, with the places in it to which the worker may write.
    pub(crate) fn make_home(&self, home: &Path, places: &[&Path]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        open_the_way(home)?;
        for place in places {
            DirBuilder::new().recursive(true).mode(0o700).create(place)?;
            chown(place, Some(self.uid), Some(self.gid))?;
        }
        Ok(())
    }

    /// Makes this user the owner of a file.
    pub(crate) fn give(&self, file: &File) -> io::Result<()> {
        fchown(file, Some(self.uid), Some(self.gid))
    }
}

/// Lets other users pass through the folder without listing it.
fn open_the_way(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o711))
}

/// A user in the system's list of users.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    uid: u32,
    gid: u32,
    home: PathBuf,
    shell: String,
}

impl Entry {
    /// Parses a line of the system's list of users.
    fn read(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.trim_end_matches('\n').split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields.as_slice() else { return None };
        Some(Self {
            name: (*name).to_owned(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            home: home.into(),
            shell: (*shell).to_owned(),
        })
    }
}

/// Finds a system program, also where the search path is short or missing.
fn system_program(name: &str, path: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    program::find(name, None, path).or_else(|_| program::find(name, None, Some(SYSTEM.as_ref())))
}

fn ask(getent: &Path, wanted: &str) -> Result<Option<Entry>, LaunchError> {
    let words = [getent.as_os_str(), "passwd".as_ref(), "--".as_ref(), wanted.as_ref()];
    let words = words.map(OsStr::to_owned);
    let failed = |why: String| LaunchError::new(format!("cannot look up users: {why}"), None);
    let ran = run(&words, &[]).map_err(|e| failed(e.to_string()))?;
    match ran.status.code() {
        Some(0) => {
            let said = String::from_utf8_lossy(&ran.stdout);
            let line = said.lines().next().unwrap_or_default();
            Entry::read(line).map(Some).ok_or_else(|| failed("getent said nothing useful".into()))
        }
        // There is no user of that name or number.
        Some(2) => Ok(None),
        _ => Err(failed(String::from_utf8_lossy(&ran.stderr).trim().to_owned())),
    }
}

/// Checks whether the hub has all needed capabilities, as the system reports them for
/// this process.
fn check_capabilities(name: &str) -> Result<(), LaunchError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    Err(LaunchError {
        why: format!(
            "workers cannot run as {name} (agents.user): the hub may not switch users, it lacks {missing}"
        ),
        hint: Some(
            "start the hub as root, give its service these capabilities (systemd: AmbientCapabilities=), or leave agents.user out"
                .to_owned(),
        ),
        key: None,
    })
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let has = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    NEEDED.iter().filter(|(bit, _)| has & (1 << bit) == 0).map(|(_, name)| *name).collect()
}

#[expect(clippy::disallowed_methods, reason = "it is waited for, and does next to nothing")]
fn run(words: &[OsString], variables: &[(&str, &OsStr)]) -> io::Result<Output> {
    let (program, arguments) = words.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(variables.iter().copied());
    command.current_dir("/").stdin(Stdio::null()).output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_of_users_is_read_and_nonsense_is_not() {
        let line = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
        let entry = Entry::read(line).expect("a good line");
        assert_eq!((&*entry.name, entry.uid, entry.gid), ("nobody", 65534, 65534));
        assert_eq!((entry.home, &*entry.shell), ("/nonexistent".into(), "/usr/sbin/nologin"));
        for bad in ["", "nobody", "a:x:b:1::/:/bin/sh", "a:x:-1:1::/:/bin/sh", "a:x:1:1:/:/bin/sh"]
        {
            assert_eq!(Entry::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_hub_lacks_to_switch_users_is_named() {
        assert_eq!(missing_capabilities("CapEff:\t000001ffffffffff\n"), Vec::<&str>::new());
        assert_eq!(missing_capabilities("CapEff:\t00000000000800a3\n"), ["CAP_SETGID"]);
        assert_eq!(missing_capabilities("CapEff:\t00000000000000e3\n"), ["CAP_SYS_PTRACE"]);
        assert_eq!(missing_capabilities("").len(), NEEDED.len());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_user_that_is_not_there_is_told_and_nobody_named_is_the_hubs_own() {
        let path = None;
        assert_eq!(WorkerUser::find("", path), Ok(None));
        let me = geteuid().as_raw().to_string();
        assert_eq!(WorkerUser::find(&me, path), Ok(None));
        for missing in ["no-such-user", "4294967294", "-1", "--help", "a:b"] {
            let error = WorkerUser::find(missing, path).expect_err(missing);
            assert!(error.why.contains(missing) && error.hint.is_some(), "{error}");
        }
    }
}
