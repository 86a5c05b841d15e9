//! The words of commands that join an agent's program to the hub: its tools, its
//! hooks, and what is written into its configuration.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use posthaste_bridges::clients::{self, Client, Event, Scope};

const MCP_CLIENTS: &str = "\
Connect an agent with `posthaste connect`, or by hand:
  Claude Code  claude mcp add posthaste -- posthaste mcp
  Codex        codex mcp add posthaste -- posthaste mcp
  Gemini CLI   gemini mcp add posthaste posthaste mcp
  OpenCode     in opencode.json:
               \"mcp\": {\"posthaste\": {\"type\": \"local\", \"command\": [\"posthaste\", \"mcp\"]}}

Who the agent is, from the strongest:
  POSTHASTE_TOKEN                       whoever the token belongs to
  POSTHASTE_INSTANCE, CAO_TERMINAL_ID   that instance
  otherwise it joins: the same conversation (or --key) has the same mailbox again; a
  program whose conversations have no name is who went away in its folder, unless it
  says --new; and two windows have two

A hub that this starts writes to hub.log in the data folder and goes on when the
agent ends; `posthaste up` says which process it is.";

const HOOK_CLIENTS: &str = "\
`posthaste connect` writes hooks into the configuration of each program. By hand:
  Claude Code  settings.json, for each of SessionStart: session-start,
               UserPromptSubmit: prompt, PreToolUse: before-tool, PostToolUse: tool,
               PostToolUseFailure: tool, Stop: stop
               \"hooks\": {\"PostToolUse\": [{\"hooks\": [{\"type\": \"command\",
                 \"command\": \"posthaste hook tool --client claude || true\"}]}], …}
  Codex        the same in hooks.json of CODEX_HOME, without PostToolUseFailure
  Qwen Code    the same in .qwen/settings.json
  Gemini CLI   the same in .gemini/settings.json, for SessionStart: session-start,
               BeforeAgent: prompt, BeforeTool: before-tool, AfterTool: tool,
               AfterAgent: stop
  Copilot CLI  .copilot/hooks/posthaste.json, for sessionStart, userPromptSubmitted,
               preToolUse, postToolUse, postToolUseFailure, agentStop:
               {\"version\": 1, \"hooks\": {\"postToolUse\": [{\"type\": \"command\",
                 \"bash\": \"posthaste hook tool --client copilot || true\"}], …}}
  OpenCode     a plugin runs the hooks; only `connect` writes it

The agent is the same as that of `posthaste mcp` in the same conversation; give both
the same --name and --team, if any.

It says nothing when there is nothing to say, and when the hub is down, slow or
refuses: then a line in hooks.log of the data folder tells why, and `posthaste doctor`
tells of it. It never starts a hub.";

#[derive(Args, Clone)]
#[command(after_help = MCP_CLIENTS)]
pub(crate) struct McpArgs {
    /// Offer the tools of another system, by its names and with its answers [default: our own]
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// Never start a hub
    #[arg(long)]
    pub(crate) no_start: bool,
}

/// Who an agent is that nobody has joined for: the same for its tools and its hooks.
#[derive(Args, Clone)]
pub(crate) struct AgentArgs {
    /// What the agent is called [default: by its program: claude, codex, gemini …]
    #[arg(long, env = "POSTHASTE_AGENT", hide_env_values = true, overrides_with = "name")]
    pub(crate) name: Option<String>,
    /// Its team [default: main]
    #[arg(long, env = "POSTHASTE_TEAM", hide_env_values = true, overrides_with = "team")]
    pub(crate) team: Option<String>,
    /// The same key gives the same mailbox again [default: the program's conversation, or else
    /// its folder: whoever went away there]
    #[arg(long, env = "POSTHASTE_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Be a new agent, and not the one that went away in this folder; POSTHASTE_NEW=1 says the
    /// same
    #[arg(long, env = "POSTHASTE_NEW", hide_env = true,
        value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) new: bool,
    /// Act as this instance, with the operator's token; CAO_TERMINAL_ID says the same
    #[arg(long, value_name = "ID", env = "POSTHASTE_INSTANCE", hide_env_values = true)]
    pub(crate) instance: Option<String>,
    /// Join with this token [default: the one in the data folder]
    #[arg(long, value_name = "TOKEN", env = "POSTHASTE_JOIN_TOKEN", hide_env_values = true)]
    pub(crate) join_token: Option<String>,
}

#[derive(Args)]
#[command(after_help = HOOK_CLIENTS)]
pub(crate) struct HookArgs {
    /// What the program is about to do, or has done
    #[arg(value_parser = event_parser())]
    pub(crate) event: Event,
    /// Whose hook it is
    #[arg(long, value_name = "NAME", value_parser = client_parser())]
    pub(crate) client: &'static dyn Client,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// Whose tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// CLI Agent Orchestrator: send_message, check_inbox
    Cao,
    /// Registry of assistants: list_assistant, search_assistant, send_message, recv_message
    Assistant,
    /// Addressed bus: herd_send
    Herd,
    /// Chat loop: askUser, respondToUser
    Chat,
}

impl Dialect {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cao => "cao",
            Self::Assistant => "assistant",
            Self::Herd => "herd",
            Self::Chat => "chat",
        }
    }
}

#[derive(Args)]
pub(crate) struct ConnectArgs {
    /// Which program
    #[arg(value_parser = client_parser())]
    pub(crate) client: &'static dyn Client,
    /// Take it back: every file as it was before
    #[arg(long, conflicts_with_all = ["team", "name", "print", "http", "no_hooks", "wake"])]
    pub(crate) undo: bool,
    /// For everything that you do, or for this folder
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: ScopeWord,
    /// What the agent is called [default: by its program]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Its team [default: main]
    #[arg(long)]
    pub(crate) team: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// Let the program call the hub itself, with a token in its configuration, instead of
    /// starting `posthaste mcp`: all its conversations are one agent then, without hooks
    #[arg(long)]
    pub(crate) http: bool,
    /// Without the hooks that bring mail to a model which does not ask for it
    #[arg(long)]
    pub(crate) no_hooks: bool,
    /// When mail waits for a conversation whose window is closed, let the hub resume it in a
    /// process without a window (claude, codex)
    #[arg(long, conflicts_with_all = ["http"])]
    pub(crate) wake: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeWord {
    User,
    Project,
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::User => Self::User,
            ScopeWord::Project => Self::Project,
        }
    }
}

#[derive(Args)]
pub(crate) struct StatusArgs {}

#[derive(Args)]
pub(crate) struct InstallArgs {
    /// The folder to copy it to [default: ~/.local/bin]
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}

/// One of the programs that can be connected.
pub(super) fn client_parser() -> impl TypedValueParser<Value = &'static dyn Client> {
    PossibleValuesParser::new(clients::ALL.map(|client| client.name()))
        .map(|name| clients::by_name(&name).expect("only these are possible"))
}

fn event_parser() -> impl TypedValueParser<Value = Event> {
    let words = Event::ALL.map(|(_, word, about)| PossibleValue::new(word).help(about));
    PossibleValuesParser::new(words)
        .map(|word| Event::by_name(&word).expect("only these are possible"))
}
