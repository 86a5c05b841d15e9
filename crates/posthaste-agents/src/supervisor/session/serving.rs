//! Answering the calls of a runner.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::receive::Batch;
use posthaste_runner::protocol::MODEL_FAILED;
use tokio::task::JoinSet;

use super::Session;
use crate::assistant::{Fault, START, Served};
use crate::conversation::{Activity, HubCall, TurnEnd};

/// The calls that are being answered. Each is a task of its own, so that it goes on while
/// the session waits for something else; it ends with the session.
#[derive(Default)]
pub(super) struct Serving {
    ids: HashSet<String>,
    /// Calls that are answered as soon as they are kept: an earlier hub must be known to
    /// have begun them.
    new: Vec<HubCall>,
    tasks: JoinSet<(String, Served)>,
}

impl Serving {
    fn add(&mut self, id: String, work: impl Future<Output = Served> + Send + 'static) {
        self.ids.insert(id.clone());
        // A fault of ours fails the call, and not everything that waits for it.
        let work = AssertUnwindSafe(work).catch_unwind();
        self.tasks.spawn(async move {
            let served = work.await.unwrap_or_else(|_| {
                Err(Fault::new(MODEL_FAILED, "a fault in the hub: its log says more")).into()
            });
            (id, served)
        });
    }

    /// Ends all calls without an answer.
    pub(super) async fn end(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Completes when one of the calls is answered.
    pub(super) async fn next(&mut self) -> (String, Served) {
        match self.tasks.join_next().await {
            Some(Ok(served)) => served,
            // It was ended, or there is none.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }
}

impl Session {
    /// Begins to answer a call; `again` says that an earlier hub may have begun it.
    pub(super) fn serve(&mut self, call: &HubCall, again: bool) {
        let Some(assistant) = &self.assistant else { return };
        let HubCall { id, method, params } = call.clone();
        let work = Arc::clone(assistant).serve(id.clone(), method, params, again);
        self.serving.add(id, work);
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
        self.serving.new.push(call.clone());
        self.kept.calls.push(call);
    }

    /// Begins to answer the calls that have been kept.
    pub(super) fn serve_new(&mut self) {
        for call in std::mem::take(&mut self.serving.new) {
            self.serve(&call, false);
        }
    }

    /// Hands the answer to a call to the program.
    pub(super) async fn hand_back(&mut self, call: &str, served: Served) {
        self.serving.ids.remove(call);
        self.kept.calls.retain(|open| open.id != call);
        self.dirty = true;
        let was_done = call == START && served.end.is_some() && !self.stays();
        for heard in self.talk.served(call, served) {
            // Boxed: a call may lead to another one.
            Box::pin(self.act(heard)).await;
        }
        if was_done {
            self.stop.finish("its turn had ended");
        }
        self.note_activity();
    }

    /// Returns whether the program stays for further mail after its turn.
    fn stays(&self) -> bool {
        self.assistant.as_ref().is_none_or(|assistant| assistant.stays())
    }

    /// Answers again what an earlier hub left open.
    pub(super) async fn serve_again(&mut self) {
        for call in self.kept.calls.clone() {
            let is_new = self.serving.new.iter().any(|new| new.id == call.id);
            if !is_new && !self.serving.ids.contains(&call.id) {
                self.serve(&call, true);
            }
        }
        let Some(assistant) = &self.assistant else { return };
        // An earlier hub may have stored mail and not told of it.
        if self.talk.activity() == Activity::Idle && assistant.is_turn_open().await {
            self.tell_of_mail();
        }
    }

    /// Stores mail in the conversation of an idle assistant, and tells it of a turn that
    /// begins with it. None does if it waits for an answer, or has the mail from before a
    /// stop.
    pub(super) async fn store_and_tell(&mut self, batch: Batch) {
        let Some(assistant) = self.assistant.clone() else { return };
        assistant.store_mail(batch).await;
        if assistant.is_turn_open().await {
            self.tell_of_mail();
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
        if assistant.waits_for_answer() {
            self.note("its turn was cancelled");
            if let Err(fault) = assistant.cancel_question().await {
                self.note(&fault.message);
                return;
            }
            (self.kept.cut, self.dirty) = (true, true);
            self.turn_ended(TurnEnd::Interrupted).await;
            if !self.stays() {
                self.stop.finish("its turn was cancelled");
            }
            self.note_activity();
            return;
        }
        let Some(bytes) = self.talk.interrupt() else { return };
        self.kept.cut = true;
        self.note("its turn was cancelled");
        self.hub.interrupted(Principal::Instance(self.who));
        self.dirty = true;
        self.write(bytes);
        assistant.cancel();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_call_goes_on_while_the_session_waits_for_something_else() {
        let mut serving = Serving::default();
        let (done, is_done) = oneshot::channel();
        serving.add("1".to_owned(), async move {
            tokio::task::yield_now().await;
            done.send(()).expect("the session waits");
            Served { reply: Ok(serde_json::Value::Null), end: None }
        });
        // Nobody asks for its answer here.
        is_done.await.expect("it was done");
        let (id, served) = serving.next().await;
        assert_eq!((id.as_str(), served.reply), ("1", Ok(serde_json::Value::Null)));
    }

    #[tokio::test]
    async fn a_fault_in_a_call_is_its_answer() {
        let mut serving = Serving::default();
        serving.add("1".to_owned(), async { panic!("a fault") });
        let (id, served) = serving.next().await;
        let fault = served.reply.expect_err("a fault");
        assert_eq!((id.as_str(), fault.code), ("1", MODEL_FAILED));
        assert!(fault.message.contains("its log says more"), "{}", fault.message);
    }
}
