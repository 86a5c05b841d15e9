//! A client of stdio, in either era, in front of the real bridge.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::world::{PATIENCE, Ran, Started, World, eventually};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// A handshake, then calls.
    Old,
    /// Every request says what it needs.
    New,
}

/// The hub lets a program of this name wait for longer than a test has patience, so
/// that no wait seems to have ended because it was over.
pub(crate) const PROGRAM: &str = "claude-code";
/// Seconds of such a wait.
pub(crate) const LONG: u64 = 600;

pub(crate) const BOTH: [Era; 2] = [Era::Old, Era::New];

/// An agent's program, and the bridge that it started.
pub(crate) struct Agent {
    pub(crate) process: Started,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    /// Heard, and not asked for yet.
    heard: VecDeque<Value>,
    era: Era,
    program: String,
    asked: u64,
}

impl Agent {
    /// A bridge that nobody has spoken to.
    pub(crate) fn new(world: &World, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = world.command(&[&["mcp"], args].concat());
        command.envs(variables.iter().copied());
        Self::started_by(command)
    }

    /// The same, by a command of the test's own.
    pub(crate) fn started_by(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        let mut process = Started::new(command);
        let (stdin, out) = process.talk();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (heard, program) = (VecDeque::new(), PROGRAM.to_owned());
        Self { process, stdin, lines, heard, era: Era::Old, program, asked: 0 }
    }

    /// An agent that is ready to call: in the old era it has shaken hands.
    pub(crate) fn ready(world: &World, era: Era, args: &[&str]) -> Self {
        Self::of(PROGRAM, era, Self::new(world, &[&["--no-start"], args].concat(), &[]))
    }

    /// The same in a program with this name.
    pub(crate) fn of(program: &str, era: Era, mut agent: Self) -> Self {
        agent.era = era;
        agent.program = program.to_owned();
        if era == Era::Old {
            let answer = agent.initialize();
            assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
            agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        agent
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": self.program, "version": "1" },
        });
        let id = self.request_as_it_is("initialize", params);
        self.answer(id)
    }

    /// One line, whatever it says.
    pub(crate) fn line(&mut self, text: &[u8]) {
        let said = [text, b"\n"].concat();
        self.stdin.write_all(&said).expect("the bridge reads");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.line(message.to_string().as_bytes());
    }

    /// Asks in the agent's era, and does not wait.
    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> u64 {
        self.dress(&mut params);
        self.request_as_it_is(method, params)
    }

    fn dress(&self, params: &mut Value) {
        if self.era == Era::New {
            let said = [
                ("protocolVersion", json!("2026-07-28")),
                ("clientInfo", json!({ "name": self.program, "version": "1" })),
                ("clientCapabilities", json!({})),
            ];
            for (name, value) in said {
                params["_meta"][format!("io.modelcontextprotocol/{name}")] = value;
            }
        }
    }

    fn request_as_it_is(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Gives up a request.
    pub(crate) fn cancel(&mut self, id: u64) {
        let mut params = json!({ "requestId": id, "reason": "no patience" });
        self.dress(&mut params);
        let method = "notifications/cancelled";
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// The next line that the bridge says.
    pub(crate) fn next(&mut self) -> Value {
        let heard = self.heard.pop_front();
        heard.unwrap_or_else(|| {
            self.lines.recv_timeout(PATIENCE).expect("the bridge says something")
        })
    }

    /// What answers this request; everything else is kept.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let at = self.heard.iter().position(|line| line["id"] == id);
        if let Some(answer) = at.and_then(|at| self.heard.remove(at)) {
            return answer;
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the bridge answers");
            if line["id"] == id {
                return line;
            }
            self.heard.push_back(line);
        }
    }

    /// Whether this request was answered so far.
    pub(crate) fn has_answer(&self, id: u64) -> bool {
        self.heard.iter().any(|line| line["id"] == id)
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Calls a tool and does not wait.
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The same in a thread of Codex.
    pub(crate) fn begin_in(&mut self, thread: &str, tool: &str) -> u64 {
        let meta = json!({ "threadId": thread });
        self.request("tools/call", json!({ "name": tool, "arguments": {}, "_meta": meta }))
    }

    /// Calls a tool that must succeed, and reads its answer.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        read(&self.answer(id))
    }

    /// Its address, as the hub says.
    pub(crate) fn address(&mut self) -> String {
        let who = self.call("whoami", json!({}));
        who["address"].as_str().unwrap_or_else(|| panic!("an address: {who}")).to_owned()
    }

    /// Its address, and a call that waits for mail by now.
    pub(crate) fn waits(&mut self, world: &World) -> (String, u64) {
        let address = self.address();
        let waiting = self.begin("check_inbox", json!({ "timeout": LONG }));
        eventually(|| is_waiting(world, &address));
        (address, waiting)
    }

    /// Begins again in the same process, and counts from the start.
    pub(crate) fn begins_again(&mut self) {
        self.asked = 0;
        self.initialize();
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// The texts that it finds in its inbox.
    pub(crate) fn inbox(&mut self) -> Vec<String> {
        texts(&self.call("check_inbox", json!({ "timeout": 0 })))
    }

    /// Closes stdin, as a client does when it is done.
    pub(crate) fn leave(self) -> Ran {
        drop(self.stdin);
        self.process.end()
    }
}

/// What a tool said, which must not be an error.
#[track_caller]
pub(crate) fn read(answer: &Value) -> Value {
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The texts of an inbox.
pub(crate) fn texts(inbox: &Value) -> Vec<String> {
    let messages = inbox["messages"].as_array().into_iter().flatten();
    messages.map(|m| m["message"].as_str().expect("a text").to_owned()).collect()
}

/// Everybody who is here, by address.
pub(crate) fn everybody(world: &World) -> Vec<String> {
    let agents = world.json(&["agents"]);
    let agents = agents["instances"].as_array().expect("a list");
    agents.iter().map(|a| a["address"].as_str().expect("an address").to_owned()).collect()
}

/// Whether somebody waits for mail.
pub(crate) fn is_waiting(world: &World, address: &str) -> bool {
    let agents = world.json(&["agents"]);
    let mut agents = agents["instances"].as_array().expect("a list").iter();
    agents.any(|a| a["address"] == address && a["activity"] == "waiting_inbox")
}
