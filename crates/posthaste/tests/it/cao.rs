//! CLI Agent Orchestrator's own programs against a real hub: its command line and its MCP
//! server, as they are on PyPI.

mod attaching;
mod callers;
mod import;
mod programs;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Hub, Ran, Started, World, lacks, quick, skip};

/// The version that `scripts/test` installs.
const VERSION: &str = "2.5.4";

/// A hub, and CAO's programs beside it.
struct Stage {
    world: World,
    hub: Option<Hub>,
    port: String,
    programs: PathBuf,
    /// The folder of tmux's default server, of which CAO's programs know. It has a short
    /// name, as sockets must.
    tmux: TempDir,
}

impl Stage {
    /// `None` where CAO is not installed.
    fn new() -> Option<Self> {
        if quick() {
            skip("CAO's own programs, because the tests are to be quick");
            return None;
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let programs = root.join(format!(".cache/tools/cao-{VERSION}/bin"));
        if !programs.join("cao-mcp-server").exists() {
            lacks("has no CAO: `./scripts/test test` installs it");
            return None;
        }
        let world = World::new();
        let tmux = TempDir::with_prefix_in("ph-", "/tmp").expect("a folder");
        let hub = world.hub_of(up(&world, &tmux, "127.0.0.1:0"));
        let port = hub.port().to_owned();
        Some(Self { world, hub: Some(hub), port, programs, tmux })
    }

    /// Kills the hub, and starts another one at the same place.
    fn restarts(&mut self) {
        self.hub.take().expect("a hub").kill();
        let listen = format!("127.0.0.1:{}", self.port);
        self.hub = Some(self.world.hub_of(up(&self.world, &self.tmux, &listen)));
    }

    /// One of CAO's programs, which knows the hub's port and nothing of our own.
    fn program(&self, name: &str, args: &[&str], terminal: Option<&str>) -> Command {
        let program = self.programs.join(name);
        let mut command = self.world.program(program.to_str().expect("a plain path"), args);
        command
            .env_remove("POSTHASTE_DATA")
            .env("PATH", "/usr/bin:/bin")
            .env("TMUX_TMPDIR", self.tmux.path())
            .env("CAO_API_PORT", &self.port)
            .current_dir(self.world.scratch());
        if let Some(terminal) = terminal {
            command.env("CAO_TERMINAL_ID", terminal);
        }
        command
    }

    /// Runs a command of tmux to its end.
    fn tmux(&self, words: &[&str]) -> Ran {
        let mut command = self.world.program("/usr/bin/tmux", &[&["-u"], words].concat());
        command.env("TMUX_TMPDIR", self.tmux.path()).env("PATH", "/usr/bin:/bin");
        Started::new(command).end()
    }

    /// Runs `cao` to its end.
    fn cao(&self, args: &[&str], terminal: Option<&str>) -> Ran {
        Started::new(self.program("cao", args, terminal)).end()
    }

    /// The same, which succeeds and answers with JSON.
    fn cao_json(&self, args: &[&str], terminal: Option<&str>) -> Value {
        let ran = self.cao(args, terminal);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("no JSON: {ran:?}"))
    }

    /// Launches a session of the echo agent, and returns its terminal.
    fn launch(&self, session: &str) -> String {
        let launch = ["launch", "--agents", "developer", "--provider", "mock_cli", "--headless"];
        let more = ["--auto-approve", "--session-name", session, "good morning"];
        let ran = self.cao(&[&launch[..], &more].concat(), None);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("> MOCK: good morning"), "{ran:?}");
        let sessions = self.cao_json(&["session", "list", "--json"], None);
        let its = |s: &&Value| s["session"] == format!("cao-{session}");
        let found = sessions.as_array().expect("a list").iter().find(its).expect("listed").clone();
        assert_eq!(found["conductor"]["status"], "completed", "{found}");
        found["conductor"]["id"].as_str().expect("an id").to_owned()
    }

    /// CAO's MCP server, as a terminal's program starts it.
    fn server(&self, terminal: &str) -> Server {
        let mut command = self.program("cao-mcp-server", &[], Some(terminal));
        command.stdin(Stdio::piped());
        let mut process = Started::new(command);
        let (stdin, stdout) = process.talk();
        let mut server = Server { _process: process, stdin, stdout, asked: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        server.ask("initialize", &hello);
        server.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }
}

impl Drop for Stage {
    /// A hub that stops in order ends its workers.
    fn drop(&mut self) {
        if let Some(hub) = self.hub.take() {
            hub.stop();
        }
        // Their windows close by themselves, soon.
        self.tmux(&["kill-server"]);
    }
}

/// A hub that knows the same tmux as CAO's programs.
fn up(world: &World, tmux: &TempDir, listen: &str) -> Command {
    let mut command = world.command(&["up", "--json", "--listen", listen]);
    command.env("PATH", "/usr/bin:/bin").env("TMUX_TMPDIR", tmux.path());
    command
}

/// A conversation with CAO's MCP server.
struct Server {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    asked: u64,
    _process: Started,
}

impl Server {
    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("it listens");
        self.stdin.flush().expect("it listens");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).expect("text") > 0, "{method}: it has ended");
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Calls a tool, and returns what it tells its model.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{tool}: {answer}"))
    }
}
