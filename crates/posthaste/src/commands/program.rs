//! Which program the agent is, and what that says about its name and its key.
//!
//! The tools of a conversation (`posthaste mcp`) and its hooks (`posthaste hook`) are
//! processes of their own that know nothing of each other. That both are one agent
//! rests on this file.
//!
//! A program's own name in the handshake is believed before the environment, which
//! is inherited: an agent that another agent started has the variables of both.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::parent_id;
use std::path::Path;

use posthaste_core::address::Name;

/// What is left when nobody says anything.
const NOBODY: &str = "agent";

/// Programs that are known: what their own name contains, the variables that they
/// set for what they start, and what an agent in them is called.
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
const SESSION_OF_CLAUDE: &str = "CLAUDE_CODE_SESSION_ID";

/// What stands between a program and its hook.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"];
const SHELLS_DEEP: usize = 4;

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

    /// What stays the same as long as the conversation is the same. `said` is what the
    /// program itself calls it, with a call of a tool or to a hook: Claude Code says
    /// the same to what it starts, Codex says it with both, Gemini to hooks alone.
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

/// The process that started this one.
pub(super) fn process() -> String {
    named(parent_id())
}

/// The same for a hook, which most programs start by a shell.
pub(super) fn process_behind_shells() -> String {
    let mut process = parent_id();
    for _ in 0..SHELLS_DEEP {
        match read(process) {
            Some(Process { parent, .. }) if parent > 1 && is_shell(process) => process = parent,
            _ => break,
        }
    }
    named(process)
}

/// By its program: a script has a name of its own.
fn is_shell(process: u32) -> bool {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok();
    let name = program.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
    name.is_some_and(|name| SHELLS.contains(&name))
}

/// Its number, and where the system tells when it began, since numbers are given
/// again.
fn named(process: u32) -> String {
    match read(process) {
        Some(Process { began, .. }) => format!("process:{process}:{began}"),
        None => format!("process:{process}"),
    }
}

/// What the system tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    began: u64,
}

fn read(process: u32) -> Option<Process> {
    of_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The 4th and 22nd field; the second, a name in brackets, may hold anything.
fn of_stat(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let began = fields.nth(17)?.parse().ok()?;
    Some(Process { parent, began })
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

    #[test]
    fn the_beginning_of_a_process_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 12345 99 1";
        let found = Process { parent: 1, began: 12345 };
        assert_eq!(of_stat(stat), Some(found));
        assert_eq!(of_stat(""), None);
        assert!(process().starts_with("process:"));
    }
}
