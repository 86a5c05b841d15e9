//! Which program the agent is, and what that says about its name and its key.
//!
//! A program's own name in the handshake is believed before the environment, which
//! is inherited: an agent that another agent started has the variables of both.

use std::fs;
use std::os::unix::process::parent_id;

use posthaste_core::address::Name;

/// What is left when nobody says anything.
const NOBODY: &str = "agent";

/// Programs that are known: what their own name contains, the variables that they
/// set for what they start, and what an agent in them is called.
const PROGRAMS: [(&str, &[&str], &str); 6] = [
    ("claude", &["CLAUDECODE", SESSION_OF_CLAUDE], "claude"),
    ("codex", &[], CODEX),
    ("gemini", &["GEMINI_CLI"], "gemini"),
    ("opencode", &["OPENCODE"], "opencode"),
    ("copilot", &[], "copilot"),
    ("qwen", &["QWEN_CODE"], "qwen"),
];

const CODEX: &str = "codex";
const SESSION_OF_CLAUDE: &str = "CLAUDE_CODE_SESSION_ID";

/// Words that say only that a program is one.
const NOISE: [&str; 5] = ["-mcp-client", "-mcp", "-client", "-cli", "-code"];

/// Reads the environment; a test reads another.
pub(super) type Variables = fn(&str) -> Option<String>;

/// What is known about the program so far.
#[derive(Debug, Clone)]
pub(super) struct Program {
    variables: Variables,
    /// As it called itself.
    own: Option<String>,
}

impl Program {
    pub(super) fn new(variables: Variables) -> Self {
        Self { variables, own: None }
    }

    pub(super) fn calls_itself(&mut self, name: &str) {
        self.own = Some(name.to_lowercase());
    }

    /// Whether more can be learned by waiting for the program to say its name.
    pub(super) fn is_known(&self) -> bool {
        self.own.is_some()
    }

    /// Codex has several conversations in one process, and names each in its calls.
    pub(super) fn is_codex(&self) -> bool {
        self.recognised() == Some(CODEX)
    }

    /// What an agent in this program is called.
    pub(super) fn name(&self) -> Name {
        let known = self.recognised().or_else(|| self.surrounding()).map(str::to_owned);
        let name = known.or_else(|| self.own.as_deref().map(made_plain));
        let name = name.and_then(|name| name.parse().ok());
        name.unwrap_or_else(|| NOBODY.parse().expect("a good name"))
    }

    /// What stays the same as long as the conversation is the same.
    pub(super) fn conversation(&self) -> Option<String> {
        let claude = self.recognised().is_none_or(|name| name == "claude");
        claude.then(|| (self.variables)(SESSION_OF_CLAUDE)).flatten()
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

/// A name as an address can have it.
fn made_plain(own: &str) -> String {
    let own = NOISE.iter().fold(own, |own, noise| own.strip_suffix(noise).unwrap_or(own));
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = own.chars().map(plain).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(posthaste_core::address::MAX_NAME).collect()
}

/// The process that started this one: its number, and where the system tells when
/// it began, since numbers are given again.
pub(super) fn process() -> String {
    let parent = parent_id();
    let stat = fs::read_to_string(format!("/proc/{parent}/stat"));
    match stat.ok().as_deref().and_then(began) {
        Some(began) => format!("process:{parent}:{began}"),
        None => format!("process:{parent}"),
    }
}

/// The 22nd field; the second, a name in brackets, may hold anything.
fn began(stat: &str) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(own: &str, variables: Variables) -> Program {
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
            assert_eq!(named(own, nothing).name().as_str(), name, "{own:?}");
        }
        assert!(named(&"x".repeat(500), nothing).name().as_str().len() <= 48);
    }

    #[test]
    fn the_environment_tells_who_an_unknown_program_is() {
        let gemini: Variables = |name| (name == "GEMINI_CLI").then(|| "1".into());
        assert_eq!(named("", gemini).name().as_str(), "gemini");
        assert_eq!(named("test", gemini).name().as_str(), "gemini");
        assert_eq!(named("test", gemini).conversation(), None);
    }

    #[test]
    fn an_agent_inside_claude_is_not_claude() {
        let inside: Variables = |name| (name == SESSION_OF_CLAUDE).then(|| "s1".into());
        let claude = named("claude-code", inside);
        assert_eq!((claude.name().as_str(), claude.conversation()), ("claude", Some("s1".into())));
        let gemini = named("gemini-cli", inside);
        assert_eq!((gemini.name().as_str(), gemini.conversation()), ("gemini", None));
    }

    #[test]
    fn the_beginning_of_a_process_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 12345 99 1";
        assert_eq!(began(stat), Some("12345"));
        assert_eq!(began(""), None);
        assert!(process().starts_with("process:"));
    }
}
