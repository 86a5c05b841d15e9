//! A profile in the words of the protocol: the session that is to be opened.

use agent_client_protocol_schema::{
    EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio,
};
use posthaste_core::ports::LaunchError;
use serde_json::Value;

use super::talk::{Start, Talk};
use crate::conversation::TOKEN;
use crate::drivers::{Brief, Launch};
use crate::environment::{DATA, data_of};
use crate::settings::{Settings, Stdin};

/// The name of the hub among the MCP servers of the program.
pub(super) const HUB: &str = "posthaste";

/// The keys of an MCP server that the protocol has.
const KEYS: [&str; 6] = ["args", "command", "env", "headers", "type", "url"];

pub(super) fn launch(brief: &Brief<'_>) -> Result<Launch, LaunchError> {
    let settings = brief.settings;
    let Some(line) = &settings.command else {
        return Err(LaunchError::new(
            format!("{}: its driver is `acp`, and it has no `command`", settings.profile),
            "for example `command: [opencode, acp]`, `[gemini, --acp]`, `[claude-agent-acp]` or \
             `[codex-acp]`",
        )
        .about("command"));
    };
    let mut servers = vec![hub(brief)];
    servers.extend(own_servers(settings)?);
    let talk = Talk::new(Start {
        directory: brief.directory.to_string_lossy().into_owned(),
        servers,
        instructions: brief.instructions.to_owned(),
        model: settings.model.clone(),
        mode: settings.permission_mode.clone(),
    });
    let state = Some(talk.to_value());
    Ok(Launch { state, ..Launch::plain(line.clone(), Stdin::Session) })
}

/// Returns the hub as an MCP server on stdio, which every program starts. Some programs
/// give it few variables of their own environment, so all that make it this worker's
/// stand here.
fn hub(brief: &Brief<'_>) -> McpServer {
    let data = data_of(brief.home);
    let env = vec![
        EnvVariable::new(DATA, data.to_string_lossy()),
        EnvVariable::new("POSTHASTE_HUB", brief.hub),
        EnvVariable::new("POSTHASTE_TOKEN", TOKEN),
    ];
    let server = McpServerStdio::new(HUB, brief.binary).args(vec!["mcp".to_owned()]).env(env);
    McpServer::Stdio(server)
}

/// Returns the MCP servers of the profile.
fn own_servers(settings: &Settings) -> Result<Vec<McpServer>, LaunchError> {
    let wrong = |why: String| LaunchError {
        why: format!("{}: {why}", settings.profile),
        hint: Some("correct the `mcp_config` of the profile".to_owned()),
        key: Some("mcp_config"),
    };
    let servers = settings.mcp_servers()?;
    let translated = servers.iter().map(|(name, server)| match name == HUB {
        true => Err(wrong(format!("the MCP server {HUB} is the hub itself"))),
        false => {
            translate(name, server).map_err(|why| wrong(format!("the MCP server {name} {why}")))
        }
    });
    translated.collect()
}

fn translate(name: &str, server: &Value) -> Result<McpServer, String> {
    let variables = "uses a variable, which no program replaces over ACP";
    (!server.to_string().contains("${")).then_some(()).ok_or(variables)?;
    let mut keys = server.as_object().into_iter().flat_map(|server| server.keys());
    if let Some(key) = keys.find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("has `{key}`, which the Agent Client Protocol cannot say"));
    }
    let url = server["url"].as_str();
    let headers = || -> Result<Vec<HttpHeader>, &'static str> {
        let pairs = pairs(&server["headers"]).ok_or("has `headers` that are no texts")?;
        Ok(pairs.into_iter().map(|(name, value)| HttpHeader::new(name, value)).collect())
    };
    match (server["type"].as_str(), server["command"].as_str(), url) {
        (Some("sse"), _, Some(url)) => {
            Ok(McpServer::Sse(McpServerSse::new(name, url).headers(headers()?)))
        }
        (None | Some("http"), None, Some(url)) => {
            Ok(McpServer::Http(McpServerHttp::new(name, url).headers(headers()?)))
        }
        (None | Some("stdio"), Some(command), None) => {
            let args = match &server["args"] {
                Value::Null => Some(Vec::new()),
                args => args.as_array().and_then(|args| args.iter().map(word).collect()),
            };
            let env = pairs(&server["env"]).ok_or("has an `env` that is no object of texts")?;
            let env = env.into_iter().map(|(name, value)| EnvVariable::new(name, value));
            let stdio = McpServerStdio::new(name, command)
                .args(args.ok_or("has `args` that are no list of texts")?)
                .env(env.collect());
            Ok(McpServer::Stdio(stdio))
        }
        _ => Err("has neither a `command` nor a `url`, or both".to_owned()),
    }
}

/// Returns the entries of an object of texts.
fn pairs(object: &Value) -> Option<Vec<(&str, String)>> {
    if object.is_null() {
        return Some(Vec::new());
    }
    object.as_object()?.iter().map(|(key, value)| Some((key.as_str(), word(value)?))).collect()
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}
