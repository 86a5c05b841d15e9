//! A profile in the words of Codex: its command line, and the parameters of its thread.
//!
//! All but the program itself goes to Codex in the request that starts the thread. So the
//! configuration of the user stays as it is and counts wherever the profile says nothing,
//! and the command line, which other users can see, holds no secret.

use posthaste_core::ports::LaunchError;
use serde_json::{Map, Value, json};

use super::talk::{Start, Talk};
use crate::conversation::TOKEN;
use crate::drivers::{Brief, Launch, program_of};
use crate::environment::{DATA, data_of};
use crate::settings::{Line, Settings, Stdin};

/// The name of the hub among the MCP servers of Codex.
pub(super) const HUB: &str = "posthaste";

/// The seconds that Codex waits for a tool of the hub, some of which wait for mail.
const PATIENCE_S: u64 = 3_600;

const APPROVALS: [&str; 3] = ["untrusted", "on-request", "never"];

/// The sandboxes, in the words of a configuration and in those of a turn.
const SANDBOXES: [(&str, &str); 3] = [
    ("read-only", "readOnly"),
    ("workspace-write", "workspaceWrite"),
    ("danger-full-access", "dangerFullAccess"),
];

pub(super) fn launch(brief: &Brief<'_>) -> Result<Launch, LaunchError> {
    let settings = brief.settings;
    let mut words = program_of(settings, &["codex"])?;
    words.push("app-server".to_owned());
    let (approval, sandbox) = permissions(settings)?;
    let mut servers = servers(settings)?;
    servers.insert(HUB.to_owned(), by_http(brief));
    let mut params = json!({
        "cwd": brief.directory.to_string_lossy(),
        "developerInstructions": brief.instructions,
        "config": {
            // Codex would write all variables, with the worker's token, to a file that
            // every user can read.
            "features": { "shell_snapshot": false },
            "mcp_servers": servers,
        },
    });
    if let Some(model) = &settings.model {
        params["model"] = json!(model);
    }
    if let Some(approval) = approval {
        params["approvalPolicy"] = json!(approval);
    }
    let talk = Talk::new(Start { params, by_stdio: by_stdio(brief) }, sandbox);
    Ok(Launch {
        stdin: Stdin::Session,
        state: Some(talk.to_value()),
        ..Launch::plain(Line::Words(words), Stdin::Session)
    })
}

/// Returns the hub as an MCP server. Codex takes the token from its own environment.
fn by_http(brief: &Brief<'_>) -> Value {
    let url = format!("{}/mcp", brief.hub);
    server(json!({ "url": url, "bearer_token_env_var": "POSTHASTE_TOKEN" }))
}

/// Returns the hub as a program that Codex starts, for a user who has set up the hub for
/// himself as a program: Codex merges both settings, and a server of both kinds is an
/// error. Codex gives the program few variables of its own environment, and a variable of
/// the user's setting would replace it, so each stands here.
fn by_stdio(brief: &Brief<'_>) -> Value {
    let data = data_of(brief.home);
    server(json!({
        "command": brief.binary.to_string_lossy(),
        "args": ["mcp"],
        "env": {
            DATA: data.to_string_lossy(),
            "POSTHASTE_HUB": brief.hub,
            "POSTHASTE_TOKEN": TOKEN,
        },
    }))
}

fn server(mut server: Value) -> Value {
    server["enabled"] = json!(true);
    server["default_tools_approval_mode"] = json!("approve");
    server["tool_timeout_sec"] = json!(PATIENCE_S);
    server
}

/// Returns the approval policy and the sandbox of a `permission_mode`: a word of Codex for
/// either, or both.
///
/// The sandbox becomes a parameter of each turn: given for the thread, it would make Codex
/// write into the user's configuration that it trusts the folder.
fn permissions(settings: &Settings) -> Result<(Option<&'static str>, Option<Value>), LaunchError> {
    let (mut approval, mut sandbox) = (None, None);
    let mode = settings.permission_mode.as_deref().unwrap_or_default();
    for word in mode.split([' ', ',']).filter(|word| !word.is_empty()) {
        let policy = APPROVALS.into_iter().find(|known| *known == word);
        let kind = SANDBOXES.into_iter().find(|(known, _)| *known == word);
        match (policy, kind) {
            (Some(policy), _) if approval.is_none() => approval = Some(policy),
            (_, Some((_, kind))) if sandbox.is_none() => sandbox = Some(json!({ "type": kind })),
            _ => return Err(not_a_mode(settings, mode)),
        }
    }
    Ok((approval, sandbox))
}

fn not_a_mode(settings: &Settings, mode: &str) -> LaunchError {
    let sandboxes = SANDBOXES.map(|(word, _)| word).join(", ");
    LaunchError {
        why: format!("{}: Codex has no `permission_mode` {mode:?}", settings.profile),
        hint: Some(format!(
            "when it asks: {}; what it may do without asking: {sandboxes}; or one of each, \
             `workspace-write never`",
            APPROVALS.join(", ")
        )),
        key: Some("permission_mode"),
    }
}

/// Returns the MCP servers of the profile in the words of Codex.
fn servers(settings: &Settings) -> Result<Map<String, Value>, LaunchError> {
    let wrong = |why: String| LaunchError {
        why: format!("{}: {why}", settings.profile),
        hint: Some("correct the `mcp_config` of the profile".to_owned()),
        key: Some("mcp_config"),
    };
    let mut translated = Map::new();
    for (name, theirs) in settings.mcp_servers()? {
        if name == HUB {
            return Err(wrong(format!("the MCP server {HUB} is the hub itself")));
        }
        let ours =
            translate(&theirs).map_err(|why| wrong(format!("the MCP server {name} {why}")))?;
        translated.insert(name, ours);
    }
    Ok(translated)
}

/// Translates one MCP server; keys that are Codex's own are handed on.
fn translate(theirs: &Value) -> Result<Value, &'static str> {
    let mut server = theirs.as_object().ok_or("is an object")?.clone();
    if server.remove("type").is_some_and(|kind| kind == "sse") {
        return Err("is of type sse, which Codex does not speak");
    }
    if let Some(Value::Bool(disabled)) = server.remove("disabled") {
        server.insert("enabled".to_owned(), (!disabled).into());
    }
    if let Some(milliseconds) = server.remove("timeout").and_then(|timeout| timeout.as_u64()) {
        server.insert("tool_timeout_sec".to_owned(), milliseconds.div_ceil(1_000).into());
    }
    if let Some(headers) = server.remove("headers") {
        let headers = headers.as_object().ok_or("has `headers` that are no object")?.clone();
        let (variables, fixed): (Map<_, _>, _) =
            headers.into_iter().partition(|(_, value)| variable(value).is_some());
        let names = variables
            .into_iter()
            .filter_map(|(header, value)| variable(&value).map(|name| (header, name.into())));
        server.insert("env_http_headers".to_owned(), Value::Object(names.collect()));
        server.insert("http_headers".to_owned(), Value::Object(fixed));
    }
    match Value::Object(server) {
        // Codex would take the variable's name for its value.
        server if server.to_string().contains("${") => {
            Err("uses a variable where Codex replaces none; it can be a whole header, `${NAME}`")
        }
        server => Ok(server),
    }
}

/// Returns the variable that is the whole value of a header.
fn variable(value: &Value) -> Option<&str> {
    let name = value.as_str()?.strip_prefix("${")?.strip_suffix('}')?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}
