//! Traces by OTLP: the road of each message is one trace.
//!
//! ```text
//! the sender's span, if it gave one
//! └── send                 from the draft to the receipt
//!     ├── append           of that, the store's part
//!     └── lease            for each reader that was handed it
//!         └── ack          its proof
//! ```
//!
//! A message without a trace gets one made from its id, so a restart of the hub does not
//! cut it in two. No body, label or address is in a span. If the collector is slow or
//! gone, spans are dropped, and messages go on.

mod export;
mod span;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use posthaste_api::ApiError;
use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{MessageId, Principal, Seq};
use posthaste_core::ports::Leased;
use posthaste_core::road::{Accepted, Road};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::TelemetryConfig;
use span::{Kind, Span};

/// Number of spans that may wait for the collector; more are dropped.
const WAITING: usize = 16_384;
/// Number of messages whose trace is remembered; that of older ones is made from their
/// id.
const REMEMBERED: usize = 65_536;

/// Follows messages, and sends their spans to the exporter.
pub(crate) struct Tracer {
    spans: mpsc::Sender<Span>,
    known: Mutex<BTreeMap<Seq, Trace>>,
}

/// The position of a message in its trace.
#[derive(Debug, Clone, Copy)]
struct Trace {
    trace: u128,
    /// The span of the send, then of the last lease.
    last: u64,
    send: u64,
    /// The sender records its part, or sent no trace.
    sampled: bool,
}

impl Trace {
    /// Makes the trace of a message from its id: always the same.
    fn of(id: MessageId) -> Self {
        let mixed = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) | 1;
        let trace = u128::from(mixed) << 64 | u128::from(id.0);
        Self { trace, last: mixed, send: mixed, sampled: true }
    }
}

/// Starts the exporter, if the configuration names a collector.
pub(crate) fn start(
    config: &TelemetryConfig,
    stopping: CancellationToken,
) -> Result<Option<(Tracer, JoinHandle<()>)>, ApiError> {
    if config.otlp.is_empty() {
        return Ok(None);
    }
    let collector = export::Collector::new(&config.otlp, &config.headers)?;
    let (spans, waiting) = mpsc::channel(WAITING);
    let exporting = tokio::spawn(export::run(collector, waiting, stopping));
    Ok(Some((Tracer { spans, known: Mutex::default() }, exporting)))
}

impl Tracer {
    fn tell(&self, span: Span) {
        // A full channel means a slow collector. Messages do not wait for it.
        let _ = self.spans.try_send(span);
    }

    fn remember(&self, seq: Seq, trace: Trace) {
        let mut known = self.known.lock();
        known.insert(seq, trace);
        if known.len() > REMEMBERED {
            known.pop_first();
        }
    }
}

impl Road for Tracer {
    fn accepted(&self, message: Accepted) {
        let Accepted { seq, id, from, parent, took, stored } = message;
        let own = Trace::of(id);
        let trace = match parent {
            Some(given) => Trace { trace: given.trace, sampled: given.sampled, ..own },
            None => own,
        };
        self.remember(seq, trace);
        if !trace.sampled {
            return;
        }
        let now = SystemTime::now();
        let span = |name, span, parent, kind, took: Duration| Span {
            trace: trace.trace,
            span,
            parent,
            name,
            kind,
            began: now - took,
            ended: now,
            seq,
            id: Some(id),
            by: from,
            proof: None,
        };
        self.tell(span("send", trace.send, parent.map(|p| p.span), Kind::Producer, took));
        self.tell(span("append", rand::random(), Some(trace.send), Kind::Internal, stored));
    }

    fn leased(&self, mail: &[Leased], by: Principal, took: Duration) {
        let now = SystemTime::now();
        for leased in mail {
            let (seq, id) = (leased.message.seq, leased.message.id);
            let known = self.known.lock().get(&seq).copied();
            let trace = known.unwrap_or_else(|| Trace::of(id));
            if !trace.sampled {
                continue;
            }
            let span = rand::random();
            self.remember(seq, Trace { last: span, ..trace });
            self.tell(Span {
                trace: trace.trace,
                span,
                parent: Some(trace.send),
                name: "lease",
                kind: Kind::Consumer,
                began: now - took,
                ended: now,
                seq,
                id: Some(id),
                by,
                proof: None,
            });
        }
    }

    fn acked(&self, what: &[Seq], by: Principal, proof: Proof, took: Duration) {
        let now = SystemTime::now();
        for seq in what {
            let Some(trace) = self.known.lock().get(seq).copied() else { continue };
            if !trace.sampled {
                continue;
            }
            self.tell(Span {
                trace: trace.trace,
                span: rand::random(),
                parent: Some(trace.last),
                name: "ack",
                kind: Kind::Consumer,
                began: now - took,
                ended: now,
                seq: *seq,
                id: None,
                by,
                proof: Some(proof),
            });
        }
    }
}
