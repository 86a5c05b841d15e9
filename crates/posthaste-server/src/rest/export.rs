//! `/v1/export`: all messages, one per line.
//!
//! The next part is read from the store when the client has taken the one before, so a
//! slow client costs one part of memory. A failure breaks the answer off, and the client
//! goes on after the last number that it has.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use posthaste_api::messages::{self as wire, ExportQuery, MessageView};
use posthaste_core::Hub;
use posthaste_core::messaging::message::Seq;

use crate::App;
use crate::auth::Operator;
use crate::extract::Params;
use crate::failure::{Failure, invalid};
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::EXPORT, export)
}

/// `GET /v1/export`
async fn export(
    State(app): State<App>,
    _: Operator,
    Params(query): Params<ExportQuery>,
) -> Result<Response, Failure> {
    let after = query.after.unwrap_or(0);
    if i64::try_from(after).is_err() {
        return Err(invalid("after", "no message has such a number"));
    }
    // Messages that arrive from now on belong to the next export.
    let until = app.hub.newest().await?.unwrap_or(Seq(0));
    let hub = Arc::clone(&app.hub);
    let parts = stream::try_unfold(Some(Seq(after)), move |from| {
        let hub = Arc::clone(&hub);
        async move {
            let Some(from) = from else { return Ok::<_, axum::Error>(None) };
            let (lines, next) = part(&hub, from, until).await?;
            Ok(Some((lines, next)))
        }
    });
    let body = Body::from_stream(parts);
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Returns some lines, and the number where the next part begins.
async fn part(hub: &Hub, from: Seq, until: Seq) -> Result<(Bytes, Option<Seq>), axum::Error> {
    let page = hub.export(from, until).await.map_err(|error| {
        tracing::warn!(%error, "an export broke off");
        axum::Error::new(error)
    })?;
    let mut lines = Vec::new();
    for record in page.records {
        serde_json::to_writer(&mut lines, &MessageView::from(record)).map_err(axum::Error::new)?;
        lines.push(b'\n');
    }
    Ok((lines.into(), page.next))
}
