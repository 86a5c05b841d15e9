//! `posthaste mcp`: MCP on stdin and stdout, carried to the hub line by line.
//!
//! The bridge understands as little as it can. A line goes to the hub's `/mcp` unchanged,
//! the hub's answer comes back unchanged, and the bridge stores nothing: the hub keeps
//! all that must survive. Read [`message`] for the fields that are read, [`call`] for the
//! way of a request, [`who`] for its caller, and [`hub`] for the time without a hub.

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

/// The time limit for a connect.
const CONNECTING: Duration = Duration::from_secs(5);
/// The interval after which a connection to a vanished machine is probed.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The time that a cancelled call may go on, for the hub to end it in order.
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

/// The bridge between one client and one hub.
struct Bridge {
    /// Tells the hub that a new reader begins, and keeps its request ids apart from
    /// others.
    id: String,
    /// Number of beginnings of the client: its request ids may start over.
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
    /// The callers of the last answered requests: some clients cancel what was answered.
    finished: Mutex<Finished>,
    /// Reports which agents are used, so that their streams are opened and ended.
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
        // An invalid address is reported at once and not by every call.
        if session.hub.is_some() {
            session.stranger()?;
        }
        let start = Start {
            folder: session.folder.clone(),
            config: global.config.clone().filter(|path| !path.as_os_str().is_empty()),
            // The bridge finds its hub by the folder.
            flags: vec!["--any-port".to_owned()],
        };
        let http = posthaste_api::http::plain()
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

    /// Serves until the client goes. Open calls are dropped then, and the hub sees their
    /// connections close. The agent stays: it is released and has not left.
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
        // Later messages depend on the two steps of the handshake.
        let in_order = message.is("initialize") || message.is("notifications/initialized");
        // Before the next line is read, which may be the cancel.
        let running = self.enter(&message);
        if !message.is_request()
            && let Some(running) = &running
            && (!running.disown() || message.is_new_era())
        {
            // In the new era a closed connection is the cancel.
            running.stop.cancel();
            // But the answer may have been on its way: then the hub must be told.
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

    /// Returns the call that a request begins, or the one that a cancel is about.
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
        // First, so that a cancel finds the call in one place or the other.
        if let Some(bearer) = running.bearer() {
            self.finished.lock().add(id, bearer);
        }
        let mut all = self.running.lock();
        if all.get(id).is_some_and(|now| Arc::ptr_eq(now, running)) {
            all.remove(id);
        }
    }

    /// Cancels a call that the hub has. The hub is told and ends the call; if it does
    /// not, the connection is closed all the same.
    async fn cancel(&self, message: &Message, running: &Running) {
        let (_, ()) = tokio::join!(
            timeout(CANCELLED, self.notify(message, running.bearer())),
            sleep(CANCELLED)
        );
        running.stop.cancel();
    }

    /// Returns the id by which the hub knows this client's reader.
    fn id(&self) -> String {
        match self.begun.load(Ordering::Relaxed) {
            0 | 1 => self.id.clone(),
            more => format!("{}-{more}", self.id),
        }
    }

    /// Returns the hub's URL for this bridge.
    fn door(&self, hub: &str) -> String {
        match self.dialect {
            Some(dialect) => format!("{hub}/mcp?dialect={}", dialect.as_str()),
            None => format!("{hub}/mcp"),
        }
    }

    /// Reports that an agent of this bridge is used, as long as the guard lives.
    fn uses(&self, identity: &str) -> InUse {
        // The receiver is gone when the bridge ends.
        let _ = self.uses.send(Use::Began(identity.to_owned()));
        InUse { uses: self.uses.clone(), identity: identity.to_owned() }
    }

    fn wants_news(&self) -> bool {
        self.initialized.load(Ordering::Relaxed)
    }
}

/// A guard: a call of an agent is open until it is dropped.
struct InUse {
    uses: mpsc::UnboundedSender<Use>,
    identity: String,
}

impl Drop for InUse {
    fn drop(&mut self) {
        // The receiver is gone when the bridge ends.
        let _ = self.uses.send(Use::Ended(std::mem::take(&mut self.identity)));
    }
}
