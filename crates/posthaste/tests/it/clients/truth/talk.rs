//! A program that stays: its user writes, breaks in, and writes again. Claude Code
//! reads lines of JSON, Codex has its app-server, the others speak ACP.

use serde_json::{Value, json};

use super::machine::{Machine, Run, eventually_or};
use crate::clients::claude;
use crate::clients::program::Program;

/// A conversation with a program that stays.
pub(super) struct Talk {
    pub(super) run: Run,
    /// The program's name for the conversation, where it wants to hear it.
    session: String,
    /// Requests that it was sent.
    requests: u64,
    /// Turns that its user has begun.
    turns: usize,
}

impl Talk {
    pub(super) async fn open(machine: &Machine) -> Self {
        let run = machine.start_with(None, false).await;
        let cwd = run.place.to_str().expect("a plain path").to_owned();
        let mut talk = Self { run, session: String::new(), requests: 0, turns: 0 };
        match talk.run.program {
            Program::ClaudeCode => (),
            Program::Codex => {
                let client = json!({ "name": "test", "title": "test", "version": "1" });
                talk.ask("initialize", json!({ "clientInfo": client }));
                talk.tell(&json!({ "method": "initialized" }));
                let policy = json!({ "cwd": cwd, "approvalPolicy": "never" });
                let answer = talk.ask("thread/start", policy);
                talk.session = text(&answer["thread"]["id"]);
            }
            _ => {
                let none = json!({ "fs": { "readTextFile": false, "writeTextFile": false } });
                let client = json!({ "protocolVersion": 1, "clientCapabilities": none });
                talk.ask("initialize", client);
                let answer = talk.ask("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
                talk.session = text(&answer["sessionId"]);
            }
        }
        talk
    }

    /// The user writes.
    pub(super) fn write(&mut self, words: &str) {
        self.turns += 1;
        let words_as_block = json!([{ "type": "text", "text": words }]);
        match self.run.program {
            Program::ClaudeCode => self.run.agent.tell(&claude::said(words, false)),
            Program::Codex => {
                let turn = json!({ "threadId": self.session, "input": words_as_block });
                self.ask("turn/start", turn);
            }
            _ => {
                let prompt = json!({ "sessionId": self.session, "prompt": words_as_block });
                self.send("session/prompt", prompt);
            }
        }
    }

    /// The user breaks in. Comes back when the program says that the turn has ended.
    pub(super) fn interrupt(&mut self) {
        let session = json!({ "sessionId": self.session });
        match self.run.program {
            Program::ClaudeCode => {
                let request = json!({ "subtype": "interrupt" });
                let line = json!({
                    "type": "control_request", "request_id": "stop", "request": request,
                });
                self.tell(&line);
            }
            Program::Codex => {
                let turn = self.running_turn();
                let which = json!({ "threadId": self.session, "turnId": turn });
                self.send("turn/interrupt", which);
            }
            _ => self.tell(&json!({
                "jsonrpc": "2.0", "method": "session/cancel", "params": session,
            })),
        }
        self.until_the_turn_has_ended();
    }

    pub(super) fn until_the_turn_has_ended(&self) {
        eventually_or(
            || self.ended() >= self.turns,
            || format!("the turn has not ended: {}", self.tail()),
        );
    }

    /// Turns that have ended, in the program's own words.
    fn ended(&self) -> usize {
        let ends = |line: &Value| match self.run.program {
            Program::ClaudeCode => line["type"] == "result",
            Program::Codex => line["method"] == "turn/completed",
            _ => line["result"]["stopReason"].is_string(),
        };
        self.lines().iter().filter(|line| ends(line)).count()
    }

    fn running_turn(&self) -> String {
        let lines = self.lines();
        let begun = lines.iter().rev().find(|line| line["method"] == "turn/started");
        text(&begun.expect("a turn has begun")["params"]["turn"]["id"])
    }

    /// Asks and waits for the answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = || self.lines().into_iter().find(|line| is_answer(line, id));
        eventually_or(|| answer().is_some(), || format!("no answer to {method}: {}", self.tail()));
        let answer = answer().expect("just found");
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        self.tell(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn tell(&mut self, line: &Value) {
        self.run.agent.tell(&line.to_string());
    }

    fn lines(&self) -> Vec<Value> {
        let said = self.run.agent.said();
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The last that it said.
    fn tail(&self) -> String {
        let said = self.run.agent.said() + &self.run.agent.complained();
        let skip = said.chars().count().saturating_sub(1500);
        said.chars().skip(skip).collect()
    }
}

fn is_answer(line: &Value, id: u64) -> bool {
    line["id"] == id && line["method"].is_null()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}
