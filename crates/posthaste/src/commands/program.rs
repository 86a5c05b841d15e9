//! Recognises the agent's program, and derives the agent's name and key from it.
//!
//! The tools of a conversation (`posthaste mcp`) and its hooks (`posthaste hook`) are
//! separate processes that know nothing of each other. This file makes both the same
//! agent.
//!
//! A program's own name in the handshake takes precedence over the environment, which is
//! inherited: an agent that another agent started has the variables of both.

use posthaste_core::address::Name;
use sha2::{Digest, Sha256};

use crate::keyring;

pub(super) use process::{is_stopped, process, runs};

mod process;

/// The name of an agent whose program is unknown.
const NOBODY: &str = "agent";

/// The known programs: a part of their own name, the variables that they set for the
/// processes that they start, and the name of an agent in them.
const PROGRAMS: [(&str, &[&str], &str); 6] = [
    ("claude", &["CLAUDECODE", SESSION_OF_CLAUDE], CLAUDE),
    ("codex", &[], CODEX),
    ("gemini", &["GEMINI_CLI"], "gemini"),
    ("opencode", &["OPENCODE"], "opencode"),
    ("copilot", &[], "copilot"),
    ("qwen", &["QWEN_CODE"], "qwen"),
];

const CLAUDE: &str = "claude";
const CODEX: &str = "codex";
/// Variables that a bridge and a hook of the same hub have in common.
const WHICH_HUB: [&str; 2] = ["POSTHASTE_DATA", "POSTHASTE_HUB"];
const SESSION_OF_CLAUDE: &str = "CLAUDE_CODE_SESSION_ID";

/// The longest name of a conversation that is sent to the hub unchanged.
const LONGEST_NAME: usize = 100;

/// Endings that say only that a program is one.
const NOISE: [&str; 5] = ["-mcp-client", "-mcp", "-client", "-cli", "-code"];

/// Reads a variable of the environment; tests use another function.
pub(super) type Variables = fn(&str) -> Option<String>;

/// The program, as far as it is known so far.
#[derive(Debug, Clone)]
pub(super) struct Program {
    variables: Variables,
    /// The program's own name.
    own: Option<String>,
}

impl Program {
    pub(super) fn new(variables: Variables) -> Self {
        Self { variables, own: None }
    }

    pub(super) fn calls_itself(&mut self, name: &str) {
        self.own = Some(name.to_lowercase());
    }

    /// Returns whether the program has told its name.
    pub(super) fn has_a_name(&self) -> bool {
        self.own.is_some()
    }

    /// Returns whether the program is Codex, which has several conversations in one
    /// process, and names each in its calls.
    pub(super) fn is_codex(&self) -> bool {
        self.recognised() == Some(CODEX)
    }

    /// Returns the name of an agent in this program.
    pub(super) fn name(&self) -> Name {
        let known = self.recognised().or_else(|| self.surrounding()).map(str::to_owned);
        let name = known.or_else(|| self.own.as_deref().map(made_plain));
        let name = name.and_then(|name| name.parse().ok());
        name.unwrap_or_else(|| NOBODY.parse().expect("a good name"))
    }

    /// Returns a value that stays the same as long as the conversation does. `said` is
    /// the program's own name of it, from a call of a tool or a hook: Claude Code also
    /// sets it for the processes that it starts, Codex sends it with both, Gemini only
    /// with hooks.
    pub(super) fn conversation(&self, said: Option<&str>) -> Option<String> {
        let said = said.filter(|said| !said.is_empty()).map(str::to_owned);
        let started_by = || (self.variables)(SESSION_OF_CLAUDE);
        match self.recognised() {
            Some(CLAUDE) => said.or_else(started_by),
            Some(CODEX) => said,
            Some(_) => None,
            None => started_by(),
        }
    }

    /// Returns the same for a hook. Claude Code renames its conversation when it is
    /// cleared or changed, and leaves its tools with the old name: the tools decide which
    /// agent this is.
    pub(super) fn conversation_of_tools(&self, said: Option<&str>) -> Option<String> {
        let told = (self.recognised() == Some(CLAUDE)).then(|| {
            let same = WHICH_HUB.map(|name| (name, (self.variables)(name)));
            process::variable_of_bridge(SESSION_OF_CLAUDE, &same)
        });
        self.conversation(told.flatten().as_deref().or(said))
    }

    /// Returns the conversation as the bridge and the hooks send it to the hub: its name,
    /// or the process of the program if it has none. If the agent's key, token or
    /// instance was given, all threads of Codex are that agent, and the process stands
    /// for them.
    pub(super) fn told_conversation(
        &self,
        name: Option<&str>,
        given: bool,
        process: &str,
    ) -> String {
        let name = name.filter(|_| !(given && self.is_codex()));
        for_header(name.unwrap_or(process))
    }

    fn recognised(&self) -> Option<&'static str> {
        let own = self.own.as_deref()?;
        PROGRAMS.iter().find(|(part, ..)| own.contains(part)).map(|(.., name)| *name)
    }

    fn surrounding(&self) -> Option<&'static str> {
        let set = |names: &[&str]| names.iter().any(|name| (self.variables)(name).is_some());
        PROGRAMS.iter().find(|(_, names, _)| set(names)).map(|(.., name)| *name)
    }
}

/// Returns a value that a header can hold: a digest replaces any other.
fn for_header(name: &str) -> String {
    let plain = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
    match plain {
        true => name.to_owned(),
        false => Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Returns a name in the form of an address.
fn made_plain(own: &str) -> String {
    let own = NOISE.iter().fold(own, |own, noise| own.strip_suffix(noise).unwrap_or(own));
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = own.chars().map(plain).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(posthaste_core::address::MAX_NAME).collect()
}

/// Returns this program as it runs, for an agent without a named conversation.
pub(super) fn running(new: bool) -> keyring::Program {
    keyring::Program { process: process(), folder: process::folder(), new }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(own: &str, variables: Variables) -> Program {
        let mut program = Program::new(variables);
        if !own.is_empty() {
            program.calls_itself(own);
        }
        program
    }

    #[test]
    fn an_agent_is_called_after_its_program() {
        let nothing: Variables = |_| None;
        for (own, name) in [
            ("codex-mcp-client", "codex"),
            ("claude-code", "claude"),
            ("gemini-cli-mcp-client", "gemini"),
            ("GitHub Copilot", "copilot"),
            ("My Editor 2.0", "my-editor-2-0"),
            ("zed-mcp-client", "zed"),
            ("  ", "agent"),
            ("human", "agent"),
            ("deadbeef", "agent"),
            ("42", "agent"),
            ("日本", "agent"),
            ("", "agent"),
        ] {
            assert_eq!(called(own, nothing).name().as_str(), name, "{own:?}");
        }
        assert!(called(&"x".repeat(500), nothing).name().as_str().len() <= 48);
    }

    #[test]
    fn the_hub_is_told_a_conversation_that_a_header_can_hold() {
        let nothing: Variables = |_| None;
        let told = |own: &str, name, given| {
            called(own, nothing).told_conversation(name, given, "process:1:2")
        };
        assert_eq!(told("claude", Some("s1"), true), "s1");
        assert_eq!(told("codex", Some("t1"), false), "t1");
        assert_eq!(told("codex", Some("t1"), true), "process:1:2");
        assert_eq!(told("gemini", None, false), "process:1:2");
        for name in ["", "a b", "größe", &"x".repeat(101)] {
            let digest = told("claude", Some(name), false);
            assert!(digest.len() == 64 && digest.is_ascii(), "{name}: {digest}");
        }
    }

    #[test]
    fn the_environment_tells_who_an_unknown_program_is() {
        let gemini: Variables = |name| (name == "GEMINI_CLI").then(|| "1".into());
        assert_eq!(called("", gemini).name().as_str(), "gemini");
        assert_eq!(called("test", gemini).name().as_str(), "gemini");
        assert_eq!(called("test", gemini).conversation(None), None);
    }

    #[test]
    fn an_agent_inside_claude_is_not_claude() {
        let inside: Variables = |name| (name == SESSION_OF_CLAUDE).then(|| "s1".into());
        let claude = called("claude-code", inside);
        assert_eq!(claude.name().as_str(), "claude");
        assert_eq!(claude.conversation(None), Some("s1".into()));
        let gemini = called("gemini-cli", inside);
        assert_eq!(gemini.name().as_str(), "gemini");
        assert_eq!(gemini.conversation(None), None);
    }

    #[test]
    fn a_conversation_is_what_the_program_says_to_its_tools_and_its_hooks_alike() {
        let inside: Variables = |name| (name == SESSION_OF_CLAUDE).then(|| "s1".into());
        for (own, said, key) in [
            ("claude", Some("s2"), Some("s2")),
            ("claude", Some(""), Some("s1")),
            ("codex", Some("t1"), Some("t1")),
            ("codex", None, None),
            ("gemini", Some("g1"), None),
            ("zed", Some("z1"), Some("s1")),
        ] {
            assert_eq!(called(own, inside).conversation(said).as_deref(), key, "{own} {said:?}");
        }
    }
}
