//! Answering the calls of a runner.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::BoxFuture;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::receive::Batch;
use tokio::time::sleep;

use super::{AGAIN, Session};
use crate::assistant::Served;
use crate::conversation::{Activity, HubCall};

/// Completes when one of the calls is answered.
pub(super) async fn served(
    calls: &mut HashMap<String, BoxFuture<'static, Served>>,
) -> (String, Served) {
    poll_fn(|context| {
        let ready = calls.iter_mut().find_map(|(call, work)| match work.as_mut().poll(context) {
            Poll::Ready(served) => Some((call.clone(), served)),
            Poll::Pending => None,
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

impl Session {
    /// Begins to answer a call; `again` says that an earlier hub may have begun it.
    pub(super) fn serve(&mut self, call: &HubCall, again: bool) {
        let Some(assistant) = &self.assistant else { return };
        let HubCall { id, method, params } = call.clone();
        let work = Arc::clone(assistant).serve(id.clone(), method, params, again);
        self.serving.insert(id, Box::pin(work));
    }

    /// Takes a new call of the program. A call whose id is open already is left out: the
    /// answer to the first is the answer to both. One beyond the limit is refused.
    pub(super) fn take_call(&mut self, call: HubCall) {
        let Some(assistant) = &self.assistant else { return };
        if self.kept.calls.iter().any(|open| open.id == call.id) {
            return;
        }
        self.dirty = true;
        if self.kept.calls.len() >= assistant.open_calls() {
            for heard in self.talk.served(&call.id, assistant.refuse_another()) {
                self.send(heard);
            }
            return;
        }
        self.serve(&call, false);
        self.kept.calls.push(call);
    }

    /// Hands the answer to a call to the program.
    pub(super) async fn hand_back(&mut self, call: &str, served: Served) {
        self.serving.remove(call);
        self.kept.calls.retain(|open| open.id != call);
        self.dirty = true;
        for heard in self.talk.served(call, served) {
            // Boxed: a call may lead to another one.
            Box::pin(self.act(heard)).await;
        }
        self.note_activity();
    }

    /// Answers again what an earlier hub left open.
    pub(super) async fn serve_again(&mut self) {
        for call in self.kept.calls.clone() {
            if !self.serving.contains_key(&call.id) {
                self.serve(&call, true);
            }
        }
        let Some(assistant) = &self.assistant else { return };
        // An earlier hub may have stored mail and not told of it.
        if self.talk.activity() == Activity::Idle && assistant.is_turn_open().await {
            self.tell_of_mail();
        }
    }

    /// Stores mail in the conversation of an idle assistant, and tells it.
    pub(super) async fn store_and_tell(&mut self, batch: Batch) {
        let Some(assistant) = self.assistant.clone() else { return };
        match assistant.store_mail(batch).await {
            Ok(()) => self.tell_of_mail(),
            // The mail has gone back, and is taken again.
            Err(error) => {
                tracing::warn!(who = %self.who, %error, "mail was not stored; it is tried again");
                sleep(AGAIN).await;
            }
        }
    }

    fn tell_of_mail(&mut self) {
        let no = self.kept.last_prompt + 1;
        if let Some(bytes) = self.talk.prompt(no, "") {
            self.kept.last_prompt = no;
            self.dirty = true;
            self.write(bytes);
            self.note_activity();
        }
    }

    /// Cancels the running turn of an assistant.
    pub(super) async fn cancel_turn(&mut self) {
        let Some(assistant) = self.assistant.clone() else { return };
        let Some(bytes) = self.talk.interrupt() else { return };
        self.kept.cut = true;
        self.note("its turn was cancelled");
        self.hub.interrupted(Principal::Instance(self.who));
        self.dirty = true;
        self.write(bytes);
        assistant.cancel().await;
    }
}
