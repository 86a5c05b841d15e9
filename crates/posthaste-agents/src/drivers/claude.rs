//! Claude Code: `claude -p` with streams of JSON both ways.
//!
//! Its stdin stays open, so one process is a long-lived agent. A user message that is
//! written while a turn runs waits for the end of the running tool and then joins that
//! turn. Claude Code repeats each message that it takes (`isReplay`), just before the
//! request to its model; the first words of the model after that are the proof that the
//! model was given the message.
//!
//! Sub-agents work in the background: the program ends its turn while they do, and begins
//! one by itself when they are done. For the hub that is one turn.

#[cfg(test)]
mod fuzz;
mod permission;
mod talk;
#[cfg(test)]
mod tests;

use posthaste_core::ports::LaunchError;
use serde_json::{Value, json};

use self::talk::Talk;
use super::limits::is_every;
use super::{Brief, Driver, Launch, Limit, program_of};
use crate::conversation::{Conversation, one_line, resumed};
use crate::settings::Stdin;

pub(super) struct Claude;

/// The files that the program is told of, in the worker's home.
const SERVERS: &str = "claude-mcp.json";
const INSTRUCTIONS: &str = "claude-instructions.md";

/// The name of the hub among the program's MCP servers.
const HUB: &str = "posthaste";

/// Tools that only a person at the program's own screen can answer. The hub's `ask_user`
/// is there instead.
const NOT_OFFERED: [&str; 1] = ["AskUserQuestion"];

/// The words on stderr of a Claude Code that refuses to do everything as root.
const AS_ROOT: &str = "cannot be used with root/sudo privileges";

/// The words of `--permission-mode`.
const MODES: [&str; 7] =
    ["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"];

impl Driver for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn keeps(&self, limit: Limit) -> bool {
        match limit {
            Limit::Tools | Limit::AllowedTools | Limit::PermissionMode => true,
            Limit::Services => false,
        }
    }

    /// Claude Code takes no `*` for the names of all tools.
    fn asks_nothing(&self) -> Option<&'static str> {
        Some("`permission_mode: bypassPermissions`")
    }

    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        let (settings, template) = (brief.settings, brief.template);
        let mut words = program_of(settings, &["claude"])?;
        let fixed = "-p --input-format stream-json --output-format stream-json --verbose \
                     --replay-user-messages --permission-prompt-tool stdio";
        words.extend(fixed.split_whitespace().map(str::to_owned));
        let file = |name: &str| brief.home.join(name).to_string_lossy().into_owned();
        words.extend(["--mcp-config".into(), file(SERVERS)]);
        words.extend(["--append-system-prompt-file".into(), file(INSTRUCTIONS)]);
        if let Some(model) = &settings.model {
            words.extend(["--model".into(), model.clone()]);
        }
        if let Some(mode) = &settings.permission_mode {
            if !MODES.contains(&mode.as_str()) {
                let why = format!("{}: claude has no permission mode `{mode}`", settings.profile);
                let hint = Some(format!("one of {}", MODES.join(", ")));
                return Err(LaunchError { why, hint, key: Some("permission_mode") });
            }
            words.extend(["--permission-mode".into(), mode.clone()]);
        }
        if let Some(tools) = template.tools.as_ref().filter(|tools| !is_every(tools)) {
            words.push(format!("--tools={}", tools.join(",")));
        }
        let mut allowed = vec![format!("mcp__{HUB}")];
        allowed.extend(template.allowed_tools.iter().flatten().cloned());
        words.push(format!("--allowedTools={}", allowed.join(",")));
        words.push(format!("--disallowedTools={}", NOT_OFFERED.join(",")));
        let servers = servers(brief)?;
        Ok(Some(Launch {
            line: crate::settings::Line::Words(words),
            env: Vec::new(),
            files: vec![(SERVERS, servers), (INSTRUCTIONS, brief.instructions.to_owned())],
            stdin: Stdin::Session,
            state: serde_json::to_value(Talk::default()).ok(),
            assistant: false,
        }))
    }

    fn resume(&self, state: &Value) -> Option<Box<dyn Conversation>> {
        Some(Box::new(resumed::<Talk>(state)?))
    }

    fn explains(&self, stderr: &str) -> Option<String> {
        if stderr.contains(AS_ROOT) {
            let why = "claude does not run as root with `permission_mode: bypassPermissions`: run \
                       its agents as another user (`agents.user`), or choose another mode";
            return Some(why.to_owned());
        }
        let unknown = stderr.lines().find(|line| line.contains("unknown option"))?;
        Some(format!(
            "this claude is too old ({}): update it with npm install -g @anthropic-ai/claude-code",
            one_line(unknown.trim(), 120)
        ))
    }
}

/// Returns the file of MCP servers: the hub, and those of the profile. The program fills
/// the token in from its environment.
fn servers(brief: &Brief<'_>) -> Result<String, LaunchError> {
    let mut servers = brief.settings.mcp_servers()?;
    if servers.contains_key(HUB) {
        let why = format!("{}: `{HUB}` is the hub's own MCP server", brief.settings.profile);
        return Err(
            LaunchError::new(why, "give the profile's server another name").about("mcp_config")
        );
    }
    let hub = json!({
        "type": "http",
        "url": format!("{}/mcp", brief.hub),
        "headers": { "Authorization": "Bearer ${POSTHASTE_TOKEN}" },
    });
    servers.insert(HUB.to_owned(), hub);
    Ok(json!({ "mcpServers": servers }).to_string())
}
