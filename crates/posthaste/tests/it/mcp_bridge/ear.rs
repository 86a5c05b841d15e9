//! A hub of the test's own: everybody may join it, and it tells what it was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use super::agent::{Agent, Era};
use crate::world::{PATIENCE, World};

/// What joins have to show.
const JOIN: &str = "the-join-token-of-the-test";

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    /// Method and path.
    pub(crate) what: String,
    head: HashMap<String, String>,
    pub(crate) body: Value,
}

/// How a test answers a request in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// As a hub does.
    Usual,
    /// The token is not known.
    Unauthorized,
    /// Not at all: the request stays open.
    Never,
}

pub(crate) struct Ear {
    pub(crate) url: String,
    heard: Receiver<Heard>,
}

impl Ear {
    pub(crate) fn new(reply: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Self {
        let ear = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", ear.local_addr().expect("bound"));
        let (sender, heard) = channel();
        let reply = Arc::new(reply);
        std::thread::spawn(move || {
            for line in ear.incoming().map_while(Result::ok) {
                let (sender, reply) = (sender.clone(), reply.clone());
                std::thread::spawn(move || serve(line, &sender, &*reply));
            }
        });
        Self { url, heard }
    }

    /// The next request of which this holds; those before it are left out.
    #[track_caller]
    pub(crate) fn next(&self, mut holds: impl FnMut(&Heard) -> bool) -> Heard {
        loop {
            let heard = self.heard.recv_timeout(PATIENCE).expect("somebody asks");
            if holds(&heard) {
                return heard;
            }
        }
    }

    /// Everything that was asked up to now.
    pub(crate) fn so_far(&self) -> Vec<Heard> {
        self.heard.try_iter().collect()
    }

    pub(crate) fn variables(&self) -> [(&str, &str); 2] {
        [("POSTHASTE_HUB", self.url.as_str()), ("POSTHASTE_JOIN_TOKEN", JOIN)]
    }

    /// A program in front of a bridge to here.
    pub(crate) fn agent(&self, world: &World, program: &str, more: &[(&str, &str)]) -> Agent {
        let variables = [&self.variables()[..], more].concat();
        Agent::of(program, Era::Old, Agent::new(world, &["--no-start"], &variables))
    }
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.head.get(name).map_or("", String::as_str)
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        self.body["method"] == method
    }

    pub(crate) fn is_a_join(&self) -> bool {
        self.what.contains("/v1/join")
    }

    /// Whose token it shows: `of KEY` after a join with that key.
    pub(crate) fn bearer(&self) -> &str {
        self.header("authorization").strip_prefix("Bearer ").unwrap_or_default()
    }

    pub(crate) fn is_of_a_stranger(&self) -> bool {
        self.bearer() == JOIN
    }
}

fn serve(line: TcpStream, sender: &Sender<Heard>, reply: &dyn Fn(&Heard) -> Reply) {
    let mut reader = BufReader::new(line);
    let Some(heard) = read(&mut reader) else { return };
    let (what, stream) = (reply(&heard), heard.what.starts_with("GET /mcp"));
    let answer = match what {
        Reply::Unauthorized => {
            let error = json!({ "code": "unauthorized", "message": "who?" });
            Some((401, json!({ "error": error })))
        }
        Reply::Usual if !stream => Some(usual(&heard)),
        _ => None,
    };
    // Whoever reads the answer finds it told; a test that is over hears nothing.
    let _ = sender.send(heard);
    if let Some((status, body)) = &answer {
        let body = body.to_string();
        let text = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        // Whoever has gone does not need it.
        let _ = reader.get_mut().write_all(text.as_bytes());
    } else if stream {
        let head = "HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\n\r\n";
        let _ = reader.get_mut().write_all(head.as_bytes());
    }
    if answer.is_none() {
        let _ = reader.read_to_end(&mut Vec::new());
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Heard> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let what = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut head = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        head.insert(name.to_lowercase(), value.to_owned());
    }
    let length = head.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    (!what.is_empty()).then_some(Heard { what, head, body })
}

fn usual(heard: &Heard) -> (u16, Value) {
    if heard.is_a_join() {
        let token = format!("of {}", heard.body["key"].as_str().unwrap_or_default());
        let joined = json!({
            "instance": "0000000a", "address": "a.0000000a@main", "team": "main",
            "thread_id": "t-0000000a", "token": token,
        });
        return (201, joined);
    }
    match heard.body.get("id") {
        Some(id) => {
            let result = json!({ "protocolVersion": "2025-06-18", "tools": [] });
            (200, json!({ "jsonrpc": "2.0", "id": id, "result": result }))
        }
        None => (202, json!({})),
    }
}
