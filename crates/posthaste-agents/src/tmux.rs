//! tmux, by its own command line and its control mode.
//!
//! The hub runs a worker of the driver `terminal` in a pane of a tmux server of its own
//! user, to which a person attaches with tmux's own command. The keeper runs inside the
//! pane (`ticket.rs`), so the server is nobody's child: it outlives the hub and every
//! worker.
//!
//! Commands reach tmux through its stdin. Other users can see the words of a process, and
//! the words of these commands name the folder of an instance.

mod client;
pub(crate) mod control;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use posthaste_core::ports::LaunchError;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

pub(crate) use self::client::Client;
use crate::environment::Environment;
use crate::keeper::MARK;
use crate::program;
use crate::ticket::Pane;

/// The word with which tmux says its version.
pub(crate) const VERSION: &str = "-V";
/// The size of a new window, until a person attaches: wide enough for most lines of a
/// program.
const SIZE: (u16, u16) = (160, 50);
/// The longest time that tmux may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The oldest version to which the hub's client can attach without changing the size of a
/// window.
const OLDEST: (u32, u32) = (3, 2);
/// The longest name of a session.
const NAME: usize = 64;

/// A tmux server, by its socket.
#[derive(Debug, Clone)]
pub(crate) struct Tmux {
    program: PathBuf,
    /// A name or a path, as configured; empty: tmux's default.
    socket: String,
    /// The environment of the server, if it has to be started.
    environment: Environment,
    /// The program that becomes a client which ends with the hub.
    keeper: PathBuf,
}

/// The place of a new pane.
pub(crate) struct NewPane<'a> {
    pub(crate) session: &'a str,
    pub(crate) window: &'a str,
    /// The program that runs in the pane, with its words.
    pub(crate) words: &'a [OsString],
    /// The worker's folder, in which the program runs.
    pub(crate) folder: &'a Path,
}

impl Tmux {
    /// Finds tmux in this environment, which is the hub's own.
    pub(crate) fn find(
        socket: &str,
        environment: Environment,
        keeper: &Path,
    ) -> Result<Self, LaunchError> {
        let program = program::find("tmux", None, environment.get("PATH"))?;
        Ok(Self { program, socket: socket.to_owned(), environment, keeper: keeper.to_owned() })
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Refuses a tmux to which the hub could not attach.
    pub(crate) async fn check_version(&self) -> Result<(), LaunchError> {
        check_version(&self.ask(&[VERSION]).await?.stdout)
    }

    /// Returns whether this pane is still there.
    pub(crate) async fn has(&self, pane: &Pane) -> bool {
        let mut command = self.command();
        command.arg("-S").arg(&pane.socket).args(["display-message", "-p", "-t", &pane.pane]);
        run(command, b"").await.is_ok_and(|ran| ran.status.success())
    }

    /// Opens a pane in which a program runs: in the session of this name, if there is one,
    /// or in a new one. Starts the server if none runs.
    pub(crate) async fn open(&self, pane: &NewPane<'_>) -> Result<(), LaunchError> {
        // Several workers may want the same new session.
        static OPENING: Mutex<()> = Mutex::const_new(());
        let _opening = OPENING.lock().await;
        self.check_server().await?;
        let is_there = self.ask(&["has-session", "-t", &format!("={}", pane.session)]).await?;
        let folder = std::path::absolute(pane.folder).map_err(|e| failed(&e.to_string()))?;
        let pane = NewPane { folder: &folder, ..*pane };
        let is_there = is_there.status.success();
        let first = self.source(&script(&pane, is_there)).await?;
        if first.status.success() {
            return Ok(());
        }
        // The session has ended meanwhile, or somebody else has opened it.
        let second = self.source(&script(&pane, !is_there)).await?;
        match second.status.success() {
            true => Ok(()),
            false => Err(failed(&said(&first))),
        }
    }

    /// Refuses a server that a worker has started: it ends with that worker, and takes all
    /// its panes along.
    async fn check_server(&self) -> Result<(), LaunchError> {
        let ran = self.ask(&["display-message", "-p", "#{pid}"]).await?;
        let pid = String::from_utf8_lossy(&ran.stdout).trim().parse::<u32>();
        let (true, Ok(pid)) = (ran.status.success(), pid) else { return Ok(()) };
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mark = format!("{MARK}=");
        match environment.split(|byte| *byte == 0).any(|one| one.starts_with(mark.as_bytes())) {
            false => Ok(()),
            true => Err(LaunchError::new(
                format!("a worker has started the tmux server {pid}, which ends with that worker"),
                "end that server with `tmux kill-server`, or set agents.tmux_socket to a name of your own",
            )),
        }
    }

    /// Runs commands that stand in no process list, and starts the server if none runs.
    async fn source(&self, script: &[u8]) -> Result<Output, LaunchError> {
        let words = ["start-server", ";", "source-file", "-"];
        self.run(&words, script).await.map_err(|e| failed(&e.to_string()))
    }

    async fn ask(&self, words: &[&str]) -> Result<Output, LaunchError> {
        self.run(words, b"").await.map_err(|e| failed(&e.to_string()))
    }

    async fn run(&self, words: &[&str], input: &[u8]) -> io::Result<Output> {
        let mut command = self.command();
        match self.socket.as_str() {
            "" => {}
            path if path.contains('/') => drop(command.arg("-S").arg(path)),
            name => drop(command.arg("-L").arg(name)),
        }
        command.args(words);
        run(command, input).await
    }

    fn command(&self) -> Command {
        let mut command = command(&self.program, &self.environment);
        command.arg("-u");
        command
    }
}

/// Runs tmux to its end.
async fn run(mut command: Command, input: &[u8]) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn()?;
    let stdin = child.stdin.take();
    let talk = async {
        if let Some(mut stdin) = stdin {
            // tmux may have ended already, and then says why.
            let _ = stdin.write_all(input).await;
        }
        child.wait_with_output().await
    };
    timeout(PATIENCE, talk).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Refuses a tmux that is too old, by its answer to [`VERSION`]. A version without a
/// number, such as that of OpenBSD, is new enough.
pub(crate) fn check_version(said: &[u8]) -> Result<(), LaunchError> {
    let said = String::from_utf8_lossy(said);
    let version = said.trim().strip_prefix("tmux ").unwrap_or_default();
    let (major, minor) =
        version.strip_prefix("next-").unwrap_or(version).split_once('.').unwrap_or_default();
    let minor = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) if (major, minor) < OLDEST => Err(LaunchError::new(
            format!("tmux {version} is too old: a terminal needs tmux 3.2 or newer"),
            "install a newer tmux, and end the old server with `tmux kill-server`",
        )),
        _ => Ok(()),
    }
}

/// Makes a command that runs tmux, to which `-u` is the first word (UTF-8 whatever the
/// locale), on no server but the one that it is told.
#[expect(clippy::disallowed_methods, reason = "whoever runs it waits for it or kills it")]
fn command(program: &Path, environment: &Environment) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(environment.all()).current_dir("/");
    command.env_remove("TMUX").env_remove("TMUX_PANE");
    command
}

fn script(pane: &NewPane<'_>, is_there: bool) -> Vec<u8> {
    let NewPane { session, window, words, folder } = pane;
    let (columns, rows) = SIZE;
    let mut script = match is_there {
        true => format!("new-window -d -t ={session}: -n {window}"),
        false => format!("new-session -d -s {session} -n {window} -x {columns} -y {rows}"),
    }
    .into_bytes();
    script.extend(b" -c ");
    // tmux takes the directory for a format.
    let folder = folder.as_os_str().as_bytes();
    let doubled = folder.iter().flat_map(|byte| match byte {
        b'#' => b"##",
        byte => std::slice::from_ref(byte),
    });
    script.extend(quoted(&doubled.copied().collect::<Vec<u8>>()));
    script.extend(b" --");
    for word in *words {
        script.push(b' ');
        script.extend(quoted(word.as_bytes()));
    }
    script.push(b'\n');
    if !is_there {
        // Whatever the person's configuration says: nobody need be attached.
        script.extend(format!("set-option -t ={session}: destroy-unattached off\n").bytes());
    }
    script
}

/// Returns a word for tmux's own parser.
pub(crate) fn quoted(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in word {
        match byte {
            b'\n' => quoted.extend(b"\\n"),
            b'"' | b'\\' | b'$' | b'~' => quoted.extend([b'\\', *byte]),
            0..=31 | 127 => quoted.extend(format!("\\{byte:03o}").bytes()),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Returns whether a session of tmux can have this name, and no word of a command can be
/// meant by it.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= NAME
        && name.chars().all(plain)
}

fn said(ran: &Output) -> String {
    let said = String::from_utf8_lossy(&ran.stderr);
    let said = said.trim().lines().next().unwrap_or_default();
    match said.is_empty() {
        true => ran.status.to_string(),
        false => crate::conversation::one_line(said, 200),
    }
}

fn failed(why: &str) -> LaunchError {
    LaunchError::new(
        format!("tmux gives no terminal: {why}"),
        "try `tmux new-session` as the hub's user; the hub needs tmux 3.2 or newer",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_is_opened_by_words_that_stay_words() {
        let words = ["/opt/my tools/posthaste", "keep", "-", "echo \"$HOME\"\nexit; #{x}"];
        let pane = NewPane {
            session: "cao-one",
            window: "mason-1a2b",
            words: &words.map(OsString::from),
            folder: Path::new("/data #1/agents/a3f7b2c1"),
        };
        let text = |is_there| String::from_utf8(script(&pane, is_there)).expect("text");
        let rest = r#" -c "/data ##1/agents/a3f7b2c1" -- "/opt/my tools/posthaste" "keep" "-" "echo \"\$HOME\"\nexit; #{x}""#;
        assert_eq!(text(true), format!("new-window -d -t =cao-one: -n mason-1a2b{rest}\n"));
        assert_eq!(
            text(false),
            format!(
                "new-session -d -s cao-one -n mason-1a2b -x 160 -y 50{rest}\n\
                 set-option -t =cao-one: destroy-unattached off\n"
            )
        );
    }

    #[test]
    fn a_tmux_that_is_too_old_is_refused_with_its_version() {
        for good in
            ["tmux 3.2\n", "tmux 3.2a", "tmux 3.3a", "tmux 3.10", "tmux next-3.4", "tmux 4.0"]
        {
            assert_eq!(check_version(good.as_bytes()), Ok(()), "{good}");
        }
        for unknown in ["", "tmux master", "tmux openbsd-7.5", "another program 1.0"] {
            assert_eq!(check_version(unknown.as_bytes()), Ok(()), "{unknown}");
        }
        for old in ["tmux 3.1c\n", "tmux 2.6", "tmux 1.9a", "tmux next-3.1"] {
            let error = check_version(old.as_bytes()).expect_err(old);
            assert!(error.why.contains(old.trim()) || old.contains("next"), "{error}");
            assert!(error.why.contains("3.2") && error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn a_name_of_a_session_is_no_word_of_a_command() {
        for good in ["cao-one", "posthaste-mason-1a2b", "7", "a_b"] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "-d", "a b", "a:b", "a.b", "=x", "a;b", "a'", "#{x}", "\u{e4}", &long] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
