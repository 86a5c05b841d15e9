//! The session loop: the conversation of the hub with one worker.
//!
//! A [`Session`] reads the worker's lines from its keeper, lets the driver's
//! [`Conversation`] say what they mean, and does what follows: acks mail, reports answers,
//! asks the operator, writes the transcript. It prompts an idle worker with its mail, and
//! puts urgent mail into a running turn where the driver can.
//!
//! Everything it knows is in [`Kept`], which it writes before it acts (`kept.rs`), so that
//! a hub that was killed at any point goes on without losing or repeating anything.

mod hearing;
mod kept;
mod link;
mod mail;
mod pane;
mod serving;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use posthaste_core::Hub;
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::receive::{Batch, Handed};
use posthaste_core::needs::Verdict;
use posthaste_core::orchestration::TurnActivity;
use posthaste_core::ports::{Start, Token, TranscriptEntry, TranscriptKind};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use self::kept::{Kept, Piece, Task};
use self::link::Link;
use self::mail::{Arrived, Wait};
use self::serving::Serving;
use super::watch::Stop;
use super::workshop::Workshop;
use crate::assistant::{Assistant, Spec};
use crate::conversation::{Activity, Conversation, Heard, PromptNo};
use crate::drivers::{self, Driver};
use crate::folder::Folder;
use crate::frames::Frame;
use crate::settings::Stdin;
use crate::tmux::Tmux;
use crate::transcript::Transcript;

/// Time before a failed write, or a lost connection to the keeper, is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// The time after which a worker fails whose keeper cannot be reached.
const UNREACHABLE: Duration = Duration::from_secs(30);

/// Number of lines for a worker that may wait until it reads them.
const UNREAD: usize = 1000;

/// The reason why a worker fails that did not get its token from an earlier hub.
const NO_TOKEN: &str = "the hub was killed while the worker started; assign the task again";

pub(super) struct Session {
    hub: Arc<Hub>,
    who: InstanceId,
    folder: Folder,
    pub(super) driver: &'static dyn Driver,
    talk: Box<dyn Conversation>,
    kept: Kept,
    /// Number of pieces in `kept.unsent` that were written on this connection.
    sent: usize,
    /// `kept` differs from what is on disk.
    dirty: bool,
    /// A line of the worker that has not ended yet.
    line: Vec<u8>,
    pub(super) transcript: Arc<Transcript>,
    token: Option<Token>,
    /// Answers that hold the mail of prompts whose turn has not begun.
    holds: HashMap<PromptNo, Handed>,
    wait: Option<Wait>,
    /// Urgent mail for which the running turn is cut; the next prompt carries it.
    urgent: Option<Batch>,
    /// No mail is taken until then, because a turn has failed.
    rests_until: Option<Instant>,
    /// Verdicts that the operator has not given yet, by request.
    verdicts: HashMap<String, BoxFuture<'static, Verdict>>,
    /// The hub's side of a runner, if the worker is one.
    pub(super) assistant: Option<Arc<Assistant>>,
    /// Calls of the runner that are being answered.
    serving: Serving,
    stop: Arc<Stop>,
    /// The way to the worker's terminal, if it has one.
    tmux: Option<Tmux>,
    /// The last screen of that terminal.
    screen: Option<String>,
    /// The time that the program may take until it can take its task.
    opening: Duration,
    /// The rest after a failed turn.
    retry_after: Duration,
    /// The time in which a runner ends by itself.
    grace: Duration,
}

/// What the end of a worker means for its conversation.
pub(super) struct SessionEnd {
    pub(super) last_answer: Option<String>,
    /// The worker ended in the middle of a turn, or before it took its task.
    pub(super) in_turn: bool,
    /// The last screen of its terminal.
    pub(super) screen: Option<String>,
}

impl Session {
    /// Makes the conversation with a worker that is about to start, and writes its state.
    pub(super) fn new(
        hub: &Arc<Hub>,
        start: &Start,
        (driver, stdin): (&'static dyn Driver, Stdin),
        state: &Value,
        place: Place,
    ) -> io::Result<Self> {
        // The task of an assistant is the first message of its conversation.
        let is_assistant = Spec::read(&place.folder).is_some();
        let task = start.task.as_ref().map(|task| Task { seq: task.id.0, text: task.text.clone() });
        let kept = Kept {
            driver: driver.name().to_owned(),
            terminal: stdin == Stdin::Terminal,
            state: state.clone(),
            task: task.filter(|_| !is_assistant),
            ..Kept::default()
        };
        let mut session = Self::of(hub, start.worker.id, kept, place).ok_or_else(|| {
            io::Error::other(format!(
                "the driver {} made a state that is not its own",
                driver.name()
            ))
        })?;
        session.token = Some(start.token.clone());
        if session.transcript.end_earlier(session.hub.now()) {
            session.note("it goes on where its hub was stopped");
        }
        let opens = session.talk.open();
        for heard in opens {
            match heard {
                Heard::Calls(call) => session.take_call(call),
                heard => session.send(heard),
            }
        }
        session.kept.state = session.talk.state();
        session.kept.write(&session.folder)?;
        Ok(session)
    }

    /// Goes on with a conversation of an earlier hub. `None`: this worker has none, or its
    /// state cannot be read.
    pub(super) fn resume(hub: &Arc<Hub>, who: InstanceId, place: Place) -> Option<Self> {
        let kept = Kept::read(&place.folder)?;
        Self::of(hub, who, kept, place)
    }

    fn of(hub: &Arc<Hub>, who: InstanceId, kept: Kept, place: Place) -> Option<Self> {
        let driver = drivers::named(&kept.driver)?;
        let talk = driver.resume(&kept.state)?;
        let Place { folder, stop, transcript_bytes, opening, retry_after, grace, tmux, workshop } =
            place;
        let transcript = Transcript::open(folder.path(), transcript_bytes, kept.heard);
        let transcript = Arc::new(transcript);
        let assistant = match talk.stores_mail() {
            false => None,
            true => {
                let opened = workshop.assistant(hub, who, &folder, &transcript);
                let opened = opened.inspect_err(|error| {
                    tracing::error!(%who, %error, "the conversation of an assistant is lost");
                });
                Some(opened.ok()?)
            }
        };
        Some(Self {
            hub: Arc::clone(hub),
            who,
            folder,
            driver,
            talk,
            kept,
            sent: 0,
            dirty: false,
            line: Vec::new(),
            transcript,
            token: None,
            holds: HashMap::new(),
            wait: None,
            urgent: None,
            rests_until: None,
            verdicts: HashMap::new(),
            assistant,
            serving: Serving::default(),
            stop,
            tmux,
            screen: None,
            opening,
            retry_after,
            grace,
        })
    }

    /// Leads the conversation; never completes. The future may be dropped at any point:
    /// what was not confirmed is heard again.
    pub(super) async fn run(&mut self) {
        self.take_up_again().await;
        let mut away_since: Option<Instant> = None;
        loop {
            let began = Instant::now();
            let talked = match self.kept.terminal {
                true => self.converse_in_pane().await,
                false => self.converse().await,
            };
            let since = match away_since {
                Some(since) if began.elapsed() < AGAIN => since,
                _ => Instant::now(),
            };
            away_since = Some(since);
            if let Err(error) = talked {
                tracing::debug!(who = %self.who, %error, "no connection to a keeper");
                // A hub may be started where tmux is not found, and again where it is.
                if since.elapsed() > UNREACHABLE && !self.kept.terminal {
                    self.stop.fail_quoting(&format!("the hub cannot reach it: {error}"));
                }
            }
            // The keeper has not started yet, has ended, or will be found again.
            sleep(AGAIN).await;
        }
    }

    /// Takes the mail and the requests up again that an earlier hub left.
    async fn take_up_again(&mut self) {
        self.note_activity();
        // A prompt without mail holds none.
        let unproven = self.kept.prompts.iter().filter(|p| !p.began && !p.mail.is_empty());
        for prompt in unproven.cloned().collect::<Vec<_>>() {
            match self.hub.mail_again(self.who, &prompt.seqs()).await {
                Ok(batch) => drop(self.holds.insert(prompt.no, batch.handed)),
                Err(error) => tracing::warn!(who = %self.who, %error, "mail was not taken again"),
            }
        }
        for asked in self.kept.asked.clone() {
            self.ask(&asked);
        }
        self.serve_again().await;
    }

    /// Talks over one connection, until it breaks.
    async fn converse(&mut self) -> io::Result<()> {
        let mut link = Link::connect(&self.folder).await?;
        let Frame::Hello { output, input } = link.next().await? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.know_token().await;
        self.meet(output, input);
        link.send(&Frame::Read { from: self.kept.heard });
        self.save_and_send(&mut link).await;
        loop {
            if self.stop.is_asked() {
                // It is about to be ended, and is not heard any more.
                return std::future::pending().await;
            }
            self.prompt_with_what_is_held();
            self.save_and_send(&mut link).await;
            self.choose_wait();
            tokio::select! {
                frame = link.next() => match frame? {
                    Frame::Output { at, bytes } => self.take_output(at, &bytes).await,
                    Frame::Accepted { upto } => self.accepted(upto),
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                },
                arrived = mail::arrives(&mut self.wait) => {
                    self.wait = None;
                    match arrived {
                        Arrived::ForPrompt(batch) if self.talk.stores_mail() => {
                            self.store_and_tell(*batch).await;
                        }
                        arrived => self.take_mail(arrived),
                    }
                }
                (call, served) = self.serving.next() => {
                    self.hand_back(&call, served).await;
                }
                () = self.stop.cancelled_turn() => self.cancel_turn().await,
                (request, verdict) = hearing::verdict(&mut self.verdicts) => {
                    self.verdicts.remove(&request);
                    self.answer(&request, &verdict);
                }
            }
        }
    }

    /// Gets a token for input that names it: an earlier hub had the first one.
    async fn know_token(&mut self) {
        if self.kept.unsent.iter().any(|piece| piece.with_token.is_some()) {
            self.get_token().await;
        }
    }

    async fn get_token(&mut self) {
        if self.token.is_none() {
            self.token = self.hub.renew_token(self.who).await;
        }
    }

    /// Compares what the keeper has with what this state knows.
    fn meet(&mut self, output: u64, input: u64) {
        self.sent = 0;
        self.line.clear();
        if output > self.kept.heard {
            let lost = output - self.kept.heard;
            self.note(&format!("{lost} bytes of its output were confirmed and are not known"));
            self.kept.heard = output;
            self.kept.skips = true;
        }
        self.accepted(input);
    }

    /// Drops the input that the keeper has accepted.
    fn accepted(&mut self, upto: u64) {
        while let Some(piece) = self.kept.unsent.first() {
            let end = self.kept.accepted + piece.length();
            if end > upto {
                return;
            }
            self.kept.accepted = end;
            self.kept.unsent.remove(0);
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// Writes the state, then the input that goes with it, and confirms the output that it
    /// came of. While the disk is full the worker waits.
    async fn save_and_send(&mut self, link: &mut Link) {
        if self.sent == self.kept.unsent.len() && !self.dirty {
            return;
        }
        self.know_token().await;
        self.kept.state = self.talk.state();
        self.keep().await;
        self.serve_new();
        let mut at = self.kept.accepted;
        for (number, piece) in self.kept.unsent.iter().enumerate() {
            match piece.bytes(self.token.as_ref()) {
                _ if number < self.sent => {}
                Some(bytes) => link.write(at, &bytes),
                None => self.stop.fail(NO_TOKEN),
            }
            at += piece.length();
        }
        self.sent = self.kept.unsent.len();
        link.send(&Frame::Confirm { upto: self.kept.heard });
    }

    /// Writes the state, however long the disk takes.
    async fn keep(&mut self) {
        while let Err(error) = self.kept.write(&self.folder) {
            tracing::warn!(who = %self.who, %error, "the state of a worker was not kept; it is tried again");
            sleep(AGAIN).await;
        }
        self.dirty = false;
    }

    fn write(&mut self, bytes: Vec<u8>) {
        // All of it is written down again with each step.
        if self.kept.unsent.len() > UNREAD {
            self.stop.fail(&format!("its program has not read the last {UNREAD} lines for it"));
            return;
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        };
        self.kept.unsent.push(Piece::plain(text));
    }

    /// Ends the calls of an assistant whose runner has ended.
    pub(super) async fn end_calls(&mut self) {
        (self.wait, self.urgent) = (None, None);
        self.serving.end().await;
    }

    /// Hears the output that no hub had confirmed when the worker ended, and says what the
    /// end means.
    pub(super) async fn finish(mut self) -> SessionEnd {
        // The calls of a runner that has ended are not answered any more, nor begun.
        self.end_calls().await;
        self.assistant = None;
        if let Ok((from, bytes)) = self.folder.rest() {
            self.go_back(from);
            self.line.clear();
            self.take_output(from, &bytes).await;
            // The end of the output ends its last line.
            let end = self.kept.heard + self.line.len() as u64;
            self.take_output(end, b"\n").await;
        }
        if self.kept.terminal {
            self.show_the_end();
        }
        let names: Vec<String> = self.kept.asked.drain(..).map(|asked| asked.name()).collect();
        for name in names {
            self.hub.withdraw_permission(self.who, &name).await;
        }
        let in_turn = match self.kept.terminal {
            // A person may have been at work in it.
            true => !self.kept.prompts.is_empty() || self.kept.task.is_some(),
            false => match self.talk.activity() {
                Activity::Busy => true,
                Activity::Starting if self.talk.stores_mail() => true,
                _ => self.kept.task.is_some(),
            },
        };
        self.kept.state = self.talk.state();
        if let Err(error) = self.kept.write(&self.folder) {
            tracing::warn!(who = %self.who, %error, "the last state of a worker was not kept");
        }
        self.hub.note_activity(self.who, None);
        SessionEnd { last_answer: self.kept.last_answer.take(), in_turn, screen: self.screen }
    }

    /// Goes back to the state on disk, as the next hub would: [`Session::run`] may have
    /// been dropped in the middle of a line, which is heard again from this offset on.
    fn go_back(&mut self, from: u64) {
        if !self.dirty {
            return;
        }
        let Some(kept) = Kept::read(&self.folder).filter(|kept| kept.heard >= from) else { return };
        let Some(talk) = self.driver.resume(&kept.state) else { return };
        self.transcript.rewind(kept.heard);
        (self.kept, self.talk) = (kept, talk);
    }

    fn waits_for_answer(&self) -> bool {
        self.assistant.as_ref().is_some_and(|assistant| assistant.waits_for_answer())
    }

    fn note_activity(&self) {
        let activity = match (self.talk.activity(), self.kept.asked.is_empty()) {
            (_, false) => TurnActivity::Asking,
            (Activity::Starting, true) => TurnActivity::Starting,
            (Activity::Idle, true) if self.kept.task.is_some() => TurnActivity::Starting,
            (Activity::Idle, true) if self.waits_for_answer() => TurnActivity::Asking,
            (Activity::Idle, true) => TurnActivity::Idle,
            (Activity::Busy | Activity::Ending, true) => TurnActivity::Busy,
        };
        self.hub.note_activity(self.who, Some(activity));
    }

    fn note(&self, text: &str) {
        self.tell(TranscriptKind::Note, text);
    }

    /// Adds an entry to the transcript.
    fn tell(&self, kind: TranscriptKind, text: &str) {
        self.transcript.add(self.kept.heard, self.entry(kind, text));
    }

    fn entry(&self, kind: TranscriptKind, text: &str) -> TranscriptEntry {
        let (name, id, state) = (None, None, None);
        TranscriptEntry { no: 0, at: self.hub.now(), kind, text: text.to_owned(), name, id, state }
    }
}

/// The surroundings of a session.
pub(super) struct Place {
    pub(super) folder: Folder,
    pub(super) stop: Arc<Stop>,
    pub(super) transcript_bytes: u64,
    /// The time that the program may take until it can take its task.
    pub(super) opening: Duration,
    pub(super) grace: Duration,
    /// The rest after a failed turn.
    pub(super) retry_after: Duration,
    /// tmux, if this machine has it.
    pub(super) tmux: Option<Tmux>,
    pub(super) workshop: Arc<Workshop>,
}
