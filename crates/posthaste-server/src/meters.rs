//! Counts requests and connections, and prints all metrics in Prometheus' text format.
//!
//! Labels are routes, status classes, error codes and reasons: each a short list
//! that no caller can lengthen. An agent or a message is never one.

mod process;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_api::error::ErrorCode;
use posthaste_core::figures::{Histogram, LOST_LOG_LINES};
use posthaste_core::{Hub, Timestamp};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use crate::App;
use crate::request::Route;
use text::MetricsText;

/// Upper bounds in microseconds. The long ones are for reads that wait for mail.
const TIMES: [u64; 14] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
];
const LATE: [u64; 8] = [1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000];
/// Interval between two measurements of the event loop's lag.
const PULSE: Duration = Duration::from_secs(1);
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "HEAD", "other"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

pub(crate) struct Meters {
    boot: u32,
    requests: AtomicU64,
    cut: AtomicU64,
    turned_away: AtomicU64,
    send: Calls,
    receive: Calls,
    /// By the pattern of the route, then by method.
    routed: Mutex<BTreeMap<String, [Calls; METHODS.len()]>>,
    refusals: [AtomicU64; ErrorCode::ALL.len()],
    late: Histogram<8>,
    pub(crate) connections: TaskTracker,
}

/// The calls of one route.
struct Calls {
    classes: [AtomicU64; CLASSES.len()],
    times: Histogram<14>,
}

impl Default for Calls {
    fn default() -> Self {
        Self { classes: Default::default(), times: Histogram::new(&TIMES) }
    }
}

impl Calls {
    fn count(&self, status: u16, took: Duration) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.times.count_time(took);
    }
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            boot: rand::random(),
            requests: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            send: Calls::default(),
            receive: Calls::default(),
            routed: Mutex::default(),
            refusals: std::array::from_fn(|_| AtomicU64::new(0)),
            late: Histogram::new(&LATE),
            connections: TaskTracker::new(),
        }
    }
}

impl Meters {
    /// Returns the number of the next request.
    pub(crate) fn next_request(&self) -> (u32, u64) {
        (self.boot, self.requests.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn answered(
        &self,
        route: Route,
        method: &str,
        pattern: &str,
        status: u16,
        took: Duration,
    ) {
        match route {
            Route::Send => self.send.count(status, took),
            Route::Receive => self.receive.count(status, took),
            Route::Mcp | Route::Routed => {
                let at = METHODS.iter().position(|m| *m == method);
                let at = at.unwrap_or(METHODS.len() - 1);
                let mut routed = self.routed.lock();
                match routed.get(pattern) {
                    Some(calls) => calls[at].count(status, took),
                    None => {
                        routed.entry(pattern.to_owned()).or_default()[at].count(status, took);
                    }
                }
            }
        }
    }

    /// Counts a request whose client closed the connection before the answer.
    pub(crate) fn cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was refused for lack of room.
    pub(crate) fn turned_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, code: ErrorCode) {
        if let Some(at) = ErrorCode::ALL.iter().position(|known| *known == code) {
            self.refusals[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Measures the lag of the event loop, again and again.
    pub(crate) async fn feel_the_pulse(&self) {
        loop {
            let due = Instant::now() + PULSE;
            sleep_until(due).await;
            self.late.count_time(due.elapsed());
        }
    }

    /// Returns all metrics, as Prometheus reads them.
    pub(crate) async fn page(&self, app: &App) -> String {
        let hub = &app.hub;
        let mut page = MetricsText::default();
        page.gauge("posthaste_build_info", "Which version this is.");
        page.value(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        page.gauge("posthaste_healthy", "Whether the last write succeeded.");
        page.value(&[], u8::from(hub.is_healthy()));
        self.mail(&mut page, hub).await;
        self.requests(&mut page);

        page.gauge("posthaste_connections", "Open connections.");
        page.value(&[], self.connections.len());
        page.gauge("posthaste_connections_most", "As many may be open.");
        page.value(&[], app.config.connections);
        page.counter("posthaste_connections_refused_total", "Connections without room.");
        page.value(&[], self.turned_away.load(Ordering::Relaxed));
        page.gauge("posthaste_request_body_bytes", "Bodies of requests in flight.");
        page.value(&[], app.bodies.held());
        page.gauge("posthaste_waiting_readers", "Calls that wait for mail.");
        page.value(&[], hub.waiting());
        page.gauge("posthaste_tasks", "Tasks of the event loop that are alive.");
        page.value(&[], Handle::current().metrics().num_alive_tasks());
        page.histogram("posthaste_event_loop_late_seconds", "How late the event loop is.");
        page.times(&[], &self.late.spread());
        page.counter("posthaste_log_lines_lost_total", "Lines of the log that were not written.");
        page.value(&[], LOST_LOG_LINES.load(Ordering::Relaxed));
        process::tell(&mut page);
        page.text()
    }

    /// Writes the metrics of mail. If the store cannot answer, they are left out.
    async fn mail(&self, page: &mut MetricsText, hub: &Hub) {
        let figures = match hub.figures().await {
            Ok(figures) => figures,
            Err(error) => return tracing::warn!(%error, "the store tells no figures"),
        };
        page.counter("posthaste_messages_accepted_total", "Messages accepted.");
        page.value(&[], figures.tally.accepted);
        page.counter("posthaste_deliveries_total", "Moves of deliveries.");
        page.value(&[("outcome", "leased")], figures.tally.leased);
        page.value(&[("outcome", "acked")], figures.tally.acked);
        page.value(&[("outcome", "returned")], figures.tally.returned);
        page.counter("posthaste_deliveries_dead_total", "Deliveries that died, by reason.");
        for (reason, count) in figures.tally.dead() {
            page.value(&[("reason", reason)], count);
        }
        page.gauge("posthaste_open_deliveries", "Deliveries that nobody has proved yet.");
        page.value(&[], figures.open);
        page.gauge("posthaste_oldest_unread_age_seconds", "Age of the oldest of them.");
        let age = |at: Timestamp| hub.now().since(at).as_secs_f64();
        page.value(&[], figures.oldest.map_or(0.0, age));

        let (running, waiting) = hub.workers();
        page.gauge("posthaste_workers", "Workers that run, and that wait in line.");
        page.value(&[("status", "running")], running);
        page.value(&[("status", "starting")], waiting);
        page.counter("posthaste_workers_ended_total", "Workers that ended, by status.");
        for (status, count) in figures.tally.ends() {
            page.value(&[("status", status)], count);
        }

        page.histogram("posthaste_store_group_size", "Writes that shared one transaction.");
        page.counts(&[], &figures.groups);
        page.histogram("posthaste_store_commit_seconds", "How long the disk took to commit.");
        page.times(&[], &figures.commits);
        if let Some(pages) = figures.log_pages {
            page.gauge("posthaste_store_wal_pages", "Pages in the write-ahead log.");
            page.value(&[], pages);
        }
    }

    fn requests(&self, page: &mut MetricsText) {
        let routed = self.routed.lock();
        let hot =
            [("POST", crate::rest::SEND, &self.send), ("GET", crate::rest::RECEIVE, &self.receive)];
        let others = routed.iter().flat_map(|(route, by_method)| {
            METHODS.iter().zip(by_method).map(|(method, calls)| (*method, route.as_str(), calls))
        });
        let all: Vec<_> = hot.into_iter().chain(others).collect();

        page.counter("posthaste_http_requests_total", "Requests, by route and class of status.");
        for (method, route, calls) in &all {
            for (class, count) in CLASSES.iter().zip(&calls.classes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = [("method", *method), ("route", *route), ("status", *class)];
                    page.value(&labels, count);
                }
            }
        }
        page.histogram("posthaste_http_request_seconds", "How long requests took.");
        for (method, route, calls) in &all {
            let spread = calls.times.spread();
            if spread.total > 0 {
                page.times(&[("method", *method), ("route", *route)], &spread);
            }
        }
        page.counter("posthaste_http_requests_cut_total", "Requests whose client went away.");
        page.value(&[], self.cut.load(Ordering::Relaxed));
        page.counter("posthaste_refusals_total", "Errors, by code.");
        for (code, count) in ErrorCode::ALL.iter().zip(&self.refusals) {
            let code = serde_json::to_value(code).unwrap_or_default();
            let count = count.load(Ordering::Relaxed);
            page.value(&[("code", code.as_str().unwrap_or_default())], count);
        }
    }
}
