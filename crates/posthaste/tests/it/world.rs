//! One hub and its users, as processes. What a test starts, it ends: by its own
//! handle, also when an assertion fails.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use posthaste_testkit::excerpt::excerpt;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::piped::Piped;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");

/// Longer than anything here should take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that is gone after the test, and the way to run the binary on it. Workers
/// that a killed hub left there go with it.
pub(crate) struct World {
    scratch: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        end_workers(&self.file("agents"));
    }
}

/// A child that never outlives its test.
pub(crate) struct Started {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
    err: Option<Piped>,
}

/// What a finished command left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// For the messages of failing tests: a program may have said much.
impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (out, err) = (excerpt(&self.out), excerpt(&self.err));
        let mut ran = f.debug_struct("Ran");
        ran.field("code", &self.code).field("out", &out).field("err", &err).finish()
    }
}

/// A hub that listens.
pub(crate) struct Hub {
    pub(crate) process: Started,
    pub(crate) url: String,
    /// What it said when it was ready.
    pub(crate) greeting: Value,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { scratch: TempDir::new().expect("a scratch folder") }
    }

    /// One that every user of the system can reach.
    pub(crate) fn open_to_all() -> Self {
        Self { scratch: open_to_all() }
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// A file of the data folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.data().join(name)
    }

    /// A configuration file with this text.
    pub(crate) fn config(&self, text: &str) -> String {
        let path = self.scratch.path().join("config.toml");
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a plain path").to_owned()
    }

    /// The binary with nothing of the machine's own settings in sight.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(BINARY, args)
    }

    #[expect(clippy::disallowed_methods, reason = "the fixture owns every child it starts")]
    pub(crate) fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("HOME", self.scratch.path())
            .env("TZ", "UTC")
            .env("POSTHASTE_DATA", self.data())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, args: &[&str]) -> Started {
        Started::new(self.command(args))
    }

    /// A command that Ctrl-C ends. Tests that a script started in the background ignore it,
    /// and so would whatever they start.
    pub(crate) fn start_interruptible(&self, args: &[&str]) -> Started {
        match cfg!(target_os = "linux") {
            true => {
                let reset = ["--default-signal=INT", BINARY];
                Started::new(self.program("/usr/bin/env", &[&reset, args].concat()))
            }
            false => self.start(args),
        }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.start(args).end()
    }

    /// Runs a command that must succeed, and gives what it said.
    pub(crate) fn say(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    /// Runs a command with `--json` that must answer, and gives the answer.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert!(ran.has_answered(), "{args:?}: {ran:?}");
        let out = &ran.out;
        serde_json::from_str(out).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", excerpt(out)))
    }

    /// Joins, and gives the exact address.
    pub(crate) fn joined(&self, name: &str) -> String {
        self.json(&["join", name])["address"].as_str().expect("an address").to_owned()
    }

    /// A command with this text on its stdin.
    pub(crate) fn pipe(&self, args: &[&str], text: &[u8]) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut started = Started::new(command);
        started.feed(text);
        started.end()
    }

    /// A command whose stdout was closed before it began.
    pub(crate) fn without_stdout(&self, args: &[&str]) -> Ran {
        let shell = ["-c", "exec \"$0\" \"$@\" >&-", BINARY];
        Started::new(self.program("/bin/sh", &[&shell, args].concat())).end()
    }

    /// A command on a terminal of so many columns. What it wrote, to stdout and to stderr,
    /// is its `out`.
    #[cfg(target_os = "linux")]
    pub(crate) fn on_terminal(&self, columns: u16, args: &[&str]) -> Command {
        let quoted = |word: &&str| format!("'{}'", word.replace('\'', "'\\''"));
        let words: Vec<String> = [&[BINARY], args].concat().iter().map(quoted).collect();
        let line = format!("stty cols {columns} rows 24; exec {}", words.join(" "));
        let mut command =
            self.program("script", &["--quiet", "--return", "-c", &line, "/dev/null"]);
        command.env("TERM", "xterm").env("SHELL", "/bin/sh").env("PATH", "/usr/bin:/bin");
        command
    }

    pub(crate) fn hub(&self) -> Hub {
        self.hub_with(&[])
    }

    pub(crate) fn hub_with(&self, args: &[&str]) -> Hub {
        let base = ["up", "--json"];
        let port: &[&str] = match args.contains(&"--listen") {
            true => &[],
            false => &["--listen", "127.0.0.1:0"],
        };
        self.hub_of(self.command(&[&base, port, args].concat()))
    }

    /// A hub that may open so many files and no more.
    pub(crate) fn hub_with_files(&self, files: usize, args: &[&str]) -> Hub {
        let limited = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let shell = ["-c", &limited, BINARY, "up", "--json", "--listen", "127.0.0.1:0"];
        self.hub_of(self.program("/bin/sh", &[&shell, args].concat()))
    }

    /// The hub that this command starts.
    pub(crate) fn hub_of(&self, command: Command) -> Hub {
        let mut process = Started::new(command);
        let Some(line) = process.line() else { panic!("no hub: {:?}", process.end()) };
        let greeting: Value = serde_json::from_str(&line).expect("a line of JSON");
        let url = greeting["url"].as_str().expect("an address").to_owned();
        Hub { process, url, greeting }
    }
}

impl Started {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary starts");
        let out = child.stdout.take().map(BufReader::new);
        let err = child.stderr.take().map(Piped::new);
        Self { child, out, err }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its stdout, or nothing when it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.out.as_mut()?.read_line(&mut line).expect("text");
        (read > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// Its stdout up to and with this text, or all of it when it has ended.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut read = Vec::new();
        let out = self.out.as_mut().expect("piped");
        let mut byte = [0];
        while !read.ends_with(text.as_bytes()) && out.read(&mut byte).expect("bytes") > 0 {
            read.push(byte[0]);
        }
        String::from_utf8_lossy(&read).into_owned()
    }

    /// What it has written to its stderr until now.
    pub(crate) fn complained(&self) -> String {
        self.err.as_ref().map(Piped::until_now).unwrap_or_default()
    }

    /// Both ends of a conversation with it, if it was started for one.
    pub(crate) fn talk(&mut self) -> (ChildStdin, BufReader<ChildStdout>) {
        let stdin = self.child.stdin.take().expect("piped");
        (stdin, self.out.take().expect("piped"))
    }

    /// Writes this to its stdin, all of it, and closes it.
    pub(crate) fn feed(&mut self, text: &[u8]) {
        let mut stdin = self.child.stdin.take().expect("piped");
        stdin.write_all(text).expect("somebody reads");
    }

    /// Writes this to its stdin, which stays open.
    pub(crate) fn types(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).expect("somebody reads");
    }

    /// Nobody writes to its stdin any more: on a terminal, Ctrl-D.
    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// Nobody reads its stdout any more.
    pub(crate) fn close_stdout(&mut self) {
        self.out = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("our own child");
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        let out = self.out.take().map(Piped::new);
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                break status;
            }
            assert!(Instant::now() < until, "process {} does not end", self.child.id());
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = |pipe: Option<Piped>| pipe.map(Piped::all).unwrap_or_default();
        // As a shell tells it.
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ran { code, out: text(out), err: text(self.err.take()) }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Hub {
    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(self) -> Ran {
        self.process.signal(Signal::TERM);
        self.process.end()
    }

    /// Pulls the plug.
    pub(crate) fn kill(self) {
        self.process.signal(Signal::KILL);
        self.process.end();
    }

    pub(crate) fn port(&self) -> &str {
        self.url.rsplit(':').next().expect("a port")
    }
}

impl Ran {
    /// Whether it did what was asked: well, or with the news that no mail came (7), that
    /// not all have reported (8) or that a worker failed (9).
    pub(crate) fn has_answered(&self) -> bool {
        matches!(self.code, Some(0 | 7..=9))
    }

    /// It failed with this exit code, said this, and gave this advice.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, error: &str, hint: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let said = |start: &str, text: &str| {
            self.err.lines().any(|line| line.starts_with(start) && line.contains(text))
        };
        assert!(said("error: ", error), "{error}: {self:?}");
        assert!(hint.is_empty() || said("hint: ", hint), "{hint}: {self:?}");
    }
}

/// Ends every worker whose folder says that it has not ended.
pub(crate) fn end_workers(agents: &Path) {
    let folders = std::fs::read_dir(agents).into_iter().flatten().flatten();
    for folder in folders.flat_map(|entry| [entry.path(), entry.path().join("wake")]) {
        let note = folder.join("started");
        if !note.is_file() {
            continue;
        }
        let note = std::fs::read(note).unwrap_or_default();
        let note: Value = serde_json::from_slice(&note).unwrap_or_default();
        let process = note["keeper"].as_i64().and_then(|n| Pid::from_raw(n.try_into().ok()?));
        if let Some(keeper) = process.filter(|_| !folder.join("exit.json").exists()) {
            // A keeper that was killed has left its worker; its number is its group's.
            let worker = note["worker"].as_i64().and_then(|n| Pid::from_raw(n.try_into().ok()?));
            if kill_process(keeper, Signal::TERM).is_err()
                && let Some(worker) = worker
            {
                let _ = kill_process_group(worker, Signal::KILL);
            }
        }
    }
}

/// Tries until it holds, for things that happen elsewhere.
#[track_caller]
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "it never came true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The same for what only an asynchronous call can tell.
#[track_caller]
pub(crate) fn until(mut holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let until = Instant::now() + PATIENCE;
        while !holds().await {
            assert!(Instant::now() < until, "it never came true: {caller}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Whether slow tests should shorten themselves.
pub(crate) fn quick() -> bool {
    variable("POSTHASTE_QUICK")
}

/// This machine has not what a test needs: the test is not run, or fails where all must.
#[track_caller]
pub(crate) fn lacks(what: &str) {
    assert!(!variable("POSTHASTE_REQUIRE"), "this machine {what}");
    skip(&format!("this machine {what}"));
}

/// Says why a test does not run here, and adds it to the list that `scripts/test` shows at
/// its end, if that has begun one: the harness hides what a passing test prints.
#[expect(clippy::print_stderr, reason = "a test that skips says so")]
pub(crate) fn skip(why: &str) {
    eprintln!("skipped: {why}");
    let list = std::env::temp_dir().join("skipped");
    if let Ok(mut list) = std::fs::OpenOptions::new().append(true).open(list) {
        list.write_all(format!("skipped: {why}\n").as_bytes()).expect("a line more");
    }
}

/// Whether a test may act as another user of the system. Only root may, so such a test
/// is not run by anybody else.
pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(&format!("{test} needs root"));
    }
    root
}

#[expect(clippy::disallowed_methods, reason = "how the test script talks to its tests")]
fn variable(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// A scratch folder that every user of the system can reach: where others may not pass
/// the folders above the usual place, it lies in `/tmp`.
pub(crate) fn open_to_all() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let usual = std::env::temp_dir().canonicalize().expect("a place for scratch folders");
    let passable = usual.ancestors().all(|folder| mode(folder) & 0o001 != 0);
    let place = if passable { &usual } else { Path::new("/tmp") };
    let scratch = TempDir::new_in(place).expect("a scratch folder");
    let open = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(scratch.path(), open).expect("our own");
    scratch
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_command_that_said_much_is_printed_in_short() {
    let much = || "a line of a long log\n".repeat(50_000);
    let ran = Ran { code: Some(1), out: much(), err: much() };
    assert!(format!("{ran:?}").len() < 10_000);
}
