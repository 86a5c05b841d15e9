//! Any program that speaks the Agent Client Protocol (ACP): JSON-RPC messages, one a line.
//!
//! The hub opens one session and answers the program's requests; each prompt of the hub is
//! a request that the program answers when its turn is over. What a turn shows meanwhile
//! comes as updates. The types are those of the protocol's own crate, version 1.

#[cfg(test)]
mod fuzz;
mod launch;
mod opening;
mod permission;
mod talk;
#[cfg(test)]
mod tests;
mod tools;
mod turns;
mod updates;

use agent_client_protocol_schema::RequestPermissionRequest;
use posthaste_core::ports::LaunchError;
use serde_json::{Value, json};

use self::launch::HUB;
use self::talk::Talk;
use self::tools::Call;
use super::{Brief, Driver, Launch, Limit};
use crate::conversation::{Conversation, one_line, resumed};

pub(super) struct Acp;

impl Driver for Acp {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn hint_to_open(&self) -> &'static str {
        "does its `command` speak the Agent Client Protocol? Many programs need a word for it, \
         such as `acp` or `--acp`"
    }

    /// Enforces no list: the protocol knows none of tools that an agent may use.
    fn keeps(&self, limit: Limit) -> bool {
        limit == Limit::PermissionMode
    }

    fn other_limits(&self) -> Option<&'static str> {
        Some(
            "limit the program by a mode of its own (`permission_mode`), or in its own \
             configuration",
        )
    }

    fn asks_nothing(&self) -> Option<&'static str> {
        Some("a `permission_mode` of its program that says so, for example `yolo` of Gemini CLI")
    }

    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        launch::launch(brief).map(Some)
    }

    fn resume(&self, state: &Value) -> Option<Box<dyn Conversation>> {
        Some(Box::new(resumed::<Talk>(state)?))
    }

    fn explains(&self, stderr: &str) -> Option<String> {
        if stderr.contains(UNTRUSTED) {
            return Some(format!("Gemini CLI does not trust its folder: {TRUST}"));
        }
        let said = |line: &&str| NOT_SPOKEN.iter().any(|words| line.to_lowercase().contains(words));
        let line = stderr.lines().map(str::trim).find(said);
        // The usage may be longer than the end of stderr that is kept.
        let usage = stderr.contains(USAGE).then_some("it shows its usage");
        Some(format!(
            "the program does not know its arguments ({}): it is too old to speak the Agent \
             Client Protocol, or another argument makes it speak it; update the program, or \
             correct `command` in the profile (`[opencode, acp]`, `[gemini, --acp]`)",
            one_line(line.or(usage)?, 120)
        ))
    }
}

/// Stands in the usage of programs.
const USAGE: &str = " --help ";

/// The words of programs that know no such argument, or that want a terminal instead.
const NOT_SPOKEN: [&str; 11] = [
    "unknown argument",
    "unknown option",
    "unknown command",
    "unrecognized",
    "unexpected argument",
    "no such option",
    "no such command",
    "failed to change directory to",
    "raw mode is not supported",
    "not a terminal",
    "not a tty",
];

/// The words of Gemini CLI in a folder that its user has not trusted.
const UNTRUSTED: &str = "in an untrusted folder";
const TRUST: &str = "run `gemini` there once and trust it, or add `--skip-trust` to `command` in \
    the profile";

/// What was measured of a program, beyond the protocol.
struct Program {
    /// The name in its answer to `initialize`.
    name: &'static str,
    /// The words that tell its user how to log in.
    login: &'static str,
    /// A second prompt joins the running turn. Others abort the turn for it (Gemini CLI
    /// 0.61, Qwen Code 0.15) or keep it for later (codex-acp 2.6).
    steers: bool,
    /// Its adapter has words of its own, without the id that each message of its model
    /// has: warnings before the model is asked, and an error in place of an answer.
    has_own_words: bool,
    /// It writes the settings of its MCP servers on a command line, which other users can
    /// read, and gives the servers its own environment anyway.
    shows_env: bool,
    /// The `_meta` of `session/new` that gives it these instructions as a system prompt.
    meta: Option<fn(instructions: &str) -> Value>,
    /// Returns whether a request is about a tool of the hub, which the hub allows.
    asks_for_hub: fn(&RequestPermissionRequest, Option<&Call>) -> bool,
}

const UNMEASURED: Program = Program {
    name: "",
    login: "log in with the program itself, as the user of its agents",
    steers: false,
    has_own_words: false,
    shows_env: false,
    meta: None,
    asks_for_hub: |_, _| false,
};

/// claude-agent-acp 0.49, codex-acp 2.6, Gemini CLI 0.61, OpenCode 1.18, Qwen Code 0.15,
/// Copilot CLI 1.0.
const MEASURED: [Program; 6] = [
    Program {
        name: "@agentclientprotocol/claude-agent-acp",
        login: "run `claude` once as the user of its agents and log in, or set ANTHROPIC_API_KEY",
        // Answers the first prompt when it hands over to the second.
        steers: true,
        shows_env: true,
        meta: Some(|instructions| {
            let options = json!({ "allowedTools": [format!("mcp__{HUB}")] });
            json!({
                "systemPrompt": { "append": instructions }, "claudeCode": { "options": options },
            })
        }),
        ..UNMEASURED
    },
    Program {
        name: "@agentclientprotocol/codex-acp",
        login: "run `codex login` as the user of its agents",
        has_own_words: true,
        asks_for_hub: |_, call| call.is_some_and(|call| call.of_hub),
        ..UNMEASURED
    },
    Program {
        name: "gemini-cli",
        login: "run `gemini` once as the user of its agents and log in, or set GEMINI_API_KEY",
        asks_for_hub: |request, _| permission::names_hub_as_gemini_does(request),
        ..UNMEASURED
    },
    Program {
        name: "OpenCode",
        login: "run `opencode auth login` as the user of its agents",
        // Answers both prompts at the end.
        steers: true,
        ..UNMEASURED
    },
    Program {
        name: "qwen-code",
        login: "run `qwen` once as the user of its agents and log in, or set OPENAI_API_KEY",
        ..UNMEASURED
    },
    Program {
        name: "Copilot",
        login: "run `copilot login` as the user of its agents",
        ..UNMEASURED
    },
];

fn program(name: &str) -> &'static Program {
    MEASURED.iter().find(|program| program.name == name).unwrap_or(&UNMEASURED)
}
