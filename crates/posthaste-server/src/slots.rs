//! Limits the number of connections.
//!
//! A hub that is full says so at once and does not leave clients waiting. Beyond
//! `server.connections` it lets a few more connections in, on which it serves only the
//! operator and requests for its health: a flood must not shut out the operator, who can
//! end it. There a head must come within `server.spare_head_timeout`, because a few silent
//! connections would hold all spare slots. A client that comes when no slot is left, or
//! when the process may open no more files, gets a short answer, and its connection is
//! closed.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method};
use futures_util::FutureExt;
use posthaste_api::error::{ApiError, ErrorBody, ErrorCode};
use posthaste_core::messaging::message::Principal;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::App;
use crate::auth::{self, Opens};
use crate::config::ServerConfig;
use crate::meters::Meters;

/// A refusal reads up to this many bytes that have come by then, so that the close does
/// not destroy the answer.
const UNREAD: usize = 16 * 1024;

/// Time without a lack of room after which an episode is over.
const CALM: Duration = Duration::from_secs(10);

/// A slot for one connection, given back on drop.
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
    /// True for a slot beyond the common ones.
    pub(crate) spare: bool,
}

/// The slots of all connections.
pub(crate) struct Slots {
    common: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    most: usize,
    /// A descriptor that is closed when none is left, so that one more connection can be
    /// accepted and refused.
    reserve: Option<OwnedFd>,
    full: Episode,
    no_files: Episode,
}

/// A time in which room is missing. Its begin and its end are logged, and not each
/// connection that comes and goes meanwhile.
#[derive(Default)]
struct Episode {
    /// The time when room was last missing.
    last: Option<Instant>,
    refused: u64,
}

impl Slots {
    pub(crate) fn new(config: &ServerConfig, listener: &TcpListener) -> Self {
        Self {
            common: Arc::new(Semaphore::new(config.connections)),
            spare: Arc::new(Semaphore::new(config.spare_connections)),
            most: config.connections,
            reserve: listener.as_fd().try_clone_to_owned().ok(),
            full: Episode::default(),
            no_files: Episode::default(),
        }
    }

    /// Returns a slot for an accepted connection; turns the connection away if there is
    /// none.
    pub(crate) fn seat(&mut self, socket: TcpStream, meters: &Meters) -> Option<(TcpStream, Slot)> {
        let now = Instant::now();
        if let Some(refused) = self.no_files.ends(now) {
            tracing::info!(refused, "there are descriptors again");
        }
        if let Ok(permit) = Arc::clone(&self.common).try_acquire_owned() {
            if let Some(refused) = self.full.ends(now) {
                tracing::info!(refused, "there is room for connections again");
            }
            return Some((socket, Slot { _permit: permit, spare: false }));
        }
        if self.full.begins(now) {
            let most = self.most;
            tracing::warn!(most, "all connections are in use (server.connections)");
        }
        if let Ok(permit) = Arc::clone(&self.spare).try_acquire_owned() {
            return Some((socket, Slot { _permit: permit, spare: true }));
        }
        self.full.refused += 1;
        meters.turned_away();
        turn_away(socket, &full());
        None
    }

    /// Handles an accept that failed because the process, or the system, has no descriptor
    /// left: gives up the reserve to accept the next connection and refuse it. Returns
    /// `false` if there is nothing to do but wait.
    pub(crate) fn without_descriptors(&mut self, listener: &TcpListener, meters: &Meters) -> bool {
        if self.no_files.begins(Instant::now()) {
            tracing::error!(
                "no descriptor is left for a connection: raise the limit of open files, or \
                 lower server.connections; until then connections are refused"
            );
        }
        let Some(reserve) = self.reserve.take() else {
            self.reserve = listener.as_fd().try_clone_to_owned().ok();
            return self.reserve.is_some();
        };
        drop(reserve);
        let accepted = listener.accept().now_or_never();
        let refused = match accepted {
            Some(Ok((socket, _))) => {
                self.no_files.refused += 1;
                meters.turned_away();
                turn_away(socket, &no_files());
                true
            }
            _ => false,
        };
        self.reserve = listener.as_fd().try_clone_to_owned().ok();
        refused
    }
}

impl Episode {
    /// Notes that room is missing. Returns whether an episode begins.
    fn begins(&mut self, now: Instant) -> bool {
        self.last.replace(now).is_none()
    }

    /// Notes that there is room. Returns the number of refusals if an episode has ended.
    fn ends(&mut self, now: Instant) -> Option<u64> {
        self.last.take_if(|last| now.duration_since(*last) >= CALM)?;
        Some(std::mem::take(&mut self.refused))
    }
}

pub(crate) fn no_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Returns whether this request is served on a spare slot.
pub(crate) fn is_for_all_times(
    app: &App,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> bool {
    let asks = *method == Method::GET && ["/health", "/ready", "/metrics"].contains(&path);
    let operator = || auth::opens(app, headers).ok().flatten();
    asks || operator() == Some(Opens::Mail(Principal::Operator))
}

pub(crate) fn full() -> ApiError {
    ApiError::new(ErrorCode::Unavailable, "all connections of the hub are in use")
        .hint("try again in a second, close what is idle, or raise server.connections")
}

fn no_files() -> ApiError {
    ApiError::new(ErrorCode::Unavailable, "the hub has no descriptor left for a connection")
        .hint("try again in a second, or raise the limit of open files")
}

/// Refuses a connection without a task, a buffer or a wait: the answer fits into the
/// socket.
fn turn_away(socket: TcpStream, why: &ApiError) {
    let Ok(mut socket) = socket.into_std() else { return };
    let json = serde_json::to_string(&ErrorBody { error: why.clone() }).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n\
         Retry-After: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{json}",
        json.len()
    );
    if socket.write_all(answer.as_bytes()).is_err() {
        return;
    }
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.read(&mut [0; UNREAD]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_refusals_is_told_once_however_long_it_lasts() {
        let (mut episode, start) = (Episode::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(episode.ends(start), None, "there was none");
        for second in 0..100 {
            assert_eq!(episode.begins(after(second)), second == 0);
            episode.refused += 1;
            assert_eq!(episode.ends(after(second)), None, "one slot is no room");
        }
        assert_eq!(episode.ends(after(99 + 9)), None);
        assert_eq!(episode.ends(after(99 + 10)), Some(100));
        assert_eq!(episode.ends(after(200)), None, "it is over");
        assert!(episode.begins(after(201)), "and this is another");
    }
}
