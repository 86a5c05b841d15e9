//! The proof that a connection works: a round trip over what is really written in
//! the client's configuration, with nothing around it but what every client gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use posthaste_api::{ApiError, ErrorCode};
use posthaste_bridges::clients::{Client, Scope, Server};
use serde::Serialize;
use serde_json::{Value, json};

use super::wish::{Ground, written};
use crate::commands::Session;
use crate::config;
use crate::failure::Failure;

/// Longer than the bridge itself waits for a hub.
const PATIENCE: Duration = Duration::from_secs(40);
/// So long a bridge may take to end when nobody speaks to it any more.
const GOODBYE: Duration = Duration::from_secs(5);
/// What the strictest client hands on to the servers that it starts.
const HANDED_ON: [&str; 4] = ["HOME", "PATH", "LANG", "TMPDIR"];

/// What the round trip found.
#[derive(Debug, Serialize)]
pub(crate) struct Proved {
    pub(crate) address: String,
    pub(crate) tools: usize,
    #[serde(skip)]
    instance: Option<String>,
}

/// Starts or calls what the client's file says. A hub is started only if it may be.
pub(crate) async fn of_configuration(
    client: &dyn Client,
    scope: Scope,
    ground: &Ground,
    session: &Session,
    starts: bool,
) -> Result<Proved, ApiError> {
    let server = match written(client, scope, ground) {
        Ok(Some(server)) => server,
        Ok(None) => return Err(failed("our server does not stand in the file")),
        Err(Failure::Told(error)) => return Err(error),
        Err(_) => return Err(failed("the file cannot be read")),
    };
    match server {
        Server::Http { url, token } => over_http(&url, &token).await,
        Server::Stdio { program, mut args } => {
            if !starts {
                args.push("--no-start".to_owned());
            }
            let proved = over_stdio(&program, &args)?;
            // It joined for this alone, under a key that nobody else has.
            if let (Some(id), Ok(operator)) = (&proved.instance, session.client()) {
                let _ = operator.leave(id).await;
            }
            Ok(proved)
        }
    }
}

/// As a client would that starts its servers itself.
fn over_stdio(program: &str, args: &[String]) -> Result<Proved, ApiError> {
    let mut bridge = Bridge::start(program, args)?;
    let proved = bridge.talk();
    let said = bridge.end();
    proved.map_err(|why| match said.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => failed(&format!("{why}; the bridge said: {line}")),
        None => failed(&why),
    })
}

/// A child with one owner, from its start to its end.
struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    until: Instant,
}

impl Bridge {
    #[expect(clippy::disallowed_methods, reason = "the bridge ends with the proof, see `end`")]
    fn start(program: &str, args: &[String]) -> Result<Self, ApiError> {
        let variables = HANDED_ON.iter().filter_map(|name| Some((name, config::of_others(name)?)));
        let key = format!("connect:{:016x}", rand::random::<u64>());
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(variables)
            .env("POSTHASTE_KEY", key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| failed(&format!("{program} cannot be started: {e}")))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::Null);
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, stdin, lines, until: Instant::now() + PATIENCE })
    }

    fn talk(&mut self) -> Result<Proved, String> {
        self.ask(&hello())?;
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        let tools = self.ask(&list())?;
        let me = self.ask(&whoami())?;
        proved(&tools, &me)
    }

    fn say(&mut self, message: &Value) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("it is not spoken to any more")?;
        let said = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        said.map_err(|_| "it has ended".to_owned())
    }

    fn ask(&mut self, message: &Value) -> Result<Value, String> {
        self.say(message)?;
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|_| format!("no answer to {}", message["method"]))?;
            if line["id"] == message["id"] {
                return Ok(line);
            }
        }
    }

    /// What it said to people.
    fn end(mut self) -> String {
        self.stdin = None;
        let until = Instant::now() + GOODBYE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            // Its stdout closes when it ends.
            let left = until.saturating_duration_since(Instant::now());
            if self.lines.recv_timeout(left).is_err() {
                break;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(1 << 16).read_to_string(&mut said);
        }
        said
    }
}

/// As a client would that calls the hub itself.
pub(crate) async fn over_http(url: &str, token: &str) -> Result<Proved, ApiError> {
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
    let http = http.map_err(|e| failed(&e.to_string()))?;
    let ask = async |message: Value| -> Result<Value, ApiError> {
        let request = http
            .post(url)
            .bearer_auth(token)
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        let answer = request.send().await.map_err(|e| unreachable(url, &e))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|e| unreachable(url, &e))?;
        if !status.is_success() {
            return Err(failed(&format!("{url} answered {status}")));
        }
        // An answer is JSON, or the last of a stream of events.
        let mut events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let json = events.rfind(|data| data.contains("\"result\"")).unwrap_or(&text);
        serde_json::from_str(json).map_err(|e| failed(&format!("{url} spoke no MCP: {e}")))
    };
    ask(hello()).await?;
    let tools = ask(list()).await?;
    let me = ask(whoami()).await?;
    proved(&tools, &me).map_err(|why| failed(&why))
}

fn unreachable(url: &str, error: &reqwest::Error) -> ApiError {
    ApiError::new(ErrorCode::Unavailable, format!("{url} does not answer: {error}"))
        .hint("start the hub with `posthaste up`")
}

fn failed(why: &str) -> ApiError {
    ApiError::new(ErrorCode::Unavailable, why).hint("`posthaste doctor` looks for the reason")
}

fn hello() -> Value {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "posthaste-check", "version": env!("CARGO_PKG_VERSION") },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })
}

fn whoami() -> Value {
    let params = json!({ "name": "whoami", "arguments": {} });
    json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params })
}

fn proved(tools: &Value, me: &Value) -> Result<Proved, String> {
    let count = tools["result"]["tools"].as_array().map_or(0, Vec::len);
    let text = me["result"]["content"][0]["text"].as_str();
    let me_read = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let address = me_read.as_ref().and_then(|me| me["address"].as_str());
    match (count, address) {
        (0, _) => Err(format!("no tool is offered: {tools}")),
        (_, None) => {
            Err(format!("nobody is there: {}", text.map_or(me.to_string(), str::to_owned)))
        }
        (tools, Some(address)) => Ok(Proved {
            address: address.to_owned(),
            tools,
            instance: me_read.as_ref().and_then(|me| me["instance"].as_str()).map(str::to_owned),
        }),
    }
}
