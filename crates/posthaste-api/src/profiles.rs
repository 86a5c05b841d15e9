//! `/v1/profiles`: what an agent of a name is.

use posthaste_core::address::Name;
use posthaste_core::profiles::{FileFault, Profile, Template};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ErrorCode::{Conflict, InvalidAddress, NotFound};
use crate::error::{ApiError, ErrorCode};
use crate::openapi::{Who, call_table, delete, get, json, of, post, put};

const PROFILE: &str = "The profile's name.";

call_table![
    LIST = get(
        "/v1/profiles",
        "Who could be here",
        Who::Anybody,
        &[json(200, "A page, without the prompts.", of::<Profiles>)],
    )
    .query(of::<ProfilesQuery>),
    CREATE = post(
        "/v1/profiles",
        "Create a profile",
        Who::Operator,
        &[json(201, "Created.", of::<ProfileView>)],
    )
    .body(of::<ProfileInput>)
    .fails(&[Conflict, InvalidAddress]),
    SEARCH = get(
        "/v1/profiles/search",
        "Find profiles by words, best first",
        Who::Anybody,
        &[json(200, "Maybe none.", of::<FoundProfiles>)],
    )
    .query(of::<ProfileSearch>),
    ERRORS = get(
        "/v1/profiles/errors",
        "Profile files that could not be read",
        Who::Anybody,
        &[json(200, "With file, line and what is wrong.", of::<ProfileErrors>)],
    ),
    SHOW = get(
        "/v1/profiles/{name}",
        "One profile, whole",
        Who::Anybody,
        &[json(200, "As it is now; its `ETag` is its version.", of::<ProfileView>)],
    )
    .part(PROFILE)
    .fails(&[NotFound, InvalidAddress]),
    PUT = put(
        "/v1/profiles/{name}",
        "Replace a profile, or create it",
        Who::Operator,
        &[json(200, "Replaced.", of::<ProfileView>), json(201, "Created.", of::<ProfileView>)],
    )
    .part(PROFILE)
    .body(of::<ProfileInput>)
    .fails(&[NotFound, Conflict, InvalidAddress]),
    REMOVE = delete(
        "/v1/profiles/{name}",
        "Remove a profile that nobody uses",
        Who::Operator,
        &[json(200, "Removed; mail that waits for its name stays.", of::<RemovedProfile>)],
    )
    .part(PROFILE)
    .fails(&[NotFound, Conflict, InvalidAddress]),
];

/// `POST /v1/profiles` and `PUT /v1/profiles/{name}` (operator). What is left out
/// is empty: a write replaces the whole. `POST` with nothing but a name makes the name
/// an address, as a join does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileInput {
    /// Needed by `POST`; `PUT` has it in its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What an agent of this name is for; searches look here, too.
    pub description: String,
    /// `external` (the default) or `mechanical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What runs it: `claude`, `codex`, `acp`, `terminal` or `command`; nothing, or `external`,
    /// if it comes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// What its model is told.
    pub system_prompt: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Tools that it is given; null leaves that to the program that runs it. A driver that
    /// cannot keep an agent to them does not start it.
    #[schemars(extend("x-nullable" = true))]
    pub tools: Option<Vec<String>>,
    /// Tools that it may use without being asked; else as `tools`.
    #[serde(alias = "allowedTools")]
    #[schemars(extend("x-nullable" = true))]
    pub allowed_tools: Option<Vec<String>>,
    /// Built-in services that it may call; null is none beyond the core.
    #[serde(rename = "allowed_builtin_service_aliases", alias = "allowed_services")]
    #[schemars(extend("x-nullable" = true))]
    pub services: Option<Vec<String>>,
    /// Whatever else belongs to it, `mcp_config` for example. Every agent can read it.
    pub config: Map<String, Value>,
    /// `PUT`: write only if this is still its version, as with `If-Match`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileView {
    /// Its name.
    pub name: String,
    /// How people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What an agent of this name is for.
    pub description: String,
    /// `external` or `mechanical`.
    pub kind: String,
    /// What runs it; absent if it comes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Tools that it is given; null leaves that to the program that runs it.
    #[schemars(extend("x-nullable" = true))]
    pub tools: Option<Vec<String>>,
    /// Tools that it may use without being asked.
    #[serde(default)]
    #[schemars(extend("x-nullable" = true))]
    pub allowed_tools: Option<Vec<String>>,
    /// Built-in services that it may call; null is none beyond the core.
    #[serde(default, rename = "allowed_builtin_service_aliases")]
    #[schemars(extend("x-nullable" = true))]
    pub services: Option<Vec<String>>,
    /// Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// `api`, `join`, or the file in which it stands.
    pub source: String,
    /// Grows by one with each change.
    pub version: u64,
    /// When it was created.
    pub created_at: String,
    /// When it was last changed.
    pub updated_at: String,
}

/// `GET /v1/profiles`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfilesQuery {
    /// From 1, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// 1 to 100, default 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
}

/// By name, without prompts. A page beyond the end is empty and has the same total.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profiles {
    /// By name.
    pub items: Vec<ProfileView>,
    /// How many there are on all pages.
    pub total: u64,
}

/// `GET /v1/profiles/search`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileSearch {
    /// Any text. One word of it is enough, more rank higher, and the last may be the
    /// beginning of a word; words after the 64th do not count.
    pub q: String,
    /// 1 to 100, default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Best first, without prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundProfiles {
    /// Best first.
    pub items: Vec<ProfileView>,
}

/// `DELETE /v1/profiles/{name}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedProfile {
    /// The name.
    pub name: String,
    /// Mail that waits for the name. It stays, for whoever next comes by that name.
    pub waiting: usize,
}

/// `GET /v1/profiles/errors`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileErrors {
    /// One for each fault.
    pub errors: Vec<ProfileFault>,
}

/// A file that cannot be a profile, or that no agent can be started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileFault {
    /// The file.
    pub file: String,
    /// The line in it, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for ProfileFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl From<FileFault> for ProfileFault {
    fn from(fault: FileFault) -> Self {
        Self { file: fault.file, line: fault.line, message: fault.why }
    }
}

impl ProfileInput {
    /// What the core takes it for, under the name that counts.
    pub fn template(self, name: Name) -> Result<Template, ApiError> {
        if let Some(given) = &self.name
            && given.parse::<Name>()? != name
        {
            let told = format!("name: the body says `{given}` and the path `{name}`");
            return Err(ApiError::new(ErrorCode::InvalidArgument, told));
        }
        let kind = self.kind.as_deref().map(str::parse).transpose()?.unwrap_or_default();
        let mut config = self.config;
        one_permission_mode(&mut config)
            .map_err(|why| ApiError::new(ErrorCode::InvalidArgument, format!("config: {why}")))?;
        Ok(Template {
            name,
            title: self.title,
            description: self.description,
            kind,
            driver: self.driver,
            system_prompt: self.system_prompt,
            tags: self.tags,
            tools: self.tools,
            allowed_tools: self.allowed_tools,
            services: self.services,
            config: Value::Object(config).to_string(),
        })
    }
}

/// Takes CAO's `permissionMode` for `permission_mode`. A profile may have one of them.
pub fn one_permission_mode(config: &mut Map<String, Value>) -> Result<(), &'static str> {
    let Some(mode) = config.remove("permissionMode") else { return Ok(()) };
    match config.insert("permission_mode".to_owned(), mode) {
        None => Ok(()),
        Some(_) => Err("permissionMode: it means the same as `permission_mode`; keep one of them"),
    }
}

impl From<Template> for ProfileInput {
    fn from(template: Template) -> Self {
        Self {
            name: Some(template.name.to_string()),
            title: template.title,
            description: template.description,
            kind: Some(template.kind.as_str().to_owned()),
            driver: template.driver,
            system_prompt: template.system_prompt,
            tags: template.tags,
            tools: template.tools,
            allowed_tools: template.allowed_tools,
            services: template.services,
            config: object(&template.config),
            version: None,
        }
    }
}

impl ProfileView {
    pub fn whole(profile: Profile) -> Self {
        let prompt = profile.template.system_prompt.clone();
        let config = object(&profile.template.config);
        Self { system_prompt: Some(prompt), config: Some(config), ..Self::listed(profile) }
    }

    /// Without what is long.
    pub fn listed(profile: Profile) -> Self {
        let template = profile.template;
        Self {
            name: template.name.to_string(),
            title: template.title,
            description: template.description,
            kind: template.kind.as_str().to_owned(),
            driver: template.driver,
            tags: template.tags,
            tools: template.tools,
            allowed_tools: template.allowed_tools,
            services: template.services,
            system_prompt: None,
            config: None,
            source: profile.source.to_string(),
            version: profile.version,
            created_at: profile.created_at.to_string(),
            updated_at: profile.updated_at.to_string(),
        }
    }

    /// What a write of the same would say, without its version.
    pub fn input(&self) -> ProfileInput {
        ProfileInput {
            name: Some(self.name.clone()),
            title: self.title.clone(),
            description: self.description.clone(),
            kind: Some(self.kind.clone()),
            driver: self.driver.clone(),
            system_prompt: self.system_prompt.clone().unwrap_or_default(),
            tags: self.tags.clone(),
            tools: self.tools.clone(),
            allowed_tools: self.allowed_tools.clone(),
            services: self.services.clone(),
            config: self.config.clone().unwrap_or_default(),
            version: None,
        }
    }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}
