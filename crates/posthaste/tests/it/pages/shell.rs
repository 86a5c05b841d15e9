//! The shell of somebody who reads a page.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::world::{BINARY, Started, World, end_workers};

/// The longest that a reader waits for a block; the demo takes its time.
const PATIENCE: Duration = Duration::from_secs(240);
/// Where the pages say that the hub is.
const SHOWN: &str = "127.0.0.1:9889";

/// Before every page. A command that fails is written down, and the next one runs, as
/// for somebody who pastes.
const PRELUDE: &str = "set -E -o pipefail\n\
                       trap 'printf \"%s\\n\" \"$BASH_COMMAND\" >> \"$PAGE_FAILED\"' ERR\n";

/// Agent programs that a page configures by their own commands. Theirs are other tests;
/// here they only must be there.
const STAND_INS: [&str; 2] = ["claude", "codex"];

/// The home of somebody new. What was started in it is ended with it.
pub(super) struct Home(World);

impl Drop for Home {
    fn drop(&mut self) {
        let mut down = self.0.command(&["down"]);
        down.env("POSTHASTE_DATA", self.data());
        Started::new(down).end();
        end_workers(&self.data().join("agents"));
    }
}

impl Home {
    fn data(&self) -> PathBuf {
        self.0.scratch().join(".local/share/posthaste")
    }
}

/// A home with nothing in it, beside a clone of the repository, as far as pages name its
/// files.
pub(super) fn fresh_home(root: &Path) -> Home {
    let world = World::new();
    let place = |name: &str| world.scratch().join(name);
    for folder in ["bin", "clone"] {
        fs::create_dir(place(folder)).expect("a folder");
    }
    symlink(BINARY, place("bin/posthaste")).expect("a link");
    for name in STAND_INS {
        let program = place("bin").join(name);
        fs::write(&program, "#!/bin/sh\necho '0.0.0 (stand-in)'\n").expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    }
    for name in ["README.md", "examples"] {
        symlink(root.join(name), place("clone").join(name)).expect("a link");
    }
    Home(world)
}

pub(super) struct Ran {
    /// Commands that failed.
    pub(super) failed: Vec<String>,
    pub(super) out: String,
    pub(super) err: String,
}

pub(super) struct Shell<'a> {
    home: &'a Home,
    bash: Child,
    stdin: ChildStdin,
    done: Receiver<()>,
}

impl<'a> Shell<'a> {
    pub(super) fn new(home: &'a Home) -> Self {
        let world = &home.0;
        let mut bash = world.program("/bin/bash", &["--noprofile", "--norc"]);
        bash.current_dir(world.scratch().join("clone"))
            .env_remove("POSTHASTE_DATA")
            .env("PATH", format!("{}:/usr/bin:/bin", world.scratch().join("bin").display()))
            .env("POSTHASTE_SERVER__LISTEN", "127.0.0.1:0")
            .env("PAGE_FAILED", world.scratch().join("failed"))
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut bash = bash.spawn().expect("bash");
        let mut stdin = bash.stdin.take().expect("piped");
        stdin.write_all(PRELUDE.as_bytes()).expect("it reads");
        let lines = BufReader::new(bash.stdout.take().expect("piped")).lines();
        let (sender, done) = channel();
        std::thread::spawn(move || {
            for _ in lines.map_while(Result::ok) {
                if sender.send(()).is_err() {
                    return;
                }
            }
        });
        Self { home, bash, stdin, done }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.home.0.scratch().join(name)
    }

    /// Where the hub is; a hub of a test has another port than the pages say.
    fn hub(&self) -> Option<String> {
        let text = fs::read_to_string(self.home.data().join("hub.json")).ok()?;
        let told: Value = serde_json::from_str(&text).ok()?;
        told["url"].as_str()?.strip_prefix("http://").map(str::to_owned)
    }

    pub(super) fn save(&self, path: &str, text: &str) {
        let path = self.place("clone").join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    pub(super) fn run(&mut self, script: &str) -> Result<Ran, String> {
        let script = script.replace(SHOWN, self.hub().as_deref().unwrap_or(SHOWN));
        let names = ["block", "out", "err", "failed"].map(|name| self.place(name));
        let [block, out, err, failed] = &names;
        fs::write(block, script).expect("written");
        fs::write(failed, "").expect("written");
        let line = format!(
            ". '{}' </dev/null >'{}' 2>'{}'; echo done\n",
            block.display(),
            out.display(),
            err.display()
        );
        self.stdin.write_all(line.as_bytes()).map_err(|e| format!("the shell has ended: {e}"))?;
        let ended = self.done.recv_timeout(PATIENCE);
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let (out, err, failed) = (read(out), read(err), read(failed));
        match ended {
            Ok(()) => {
                // A block ends as its last command does.
                let commands = failed.lines().filter(|command| !command.starts_with(". '"));
                Ok(Ran { failed: commands.map(str::to_owned).collect(), out, err })
            }
            Err(_) => Err(format!("the block does not end\n{out}{err}")),
        }
    }

    /// A text without what differs from one run to the next.
    pub(super) fn neutral(&self, text: &str) -> String {
        let home = self.home.0.scratch().to_string_lossy().into_owned();
        let mut text = text.replace(&home, "/home/me");
        if let Some(hub) = self.hub() {
            text = text.replace(&hub, SHOWN);
        }
        let lines = text.trim().lines().map(|line| line.trim_end());
        lines.map(neutral_line).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        let group = i32::try_from(self.bash.id()).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.bash.wait();
    }
}

/// Ids, times, process numbers and versions, each by one word.
fn neutral_line(line: &str) -> String {
    let mut neutral = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let is_part = |c: char| c.is_ascii_alphanumeric();
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        neutral.push_str(match word {
            _ if word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit()) => "ID",
            _ if neutral.ends_with("pid ") => "NUMBER",
            word => word,
        });
        let next = after.chars().next().map_or(0, char::len_utf8);
        neutral.push_str(&after[..next]);
        rest = &after[next..];
    }
    clockless(&neutral)
}

/// `12:03:04` is a time.
fn clockless(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_digit());
        let parts: Vec<&str> = bare.split(':').collect();
        let is_time = parts.len() == 3
            && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()));
        if is_time { word.replace(bare, "TIME") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_differs_from_run_to_run_is_not_compared_and_the_rest_is() {
    let line = "[1] alice.1a2b3c4d@main (peer, 12:03:04): 3 words";
    assert_eq!(neutral_line(line), "[1] alice.ID@main (peer, TIME): 3 words");
    assert_eq!(neutral_line("at x (pid 4711)"), "at x (pid NUMBER)");
    assert_eq!(neutral_line("1:2 größer 10"), "1:2 größer 10");
}
