//! Mail on its way into a worker: prompts, and urgent mail in the middle of a turn.

use futures_util::future::BoxFuture;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::receive::Batch;
use posthaste_core::ports::TranscriptKind;

use super::Session;
use super::kept::{Prompt, Task};
use crate::conversation::Activity;
use crate::letters;

/// The text that goes before mail for which the hub cut a turn.
const GO_ON: &str = "[posthaste] Your turn was interrupted for this. When you have dealt with it, \
    go on with what you were doing, and finish it.\n";

/// A wait for mail, as long as the activity of the worker lasts.
pub(super) struct Wait {
    kind: Waits,
    arrives: BoxFuture<'static, Arrived>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// All mail, for a worker that is idle.
    ForPrompt,
    /// Urgent mail, for the running turn.
    ForTurn,
    /// A sign of urgent mail, for which the running turn is cut.
    ToInterrupt,
}

pub(super) enum Arrived {
    ForPrompt(Box<Batch>),
    ForTurn(Box<Batch>),
    Urgent,
}

/// Completes when mail has arrived.
pub(super) async fn arrives(wait: &mut Option<Wait>) -> Arrived {
    match wait {
        Some(wait) => (&mut wait.arrives).await,
        None => std::future::pending().await,
    }
}

impl Session {
    /// Waits for the mail that the worker could be given now.
    pub(super) fn choose_wait(&mut self) {
        let kind = match self.talk.activity() {
            _ if self.kept.task.is_some() => None,
            Activity::Starting => None,
            Activity::Idle => Some(Waits::ForPrompt),
            // Before its turn has begun nothing can be put into it.
            Activity::Busy if self.kept.prompts.iter().all(|prompt| !prompt.began) => None,
            Activity::Busy if self.kept.cut => None,
            Activity::Busy if self.talk.can_steer() => Some(Waits::ForTurn),
            Activity::Busy if self.talk.can_interrupt() => Some(Waits::ToInterrupt),
            Activity::Busy => None,
        };
        if kind == self.wait.as_ref().map(|wait| wait.kind) {
            return;
        }
        let (hub, who) = (std::sync::Arc::clone(&self.hub), self.who);
        self.wait = kind.map(|kind| Wait {
            kind,
            arrives: match kind {
                Waits::ForPrompt => {
                    Box::pin(
                        async move { Arrived::ForPrompt(Box::new(hub.mail_for_prompt(who).await)) },
                    )
                }
                Waits::ForTurn => {
                    Box::pin(async move { Arrived::ForTurn(Box::new(hub.urgent_mail(who).await)) })
                }
                Waits::ToInterrupt => Box::pin(async move {
                    hub.urgent_mail_waits(who).await;
                    Arrived::Urgent
                }),
            },
        });
    }

    /// Writes the task as the first prompt, once the worker is ready.
    pub(super) fn prompt_with_task(&mut self) {
        if self.kept.task.is_none() || self.talk.activity() != Activity::Idle {
            return;
        }
        let Some(Task { seq, text }) = self.kept.task.take() else { return };
        let no = self.kept.last_prompt + 1;
        match self.talk.prompt(no, &text) {
            Some(bytes) => {
                self.note_prompt(no, vec![seq], &text);
                self.write(bytes);
            }
            None => self.kept.task = Some(Task { seq, text }),
        }
    }

    /// Puts mail before the worker. Mail that it cannot take goes back, marked.
    pub(super) fn take_mail(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::ForPrompt(batch) => self.prompt(*batch),
            Arrived::ForTurn(batch) => self.steer(*batch),
            Arrived::Urgent => self.interrupt(),
        }
    }

    fn prompt(&mut self, batch: Batch) {
        let no = self.kept.last_prompt + 1;
        let mut text = letters::prompt(&batch);
        if self.kept.cut {
            text.insert_str(0, GO_ON);
        }
        if let Some(bytes) = self.talk.prompt(no, &text) {
            self.kept.cut = false;
            self.hold(no, batch, &text, bytes);
        }
    }

    fn steer(&mut self, batch: Batch) {
        let no = self.kept.last_prompt + 1;
        let text = letters::prompt(&batch);
        if let Some(bytes) = self.talk.steer(no, &text) {
            self.hold(no, batch, &text, bytes);
        }
    }

    /// Cuts the running turn: urgent mail waits, and the program takes none in mid-turn.
    fn interrupt(&mut self) {
        let Some(bytes) = self.talk.interrupt() else { return };
        self.kept.cut = true;
        self.note("urgent mail waits: its turn is interrupted");
        // What the agent was given and has not proved may be lost with the turn.
        self.hub.interrupted(Principal::Instance(self.who));
        self.dirty = true;
        self.write(bytes);
    }

    /// Holds the mail of a prompt until its turn begins.
    fn hold(
        &mut self,
        no: crate::conversation::PromptNo,
        batch: Batch,
        text: &str,
        bytes: Vec<u8>,
    ) {
        let mail = batch.mail.iter().map(|entry| entry.leased.message.seq.0).collect();
        batch.handed.names_nothing();
        self.holds.insert(no, batch.handed);
        self.note_prompt(no, mail, text);
        self.write(bytes);
    }

    fn note_prompt(&mut self, no: crate::conversation::PromptNo, mail: Vec<u64>, text: &str) {
        self.kept.last_prompt = no;
        self.dirty = true;
        self.kept.prompts.push(Prompt { no, mail, began: false });
        self.tell(TranscriptKind::Prompt, text);
        self.note_activity();
    }
}
