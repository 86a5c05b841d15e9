//! The proof that a connection works: a round trip over what is really written in
//! the client's configuration, with nothing around it but what every client gives.

use std::time::Duration;

use posthaste_api::{ApiError, ErrorCode};
use posthaste_bridges::clients::{Client, Scope, Server};
use serde::Serialize;
use serde_json::{Value, json};

use super::wish::{Ground, written};
use crate::commands::Session;
use crate::commands::bridge::Bridge;
use crate::config;
use crate::failure::Failure;

/// Longer than the bridge itself waits for a hub.
const PATIENCE: Duration = Duration::from_secs(40);
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

/// The environment of whatever a client starts.
pub(crate) fn handed_on() -> impl Iterator<Item = (&'static str, String)> {
    HANDED_ON.iter().filter_map(|name| Some((*name, config::of_others(name)?)))
}

/// As a client would that starts its servers itself.
fn over_stdio(program: &str, args: &[String]) -> Result<Proved, ApiError> {
    let key = format!("connect:{:016x}", rand::random::<u64>());
    let variables = handed_on().chain([("POSTHASTE_KEY", key)]);
    let mut bridge = Bridge::start(program, args, variables, PATIENCE)
        .map_err(|e| failed(&format!("{program} cannot be started: {e}")))?;
    let proved = talk(&mut bridge);
    let said = bridge.end();
    proved.map_err(|why| match said.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => failed(&format!("{why}; the bridge said: {line}")),
        None => failed(&why),
    })
}

fn talk(bridge: &mut Bridge) -> Result<Proved, String> {
    bridge.ask(&hello())?;
    bridge.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
    let tools = bridge.ask(&list())?;
    let me = bridge.ask(&whoami())?;
    proved(&tools, &me)
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
