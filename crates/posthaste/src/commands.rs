//! The commands, one file each, and what they share: the hub that they call, and the
//! identity of the caller.

use std::time::Duration;

use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::address::{DEFAULT_TEAM, Name};
use tokio::time::{Instant, sleep};

use crate::cli::{Cli, Command, Global};
use crate::failure::{Failure, invalid};
use crate::identity::{self, Acting, DataFolder, Identity, Key, Token};
use crate::keyring::{Keyring, Owner};
use crate::output::Output;

mod addresses;
mod agent;
mod agents;
mod answer;
mod assign;
mod attach;
mod bridge;
mod cancel;
mod chat;
mod completions;
mod config;
mod connect;
mod demo;
mod doctor;
mod down;
mod each;
mod echo;
mod export;
mod handoff;
mod history;
pub(crate) mod hook;
mod import;
mod inbox;
mod install;
mod interrupt;
mod join;
mod logs;
mod mcp;
mod member;
mod needs;
mod poll;
mod profiles;
mod program;
mod read;
mod reply;
mod requeue;
pub(crate) mod runner;
mod send;
mod service;
mod start;
mod stats;
mod status;
mod stop;
mod tail;
mod teams;
mod token;
mod trail;
mod up;
mod way;
mod window;

/// The default address of a hub.
const DEFAULT_HUB: &str = "http://127.0.0.1:9889";
/// How long a command waits for the address of a hub that starts, and the time between two
/// looks.
const ANNOUNCES: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

pub(crate) async fn run(cli: Cli, output: &mut Output) -> Result<(), Failure> {
    let Cli { global, up, command } = cli;
    if let (Some(_), [flag, ..]) = (&command, up.given().as_slice()) {
        let told = invalid(format!("{flag} stands before the command"));
        return Err(told.hint(format!("write `posthaste up {flag} …`")).into());
    }
    let command = match command.unwrap_or(Command::Up(up)) {
        // These commands look for faults, so they run before anything can fail.
        Command::Config(args) => return config::run(&args, &global, output),
        // A hook never fails: the agent goes on even when the hub cannot be reached.
        Command::Hook(args) => {
            hook::run(&args, &global).await;
            return Ok(());
        }
        Command::Doctor(args) => return doctor::run(&args, &global, output).await,
        Command::Install(args) => return install::run(args, output),
        // It has the hub of its folder, whatever the environment of tmux says.
        Command::Window(args) => return window::run(&args, output).await,
        Command::Demo(args) => return demo::run(&args, output).await,
        Command::Completions(args) => return completions::completions(&args, output),
        Command::Man(args) => return completions::man(&args, output),
        command => command,
    };
    let session = Session::new(&global)?;
    if session.token.is_some() && session.acting.is_some() {
        output.note("a token is given, in --token or POSTHASTE_TOKEN, so --as counts for nothing");
    }
    if calls_a_running_hub(&command) {
        session.until_announced().await;
    }
    let done = match command {
        Command::Up(args) => up::run(args, &global, &session.folder, output).await,
        Command::Down(args) => down::run(&args, &session, output).await,
        Command::Service(args) => service::run(args, &global, &session, output).await,
        Command::Join(args) => join::join(args, &session, output).await,
        Command::Leave(args) => join::leave(&args, &session, output).await,
        Command::Send(args) => send::run(args, &session, output).await,
        Command::Reply(args) => reply::run(args, &session, output).await,
        Command::Read(args) => read::run(&args, &session, output).await,
        Command::Cancel(args) => cancel::run(&args, &session, output).await,
        Command::Requeue(args) => requeue::run(&args, &session, output).await,
        Command::Needs(args) => needs::run(args, &session, output).await,
        Command::Answer(args) => answer::run(args, &session, output).await,
        Command::Teams(args) => teams::run(args, &session, output).await,
        Command::Inbox(args) => inbox::run(&args, &session, output).await,
        Command::Assign(args) => assign::run(args, &session, output).await,
        Command::Handoff(args) => handoff::run(args, &session, output).await,
        Command::Poll(args) => poll::run(&args, &session, output).await,
        Command::Stop(args) => stop::run(&args, &session, output).await,
        Command::Logs(args) => logs::run(&args, &session, output).await,
        Command::Attach(args) => attach::run(&args, &session, output).await,
        Command::Chat(args) => chat::run(args, &session, output).await,
        Command::Tail(args) => tail::run(args, &session, output).await,
        Command::Mcp(args) => mcp::run(args, &global, &session).await,
        Command::Connect(args) => connect::run(args, &global, &session, output).await,
        Command::Status(args) => status::run(&args, &session, output).await,
        Command::Agents(args) => agents::run(args, &session, output).await,
        Command::Profiles(args) => profiles::run(args, &session, output).await,
        Command::History(args) => history::run(args, &session, output).await,
        Command::Echo => echo::run(&session, output).await,
        Command::Import(args) => import::run(args, &session, output),
        Command::Trail(args) => trail::run(&args, &session, output).await,
        Command::Stats(args) => stats::run(&args, &session, output).await,
        Command::Export(args) => export::run(args, &session, output).await,
        Command::Token(args) => token::run(&args, &session, output).await,
        // Handled above.
        Command::Config(_)
        | Command::Hook(_)
        | Command::Doctor(_)
        | Command::Install(_)
        | Command::Demo(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Runner
        | Command::Keep(_)
        | Command::Window(_) => Ok(()),
    };
    done.map_err(|failure| session.explain(failure))
}

/// Returns whether a command is for a hub that runs, which may be about to announce itself.
/// The others start or stop the hub, wait for it by themselves, or need none.
fn calls_a_running_hub(command: &Command) -> bool {
    !matches!(
        command,
        Command::Up(_)
            | Command::Down(_)
            | Command::Service(_)
            | Command::Mcp(_)
            | Command::Import(_)
            | Command::Token(_)
    )
}

/// One call of the program: the hub, and the identity of the caller.
#[derive(Clone)]
struct Session {
    folder: DataFolder,
    hub: Option<String>,
    acting: Option<Acting>,
    token: Option<Token>,
}

impl Session {
    fn new(global: &Global) -> Result<Self, Failure> {
        // A variable with an empty value counts as unset.
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Ok(Self {
            folder: crate::config::data_folder(global)?,
            hub: given(&global.hub),
            acting: global.acting.as_deref().map(Acting::read).transpose()?,
            token: given(&global.token).map(Token::from),
        })
    }

    /// Returns a client of the hub, without a token.
    fn stranger(&self) -> Result<Client, Failure> {
        let url = match (&self.hub, self.folder.running()) {
            (Some(named), _) => named.clone(),
            (None, Some(own)) => own.url,
            // The hub has another address perhaps, where it will announce itself.
            (None, None) if self.folder.has_hub() => return Err(self.unannounced().into()),
            (None, None) => DEFAULT_HUB.to_owned(),
        };
        Ok(Client::new(&url)?.as_command_line())
    }

    /// Waits until the hub that has this folder has announced its address, for a while.
    async fn until_announced(&self) {
        let until = Instant::now() + ANNOUNCES;
        let is_due = || self.hub.is_none() && self.folder.running().is_none();
        while is_due() && self.folder.has_hub() && Instant::now() < until {
            sleep(LOOK).await;
        }
    }

    fn unannounced(&self) -> ApiError {
        let place = self.folder.path().display();
        let told = format!("the hub on {place} is starting or stopping, and has no address now");
        ApiError::new(ErrorCode::Unavailable, told)
            .hint("try again in a moment; `posthaste doctor` says more")
    }

    /// Returns a client of the hub, as the caller: the token's owner, or `--as`, or else
    /// the operator.
    fn client(&self) -> Result<Client, Failure> {
        let client = self.stranger()?;
        let token = match (&self.token, &self.acting) {
            (Some(token), _) => token.clone(),
            (None, Some(who)) => self.identity(who, &client)?.token,
            (None, None) => self.key(Key::Operator, &client)?,
        };
        Ok(client.with_token(token.reveal()))
    }

    /// Returns a client of the hub with the join token.
    fn joining(&self) -> Result<Client, Failure> {
        let client = self.stranger()?;
        let token = match &self.token {
            Some(token) => token.clone(),
            None => self.key(Key::Join, &client)?,
        };
        Ok(client.with_token(token.reveal()))
    }

    /// Returns a client of the hub as the operator, if that token is in the folder.
    fn operator(&self, client: &Client) -> Option<Client> {
        let token = self.key(Key::Operator, client).ok()?;
        Some(client.clone().with_token(token.reveal()))
    }

    /// Returns the same session for the folder and the hub that these flags name, as
    /// `connect` writes them.
    fn as_flagged(&self, flags: &[String]) -> Self {
        let of = |flag: &str| {
            let at = flags.iter().position(|word| word == flag)?;
            flags.get(at + 1).cloned()
        };
        let folder = of("--data").map(|path| DataFolder::new(path.into()));
        Self {
            folder: folder.unwrap_or_else(|| self.folder.clone()),
            hub: of("--hub").or_else(|| self.hub.clone()),
            ..self.clone()
        }
    }

    fn keyring(&self) -> Keyring {
        Keyring::new(self.folder.identities(), program::runs)
    }

    /// Returns the owner of this agent's credentials, for the hub that the client calls.
    fn owner(&self, client: &Client, agent: &str, team: Option<&str>) -> Owner {
        let own = || self.folder.running().is_some_and(|hub| hub.url == client.url());
        let hub = match self.hub.is_none() || own() {
            true => String::new(),
            false => client.url().to_owned(),
        };
        let team = team.unwrap_or(DEFAULT_TEAM);
        Owner { hub, agent: agent.to_owned(), team: team.to_owned() }
    }

    /// Returns an identity kept in this folder, for the hub of this folder.
    fn identity(&self, who: &Acting, client: &Client) -> Result<Identity, Failure> {
        let who = self.folder.identity(who)?;
        self.lives(client).map(|()| who)
    }

    /// Refuses unless the caller names the hub, or the hub that runs on this folder has
    /// announced the client's address: tokens of this folder must not go to another program
    /// that listens on the default address.
    fn lives(&self, client: &Client) -> Result<(), Failure> {
        let own = || self.folder.running().is_some_and(|hub| hub.url == client.url());
        if self.hub.is_some() || own() {
            return Ok(());
        }
        if self.folder.has_hub() {
            return Err(self.unannounced().into());
        }
        let told = format!("no hub is running on {}", self.folder.path().display());
        let hint = "start one with `posthaste up --detach`, or name its folder with --data or its \
                    address with --hub";
        Err(ApiError::new(ErrorCode::Unavailable, told).hint(hint).into())
    }

    /// Returns the hub's own token, for the hub of this folder and no other.
    fn key(&self, key: Key, client: &Client) -> Result<Token, Failure> {
        let own = self.folder.running().is_some_and(|hub| hub.url == client.url());
        if !own && !client.is_local() {
            let told = format!("the {key} of this machine is not sent to {}", client.url());
            let hint = "give that hub's token with --token or POSTHASTE_TOKEN";
            return Err(ApiError::new(ErrorCode::Forbidden, told).hint(hint).into());
        }
        match self.folder.key(key)? {
            Some(token) => self.lives(client).map(|()| token),
            None => {
                let place = self.folder.path().display();
                let told = format!("no hub was ever started on {place}");
                let hint = "start one with `posthaste up --detach`, or name its folder with --data";
                Err(ApiError::new(ErrorCode::Unavailable, told).hint(hint).into())
            }
        }
    }

    /// Adds a hint to the error that the hub does not know the token: which token, and
    /// what to do here.
    fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Told(error) if error.code == ErrorCode::Unauthorized => {
                let hint = match (&self.token, &self.acting) {
                    (Some(_), _) => {
                        "is the token in --token or POSTHASTE_TOKEN of this hub?".into()
                    }
                    (None, Some(who)) => who.joins(),
                    (None, None) => "does this hub use another folder? Name it with --data".into(),
                };
                Failure::Told(ApiError { hint: Some(hint), ..error })
            }
            other => other,
        }
    }
}

/// Reads an agent's or a team's name as a person writes it.
fn name(text: &str) -> Result<Name, Failure> {
    Ok(identity::name(text)?)
}
