//! What a worker finds in its environment.
//!
//! It has the hub's own, without what is ours or secret or tells of the conversation
//! that the hub was started from (next to nothing of it if it runs as another user); then
//! what its profile says; then who it is. The
//! token is in the environment and nowhere else: other users see the words of a
//! process, and not this.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use posthaste_core::ports::{Nap, Start};

use crate::settings::Settings;
use crate::user::WorkerUser;

/// What starts like this is between the hub and its workers.
const OURS: &str = "POSTHASTE_";

/// Everything that workers and wake commands are told.
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

/// A hub may have been started by an agent's program. Its workers are no part of that
/// conversation, and its secrets and its memory are not theirs.
const NOT_FOR_WORKERS: [&str; 11] = [
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
];

/// What workers that run as another user still have of the hub's environment.
const FOR_OTHER_USERS: [&str; 4] = ["LANG", "LANGUAGE", "PATH", "TZ"];

/// Whose tokens and identities a program uses.
pub(crate) const DATA: &str = "POSTHASTE_DATA";

/// The data folder of a worker, within its own folder. No other process has it.
pub(crate) fn data_of(home: &Path) -> OsString {
    home.join("data").into_os_string()
}

/// An environment in the making; later values beat earlier ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// What the hub itself has, as far as it is for others.
    pub(crate) fn inherited(all: &[(OsString, OsString)]) -> Self {
        let ours = |name: &OsStr| {
            let text = name.to_string_lossy();
            text.starts_with(OURS) || text == "POSTHASTE" || NOT_FOR_WORKERS.contains(&&*text)
        };
        Self(all.iter().filter(|(name, _)| !ours(name)).cloned().collect())
    }

    /// What workers that run as another user start from: who they are there, and of the
    /// hub's own only what finds programs and speaks to people. The rest is not theirs.
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

    /// With what the profile says. Who somebody is, no profile says.
    pub(crate) fn with(mut self, settings: &Settings) -> Self {
        for (name, value) in &settings.env {
            if !name.starts_with(OURS) {
                self.0.insert(name.into(), value.into());
            }
        }
        if let Some(model) = &settings.model {
            self.set("POSTHASTE_MODEL", model);
        }
        self.only_absolute_paths();
        self
    }

    /// Folders of the search path that are relative would be those of the working
    /// directory, and whoever chose that may have put programs there. An empty search
    /// path means the working directory to some shells, so then there is none.
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
        // A zero byte ends a variable, so none has one.
        let kept = match value.to_str() {
            Some(text) if text.contains('\0') => text.replace('\0', "").into(),
            _ => value.to_owned(),
        };
        self.0.insert(name.into(), kept);
    }

    /// Who a worker is, and how it reaches the hub: as itself, and as nobody else.
    pub(crate) fn worker(&mut self, start: &Start, home: &Path) {
        let worker = &start.worker;
        let instance = worker.id.to_string();
        self.set("POSTHASTE_INSTANCE", &instance);
        // The name that CAO's own tools look for.
        self.set("CAO_TERMINAL_ID", &instance);
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
        // Not the operator's folder: without its token a worker is nobody.
        self.set(DATA, data_of(home));
    }

    /// Whom a wake command is to wake. It gets no token: the agent comes by itself.
    pub(crate) fn sleeper(&mut self, nap: &Nap, data: &Path) {
        self.set("POSTHASTE_INSTANCE", nap.who.id.to_string());
        self.set("POSTHASTE_ADDRESS", &*nap.who.address);
        self.set("POSTHASTE_AGENT", nap.who.agent.as_str());
        self.set("POSTHASTE_TEAM", nap.who.team.as_str());
        self.set("POSTHASTE_UNREAD", nap.unread.to_string());
        if let Some(key) = &nap.who.key {
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
