//! One MCP server, from its first use on: started, minded, started again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use humantime_serde::re::humantime::format_duration;
use parking_lot::Mutex;
use rmcp::model::Tool;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use super::connection::{Connection, Over, Stderr};
use super::words::text_of;
use super::{Common, Launch};

/// A server that ran so long has no bad start behind it.
const STEADY: Duration = Duration::from_secs(60);
/// The pause before a server is started for the third time; doubled each further time.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A call waits so long for the end of a pause, and is refused if it takes longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of doublings after which the pause is the longest one anyway.
const DOUBLINGS: u32 = 16;

type Started = Result<Arc<Connection>, String>;
type Starting = Shared<BoxFuture<'static, Started>>;

/// A server that assistants share.
pub(super) struct Server {
    common: Arc<Common>,
    launch: Launch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    starting: Option<Starting>,
    /// The tools that it listed last.
    tools: Option<Arc<Vec<Tool>>>,
    /// How often it failed in a row.
    failures: u32,
    not_before: Option<Instant>,
    /// The reason why it failed last, as the rest of a sentence.
    why: Option<String>,
}

impl Server {
    pub(super) fn new(common: Arc<Common>, launch: Launch) -> Arc<Self> {
        Arc::new(Self { common, launch, state: Mutex::default() })
    }

    /// Begins to start the server in the background, if it does not run and may be started
    /// now. Returns its start; the error says when it may be started again.
    pub(super) fn begin(self: &Arc<Self>) -> Result<Starting, Duration> {
        let mut state = self.state.lock();
        if let Some(starting) = &state.starting {
            match starting.peek() {
                None => return Ok(starting.clone()),
                Some(Ok(connection)) if connection.is_open() => return Ok(starting.clone()),
                Some(_) => {}
            }
        }
        let left = state.not_before.map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Err(left);
        }
        let server = Arc::clone(self);
        // A task of its own: the start goes on when its caller is cancelled.
        let task = self.common.tasks.spawn(async move { server.start().await });
        let starting = async move { task.await.unwrap_or_else(|error| Err(error.to_string())) };
        let starting = starting.boxed().shared();
        state.starting = Some(starting.clone());
        Ok(starting)
    }

    async fn start(self: &Arc<Self>) -> Started {
        let (stderr, limit) = (Stderr::default(), self.common.limits.start);
        let open = Connection::open(&self.common, &self.launch, stderr.clone());
        let opened = tokio::select! {
            opened = timeout(limit, open) => opened.unwrap_or_else(|_| {
                let limit = format_duration(limit);
                Err(format!("did not answer within {limit} (runner.server_start)") + &stderr.told())
            }),
            () = self.common.closing.cancelled() => Err("is not started: the hub stops".to_owned()),
        };
        let (connection, minded, tools) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.failed(why.clone(), Duration::ZERO);
                return Err(why);
            }
        };
        {
            let mut state = self.state.lock();
            state.tools = Some(Arc::new(tools));
            state.why = None;
        }
        let (server, minding) = (Arc::clone(self), Arc::clone(&connection));
        self.common.tasks.spawn(async move {
            let took = |tools| server.state.lock().tools = Some(Arc::new(tools));
            let common = &server.common;
            let over = minding.mind(minded, common.limits.idle, &common.closing, took).await;
            if matches!(over, Over::Died) {
                server.failed(minding.why(), minding.began.elapsed());
            }
        });
        Ok(connection)
    }

    /// Counts an end that nobody asked for, after the server ran so long.
    fn failed(&self, why: String, lived: Duration) {
        let mut state = self.state.lock();
        state.failures = if lived >= STEADY { 1 } else { state.failures.saturating_add(1) };
        state.not_before = pause(state.failures).map(|pause| Instant::now() + pause);
        state.why = Some(why);
    }

    /// Returns the tools that the server listed last. The first time waits for its start.
    pub(super) async fn tools(self: &Arc<Self>) -> Option<Arc<Vec<Tool>>> {
        let (known, why) = {
            let state = self.state.lock();
            (state.tools.clone(), state.why.clone())
        };
        let starting = self.begin();
        if known.is_none()
            && why.is_none()
            && let Ok(starting) = starting
        {
            drop(starting.await);
        }
        self.state.lock().tools.clone()
    }

    /// Returns the reason why the server does not run, as the rest of a sentence.
    pub(super) fn why(&self) -> Option<String> {
        self.state.lock().why.clone()
    }

    /// Calls a tool of the server, and starts it if it does not run. The error is the rest
    /// of a sentence.
    pub(super) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Result<String, String>, String> {
        let limit = self.common.limits.call;
        // A connection that is about to close is not used: the next one is.
        for _ in 0..3 {
            let starting = match self.begin() {
                Ok(starting) => starting,
                Err(left) if left <= PATIENCE => {
                    sleep(left).await;
                    continue;
                }
                Err(left) => {
                    let why = self.why().unwrap_or_else(|| "failed".to_owned());
                    let left = format_duration(Duration::from_secs(left.as_secs().max(1)));
                    return Err(format!("{why}. It is started again in {left} at the earliest"));
                }
            };
            let connection = starting.await?;
            let Some(_in_use) = connection.enter() else {
                // Its end is noted in a moment.
                tokio::task::yield_now().await;
                continue;
            };
            let answer = timeout(limit, connection.call(tool, arguments)).await;
            let result = answer.map_err(|_| {
                let limit = format_duration(limit);
                format!("did not answer the call within {limit} (runner.tool_timeout)")
            })??;
            let text = text_of(&result, self.common.limits.shown);
            let is_error = result.is_error == Some(true);
            return Ok(if is_error { Err(connection.secrets.hide(&text)) } else { Ok(text) });
        }
        Err("ended before it took the call: call again".to_owned())
    }
}

/// Returns the time before the next start; none after the first failure.
fn pause(failures: u32) -> Option<Duration> {
    let doubled = failures.checked_sub(2)?.min(DOUBLINGS);
    Some(PAUSE.saturating_mul(1 << doubled).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_again_and_again_is_started_more_and_more_rarely() {
        assert_eq!((pause(0), pause(1)), (None, None), "the first failure costs nothing");
        let pauses: Vec<u64> = (2..14).filter_map(pause).map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses[..4], [1, 2, 4, 8]);
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&300));
        assert_eq!(pause(u32::MAX), Some(LONGEST_PAUSE));
    }
}
