//! The supervisor: does what an agent's program would do, without a model.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::commands::bridge::Bridge;
use crate::config;
use crate::failure::{Failure, internal};

/// Longer than the whole demo.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Supervisor {
    bridge: Bridge,
    pub(super) address: String,
    next: u64,
}

/// The result of the one call.
pub(super) struct Gathered {
    pub(super) status: String,
    pub(super) reports: Vec<Report>,
}

pub(super) struct Report {
    pub(super) label: String,
    pub(super) text: String,
    pub(super) failed: bool,
}

impl Supervisor {
    pub(super) fn join(data: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|e| internal(format!("no program: {e}")))?;
        let words = ["mcp", "--no-start", "--name", "supervisor", "--key", "demo", "--data"];
        let mut args: Vec<String> = words.map(str::to_owned).to_vec();
        args.push(data.to_string_lossy().into_owned());
        let variables = ["HOME", "PATH", "TMPDIR"];
        let variables = variables.iter().filter_map(|name| Some((*name, config::of_others(name)?)));
        let bridge = Bridge::start(program, &args, variables, PATIENCE)
            .map_err(|e| internal(format!("no supervisor: {e}")))?;
        let mut me = Self { bridge, address: String::new(), next: 0 };
        let client = json!({ "name": "posthaste-demo", "version": env!("CARGO_PKG_VERSION") });
        me.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client,
            }),
        )?;
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        me.bridge.say(&told).map_err(internal)?;
        let who = me.tool("whoami", &json!({}))?;
        me.address = who["address"].as_str().unwrap_or_default().to_owned();
        Ok(me)
    }

    /// Assigns one worker for each page; returns their instances.
    pub(super) fn assigns(
        mut self,
        pages: [&'static str; 5],
    ) -> Result<(Self, Vec<String>), Failure> {
        let mut workers = Vec::new();
        for page in pages {
            let wish = json!({ "agent": "word-counter", "message": page, "label": page });
            let told = self.tool("assign", &wish)?;
            let instance = told["instance"].as_str();
            workers.push(instance.ok_or_else(|| internal(format!("no worker: {told}")))?.into());
        }
        Ok((self, workers))
    }

    /// Gathers all reports in one call, which lasts through every failure.
    pub(super) fn gathers(mut self) -> Result<(Self, Gathered), Failure> {
        let inbox = self.tool("check_inbox", &json!({ "timeout": 110, "wait_for": "all" }))?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let entries = inbox["messages"].as_array().cloned().unwrap_or_default();
        let reports = entries.iter().map(|entry| Report {
            label: word(&entry["label"]),
            text: word(&entry["message"]),
            failed: entry["type"] == "system.agent_failed",
        });
        let gathered = Gathered { status: word(&inbox["status"]), reports: reports.collect() };
        Ok((self, gathered))
    }

    pub(super) fn leaves(self) {
        self.bridge.end();
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        let answer = self.ask("tools/call", &json!({ "name": name, "arguments": arguments }))?;
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        if answer["isError"] == true {
            return Err(internal(format!("{name}: {text}")).into());
        }
        serde_json::from_str(text).map_err(|e| internal(format!("{name}: {e}")).into())
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        self.next += 1;
        let call = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        let mut answer = self.bridge.ask(&call).map_err(internal)?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(internal(format!("{method}: {answer}")).into()),
        }
    }
}
