//! `/v1/inbox`: waiting for mail, and proving that it arrived.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Request, Response};
use axum::routing::any;
use futures_util::FutureExt;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::inbox::{
    self as wire, Acked, Already, Entry, Inbox, InboxQuery, Missing, Returned, SettleRequest,
};
use posthaste_api::messages::MessageRef;
use posthaste_core::messaging::message::{MessageRef as Which, Principal, Seq};
use posthaste_core::messaging::proof::Door;
use posthaste_core::messaging::receive::{Ask, Batch, Budget, WaitFor};
use posthaste_core::ports::Filter;
use posthaste_core::{Hub, Limits};

use crate::App;
use crate::auth::{self, Caller};
use crate::extract::{Json, query};
use crate::failure::{Failure, invalid, takes_only, unwritable};
use crate::routes::Routes;
use crate::unread::Inlet;
use crate::words::params::{parse_receipt, print_receipt, seconds, wait_for};
use crate::written::{Outgoing, Reply, watched};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::ACK, ack)
        .on(&wire::NACK, nack)
        // A read goes around the router.
        .route(wire::RECEIVE.path, any(async || takes_only(wire::RECEIVE.path, "GET")))
}

const TIMEOUT: f64 = 60.0;

/// `GET /v1/inbox`. Not async: the future of a waiting call would hold everything twice.
pub(crate) fn receive(
    hub: &Arc<Hub>,
    ask: Ask,
    outgoing: Arc<Outgoing>,
) -> impl Future<Output = Result<Response<Reply>, Failure>> + Send + use<> {
    hub.receive(ask).map(|received| answer(received?, outgoing))
}

fn answer(batch: Batch, outgoing: Arc<Outgoing>) -> Result<Response<Reply>, Failure> {
    let json = inbox(&batch).to_json().map_err(unwritable)?;
    Ok(watched(json, batch.handed, outgoing))
}

/// Reads the request of a reader.
pub(crate) fn asked(app: &App, request: &Request<Inlet>) -> Result<Ask, Failure> {
    let reader = auth::caller(app, request.headers())?;
    ask(&app.hub, reader, &query(request.uri())?)
}

fn ask(hub: &Hub, reader: Principal, query: &InboxQuery) -> Result<Ask, Failure> {
    let limits = hub.limits();
    let wait_for = wait_for(query.wait_for.as_deref())?;
    let auto_ack = match query.ack.as_deref() {
        None | Some("receipt") => false,
        Some("auto") => true,
        Some(_) => return Err(invalid("ack", "it is `receipt` or `auto`")),
    };
    let budget = match query.max_chars {
        None => Budget::Whole,
        Some(0) => return Err(invalid("max_chars", "it is at least 1")),
        Some(chars) => Budget::Chars(chars),
    };
    Ok(Ask {
        door: Door::Rest,
        call: None,
        timeout: seconds("timeout", query.timeout, TIMEOUT, limits.wait)?,
        window: match query.batch_window {
            None => hub.batch_window(reader),
            given => seconds("batch_window", given, 0.0, limits.batch_window)?,
        },
        wait_for,
        filter: Filter {
            from: query.from.as_deref().map_or(Ok(Arc::default()), |from| listed(limits, from))?,
            label: query.label.clone(),
            thread: query.thread_id.as_deref().map(str::parse).transpose()?,
            or_ends_wait: wait_for != WaitFor::Any,
            ..Filter::default()
        },
        budget,
        auto_ack,
        begin: query.begin.unwrap_or(false),
        receipt: query.receipt.as_deref().and_then(parse_receipt),
        ..Ask::now(reader)
    })
}

/// Reads a list of names. It is limited, because every queued message is compared with
/// each name.
fn listed(limits: &Limits, names: &str) -> Result<Arc<[String]>, Failure> {
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let most = limits.recipients;
    match names.clone().nth(most) {
        None => Ok(names.map(str::to_owned).collect()),
        Some(_) => Err(invalid("from", format!("at most {most} names (limits.recipients)"))),
    }
}

fn inbox(batch: &Batch) -> Inbox<'_> {
    Inbox {
        messages: batch.mail.iter().map(Entry::from).collect(),
        total: batch.mail.len(),
        status: Cow::Borrowed(batch.status.as_str()),
        waited_s: (batch.waited.as_secs_f64() * 1000.0).round() / 1000.0,
        missing: batch
            .missing
            .iter()
            .map(|m| Missing {
                instance: m.instance.map(|id| id.to_string()),
                label: m.label.clone(),
                status: m.status.to_owned(),
            })
            .collect(),
        already: batch
            .already
            .iter()
            .map(|a| Already { seq: a.id.0, id: a.id.0, label: a.label.clone() })
            .collect(),
        remaining: batch.remaining,
        settled: batch.settled.iter().map(|s| s.0).collect(),
        receipt: (!batch.mail.is_empty()).then(|| print_receipt(batch.receipt)),
    }
}

/// The mail that `ack` and `nack` name.
enum Named {
    Receipt(Option<u64>),
    Messages(Vec<Seq>),
}

async fn named(app: &App, by: Principal, request: SettleRequest) -> Result<Named, Failure> {
    match (request.receipt, request.ids) {
        (Some(receipt), None) => Ok(Named::Receipt(parse_receipt(&receipt))),
        (None, Some(ids)) => {
            // No answer held more, so no reader has more to settle at a time.
            let most = app.hub.limits().answer_messages;
            if ids.len() > most {
                let why = format!("at most {most} at a time (limits.answer_messages)");
                return Err(invalid("ids", why));
            }
            let mut seqs = Vec::with_capacity(ids.len());
            for id in &ids {
                seqs.push(seq(app, by, id).await?);
            }
            Ok(Named::Messages(seqs))
        }
        _ => Err(invalid("receipt", "give either `receipt` or `ids`")),
    }
}

async fn seq(app: &App, by: Principal, id: &MessageRef) -> Result<Seq, Failure> {
    match id.try_into()? {
        Which::Seq(seq) => Ok(seq),
        which @ Which::Id(_) => {
            let seq = app.hub.settleable(by, which).await?;
            seq.ok_or_else(|| crate::failure::not_found("message"))
        }
    }
}

/// `POST /v1/inbox/ack`
async fn ack(
    State(app): State<App>,
    Caller(by): Caller,
    Json(request): Json<SettleRequest>,
) -> Result<Json<Acked>, Failure> {
    let acked = match named(&app, by, request).await? {
        Named::Receipt(None) => return Ok(Json(Acked { acked: 0 })),
        Named::Receipt(Some(receipt)) => app.hub.ack_receipt(by, receipt).await?,
        Named::Messages(seqs) => app.hub.ack_messages(by, seqs).await?,
    };
    if acked.lost.is_empty() {
        return Ok(Json(Acked { acked: acked.acked }));
    }
    Err(lost(&acked.lost, acked.acked))
}

/// `POST /v1/inbox/nack`
async fn nack(
    State(app): State<App>,
    Caller(by): Caller,
    Json(request): Json<SettleRequest>,
) -> Result<Json<Returned>, Failure> {
    let nacked = match named(&app, by, request).await? {
        Named::Receipt(None) => return Ok(Json(Returned { returned: 0, refused: 0 })),
        Named::Receipt(Some(receipt)) => app.hub.nack_receipt(by, receipt).await?,
        Named::Messages(seqs) => app.hub.nack_messages(by, seqs).await?,
    };
    if nacked.lost.is_empty() {
        return Ok(Json(Returned { returned: nacked.returned, refused: nacked.refused }));
    }
    Err(lost(&nacked.lost, nacked.returned + nacked.refused))
}

fn lost(seqs: &[Seq], settled: usize) -> Failure {
    // A settled delivery of a receipt has no message number any more.
    let ids: Vec<u64> = seqs.iter().map(|s| s.0).filter(|seq| *seq > 0).collect();
    let message = match ids.is_empty() {
        true => "what that answer brought is settled or has been returned".to_owned(),
        false => format!("not held by you: {ids:?}"),
    };
    let error = ApiError::new(ErrorCode::LeaseLost, message)
        .hint("another reader has it now, or you were never handed it; read again")
        .details(serde_json::json!({ "lost": ids, "settled": settled }));
    Failure(error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_core::messaging::message::Via;
    use posthaste_core::orchestration::{AgentsConfig, Assign};
    use posthaste_testkit::staff::{self, Staff};
    use posthaste_testkit::world::{Agent, World};
    use tokio::time::Instant;

    use super::*;

    /// Returns the read of `GET /v1/inbox` that names no window.
    fn plain(world: &World, reader: &Agent) -> Ask {
        ask(&world.hub, reader.who, &InboxQuery::default()).unwrap_or_else(|_| panic!("plain"))
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_messages_there_and_back_wait_for_little() {
        let world = World::new();
        let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
        let began = Instant::now();
        for n in 0..10 {
            for (from, to) in [(&alice, &bob), (&bob, &alice)] {
                let waiting = to.waits(plain(&world, to)).await;
                from.sends(to, &n.to_string()).await;
                let answer = waiting.await.expect("no panic");
                assert_eq!(answer.texts(), [n.to_string()]);
                to.acks(&answer).await;
            }
        }
        // The clock is paused: only batch windows pass on it.
        assert_eq!(began.elapsed().as_millis() / 20, 50, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_collects_longer_while_work_that_the_reader_gave_out_is_open() {
        let world = World::new();
        staff::profile(&world.hub, "mason", Some("command"), "{}").await;
        let launcher = Arc::new(Staff::default());
        world.hub.employ(Arc::clone(&launcher) as _, AgentsConfig::default()).await;
        let boss = world.agent("boss").await;
        assert_eq!(plain(&world, &boss).window, Duration::from_millis(50));
        let wish = Assign {
            by: boss.who,
            worker: None,
            terms: None,
            agent: "mason".parse().expect("a name"),
            team: None,
            message: "lay bricks".into(),
            label: None,
            directory: None,
            worktree: None,
            timeout: None,
            idempotency_key: None,
            via: Via::Rest,
        };
        let worker = world.hub.assign(wish).await.expect("assigned").instance.id;
        assert_eq!(plain(&world, &boss).window, Duration::from_secs(2));
        let own = InboxQuery { batch_window: Some(0.5), ..InboxQuery::default() };
        let own = ask(&world.hub, boss.who, &own).unwrap_or_else(|_| panic!("within the limits"));
        assert_eq!(own.window, Duration::from_millis(500), "what is asked for is obeyed");
        launcher.runs(worker).await;
        launcher.answers(&world.hub, worker, "laid").await;
        assert_eq!(plain(&world, &boss).window, Duration::from_millis(50));
    }
}
