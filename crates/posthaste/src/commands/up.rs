//! `posthaste up`: runs the hub, from its port to its shutdown.
//!
//! The order matters. A folder whose hub runs already needs no second one. Then comes the
//! port, because a second `up` should find the first hub and not its lock. Then the
//! store, which locks the folder; whatever fails from then on, the store is closed in
//! order. The address is announced last, when a caller that reads it gets an answer.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use posthaste_agents::keeper::Manners;
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::SystemClock;
use posthaste_server::ServerConfig;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cli::{Global, StartArgs, UpArgs};
use crate::config::{self, Config};
use crate::failure::{Failure, internal, invalid};
use crate::identity::{DataFolder, Running};
use crate::output::Output;
use crate::profiles::Watch;
use crate::{clock, listening, log, wiring};
use greeting::Greeting;

mod detach;
mod greeting;

/// The time that the process on the port may take to identify itself.
const GREETING: Duration = Duration::from_secs(3);
/// The time that a port may take until it is free. A hub that was killed while it started
/// a program has left the socket to that process until its exec.
const FREED: Duration = Duration::from_secs(2);
/// The hint after a shutdown that did not end in order.
const UNCLEAN: &str = "nothing is lost, and the next start marks what is open as redelivered; \
                       `posthaste doctor` says what is wrong";
/// The time that a failed hub may take to close, after its open requests.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The time between two attempts.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) async fn run(
    args: StartArgs,
    global: &Global,
    folder: &DataFolder,
    output: &mut Output,
) -> Result<(), Failure> {
    let StartArgs { detach, up: args } = args;
    let mut config = Config::load(global, &args)?;
    if detach {
        return detach::run(&args, config.server.listen, global, folder, output).await;
    }
    log::to_stderr(&config.log)?;
    let manners = prepare_process();
    fit_connections(&mut config.server);

    let Some(listener) = bind(config.server.listen, &args, folder, output).await? else {
        return Ok(());
    };
    let listen = listener.local_addr().map_err(|e| internal(e.to_string()))?;
    folder.make()?;
    let _lock = wiring::lock(folder, args.ephemeral)?;
    let time = SystemClock::new();
    let hub = wiring::hub(&config, folder, args.ephemeral, time).await?;
    let profiles = folder.path().join("profiles");
    let watch = Watch::start(hub.clone(), profiles, &config.profiles).await;
    let stopped = CancellationToken::new();
    let file = config::file(global)?;
    let running = Running { url: reachable(listen), pid: std::process::id(), config: file };
    let prepare = || -> Result<_, ApiError> {
        let keys = wiring::keys(folder)?;
        let traces = wiring::traces(&config, &hub, stopped.clone())?;
        let signals = Signals::new().map_err(|e| internal(format!("no signals: {e}")))?;
        let launcher = wiring::launcher(&config, folder, &running.url, manners)?;
        folder.announce(&running)?;
        Ok((keys, traces, signals, launcher))
    };
    let (keys, traces, mut signals, launcher) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            // No message was handed out: closes in order, so that the next start knows.
            watch.end().await;
            let _ = hub.close().await;
            return Err(error.into());
        }
    };
    let greeting = Greeting { hub: &running, folder, ephemeral: args.ephemeral, log: None };
    // A hub runs also if nobody reads its stdout.
    let _ = greeting.say(output).and_then(|()| output.flush());

    let shutdown = CancellationToken::new();
    let last_words = config.server.shutdown_grace + LAST_WORDS;
    let serving = posthaste_server::serve(
        listener,
        hub.clone(),
        config.server,
        config.compat,
        config.mcp,
        keys,
        shutdown.clone(),
    );
    let work = async {
        // The doors are open while the workers of the last run are found again.
        let ((), served) = tokio::join!(hub.employ(launcher, config.agents), serving);
        // New callers should not find this address.
        folder.withdraw(&running);
        hub.dismiss().await;
        watch.end().await;
        let closed = hub.close().await;
        // No message moves any more: the last spans can be sent.
        stopped.cancel();
        if let Some(traces) = traces {
            let _ = traces.await;
        }
        (served, closed)
    };
    let stop = Stop { shutdown: &shutdown, failed: hub.failed(), last_words };
    let ((served, closed), interrupted) = tokio::select! {
        done = signals.stop_in_order(work, stop) => done?,
        never = clock::tell_when_set(time) => match never {},
    };
    served.map_err(|e| internal(format!("the hub cannot go on: {e}")))?;
    closed.map_err(|e| internal(format!("the stop was not clean: {e}")).hint(UNCLEAN))?;
    // A `kill` ends with success; Ctrl-C is reported as in every command.
    if interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Returns the listener, or `None` if the hub of this folder runs already.
async fn bind(
    listen: SocketAddr,
    args: &UpArgs,
    folder: &DataFolder,
    output: &mut Output,
) -> Result<Option<TcpListener>, Failure> {
    if let Some(own) = folder.running()
        && let Some(hub) = wanted(&own, listen, args).await?
    {
        already_running(&hub, output)?;
        return Ok(None);
    }
    let until = Instant::now() + FREED;
    loop {
        let error = match open(listen) {
            Ok(listener) => return Ok(Some(listener)),
            Err(e) => e,
        };
        if error.kind() != ErrorKind::AddrInUse {
            let told = invalid(format!("cannot listen on {listen}: {error}"));
            return Err(told.hint("choose another address with --listen").into());
        }
        let hub = greeted(&reachable(listen)).await?;
        let who = match (hub, listening::holder(listen)) {
            (Some(hub), _) if is_of(folder, &hub.running) => {
                if hub.is_wanted(listen, args) {
                    already_running(&hub.running, output)?;
                    return Ok(None);
                }
                wiring::must_be_free(folder)?;
                // The process has just ended.
                continue;
            }
            (Some(hub), _) => {
                let (folder, pid) = (folder.path().display(), hub.running.pid);
                format!("a hub with another data folder than {folder} (pid {pid})")
            }
            (None, Some(holder)) => {
                format!("{} (pid {}), which is not a hub", holder.name, holder.pid)
            }
            // No process holds the port any more.
            (None, None) if Instant::now() < until => {
                sleep(AGAIN).await;
                continue;
            }
            (None, None) => "an unknown process, which is not a hub".to_owned(),
        };
        let told = format!("{listen} is taken by {who}");
        if args.any_port {
            tracing::info!("{told}; the hub takes another port");
            let any = SocketAddr::new(listen.ip(), 0);
            let listener = open(any).map_err(|e| internal(format!("no free port: {e}")))?;
            return Ok(Some(listener));
        }
        let hint = "choose another port with --listen, for example --listen 127.0.0.1:9890, or \
                    take any free one with --any-port";
        return Err(ApiError::new(ErrorCode::Unavailable, told).hint(hint).into());
    }
}

/// Returns the hub of the folder, if it answers and is the one that was asked for.
async fn wanted(
    own: &Running,
    listen: SocketAddr,
    args: &UpArgs,
) -> Result<Option<Running>, Failure> {
    let hub = greeted(&own.url).await?.filter(|hub| hub.is_wanted(listen, args));
    Ok(hub.map(|hub| hub.running))
}

/// A hub that has answered.
struct Greeted {
    running: Running,
    durable: bool,
}

impl Greeted {
    /// Returns whether this hub serves the caller; any hub does if no port and no kind is
    /// named.
    fn is_wanted(&self, listen: SocketAddr, args: &UpArgs) -> bool {
        let is_there = args.listen.is_none() || self.running.url == reachable(listen);
        is_there && !(args.ephemeral && self.durable)
    }
}

/// Returns the hub that answers at this URL, if one does.
async fn greeted(url: &str) -> Result<Option<Greeted>, Failure> {
    let client = Client::new(url)?;
    let health = match timeout(GREETING, client.health()).await {
        Ok(Ok(health)) if health.service == "posthaste" => health,
        _ => return Ok(None),
    };
    let running = Running { url: url.to_owned(), pid: health.pid, config: None };
    Ok(Some(Greeted { running, durable: health.durable }))
}

/// Returns whether this hub has this folder. A hub in a container has another pid inside
/// it.
fn is_of(folder: &DataFolder, hub: &Running) -> bool {
    folder.running().is_some_and(|own| own.url == hub.url || own.pid == hub.pid)
}

/// The kernel limits the queue to its own maximum (net.core.somaxconn): a burst of
/// clients waits there instead of being dropped.
const QUEUE: u32 = i32::MAX as u32;

fn open(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = match listen {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of an earlier hub do not block the port.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(QUEUE)
}

/// Reports that the hub of this folder runs already.
fn already_running(hub: &Running, output: &mut Output) -> Result<(), Failure> {
    let Running { url, pid, .. } = hub;
    if output.json() {
        return output.answer(&json!({
            "status": "already_running", "url": url, "pid": pid, "same_folder": true,
        }));
    }
    output.say(&format!("a hub is already running at {url} (pid {pid})"))
}

/// Returns the URL at which this machine reaches the hub that listens there.
pub(super) fn reachable(listen: SocketAddr) -> String {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

/// Makes new files private to the owner, and raises the limit of open files. Returns the
/// earlier settings, for the processes that the hub starts.
fn prepare_process() -> Manners {
    let mask = umask(Mode::from_raw_mode(0o077));
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit { current: now.maximum, ..now };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    Manners { umask: mask.as_raw_mode(), open_files: now.current }
}

/// Limits the connections to the number of open files.
fn fit_connections(server: &mut ServerConfig) {
    let files = getrlimit(Resource::Nofile).current;
    let most = server.connections_within(files);
    if most < server.connections {
        let (wanted, files) = (server.connections, files.unwrap_or_default());
        tracing::info!(
            most,
            wanted,
            files,
            "fewer connections than server.connections says: the limit of open files is low"
        );
    }
    server.connections = most;
}

/// The conditions that end the work of a hub.
struct Stop<'a, F> {
    shutdown: &'a CancellationToken,
    /// Completes when the hub cannot go on.
    failed: F,
    /// The time that the hub may take to end after a failure.
    last_words: Duration,
}

/// Ctrl-C and `kill`: the first signal starts a shutdown, the second ends the hub at
/// once.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Caught and ignored: a file that may not grow fails a write and does not end the
    /// hub.
    _file_size: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Works until a signal comes, or until the hub fails. Waiting requests are answered
    /// first then. Returns also whether the signal was Ctrl-C.
    async fn stop_in_order<T>(
        &mut self,
        work: impl Future<Output = T>,
        stop: Stop<'_, impl Future<Output = Arc<str>>>,
    ) -> Result<(T, bool), ApiError> {
        tokio::pin!(work);
        let mut interrupted = false;
        let failed = tokio::select! {
            done = &mut work => return Ok((done, false)),
            number = self.next() => {
                tracing::info!("stopping; a second signal stops at once");
                interrupted = number == SignalKind::interrupt().as_raw_value();
                None
            }
            why = stop.failed => Some(internal(format!("the hub cannot go on: {why}"))),
        };
        stop.shutdown.cancel();
        let patience = async {
            match failed {
                Some(_) => sleep(stop.last_words).await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            done = work => Some(done),
            () = patience => None,
            number = self.next() => {
                tracing::warn!("stopped at once; the next start marks what may have been seen");
                std::process::exit(128 + number)
            }
        };
        match (failed, done) {
            (None, Some(done)) => Ok((done, interrupted)),
            (failed, _) => {
                Err(failed.unwrap_or_else(|| internal("it does not stop")).hint(UNCLEAN))
            }
        }
    }

    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_on_all_addresses_is_reached_on_this_machine_by_loopback() {
        let reach = |text: &str| reachable(text.parse().expect("an address"));
        assert_eq!(reach("0.0.0.0:9889"), "http://127.0.0.1:9889");
        assert_eq!(reach("[::]:9889"), "http://[::1]:9889");
        assert_eq!(reach("192.168.1.2:80"), "http://192.168.1.2:80");
    }
}
