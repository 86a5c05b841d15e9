//! An MCP server as a profile writes it.

use std::collections::BTreeMap;
use std::path::Path;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

/// The keys of an MCP server that are read.
const KEYS: [&str; 7] = ["args", "command", "cwd", "env", "headers", "type", "url"];
/// The programs that are bridges to the hub itself.
const BRIDGES: [&str; 2] = ["cao-mcp-server", "posthaste"];

/// The definition of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Definition {
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        /// Relative to the working directory of the assistant; `None`: that directory.
        cwd: Option<String>,
    },
    Http {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

impl Definition {
    /// Reads the definition of a server. The error is the rest of a sentence whose subject
    /// is the server.
    pub(crate) fn read(server: &Value) -> Result<Self, String> {
        let Some(fields) = server.as_object() else { return Err("is no object".to_owned()) };
        if server.to_string().contains("${") {
            return Err("uses a variable, which nothing replaces here".to_owned());
        }
        if let Some(key) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let known = KEYS.join(", ");
            return Err(format!("has `{}`, which nothing reads: {known}", short(key)));
        }
        let text = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.contains('\0') => {
                Err(format!("has a zero byte in `{key}`"))
            }
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(format!("has a `{key}` that is no text")),
        };
        match (text("type")?.as_deref(), text("command")?, text("url")?) {
            (Some("sse"), ..) => Err("has `type: sse`, an old form of HTTP that the hub does not \
                                      speak: give the `url` of its streamable HTTP"
                .to_owned()),
            (Some(other), ..) if !["stdio", "http", "streamable-http"].contains(&other) => {
                Err(format!("has the unknown type `{}`: stdio, http", short(other)))
            }
            (None | Some("stdio"), Some(command), None) => Ok(Self::Stdio {
                command,
                args: args(fields)?,
                env: env(fields)?,
                cwd: text("cwd")?,
            }),
            (None | Some("http" | "streamable-http"), None, Some(url)) => {
                check_url(&url)?;
                Ok(Self::Http { url, headers: headers(fields)? })
            }
            _ => Err("needs a `command` or, with `type: http`, a `url`, and not both".to_owned()),
        }
    }

    /// Returns whether the server is the hub at this URL, or a bridge to a hub.
    pub(crate) fn is_hub(&self, hub: &str) -> bool {
        let program = |word: &str| Path::new(word).file_name().map(|name| name.to_owned());
        match self {
            Self::Stdio { command, args, .. } => {
                let [cao, own] = BRIDGES;
                program(command).is_some_and(|name| name == own)
                    || std::iter::once(command)
                        .chain(args)
                        .any(|word| program(word).is_some_and(|name| name == cao))
            }
            Self::Http { url, .. } => match (Url::parse(url), Url::parse(hub)) {
                (Ok(url), Ok(hub)) => url.origin() == hub.origin(),
                _ => false,
            },
        }
    }
}

fn check_url(url: &str) -> Result<(), String> {
    match Url::parse(url) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) && url.has_host() => Ok(()),
        _ => Err("has a `url` that does not begin with http:// or https://".to_owned()),
    }
}

fn args(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let wrong = || "has `args` that are no list of texts".to_owned();
    match fields.get("args") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(args)) => args.iter().map(|arg| word(arg).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

fn env(fields: &Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let all = pairs(fields, "env")?;
    match all.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        Some(name) => Err(format!("has a variable that cannot be one: {:?}", short(name))),
        None => Ok(all),
    }
}

fn headers(fields: &Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let all = pairs(fields, "headers")?;
    for (name, value) in &all {
        if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err() {
            return Err(format!("has a header that cannot be one: {:?}", short(name)));
        }
    }
    Ok(all)
}

/// Returns the entries of an object of texts.
fn pairs(fields: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, String> {
    let wrong = || format!("has `{key}` that is no object of texts");
    let entry =
        |(name, value): (&String, &Value)| Ok((name.clone(), word(value).ok_or_else(wrong)?));
    match fields.get(key) {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries.iter().map(entry).collect(),
        Some(_) => Err(wrong()),
    }
}

/// Reads numbers and booleans as text, because people write them where they mean text.
fn word(value: &Value) -> Option<String> {
    let word = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return None,
    };
    (!word.contains('\0')).then_some(word)
}

/// Returns the beginning of a text that an error quotes.
fn short(text: &str) -> String {
    crate::conversation::one_line(text, 60)
}
