//! `posthaste hook`: brings messages at the boundaries of an agent's work.
//!
//! A hook is one request and one answer, in the form that the agent's program
//! understands. The program waits for it, so it is short. Every failure is reported to
//! the operator, in [`log`], and never to the model: the agent goes on as if there were
//! no hook. Read [`input`] for the program's input, and [`form`] for its answer.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use posthaste_api::client::ClientError;
use posthaste_api::hooks::{HookAnswer, HookEvent, HookRequest};
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_bridges::clients::Event;
use posthaste_core::address::Name;
use posthaste_core::settings;
use tokio::time::{Instant, timeout, timeout_at};

use super::Session;
use super::member::Member;
use super::program::{self, Program};
use super::way::Way;
use crate::cli::{Global, HookArgs};
use crate::config;
use crate::failure::{Failure, internal, told};
use crate::identity::Key;
use input::Input;

mod form;
#[cfg(test)]
mod fuzz;
mod idle;
mod input;
pub(super) mod log;

settings! {
    /// The `[hooks]` section of the configuration.
    pub(crate) struct HooksConfig {
        /// How long a hook waits before it looks whether the hub's process is stopped; with
        /// the start of the program such a hub costs less than a tenth of a second.
        sign_of_life: Duration = Duration::from_millis(80), "humantime_serde";
        /// How long a hook waits for the answer of any other hub, all in all.
        patience: Duration = Duration::from_secs(1), "humantime_serde";
        /// Whether mail begins a turn of an idle agent that the hub did not start, in
        /// programs that allow it (OpenCode).
        wake: bool = true;
    }
}

/// The tool that starts subagents in Qwen Code, which also reports when one begins and
/// ends.
const HELPER: &str = "agent";

/// Returns the hub's name of an event.
fn to_hub(event: Event) -> HookEvent {
    match event {
        Event::SessionStart => HookEvent::SessionStart,
        Event::Prompt => HookEvent::Prompt,
        Event::BeforeTool => HookEvent::BeforeTool,
        Event::Tool => HookEvent::Tool,
        Event::Stop => HookEvent::Stop,
        Event::Idle => HookEvent::Idle,
    }
}

/// Runs the hook. Never fails: nobody could act on a failure in the middle of a turn.
pub(super) async fn run(args: &HookArgs, global: &Global) {
    if args.event == Event::Idle {
        return idle::run(args, global).await;
    }
    let began = Instant::now();
    let done = match (Session::new(global), config::hooks(global)) {
        (Ok(session), Ok(limits)) => fired(args, &session, began, &limits).await,
        (Err(failure), _) => Err(failure),
        (_, Err(error)) => Err(error.into()),
    };
    if let Err(failure) = done {
        report(args, global, failure);
    }
}

/// Tells the operator why a hook did nothing.
fn report(args: &HookArgs, global: &Global, failure: Failure) {
    let (failure, folder) = match Session::new(global) {
        Ok(session) => (session.explain(failure), Some(session.folder)),
        Err(failure) => (failure, None),
    };
    let why = told(failure).message;
    let line = format!("{} {}: {why}", args.client.name(), args.event.as_str());
    if io::stderr().is_terminal() {
        // A person tries it out on a terminal.
        let _ = writeln!(io::stderr(), "{}", crate::terminal::tame(&line));
    }
    if let Some(folder) = folder {
        log::add(folder.path(), &line);
    }
}

/// Returns the error for a step that took too long.
fn late(what: &str, limit: Duration) -> ApiError {
    ApiError::new(ErrorCode::Unavailable, format!("{what} within {} ms", limit.as_millis()))
}

async fn fired(
    args: &HookArgs,
    session: &Session,
    began: Instant,
    limits: &HooksConfig,
) -> Result<(), Failure> {
    let until = began + limits.patience;
    let input = match timeout_at(until, input::of_stdin()?).await {
        Ok(Ok(input)) => input,
        Ok(Err(_)) => Input::default(),
        Err(_) => return Err(late("stdin was not closed", limits.patience).into()),
    };
    let helper = input.helper_itself();
    // A message that a subagent reads is never seen by the agent.
    if input.is_of_a_helper() && helper.is_none()
        || args.event == Event::Prompt && !input.is_prompt()
    {
        return Ok(());
    }
    let request = HookRequest {
        source: input.source.clone(),
        client: Some(args.client.name().to_owned()),
        tool: helper.map_or_else(|| input.tool.clone(), |_| Some(HELPER.to_owned())),
        call: helper.map_or_else(|| input.call.clone(), |helper| Some(helper.to_owned())),
        failed: input.failed,
        quiet: helper.is_some() || args.client.hooks().unheard.contains(&args.event),
        ..HookRequest::default()
    };
    let hub = hub_that_lives(session, until, limits).await?;
    let asked = ask(args, session, &hub, &input, &request);
    let (answer, caller) = match timeout_at(until, asked).await {
        Ok(answered) => answered?,
        Err(_) => return Err(late("the hub did not answer", limits.patience).into()),
    };
    say(args, &input, answer).map_err(|e| internal(format!("nobody reads stdout: {e}")))?;
    // Last, because the agent does not wait for this: its bridge opens a stream for it.
    if let Some(member) = caller.member {
        member.used_by_hook(&program::process(), args.event == Event::SessionStart)?;
    }
    Ok(())
}

/// Returns the hub of this session, after a sign of life. The check comes first, so that
/// a hub that hangs does not learn of this event long after it has passed. A stopped hub
/// process accepts connections all the same, and must not delay an agent for as long as a
/// busy one.
async fn hub_that_lives(
    session: &Session,
    until: Instant,
    limits: &HooksConfig,
) -> Result<Client, Failure> {
    let own = match &session.hub {
        Some(_) => None,
        None => Some(
            session
                .folder
                .running()
                .ok_or_else(|| ApiError::new(ErrorCode::Unavailable, "no hub runs here"))?,
        ),
    };
    let hub = session.stranger()?;
    let mut asked = pin!(hub.health());
    let answered = match timeout(limits.sign_of_life, &mut asked).await {
        Ok(answered) => answered,
        Err(_) if own.is_some_and(|own| program::is_stopped(own.pid)) => {
            let what = "the hub is stopped (SIGSTOP, a debugger) and gave no sign of life";
            return Err(late(what, limits.sign_of_life).into());
        }
        Err(_) => match timeout_at(until, asked).await {
            Ok(answered) => answered,
            Err(_) => return Err(late("the hub gave no sign of life", limits.patience).into()),
        },
    };
    match answered {
        // Any answer is a sign of life; the hook's own call reports what is wrong with the hub.
        Ok(_) | Err(ClientError::Api(_) | ClientError::NotAHub { .. }) => Ok(hub.clone()),
        Err(gone) => Err(gone.into()),
    }
}

/// Asks the hub; returns its answer, and the agent. An agent that the hub has forgotten
/// joins again, once.
async fn ask(
    args: &HookArgs,
    session: &Session,
    hub: &Client,
    input: &Input,
    request: &HookRequest,
) -> Result<(HookAnswer, Caller), Failure> {
    let caller = Caller::of(args, session, hub, input).await?;
    match (caller.ask(args.event, request).await, &caller.member) {
        (Err(ClientError::Api(e)), Some(member)) if e.code == ErrorCode::Unauthorized => {
            member.expire()?;
            let caller = Caller::of(args, session, hub, input).await?;
            Ok((caller.ask(args.event, request).await?, caller))
        }
        (answer, _) => Ok((answer?, caller)),
    }
}

/// Writes the answer in one piece, so that a program never reads half of it.
fn say(args: &HookArgs, input: &Input, answer: HookAnswer) -> io::Result<()> {
    if input.failed {
        // Programs drop text that is added to the result of a failed tool.
        return Ok(());
    }
    let said = form::of(args.client.hooks(), args.event, input.event.as_deref(), answer);
    let Some(said) = said else { return Ok(()) };
    let mut out = io::stdout().lock();
    out.write_all(format!("{said}\n").as_bytes())?;
    out.flush()
}

/// The agent of this conversation.
struct Caller {
    hub: Client,
    /// Set if the agent joined.
    member: Option<Member>,
    /// The value that the program's bridge sends.
    conversation: String,
}

impl Caller {
    async fn of(
        args: &HookArgs,
        session: &Session,
        hub: &Client,
        input: &Input,
    ) -> Result<Self, Failure> {
        let way = Way::of(&args.agent, session, config::of_others)?;
        let client = hub.clone();
        let mut program = Program::new(config::of_others);
        program.calls_itself(args.client.name());
        let said = program.conversation_of_tools(input.conversation.as_deref());
        let given = !matches!(&way, Way::Join(wish) if wish.key.is_none());
        let conversation = program.told_conversation(said.as_deref(), given, &program::process());
        let (hub, member) = match way {
            Way::Token(token) => (client.with_token(token.reveal()), None),
            Way::Acting(id) => {
                let token = session.key(Key::Operator, &client)?;
                (client.with_token(token.reveal()).acting_for(id.to_string()), None)
            }
            Way::Join(wish) => {
                let token = match &wish.token {
                    Some(token) => token.clone(),
                    None => session.key(Key::Join, &client)?,
                };
                let name = wish.name.clone().unwrap_or_else(|| program.name());
                let whom = (name.as_str(), wish.team.as_ref().map(Name::as_str));
                let door = client.clone().with_token(token.reveal());
                let member = Member::of(session, &door, whom, wish.which(said)).await?;
                (client.with_token(member.me.token.reveal()), Some(member))
            }
        };
        Ok(Self { hub, member, conversation })
    }

    async fn ask(&self, event: Event, request: &HookRequest) -> Result<HookAnswer, ClientError> {
        let conversation = Some(self.conversation.clone());
        let request = HookRequest { conversation, ..request.clone() };
        self.hub.hook(to_hub(event), &request).await
    }
}
