//! The table of commands.
//!
//! Words in, and nothing else: what a command does stands in `commands/`, what
//! an operator can turn in `config.rs`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use posthaste_bridges::clients::Client;
use serde::{Deserialize, Serialize};

use crate::identity::Key;

mod mail;
mod needs;
mod programs;
mod record;
mod service;
mod values;
mod work;

use programs::client_parser;
pub(crate) use programs::{
    AgentArgs, ConnectArgs, Dialect, HookArgs, InstallArgs, McpArgs, ScopeWord, StatusArgs,
};

pub(crate) use mail::{MessagesArgs, ReadArgs, ReplyArgs, TeamsArgs, TeamsCommand};
pub(crate) use needs::{AnswerArgs, NeedsArgs, NeedsCommand};
pub(crate) use record::{ExportArgs, HistoryArgs, StatsArgs, TailArgs, TrailArgs};
pub(crate) use service::{ServiceArgs, ServiceCommand};
pub(crate) use values::ADDRESS;
use values::{address, number, pair, time, working_time};
pub(crate) use work::{
    AssignArgs, AttachArgs, ChatArgs, HandoffArgs, LogsArgs, PollArgs, StopArgs, TaskArgs,
    WindowArgs,
};

const STORY: &str = "\
Try:
  posthaste up --detach                               # a hub in the background
  posthaste join alice
  posthaste join bob
  posthaste send bob \"the build is green\" --as alice
  posthaste inbox --as bob";

/// The post office for AI agents: addresses, durable mailboxes, and proof that
/// a message arrived.
///
/// Without a command it starts the hub, as `posthaste up` does.
#[derive(Parser)]
#[command(name = "posthaste", version, after_help = STORY)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    pub(crate) up: StartArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags that every command takes.
#[derive(Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Answers and errors as JSON, one per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The hub to talk to [default: the one that runs on the data folder]
    #[arg(long, global = true, value_name = "URL", env = "POSTHASTE_HUB", hide_env_values = true)]
    pub(crate) hub: Option<String>,
    /// The data folder: messages, tokens, identities
    #[arg(long, global = true, value_name = "DIR", env = "POSTHASTE_DATA", hide_env_values = true)]
    pub(crate) data: Option<PathBuf>,
    /// Act as this agent, once it has joined: NAME, or NAME@TEAM [default: the operator]
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub(crate) acting: Option<String>,
    /// Act as whoever this token belongs to; beats --as
    #[arg(long, global = true, env = "POSTHASTE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Whether there are colours [default: as the terminal and NO_COLOR say]
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true
    )]
    pub(crate) color: ColorWord,
    /// The configuration file
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "POSTHASTE_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the hub (what `posthaste` does without a command)
    Up(StartArgs),
    /// Stop the hub of this data folder, and wait until it has
    ///
    /// Whoever waits for mail is answered first, and workers are stopped as `agents.shutdown`
    /// says. Succeeds if no hub runs.
    Down(DownArgs),
    /// Keep a hub running for you: a service of systemd, or of launchd on macOS
    ///
    /// The hub then starts when you log in, and again if it fails. Without systemd, `posthaste up
    /// --detach` starts a hub in the background.
    Service(ServiceArgs),
    /// See it at work: workers that are killed, a hub that is killed, and nothing lost
    ///
    /// A supervisor and five workers count the words of Posthaste's own pages, on a hub of their
    /// own. All six are scripts: no model is asked and no key is needed. One worker is killed, and
    /// so is the hub; the supervisor still gathers everything in one call.
    ///
    /// With `--with claude` it is a real job instead: one agent of that program mends a small
    /// fault, and another one reviews the change. That calls your model. Exits with 9 if an agent
    /// fails, or if the tests that it was to mend still fail.
    Demo(DemoArgs),
    /// Join as an agent; afterwards `--as NAME` works
    Join(JoinArgs),
    /// Leave, and forget the identity that `join` kept
    Leave(LeaveArgs),
    /// Send a message
    Send(SendArgs),
    /// Answer a message: the reply goes to whoever sent it
    Reply(ReplyArgs),
    /// Wait for mail, show it, and prove that it arrived
    ///
    /// Exits with 7 if no mail came. With --wait-for: 8 if not everybody has reported yet, 9 if
    /// everybody has and a worker failed.
    Inbox(InboxArgs),
    /// Show one message, whole, and the state of each delivery; an unread one stays unread
    ///
    /// In a pipe, or with --raw, it is the text alone, byte for byte.
    Read(ReadArgs),
    /// Take messages back that nobody has been handed yet
    Cancel(MessagesArgs),
    /// Queue dead messages again, for one more try
    Requeue(MessagesArgs),
    /// What waits for you: questions, permission requests, failed workers, dead mail
    ///
    /// Reading your mail leaves it here; `posthaste answer` does not. With a number it shows that
    /// entry alone, and how it is answered.
    Needs(NeedsArgs),
    /// Answer what `posthaste needs` shows
    ///
    /// A question takes TEXT or --option, and the answer goes to whoever asked. A permission takes
    /// --allow or --deny, and --remember if it is to hold from now on. Dead mail takes --allow to
    /// be queued again, or --deny. A failed worker takes nothing: it is noted as seen. Exits with 4
    /// if it was answered or withdrawn already.
    Answer(AnswerArgs),
    /// Start a worker on a task and go on; its report comes to your inbox
    ///
    /// The task goes to an agent of that profile: the hub starts one, or, for agents that come by
    /// themselves, takes one that is here. `posthaste inbox --wait-for all` gathers every report.
    Assign(AssignArgs),
    /// Start a worker on a task and wait for its result
    ///
    /// Ctrl-C ends the waiting and not the work: its report comes to your inbox then. Exits with 8
    /// if the time was up first, with 9 if the worker failed.
    Handoff(HandoffArgs),
    /// How an agent is doing
    Poll(PollArgs),
    /// End workers and all below them
    Stop(StopArgs),
    /// A worker's conversation, or what it wrote
    ///
    /// Of a worker that the hub talks to it is the conversation: what it was told, said, called
    /// and asked. Of any other one it is its stdout.
    Logs(LogsArgs),
    /// Watch a worker at its work, and talk to it
    ///
    /// Shows the conversation that the hub holds with the worker. Each line that you type goes to
    /// the worker as a message; a line that begins with `!` is urgent. Ctrl-D or Ctrl-C leaves, and
    /// the worker goes on. Without a terminal on stdin it only shows.
    ///
    /// A worker whose profile says `driver: terminal` is shown in its terminal, by tmux, and you
    /// type into it; Ctrl-B D leaves. Where there is no terminal to show it on, prints the command
    /// of tmux.
    Attach(AttachArgs),
    /// Talk to an agent: several messages, several answers
    ///
    /// Without a living agent of that name it starts one of that profile, which stays for further
    /// messages. With a message, or in a pipe, it sends that, waits, and prints what the agent
    /// answers; exit code 8 means that the agent waits for you or that the time is up. Without
    /// one, on a terminal, each line that you type is a message, also while the agent works;
    /// `/help` says what else you can type, and Ctrl-D leaves.
    Chat(ChatArgs),
    /// Follow what happens
    Tail(TailArgs),
    /// Speak MCP on stdin and stdout: the mailbox as tools of an agent
    ///
    /// An agent's program starts this as its MCP server. Every line is handed to the hub of this
    /// machine, which is started if none runs, and every answer is handed back. It keeps nothing:
    /// it may be stopped and started at will, and it outlives a restart of the hub.
    Mcp(McpArgs),
    /// Bring waiting mail to an agent at the boundaries of its work
    ///
    /// An agent's program runs this at its own events, with what it knows as JSON on stdin. Mail
    /// that waits is put before the model in the program's own form, so that nobody has to
    /// remember to look; at `stop` the model is told once not to finish with unread mail or
    /// unanswered questions.
    Hook(HookArgs),
    /// Join an agent program that you use to the hub: writes its configuration and proves it
    ///
    /// Shows what it will change, asks, writes, and proves it by a round trip over the very
    /// command line that it wrote. A program that is not a terminal has to say --yes.
    Connect(ConnectArgs),
    /// Which agent programs are connected, and which of their conversations are here
    Status(StatusArgs),
    /// Copy this program to a place that stays
    Install(InstallArgs),
    /// Who is here
    Agents(AgentsArgs),
    /// Who could be here: list, search, load and remove profiles
    Profiles(ProfilesArgs),
    /// Take over what you have from another program
    Import(ImportArgs),
    /// Who leads which team, and who is in it
    Teams(TeamsArgs),
    /// Show messages that were sent before; unread ones stay unread
    History(HistoryArgs),
    /// What happened to a message, and why it was not answered
    Trail(TrailArgs),
    /// What lies in the mailboxes, or what does not move
    Stats(StatsArgs),
    /// Write every message with its deliveries as lines of JSON
    Export(ExportArgs),
    /// Show or replace the tokens of the hub on this machine
    Token(TokenArgs),
    /// Show every setting, its value and where it came from
    Config(ConfigArgs),
    /// Look at everything that a hub needs here, and say what is wrong
    Doctor(DoctorArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
    /// Answer each line of mail with itself: the agent of CAO's provider mock_cli
    #[command(hide = true)]
    Echo,
    /// Be the built-in assistant: speaks the protocol of runners on stdin and stdout; the hub
    /// starts this
    #[command(hide = true)]
    Runner,
    /// Own one worker; the hub starts this
    #[command(hide = true)]
    Keep(KeepArgs),
    /// Show the worker of this folder until it ends; the hub starts this in a window of tmux
    #[command(hide = true, name = "tmux-window")]
    Window(WindowArgs),
}

#[derive(Args, Default)]
#[command(next_help_heading = "Options of up")]
pub(crate) struct UpArgs {
    /// Where to listen [default: 127.0.0.1:9889]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Take any free port if that one is taken: commands and bridges find the hub by its folder
    #[arg(long)]
    pub(crate) any_port: bool,
    /// Keep everything in memory: it is gone when the hub stops
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Allow an address that other machines can reach
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// How the log on stderr looks
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// What the log tells: debug, or warn,posthaste=debug
    #[arg(long, value_name = "FILTER", env = "POSTHASTE_LOG", hide_env_values = true)]
    pub(crate) log: Option<String>,
}

/// A start of a hub.
#[derive(Args, Default)]
#[command(next_help_heading = "Options of up")]
pub(crate) struct StartArgs {
    /// Start it in the background, wait until it takes mail, and say where it is
    #[arg(long, short)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) up: UpArgs,
}

impl StartArgs {
    /// The flags that were given, as they are written.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let flags = [
            (self.detach, "--detach"),
            (self.up.listen.is_some(), "--listen"),
            (self.up.any_port, "--any-port"),
            (self.up.ephemeral, "--ephemeral"),
            (self.up.allow_remote, "--allow-remote"),
            (self.up.log_format.is_some(), "--log-format"),
        ];
        flags.into_iter().filter_map(|(given, flag)| given.then_some(flag)).collect()
    }
}

#[derive(Args)]
pub(crate) struct DownArgs {
    /// How long the hub may take: seconds, or 10m
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = time)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Human,
    Json,
}

/// Whether there are colours; `auto` is on a terminal that knows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWord {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Args)]
pub(crate) struct JoinArgs {
    /// The agent's name
    pub(crate) name: String,
    /// Its team [default: main]
    #[arg(long)]
    pub(crate) team: Option<String>,
    /// The same key gives the same instance again [default: cli:NAME, with the team if one is given]
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Print the token and nothing else, for POSTHASTE_TOKEN
    #[arg(long)]
    pub(crate) print_token: bool,
}

#[derive(Args)]
pub(crate) struct LeaveArgs {
    /// The name that joined, or NAME@TEAM
    pub(crate) name: String,
}

#[derive(Args)]
#[command(override_usage = "posthaste send [OPTIONS] <TO>[,<TO>...] <MESSAGE>...")]
pub(crate) struct SendArgs {
    /// Whom to: bob, bob@team, bob.a3f7b2c1, @anyone, @everyone, human; several with commas
    /// and without spaces. The rest of the line is the text; `-` reads it from stdin, without the
    /// newline at its end
    #[arg(required = true, value_names = ["TO", "MESSAGE"], num_args = 1..)]
    pub(crate) words: Vec<String>,
    /// Ahead of other mail, and it ends every wait
    #[arg(long)]
    pub(crate) urgent: bool,
    /// text, result, question, answer, directive, inform, progress, or a word of your own
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// A label that readers can select by
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// The conversation it belongs to; a name then means the agent of that name in it
    #[arg(long)]
    pub(crate) thread: Option<String>,
    /// The number or id of the message that this one answers
    #[arg(long, value_name = "ID")]
    pub(crate) reply_to: Option<String>,
    /// Dies unread after this time: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,
    /// The same key is accepted once: sending again is safe
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Something more for the reader; may be given several times
    #[arg(long = "meta", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) meta: Vec<(String, String)>,
}

#[derive(Args)]
pub(crate) struct InboxArgs {
    /// How long to wait for mail: seconds, or 10m
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = time)]
    pub(crate) timeout: Duration,
    /// Go on for ever, also when the hub restarts
    #[arg(long)]
    pub(crate) follow: bool,
    /// any, all, or a number of distinct senders
    #[arg(long, value_name = "WHOM")]
    pub(crate) wait_for: Option<String>,
    /// Only from these: instances, names or labels
    #[arg(long, value_name = "WHO", value_delimiter = ',')]
    pub(crate) from: Vec<String>,
    /// Only with this label
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Only of this conversation
    #[arg(long)]
    pub(crate) thread: Option<String>,
    /// How long to go on collecting after the first message [default: 50ms, and 2s while
    /// work that the reader gave out is open]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) batch_window: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct AgentsArgs {
    /// Only of this team
    #[arg(long)]
    pub(crate) team: Option<String>,
    /// Also those who have left
    #[arg(long)]
    pub(crate) all: bool,
    /// Who works for whom
    #[arg(long)]
    pub(crate) tree: bool,
    /// Forget those who are away or lost and have neither mail nor open work
    #[arg(long, conflicts_with_all = ["team", "all", "tree"])]
    pub(crate) prune: bool,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ProfilesArgs {
    /// Words to search for, best hit first [default: list all]
    pub(crate) query: Vec<String>,
    /// Most hits [default: 10]
    #[arg(long, requires = "query", value_parser = number::<u32>)]
    pub(crate) limit: Option<u32>,
    #[command(subcommand)]
    pub(crate) command: Option<ProfilesCommand>,
}

#[derive(Subcommand)]
pub(crate) enum ProfilesCommand {
    /// Show one, with its prompt
    Show { name: String },
    /// Say what is wrong with the Markdown files of a folder; needs no hub
    Check {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Send every Markdown file of a folder to the hub
    Load {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Remove one; mail that waits for its name stays
    Remove { name: String },
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) command: ImportCommand,
}

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// Take over the profiles of CLI Agent Orchestrator (CAO)
    ///
    /// Copies CAO's own and installed profiles (agent-store and agent-context in its folder) into
    /// the hub's folder of profiles, with the driver that runs each one's provider here. A running
    /// hub reads them at once. CAO's files stay as they are, and a profile that is there already
    /// is skipped. Whatever cannot be taken over is named, with the reason.
    Cao {
        /// CAO's folder, or any folder of profiles [default: ~/.aws/cli-agent-orchestrator]
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Args)]
pub(crate) struct TokenArgs {
    /// The operator's token instead of the join token
    #[arg(long, conflicts_with = "new")]
    pub(crate) operator: bool,
    /// Replace this token. A running hub takes the new one at once and refuses the old one
    #[arg(long, value_name = "WHICH")]
    pub(crate) new: Option<Key>,
}

#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// One key, like server.listen, or a section
    pub(crate) key: Option<String>,
    /// Print a file with every key, its default and what it is for
    #[arg(long, conflicts_with = "key")]
    pub(crate) example: bool,
    /// As `up` would see it with the same flags.
    #[command(flatten)]
    pub(crate) up: UpArgs,
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Look at the connection of this agent program instead, and prove it
    #[arg(value_parser = client_parser())]
    pub(crate) client: Option<&'static dyn Client>,
    /// Where it was connected
    #[arg(long, value_name = "SCOPE", default_value = "user", requires = "client")]
    pub(crate) scope: ScopeWord,
    /// As `up` would see it with the same flags.
    #[command(flatten)]
    pub(crate) up: UpArgs,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// Write the page of every command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Leave the demo's folder for a look, instead of removing it
    #[arg(long)]
    pub(crate) keep: bool,
    /// How long a worker rests between two parts of its page
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) pace: Duration,
    /// A real job for this program, which must be installed and logged in: it calls a model, and
    /// may cost a little money
    #[arg(long, value_name = "PROGRAM", conflicts_with = "pace")]
    pub(crate) with: Option<DemoProgram>,
    /// How long each of the two agents may work
    #[arg(long, value_name = "TIME", value_parser = working_time, default_value = "5m",
        requires = "with")]
    pub(crate) timeout: Duration,
}

/// A program that can do the real job of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoProgram {
    Claude,
    Codex,
    Opencode,
    Gemini,
}

#[derive(Args)]
pub(crate) struct KeepArgs {
    /// What the hub wrote
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Cli {
        match Cli::try_parse_from(line.split(' ')) {
            Ok(cli) => cli,
            Err(e) => panic!("{line}: {e}"),
        }
    }

    #[test]
    fn the_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_the_hub_starts() {
        let cli = parse("posthaste --ephemeral --listen 127.0.0.1:0 --json");
        assert!(cli.command.is_none() && cli.global.json);
        assert_eq!(cli.up.given(), ["--listen", "--ephemeral"]);
    }

    #[test]
    fn flags_may_stand_between_the_words_of_a_send() {
        for line in [
            "posthaste send a,b c hello --as x --ttl 10m",
            "posthaste send a,b --ttl 10m c --as x hello",
            "posthaste --as x send --ttl 10m a,b c hello",
        ] {
            let cli = parse(line);
            let Some(Command::Send(send)) = cli.command else { panic!("{line}: not a send") };
            assert_eq!(send.words, ["a,b", "c", "hello"], "{line}");
            assert_eq!(send.ttl, Some(Duration::from_secs(600)), "{line}");
            assert_eq!(cli.global.acting.as_deref(), Some("x"), "{line}");
        }
    }
}
