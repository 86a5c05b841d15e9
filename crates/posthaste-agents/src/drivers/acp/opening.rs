//! The opening of the session: who the program is, the session itself, its model and its
//! mode.

use agent_client_protocol_schema::{
    AuthMethod, Error, ErrorCode, Implementation, InitializeResponse, McpCapabilities, McpServer,
    NewSessionRequest, NewSessionResponse, ProtocolVersion, SessionConfigKind, SessionConfigOption,
    SessionConfigOptionCategory, SessionConfigSelectOptions, SetSessionConfigOptionRequest,
    SetSessionModeRequest, SetSessionModelRequest,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::talk::{Start, Step, Talk};
use super::turns::plain;
use super::{TRUST, UNTRUSTED};
use crate::conversation::{Heard, one_line};

/// Number of characters of a name or of an error that are kept.
const WORDS: usize = 300;
/// Number of models or modes that an error lists.
const LISTED: usize = 30;

/// The request by which a model or a mode is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum By {
    /// One of the options that newer programs have for everything.
    Option(String),
    Model,
    Mode,
}

/// A choice of the profile that has not been made yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Choice {
    by: By,
    value: String,
}

/// The models or modes that a program offers, by id and name.
struct Offer {
    by: By,
    values: Vec<(String, String)>,
}

pub(super) fn client() -> Implementation {
    Implementation::new("posthaste", env!("CARGO_PKG_VERSION")).title("Posthaste".to_owned())
}

impl Talk {
    /// Takes the answer to a step of the opening.
    pub(super) fn opened(&mut self, step: Step, answer: Result<&str, Error>) -> Vec<Heard> {
        let next = match (step, answer) {
            (Step::Initialize, Ok(result)) => self.met(result),
            (Step::Session, Ok(result)) => self.session_opened(result),
            (Step::Choice, Ok(_)) => Ok(self.next_choice().into_iter().collect()),
            (_, Err(error)) => Err(self.refusal("refused to open a session", &error)),
        };
        next.unwrap_or_else(|why| vec![Heard::Fails(why)])
    }

    /// Returns the sentence for an error that leaves the program without work.
    pub(super) fn refusal(&self, did: &str, error: &Error) -> String {
        let (title, words) = (&self.title, words(error));
        if words.contains(UNTRUSTED) {
            return format!("{title} does not trust its folder: {TRUST} ({words})");
        }
        if error.code != ErrorCode::AuthRequired {
            return format!("{title} {did}: {words}");
        }
        let mut told = format!("{title} is not logged in: {}", self.program().login);
        if !self.logins.is_empty() {
            told = format!("{told}; it offers: {}", self.logins);
        }
        format!("{told} ({words})")
    }

    fn met(&mut self, result: &str) -> Result<Vec<Heard>, String> {
        let hello: InitializeResponse = read(result, "initialize")?;
        if let Some(agent) = &hello.agent_info {
            self.name = one_line(&agent.name, WORDS);
            self.title = one_line(agent.title.as_ref().unwrap_or(&agent.name), WORDS);
        }
        if hello.protocol_version != ProtocolVersion::V1 {
            return Err(format!(
                "{} speaks version {} of the Agent Client Protocol, and the hub version {}: \
                 update the older one",
                self.title,
                hello.protocol_version,
                ProtocolVersion::V1
            ));
        }
        let logins: Vec<String> = hello.auth_methods.iter().map(login).collect();
        self.logins = one_line(&logins.join(", "), WORDS);
        let Some(start) = self.start.clone() else {
            return Err(format!("{} began a second conversation", self.title));
        };
        if let Some(unable) = unable(&start.servers, &hello.agent_capabilities.mcp_capabilities) {
            return Err(format!(
                "{} cannot use the MCP server {unable} of its profile: it takes none of this kind",
                self.title
            ));
        }
        let mut servers = start.servers;
        if let Some(McpServer::Stdio(hub)) =
            servers.first_mut().filter(|_| self.program().shows_env)
        {
            hub.env.clear();
        }
        let able: Value = serde_json::from_str(result).unwrap_or_default();
        let request = NewSessionRequest::new(&start.directory).mcp_servers(servers);
        let mut params = json!(request);
        match self.program().meta {
            _ if start.instructions.is_empty() => {}
            Some(meta) => params["_meta"] = meta(&start.instructions),
            // A proposal for the protocol, which the types do not know yet.
            None if !able["agentCapabilities"]["sessionCapabilities"]["systemPrompt"].is_null() => {
                let content = json!([{ "type": "text", "text": start.instructions }]);
                params["systemPrompt"] = json!({ "mode": "append", "content": content });
            }
            None => self.instructions = Some(start.instructions),
        }
        let (id, request) = self.request("session/new", &params);
        self.step = Some((id, Step::Session));
        Ok(vec![Heard::line_with_token(&request)])
    }

    fn session_opened(&mut self, result: &str) -> Result<Vec<Heard>, String> {
        let opened: NewSessionResponse = read(result, "session/new")?;
        let Some(Start { model, mode, .. }) = self.start.take() else {
            return Err(format!("{} opened a second session", self.title));
        };
        let mut heard = vec![Heard::ConversationId(opened.session_id.to_string())];
        if let Some(model) = model {
            self.choose("model", &model, models(&opened))?;
        }
        if let Some(mode) = mode {
            self.choose("permission_mode", &mode, modes(&opened))?;
        }
        self.session = Some(opened.session_id);
        heard.extend(self.next_choice());
        Ok(heard)
    }

    /// Notes a choice of the profile, which is made when its turn comes.
    fn choose(&mut self, key: &str, wanted: &str, offered: Option<Offer>) -> Result<(), String> {
        let title = &self.title;
        let Some(Offer { by, values }) = offered else {
            return Err(format!(
                "{title} offers no choice that `{key}` could make: take `{key}` out of its \
                 profile, and set it in the configuration of the program"
            ));
        };
        let named =
            |(id, name): &&(String, String)| id == wanted || name.eq_ignore_ascii_case(wanted);
        let Some((id, _)) = values.iter().find(named) else {
            let known: Vec<&str> = values.iter().take(LISTED).map(|(id, _)| id.as_str()).collect();
            let more = if values.len() > LISTED { ", …" } else { "" };
            return Err(format!(
                "{title} offers no `{key}` `{wanted}`: it offers {}{more}",
                known.join(", ")
            ));
        };
        self.choices.push(Choice { by, value: id.clone() });
        Ok(())
    }

    /// Makes the next choice; after the last one the program is ready.
    fn next_choice(&mut self) -> Option<Heard> {
        let session = self.session.clone()?;
        if self.choices.is_empty() {
            self.ready = true;
            return None;
        }
        let Choice { by, value } = self.choices.remove(0);
        let (id, request) = match by {
            By::Option(option) => self.request(
                "session/set_config_option",
                &SetSessionConfigOptionRequest::new(session, option, value),
            ),
            By::Model => {
                self.request("session/set_model", &SetSessionModelRequest::new(session, value))
            }
            By::Mode => {
                self.request("session/set_mode", &SetSessionModeRequest::new(session, value))
            }
        };
        self.step = Some((id, Step::Choice));
        Some(Heard::line(&request))
    }
}

fn models(opened: &NewSessionResponse) -> Option<Offer> {
    let by_option = option(opened, &SessionConfigOptionCategory::Model);
    by_option.or_else(|| {
        let models = opened.models.as_ref()?;
        let listed = models.available_models.iter();
        let mut values: Vec<_> =
            listed.map(|model| (model.model_id.to_string(), model.name.clone())).collect();
        // A model of the user's own configuration need not be in the list.
        let current = models.current_model_id.to_string();
        values.push((current.clone(), current));
        Some(Offer { by: By::Model, values })
    })
}

fn modes(opened: &NewSessionResponse) -> Option<Offer> {
    let by_mode = opened.modes.as_ref().map(|modes| {
        let values = modes.available_modes.iter();
        let values = values.map(|mode| (mode.id.to_string(), mode.name.clone())).collect();
        Offer { by: By::Mode, values }
    });
    by_mode.or_else(|| option(opened, &SessionConfigOptionCategory::Mode))
}

/// Returns the values of the option of this category.
fn option(opened: &NewSessionResponse, category: &SessionConfigOptionCategory) -> Option<Offer> {
    let mut options = opened.config_options.iter().flatten();
    let SessionConfigOption { id, kind, .. } =
        options.find(|option| option.category.as_ref() == Some(category))?;
    let SessionConfigKind::Select(select) = kind else { return None };
    let values = match &select.options {
        SessionConfigSelectOptions::Ungrouped(values) => values.iter().collect(),
        SessionConfigSelectOptions::Grouped(groups) => {
            groups.iter().flat_map(|group| &group.options).collect()
        }
        _ => Vec::new(),
    };
    let values = values.into_iter().map(|one| (one.value.to_string(), one.name.clone())).collect();
    Some(Offer { by: By::Option(id.to_string()), values })
}

/// Returns the name of an MCP server of a kind that the program does not take.
fn unable<'a>(servers: &'a [McpServer], able: &McpCapabilities) -> Option<&'a str> {
    servers.iter().find_map(|server| match server {
        McpServer::Http(http) if !able.http => Some(http.name.as_str()),
        McpServer::Sse(sse) if !able.sse => Some(sse.name.as_str()),
        _ => None,
    })
}

/// Returns a way to log in, as the program describes it.
fn login(method: &AuthMethod) -> String {
    method.description().unwrap_or_else(|| method.name()).to_owned()
}

fn read<T: DeserializeOwned>(result: &str, method: &str) -> Result<T, String> {
    serde_json::from_str(result).map_err(|e| {
        format!("its answer to {method} is not that of the Agent Client Protocol: {e}")
    })
}

/// Returns the words of an error; some programs have them in the details.
pub(super) fn words(error: &Error) -> String {
    let details = error.data.as_ref().and_then(|data| data["details"].as_str());
    match details {
        Some(details) => one_line(&format!("{}: {details}", error.message), WORDS),
        None => plain(&error.message),
    }
}
