//! The proof that a connection works: a round trip over the entry in the client's
//! configuration, with only those variables that every client passes on.

use std::time::Duration;

use posthaste_api::{ApiError, ErrorCode};
use posthaste_bridges::clients::{Client, Scope, Server};
use posthaste_core::address::DEFAULT_TEAM;
use serde::Serialize;
use serde_json::{Value, json};

use super::wish::{Ground, written};
use crate::commands::Session;
use crate::commands::bridge::Bridge;
use crate::config;
use crate::failure::{Failure, told};

/// Longer than the bridge itself waits for a hub.
const PATIENCE: Duration = Duration::from_secs(40);
/// The variables that the strictest client passes to the servers that it starts.
const HANDED_ON: [&str; 4] = ["HOME", "PATH", "LANG", "TMPDIR"];

/// The agent's name during the round trip, so that it takes no messages of the user's
/// agents.
const CHECK: &str = "posthaste-check";

/// The result of the round trip.
#[derive(Debug, Serialize)]
pub(crate) struct Proved {
    pub(crate) address: String,
    pub(crate) tools: usize,
}

/// Starts or calls the server in the client's file. Starts a hub only if `starts` is set.
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
        Server::Http { url, token } => over_http(&url, &token, session).await,
        Server::Stdio { program, mut args } => {
            // The hub and the folder that the file names.
            let session = session.as_flagged(&args);
            if !starts {
                args.push("--no-start".to_owned());
            }
            // Of several names the last counts.
            args.extend(["--name", CHECK, "--team", DEFAULT_TEAM].map(str::to_owned));
            let key = format!("connect:{:016x}", rand::random::<u64>());
            let tools = over_stdio(&program, &args, &key);
            let address = left(&session, &key).await;
            let (tools, address) = (tools?, address?);
            Ok(Proved { address, tools })
        }
    }
}

/// Ends the agent that the bridge joined as during the round trip, and returns its
/// address.
async fn left(session: &Session, key: &str) -> Result<String, ApiError> {
    let hub = session.stranger().map_err(told)?;
    let owner = session.owner(&hub, CHECK, None);
    let me = session.keyring().take(&owner, key)?.and_then(|kept| kept.joined);
    let me = me.ok_or_else(|| failed("the bridge called a tool without joining"))?;
    hub.clone().with_token(me.token.reveal()).leave(&me.instance).await?;
    if let Some(operator) = session.operator(&hub)
        && operator.profile(CHECK).await.is_ok_and(|profile| profile.source == "join")
    {
        // Another check may be under way, and removes the name later.
        let _ = operator.remove_profile(CHECK).await;
    }
    Ok(me.address)
}

/// Returns the environment of the programs that a client starts.
pub(crate) fn handed_on() -> impl Iterator<Item = (&'static str, String)> {
    HANDED_ON.iter().filter_map(|name| Some((*name, config::of_others(name)?)))
}

/// Does what a client does that starts its servers itself. Returns the number of tools.
fn over_stdio(program: &str, args: &[String], key: &str) -> Result<usize, ApiError> {
    let variables = handed_on().chain([("POSTHASTE_KEY", key.to_owned())]);
    let mut bridge = Bridge::start(program, args, variables, PATIENCE)
        .map_err(|e| failed(&format!("{program} cannot be started: {e}")))?;
    let proved = talk(&mut bridge);
    let said = bridge.end();
    proved.map_err(|why| match said.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => failed(&format!("{why}; the bridge said: {line}")),
        None => failed(&why),
    })
}

fn talk(bridge: &mut Bridge) -> Result<usize, String> {
    bridge.ask(&hello())?;
    bridge.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
    let tools = bridge.ask(&list())?;
    let answer = bridge.ask(&look())?;
    proved(&tools, &answer)
}

/// Does what a client does that calls the hub itself. The token may belong to an agent at
/// work, so there is no handshake, which would be a beginning of that agent.
pub(crate) async fn over_http(
    url: &str,
    token: &str,
    session: &Session,
) -> Result<Proved, ApiError> {
    let http = posthaste_api::http::plain().timeout(PATIENCE).build();
    let http = http.map_err(|e| failed(&e.to_string()))?;
    let label = format!("check-{:016x}", rand::random::<u64>());
    let ask = async |message: Value| -> Result<Value, ApiError> {
        let request = http
            .post(url)
            .bearer_auth(token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", &label)
            .json(&message);
        let answer = request.send().await.map_err(|e| unreachable(url, &e))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|e| unreachable(url, &e))?;
        if !status.is_success() {
            return Err(failed(&format!("{url} answered {status}")));
        }
        // An answer is JSON, or the last event of a stream.
        let mut events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let json = events.rfind(|data| data.contains("\"result\"")).unwrap_or(&text);
        serde_json::from_str(json).map_err(|e| failed(&format!("{url} spoke no MCP: {e}")))
    };
    let tools = ask(list()).await?;
    let answer = ask(look()).await?;
    let tools = proved(&tools, &answer).map_err(|why| failed(&why))?;
    let known = session.keyring().whose(token);
    let address = known.map_or_else(|| "whoever the token belongs to".to_owned(), |me| me.address);
    Ok(Proved { address, tools })
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
        "clientInfo": { "name": CHECK, "version": env!("CARGO_PKG_VERSION") },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })
}

/// A call that reads no new messages, and gets none by piggyback.
fn look() -> Value {
    let params = json!({ "name": "read_messages", "arguments": { "last_n": 1 } });
    json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params })
}

/// Returns the number of tools, if there are any and one could be called.
fn proved(tools: &Value, answer: &Value) -> Result<usize, String> {
    let count = tools["result"]["tools"].as_array().map_or(0, Vec::len);
    let text = answer["result"]["content"][0]["text"].as_str();
    match (count, text) {
        (0, _) => Err(format!("no tool is offered: {tools}")),
        (tools, Some(_)) if answer["result"]["isError"] != true => Ok(tools),
        (_, text) => {
            Err(format!("no tool answers: {}", text.map_or(answer.to_string(), str::to_owned)))
        }
    }
}
