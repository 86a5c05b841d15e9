//! The environment of a worker.
//!
//! The environment has three parts. First comes the hub's own environment, without our
//! variables, secrets, and variables of the conversation from which the hub was started
//! (next to nothing of it if the worker runs as another user); then the variables of the
//! profile; then the worker's identity. The token stands in the environment and nowhere
//! else: other users can see the command line of a process, and not its environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use posthaste_core::ports::{Start, WakeRequest};

use crate::settings::Settings;
use crate::user::WorkerUser;

/// The prefix of variables between the hub and its workers.
const OURS: &str = "POSTHASTE_";

/// Every variable that the hub sets for workers and wake commands.
pub const VARIABLES: [&str; 17] = [
    "POSTHASTE_ADDRESS",
    "POSTHASTE_AGENT",
    "POSTHASTE_BRANCH",
    "POSTHASTE_DATA",
    "POSTHASTE_HUB",
    "POSTHASTE_INSTANCE",
    "POSTHASTE_KEY",
    "POSTHASTE_LABEL",
    "POSTHASTE_MCP_CONFIG",
    "POSTHASTE_MODEL",
    "POSTHASTE_PARENT",
    "POSTHASTE_PROMPT_FILE",
    "POSTHASTE_RUN",
    "POSTHASTE_TEAM",
    "POSTHASTE_THREAD",
    "POSTHASTE_TOKEN",
    "POSTHASTE_UNREAD",
];

/// Variables of the hub that workers do not get. An agent's program may have started the
/// hub: its workers are no part of that conversation or of that terminal, and the hub's
/// secrets and its memory settings are not for them.
const NOT_FOR_WORKERS: [&str; 17] = [
    "CAO_API_HOST",
    "CAO_API_PORT",
    "CAO_AUTH_LOCAL_TOKEN",
    "CAO_SESSION_NAME",
    "CAO_TERMINAL_ID",
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "MALLOC_ARENA_MAX",
    "OPENCODE",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "QWEN_CODE",
    "TMUX",
    "TMUX_PANE",
];

/// Variables of the hub that workers of another user get all the same.
const FOR_OTHER_USERS: [&str; 4] = ["LANG", "LANGUAGE", "PATH", "TZ"];

/// The variable that names the data folder: whose tokens and identities a program uses.
pub(crate) const DATA: &str = "POSTHASTE_DATA";

/// Returns the data folder of a worker, within its own folder. No other process has it.
pub(crate) fn data_of(home: &Path) -> OsString {
    home.join("data").into_os_string()
}

/// An environment in the making; later values replace earlier ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Returns the hub's environment without the variables that are not for workers.
    pub(crate) fn inherited(all: &[(OsString, OsString)]) -> Self {
        let ours = |name: &OsStr| {
            let text = name.to_string_lossy();
            text.starts_with(OURS) || text == "POSTHASTE" || NOT_FOR_WORKERS.contains(&&*text)
        };
        Self(all.iter().filter(|(name, _)| !ours(name)).cloned().collect())
    }

    /// Returns the environment from which workers of another user start: that user's
    /// identity, and of the hub's environment only the search path, the language and the
    /// time zone.
    pub(crate) fn of_user(all: &[(OsString, OsString)], user: &WorkerUser) -> Self {
        let shared = |name: &OsStr| {
            let text = name.to_string_lossy();
            FOR_OTHER_USERS.contains(&&*text) || text.starts_with("LC_")
        };
        let mut own = Self(all.iter().filter(|(name, _)| shared(name)).cloned().collect());
        own.set("HOME", &user.home);
        own.set("USER", &user.name);
        own.set("LOGNAME", &user.name);
        own.set("SHELL", &user.shell);
        own
    }

    /// Returns the environment of a runner, which has no keys: the search path, the
    /// language, the home folder, and the variables of its profile.
    pub(crate) fn of_runner(base: &Self, settings: &Settings) -> Self {
        let plain = |name: &OsStr| {
            let text = name.to_string_lossy();
            FOR_OTHER_USERS.contains(&&*text) || text.starts_with("LC_") || text == "HOME"
        };
        let kept = base.0.iter().filter(|(name, _)| plain(name));
        Self(kept.map(|(name, value)| (name.clone(), value.clone())).collect()).with(settings)
    }

    /// Adds the variables of the profile, except those with our prefix: a profile cannot
    /// set an identity.
    pub(crate) fn with(mut self, settings: &Settings) -> Self {
        self.add(&settings.env);
        if let Some(model) = &settings.model {
            self.set("POSTHASTE_MODEL", model);
        }
        self
    }

    /// Adds variables of a profile, except those with our prefix.
    pub(crate) fn add(&mut self, variables: &[(String, String)]) {
        for (name, value) in variables.iter().filter(|(name, _)| !name.starts_with(OURS)) {
            self.0.insert(name.into(), value.into());
        }
        self.only_absolute_paths();
    }

    /// Removes relative folders from the search path: they would be searched in the
    /// working directory, where the caller who chose it may have put programs. Some
    /// shells take an empty search path for the working directory, so an empty one is
    /// removed.
    fn only_absolute_paths(&mut self) {
        let Some(path) = self.get("PATH") else { return };
        let kept: Vec<_> = std::env::split_paths(path).filter(|f| f.is_absolute()).collect();
        match std::env::join_paths(&kept) {
            Ok(path) if !kept.is_empty() => self.set("PATH", path),
            _ => drop(self.0.remove(OsStr::new("PATH"))),
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let value = value.as_ref();
        // A zero byte would end the variable.
        let kept = match value.to_str() {
            Some(text) if text.contains('\0') => text.replace('\0', "").into(),
            _ => value.to_owned(),
        };
        self.0.insert(name.into(), kept);
    }

    /// Sets the worker's identity and the way to the hub: as itself, and as nobody else.
    pub(crate) fn worker(&mut self, start: &Start, home: &Path) {
        let worker = &start.worker;
        let instance = worker.id.to_string();
        self.set("POSTHASTE_INSTANCE", &instance);
        self.cao(&instance, &start.token.0);
        self.set("POSTHASTE_ADDRESS", &*worker.address);
        self.set("POSTHASTE_AGENT", worker.agent.as_str());
        self.set("POSTHASTE_TEAM", worker.team.as_str());
        self.set("POSTHASTE_PARENT", &start.parent);
        self.set("POSTHASTE_THREAD", worker.thread.to_string());
        if let Some(label) = &worker.label {
            self.set("POSTHASTE_LABEL", label);
        }
        if let Some(branch) = &start.place.branch {
            self.set("POSTHASTE_BRANCH", branch);
        }
        self.set("POSTHASTE_TOKEN", &start.token.0);
        // Not the operator's folder: without its token a worker must have no identity.
        self.set(DATA, data_of(home));
    }

    /// Sets what CAO's own programs look for: who they work for, where the hub is, and the
    /// token that they send.
    fn cao(&mut self, instance: &str, token: &str) {
        self.set("CAO_TERMINAL_ID", instance);
        self.set("CAO_AUTH_LOCAL_TOKEN", token);
        let hub = self.get("POSTHASTE_HUB").and_then(OsStr::to_str).map(str::to_owned);
        let place = hub.as_deref().and_then(|hub| hub.strip_prefix("http://"));
        if let Some((host, port)) = place.and_then(|place| place.rsplit_once(':')) {
            self.set("CAO_API_HOST", host);
            self.set("CAO_API_PORT", port.trim_end_matches('/'));
        }
    }

    /// Sets the identity of the agent that a wake command is to wake. The command gets no
    /// token, because the agent connects by itself.
    pub(crate) fn sleeper(&mut self, request: &WakeRequest, data: &Path) {
        self.set("POSTHASTE_INSTANCE", request.who.id.to_string());
        self.set("POSTHASTE_ADDRESS", &*request.who.address);
        self.set("POSTHASTE_AGENT", request.who.agent.as_str());
        self.set("POSTHASTE_TEAM", request.who.team.as_str());
        self.set("POSTHASTE_UNREAD", request.unread.to_string());
        if let Some(key) = &request.who.key {
            self.set("POSTHASTE_KEY", key);
        }
        self.set(DATA, data);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::profile;

    fn inherited(all: &[(&str, &str)]) -> Environment {
        let all: Vec<_> = all.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        Environment::inherited(&all)
    }

    #[test]
    fn a_worker_inherits_nothing_that_is_the_hubs_own() {
        let environment = inherited(&[
            ("PATH", "/bin"),
            ("POSTHASTE_TOKEN", "geheim"),
            ("POSTHASTE_SERVER__LISTEN", "x"),
            ("CLAUDE_CODE_SESSION_ID", "s1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=geheim"),
            ("MALLOC_ARENA_MAX", "1"),
        ]);
        let names: Vec<&OsStr> = environment.all().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH"]);
    }

    #[test]
    fn a_profile_adds_to_the_environment_and_never_says_who_somebody_is() {
        let profile = profile(
            None,
            r#"{"env": {"PATH": "/opt/bin", "POSTHASTE_INSTANCE": "deadbeef"}, "model": "small"}"#,
        );
        let settings = Settings::read(&profile, None).expect("good");
        let environment = inherited(&[("PATH", "/bin")]).with(&settings);
        assert_eq!(environment.get("PATH"), Some(OsStr::new("/opt/bin")));
        assert_eq!(environment.get("POSTHASTE_MODEL"), Some(OsStr::new("small")));
        assert_eq!(environment.get("POSTHASTE_INSTANCE"), None);
    }
}
