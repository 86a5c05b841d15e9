//! `posthaste mcp`: MCP on stdin and stdout, carried to the hub line by line.
//!
//! It understands as little as it can. A line goes to the hub's `/mcp` as it came,
//! what the hub answers goes back as it came, and nothing is kept: whatever must
//! survive is in the hub. Read [`message`] for what is looked at, [`call`] for the
//! way of a request, [`who`] for whose it is, and [`hub`] for what happens while
//! there is none.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Session;
use super::start::Start;
use crate::cli::{Dialect, Global, McpArgs};
use crate::config;
use crate::failure::{Failure, internal};
use call::{Finished, Running};
use headers::Handshake;
use hub::Hub;
use lines::{Line, Out};
use message::Message;
use open_streams::{OpenStreams, Use};
use who::Who;

mod call;
#[cfg(test)]
mod fuzz;
mod headers;
mod hub;
mod lines;
mod message;
mod open_streams;
mod reply;
mod sse;
mod stream;
mod who;

/// How long a connection may take to come about.
const CONNECTING: Duration = Duration::from_secs(5);
/// How soon a line to a machine that vanished is noticed.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// So long a cancelled call may go on, for the hub to end it in order.
const CANCELLED: Duration = Duration::from_secs(1);

pub(super) async fn run(args: McpArgs, global: &Global, session: &Session) -> Result<(), Failure> {
    let gone = CancellationToken::new();
    let (bridge, uses) = Bridge::new(&args, global, session, gone.clone())?;
    if std::io::stdin().is_terminal() {
        bridge.out.note("an agent's program starts this and speaks MCP to it: see --help");
    }
    let lines = lines::of_stdin(gone).map_err(|e| internal(format!("no thread: {e}")))?;
    Arc::new(bridge).serve(lines, uses).await;
    Ok(())
}

/// One client and one hub.
struct Bridge {
    /// Tells the hub that a new reader begins, and sets its request ids apart.
    id: String,
    /// How often the client has begun: its request ids may start over.
    begun: AtomicU32,
    dialect: Option<Dialect>,
    hub: Hub,
    who: Who,
    http: reqwest::Client,
    handshake: Handshake,
    /// A handshake of the old era is complete.
    initialized: AtomicBool,
    /// Requests without an answer, by id.
    running: Mutex<HashMap<String, Arc<Running>>>,
    /// Whose the last answered requests were: some clients cancel what was answered.
    finished: Mutex<Finished>,
    /// Tells which agents are used, for their streams to be opened and ended.
    uses: mpsc::UnboundedSender<Use>,
    out: Out,
    /// The client has gone.
    gone: CancellationToken,
}

impl Bridge {
    fn new(
        args: &McpArgs,
        global: &Global,
        session: &Session,
        gone: CancellationToken,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Use>), Failure> {
        // An address that cannot be one is told at once and not by every call.
        session.stranger()?;
        let start = Start {
            folder: session.folder.clone(),
            config: global.config.clone().filter(|path| !path.as_os_str().is_empty()),
            // It finds its hub by the folder.
            flags: vec!["--any-port".to_owned()],
        };
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECTING)
            .tcp_keepalive(KEEPALIVE)
            .user_agent(concat!("posthaste-mcp/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| internal(format!("no client: {e}")))?;
        let (uses, used) = mpsc::unbounded_channel();
        let bridge = Self {
            id: format!("{:016x}", rand::random::<u64>()),
            begun: AtomicU32::new(0),
            dialect: args.dialect,
            hub: Hub::new(session.clone(), (!args.no_start).then_some(start)),
            who: Who::new(args, session, config::of_others)?,
            http,
            handshake: Handshake::default(),
            initialized: AtomicBool::new(false),
            running: Mutex::default(),
            finished: Mutex::default(),
            uses,
            out: Out::new(gone.clone()),
            gone,
        };
        Ok((bridge, used))
    }

    /// Until the client goes. What is open then is dropped, and the hub sees it;
    /// the agent stays: it was released and has not left.
    async fn serve(
        self: Arc<Self>,
        mut lines: mpsc::Receiver<Line>,
        mut uses: mpsc::UnboundedReceiver<Use>,
    ) {
        let mut tasks = JoinSet::new();
        let mut streams = OpenStreams::default();
        let bridge = self.clone();
        tasks.spawn(async move { bridge.watch_hooks().await });
        loop {
            tokio::select! {
                biased;
                () = self.gone.cancelled() => return,
                Some(used) = uses.recv() => {
                    if let Some(stop) = streams.note(&used, Instant::now())
                        && let Use::Began(identity) = used
                    {
                        let bridge = self.clone();
                        tasks.spawn(async move {
                            tokio::select! {
                                () = stop.cancelled() => (),
                                () = bridge.listen(&identity) => (),
                            }
                        });
                    }
                }
                () = streams.next_end() => streams.end_idle(Instant::now()),
                Some(_) = tasks.join_next() => (),
                line = lines.recv() => match line {
                    Some(line) => self.take(line, &mut tasks).await,
                    None => return,
                },
            }
        }
    }

    async fn take(self: &Arc<Self>, line: Line, tasks: &mut JoinSet<()>) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(start) => {
                let id = message::id_of(&start);
                return self.out.line(&reply::too_long(id.as_deref(), lines::LONGEST));
            }
        };
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(why) => return self.out.line(&reply::broken(why)),
        };
        if message.is("initialize") {
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        let bridge = self.clone();
        // What follows the two steps of the handshake builds on them.
        let in_order = message.is("initialize") || message.is("notifications/initialized");
        // Before the next line is read: it may be the cancel.
        let running = self.enter(&message);
        if !message.is_request()
            && let Some(running) = &running
            && (!running.disown() || message.is_new_era())
        {
            // In the new era a closed connection is the cancel.
            running.stop.cancel();
            // But its answer may have been on its way: then the hub must hear of it.
            if running.is_sent() {
                let caller = running.bearer();
                tasks.spawn(async move { bridge.notify(&message, caller).await });
            }
            return;
        }
        let work = async move {
            match (message.is_request(), running) {
                (true, Some(running)) => bridge.request(&message, &running).await,
                (false, Some(running)) => bridge.cancel(&message, &running).await,
                (_, None) => {
                    let caller = bridge.finished.lock().caller(&message);
                    bridge.notify(&message, caller).await;
                }
            }
            if message.is("notifications/initialized") {
                bridge.initialized.store(true, Ordering::Relaxed);
            }
        };
        if in_order {
            tokio::select! {
                () = self.gone.cancelled() => (),
                () = work => (),
            }
        } else {
            tasks.spawn(work);
        }
    }

    /// The call that a request begins, or the one that a cancel is about.
    fn enter(&self, message: &Message) -> Option<Arc<Running>> {
        let mut all = self.running.lock();
        match (&message.id, &message.cancels) {
            (Some(id), _) => {
                let running = Arc::<Running>::default();
                all.insert(id.get().to_owned(), running.clone());
                Some(running)
            }
            (None, Some(id)) => all.get(id.get()).cloned(),
            (None, None) => None,
        }
    }

    async fn request(&self, message: &Message, running: &Arc<Running>) {
        self.call(message, running).await;
        let id = message.id.as_ref().map_or("", |id| id.get());
        // First, so that a cancel finds it in one place or the other.
        if let Some(bearer) = running.bearer() {
            self.finished.lock().add(id, bearer);
        }
        let mut all = self.running.lock();
        if all.get(id).is_some_and(|now| Arc::ptr_eq(now, running)) {
            all.remove(id);
        }
    }

    /// The client gave up a call that the hub has. The hub is told and ends the call;
    /// if it does not, the connection is closed all the same.
    async fn cancel(&self, message: &Message, running: &Running) {
        let (_, ()) = tokio::join!(
            timeout(CANCELLED, self.notify(message, running.bearer())),
            sleep(CANCELLED)
        );
        running.stop.cancel();
    }

    /// What the hub knows this client's reader by.
    fn id(&self) -> String {
        match self.begun.load(Ordering::Relaxed) {
            0 | 1 => self.id.clone(),
            more => format!("{}-{more}", self.id),
        }
    }

    /// The hub's door for this bridge.
    fn door(&self, hub: &str) -> String {
        match self.dialect {
            Some(dialect) => format!("{hub}/mcp?dialect={}", dialect.as_str()),
            None => format!("{hub}/mcp"),
        }
    }

    /// An agent of this bridge is used, as long as the guard lives.
    fn uses(&self, identity: &str) -> InUse {
        // Nobody hears it when the bridge ends.
        let _ = self.uses.send(Use::Began(identity.to_owned()));
        InUse { uses: self.uses.clone(), identity: identity.to_owned() }
    }

    fn wants_news(&self) -> bool {
        self.initialized.load(Ordering::Relaxed)
    }
}

/// A call of an agent, until it is dropped.
struct InUse {
    uses: mpsc::UnboundedSender<Use>,
    identity: String,
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Nobody hears it when the bridge ends.
        let _ = self.uses.send(Use::Ended(std::mem::take(&mut self.identity)));
    }
}
