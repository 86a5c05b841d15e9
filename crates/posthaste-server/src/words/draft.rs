//! Sends messages: turns requests into drafts and hands these to the hub.

use posthaste_api::error::ApiError;
use posthaste_api::messages::SendRequest;
use posthaste_core::messaging::message::{Body, Details, Draft, Principal, Receipt, Via};
use posthaste_core::messaging::send::SendError;
use posthaste_core::road::TraceParent;

use super::params::wrong;
use crate::App;

/// The sender of a message, its door, and its trace.
pub(crate) struct Author {
    pub(crate) who: Principal,
    pub(crate) via: Via,
    pub(crate) trace: Option<TraceParent>,
}

/// Reads the details of a message: the fields of a request beside recipients and text.
pub(crate) async fn details(
    app: &App,
    who: Principal,
    request: &mut SendRequest,
) -> Result<Details, ApiError> {
    let mut details = request.take_details()?;
    if let Some(which) = &request.in_reply_to {
        let answered = app.hub.answered_message(who, which.try_into()?).await?;
        details.in_reply_to = answered.seq;
        details.hop = answered.hop;
        details.thread.replied_to = Some(answered.replied_to);
    }
    Ok(details)
}

/// Starts to send to one address.
pub(crate) fn start(
    app: &App,
    from: &Author,
    to: &str,
    body: Body,
    details: Details,
) -> Result<impl Future<Output = Result<Receipt, SendError>> + use<>, ApiError> {
    let to = to.parse().map_err(|error| ApiError::from(app.hub.vetted(error)))?;
    let draft = Draft::new(from.who, to, body, details, from.via, app.hub.limits())?;
    Ok(app.hub.start_send(draft, from.trace))
}

/// The outcome of a send to each address of a list.
pub(crate) type SentToEach = Vec<(String, Result<Receipt, ApiError>)>;

/// Sends to each address of a list, in order. One refusal does not stop the rest.
pub(crate) async fn send_to_each(
    app: &App,
    from: &Author,
    to: Vec<String>,
    message: String,
    details: Details,
) -> Result<SentToEach, ApiError> {
    let most = app.hub.limits().recipients;
    if to.is_empty() || to.len() > most {
        return Err(wrong("to", format!("a list has 1 to {most} addresses (limits.recipients)")));
    }
    // All recipients share one copy of the text.
    let message = Body::from(message);
    // All sends are under way before the first is awaited, so they share a flush.
    let started: Vec<_> =
        to.iter().map(|to| start(app, from, to, message.clone(), details.clone())).collect();
    let mut sent = Vec::with_capacity(to.len());
    for (to, started) in to.into_iter().zip(started) {
        let receipt = match started {
            Ok(started) => started.await.map_err(ApiError::from),
            Err(error) => Err(error),
        };
        if let Err(error) = &receipt {
            app.meters.refused(error.code);
        }
        sent.push((to, receipt));
    }
    Ok(sent)
}
