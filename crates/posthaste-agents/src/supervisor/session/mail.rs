//! Mail on its way into a worker: prompts, and urgent mail in the middle of a turn.

use std::time::Duration;

use futures_util::future::BoxFuture;
use humantime_serde::re::humantime::format_duration;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::receive::Batch;
use posthaste_core::ports::TranscriptKind;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Session;
use super::kept::{Prompt, Task};
use crate::conversation::Activity;
use crate::letters;

/// The text that goes before mail for which the hub cut a turn.
const GO_ON: &str = "[posthaste] Your turn was interrupted for this. When you have dealt with it, \
    go on with what you were doing, and finish it.\n";

/// The text of a prompt after a turn that was cut for mail which is gone.
const GO_ON_WITHOUT: &str = "[posthaste] Your turn was interrupted for a message that was taken \
    back. Go on with what you were doing, and finish it.";
/// The time that mail may take for which a turn was cut.
const FOLLOWS: Duration = Duration::from_secs(1);

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
    /// Urgent mail, for which the running turn is cut.
    ToInterrupt,
    /// The mail for which a turn was cut, which may be gone.
    AfterCut,
    /// The end of the time in which the program must be able to take its task.
    ToOpen,
    /// The end of the rest after a failed turn.
    ToRest,
    /// The end of the time in which a runner that has finished ends by itself.
    ToEnd,
}

pub(super) enum Arrived {
    ForPrompt(Box<Batch>),
    ForTurn(Box<Batch>),
    Urgent(Box<Batch>),
    NoneAfterCut,
    NotOpened,
    Rested,
    StillThere,
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
        let asks = !self.kept.asked.is_empty();
        let kind = match self.talk.activity() {
            // It is about to be ended.
            _ if self.stop.is_asked() => None,
            // It may wait for a person, who has no deadline.
            Activity::Starting if self.talk.stores_mail() => Some(Waits::ToOpen),
            Activity::Starting if self.kept.task.is_some() && !asks => Some(Waits::ToOpen),
            Activity::Ending if self.talk.stores_mail() => Some(Waits::ToEnd),
            Activity::Starting | Activity::Ending => None,
            _ if self.kept.task.is_some() => None,
            Activity::Idle if self.rests_until.is_some() => Some(Waits::ToRest),
            Activity::Idle if self.kept.cut => Some(Waits::AfterCut),
            Activity::Idle => Some(Waits::ForPrompt),
            // Before its turn has begun nothing can be put into it.
            // Its runner looks for mail itself.
            Activity::Busy if self.talk.stores_mail() => None,
            Activity::Busy if self.kept.prompts.iter().all(|prompt| !prompt.began) => None,
            Activity::Busy if self.kept.cut || self.urgent.is_some() => None,
            // A program that asks for permission takes text only afterwards.
            Activity::Busy if self.talk.can_steer() && !asks => Some(Waits::ForTurn),
            // A prompt is under way: the program takes text again once it has begun.
            Activity::Busy if !asks && self.kept.prompts.iter().any(|p| !p.began) => None,
            Activity::Busy if self.talk.can_interrupt() => Some(Waits::ToInterrupt),
            Activity::Busy if self.talk.can_steer() => Some(Waits::ForTurn),
            Activity::Busy => None,
        };
        if kind == self.wait.as_ref().map(|wait| wait.kind) {
            return;
        }
        let (hub, who) = (std::sync::Arc::clone(&self.hub), self.who);
        let (opening, rests_until, grace) = (self.opening, self.rests_until, self.grace);
        let to_store = self.assistant.as_ref().map(|assistant| assistant.mail_bytes());
        let mail = async move {
            match to_store {
                Some(bytes) => hub.mail_to_store(who, bytes).await,
                None => hub.mail_for_prompt(who).await,
            }
        };
        let hub = std::sync::Arc::clone(&self.hub);
        self.wait = kind.map(|kind| Wait {
            kind,
            arrives: match kind {
                Waits::ForPrompt => {
                    Box::pin(async move { Arrived::ForPrompt(Box::new(mail.await)) })
                }
                Waits::ForTurn => {
                    Box::pin(async move { Arrived::ForTurn(Box::new(hub.urgent_mail(who).await)) })
                }
                Waits::ToInterrupt => {
                    Box::pin(async move { Arrived::Urgent(Box::new(hub.urgent_mail(who).await)) })
                }
                Waits::AfterCut => Box::pin(async move {
                    let mail = timeout(FOLLOWS, mail).await;
                    mail.map_or(Arrived::NoneAfterCut, |mail| Arrived::ForPrompt(Box::new(mail)))
                }),
                Waits::ToEnd => Box::pin(async move {
                    sleep(grace).await;
                    Arrived::StillThere
                }),
                Waits::ToOpen => Box::pin(async move {
                    sleep(opening).await;
                    Arrived::NotOpened
                }),
                Waits::ToRest => Box::pin(async move {
                    sleep_until(rests_until.unwrap_or_else(Instant::now)).await;
                    Arrived::Rested
                }),
            },
        });
    }

    /// Prompts an idle worker with what the session holds for it: its task, or the mail for
    /// which its turn was cut.
    pub(super) fn prompt_with_what_is_held(&mut self) {
        if self.talk.activity() != Activity::Idle || self.stop.is_asked() {
            return;
        }
        match self.urgent.take() {
            Some(batch) if self.kept.task.is_none() => self.prompt(batch),
            batch => {
                self.urgent = batch;
                self.prompt_with_task();
            }
        }
    }

    /// Writes the task as the first prompt.
    fn prompt_with_task(&mut self) {
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
            Arrived::Urgent(batch) => self.interrupt(*batch),
            Arrived::NoneAfterCut => self.go_on(),
            Arrived::NotOpened => self.fail_to_open(),
            Arrived::Rested => self.rests_until = None,
            Arrived::StillThere => self.stop.finish("its turn had ended"),
        }
    }

    /// Lets a worker go on whose turn was cut for nothing.
    fn go_on(&mut self) {
        self.kept.cut = false;
        self.dirty = true;
        let no = self.kept.last_prompt + 1;
        if self.owes_a_report()
            && let Some(bytes) = self.talk.prompt(no, GO_ON_WITHOUT)
        {
            self.note_prompt(no, Vec::new(), GO_ON_WITHOUT);
            self.write(bytes);
        }
    }

    fn fail_to_open(&mut self) {
        let time = format_duration(self.opening);
        let hint = self.driver.hint_to_open();
        self.stop.fail_quoting(&format!(
            "it was not ready for its task within {time} (agents.opening): {hint}"
        ));
    }

    fn prompt(&mut self, batch: Batch) {
        let no = self.kept.last_prompt + 1;
        let mut text = match self.only_task(&batch) {
            Some(task) => task,
            None => letters::prompt(&batch),
        };
        if self.kept.cut {
            text.insert_str(0, GO_ON);
        }
        if let Some(bytes) = self.talk.prompt(no, &text) {
            self.kept.cut = false;
            self.hold(no, batch, &text, bytes);
        }
    }

    /// Returns the text of a batch that is one task for this worker, which it gets as it
    /// got its first one.
    fn only_task(&self, batch: &Batch) -> Option<String> {
        let [entry] = batch.mail.as_slice() else { return None };
        let (whole, seq) = (entry.clip.is_none(), entry.leased.message.seq);
        let is_task = || self.hub.taken_on(self.who).iter().any(|taken| taken.task == seq);
        let plain = whole && batch.remaining == 0 && !entry.leased.redelivered;
        (plain && is_task()).then(|| entry.text().to_owned())
    }

    fn steer(&mut self, batch: Batch) {
        let no = self.kept.last_prompt + 1;
        let text = letters::prompt(&batch);
        if let Some(bytes) = self.talk.steer(no, &text) {
            self.hold(no, batch, &text, bytes);
        }
    }

    /// Cuts the running turn for urgent mail, which the program does not take in mid-turn.
    /// The mail is held for the next prompt.
    fn interrupt(&mut self, batch: Batch) {
        self.urgent = Some(batch);
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
