//! The hub's side of a runner: it keeps the conversation, calls the model and the tools,
//! and speaks to the human.
//!
//! Every call of a runner is answered from what the conversation's file has, or does its
//! work, writes that down, and then answers. So a hub that is killed at any point answers
//! the call again when it comes back, and nothing is asked, done or said twice.

mod calls;
mod dialogue;
mod finish;
mod loop_tools;
mod model;
mod record;
mod store;
mod tool;
mod usages;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use posthaste_core::Hub;
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::Seq;
use posthaste_core::messaging::receive::Batch;
use posthaste_core::ports::{Task, TranscriptEntry, TranscriptKind};
use posthaste_runner::protocol;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(crate) use self::calls::{Fault, METHODS, START, Served};
use self::dialogue::Dialogue;
pub(crate) use self::dialogue::Spent;
use self::record::{Mail, Record};
use self::store::ConversationFile;
pub(crate) use self::usages::Usages;
use crate::folder::{self, Folder};
use crate::models::Models;
use crate::runner_config::RunnerConfig;
use crate::tools::Toolbox;
use crate::transcript::Transcript;

/// The file of the conversation, in the worker's folder.
pub(crate) const CONVERSATION: &str = "conversation";

/// The facts about an assistant that outlive the hub.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    pub(crate) profile: String,
    pub(crate) address: String,
    pub(crate) thread: String,
    /// The system prompt of the profile, and how the assistant reports.
    pub(crate) instructions: String,
    /// The name of its model in the configuration; `None`: the only one.
    pub(crate) model: Option<String>,
    pub(crate) services: Vec<String>,
    /// The tools to which the profile limits it.
    pub(crate) tools: Option<Vec<String>>,
    /// The profile's own MCP servers.
    pub(crate) servers: Map<String, Value>,
    pub(crate) directory: std::path::PathBuf,
    /// Variables of the profile, for its tools.
    pub(crate) env: Vec<(String, String)>,
    /// The giver of its work: an address, or `human`.
    pub(crate) parent: String,
    /// It waits for further mail when it has finished.
    pub(crate) stay: bool,
    /// The task with which it starts.
    pub(crate) task: Option<SpecTask>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpecTask {
    pub(crate) seq: u64,
    pub(crate) text: String,
}

impl From<SpecTask> for Task {
    fn from(task: SpecTask) -> Self {
        Self { id: Seq(task.seq), text: task.text }
    }
}

/// The file of an assistant's spec, in the worker's folder.
const SPEC: &str = "assistant.json";

impl Spec {
    /// Reads the spec of the assistant in this folder; `None` if it has none.
    pub(crate) fn read(folder: &Folder) -> Option<Self> {
        folder::read_whole(&folder.path().join(SPEC))
    }

    pub(crate) fn write(&self, folder: &Folder) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        folder::replace_durably(&folder.path().join(SPEC), &text)
    }
}

/// The time before a conversation that the disk did not take is written again.
const AGAIN: Duration = Duration::from_millis(200);

/// One assistant.
pub(crate) struct Assistant {
    hub: Arc<Hub>,
    who: InstanceId,
    spec: Spec,
    models: Arc<Models>,
    toolbox: Toolbox,
    limits: RunnerConfig,
    transcript: Arc<Transcript>,
    /// The answer that the model is writing.
    writing: watch::Sender<String>,
    state: Mutex<State>,
    /// What the conversation in the state says of that, for those who do not wait.
    waits_for_answer: AtomicBool,
    /// Cancels the calls of the running turn. Outside of the state, because a call may hold
    /// that for as long as the disk takes.
    cancel: parking_lot::Mutex<CancellationToken>,
    /// What all assistants have spent, for those who look.
    usages: Arc<Usages>,
    /// Sums what the whole session of the assistant has spent.
    session_cost: Box<dyn Fn() -> f64 + Send + Sync>,
}

/// What an assistant has left that ended with its hub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// A conversation to go on with.
    Work,
    /// The end of its only turn: its answer, or the reason why it has none.
    Done(Result<String, String>),
}

struct State {
    who: InstanceId,
    file: ConversationFile,
    dialogue: Dialogue,
    /// The beginning of the running turn, as far as this hub knows.
    began: Instant,
}

/// The surroundings of an assistant.
pub(crate) struct Surroundings {
    pub(crate) hub: Arc<Hub>,
    pub(crate) who: InstanceId,
    pub(crate) models: Arc<Models>,
    pub(crate) toolbox: Toolbox,
    pub(crate) limits: RunnerConfig,
    pub(crate) transcript: Arc<Transcript>,
    pub(crate) usages: Arc<Usages>,
    pub(crate) session_cost: Box<dyn Fn() -> f64 + Send + Sync>,
}

impl Assistant {
    /// Opens the conversation in this folder, perhaps a new one.
    pub(crate) fn open(folder: &Path, spec: Spec, around: Surroundings) -> io::Result<Self> {
        let (file, records) = ConversationFile::open(&folder.join(CONVERSATION))?;
        let dialogue = Dialogue::of(records);
        let Surroundings { hub, who, models, toolbox, limits, transcript, usages, session_cost } =
            around;
        usages.set(who, dialogue.spent());
        Ok(Self {
            hub,
            who,
            spec,
            models,
            toolbox,
            limits,
            transcript,
            writing: watch::Sender::new(String::new()),
            waits_for_answer: dialogue.waits_for_answer().into(),
            state: Mutex::new(State { who, file, dialogue, began: Instant::now() }),
            cancel: parking_lot::Mutex::default(),
            usages,
            session_cost,
        })
    }

    /// Returns what an assistant has left in this folder that ended with its hub; `None` if
    /// the folder is no assistant's, or its conversation cannot be read.
    pub(crate) fn left(folder: &Folder) -> Option<Left> {
        let spec = Spec::read(folder)?;
        let conversation = folder.path().join(CONVERSATION);
        let (_, records) =
            conversation.exists().then(|| ConversationFile::open(&conversation))?.ok()?;
        let dialogue = Dialogue::of(records);
        Some(match dialogue.end() {
            Some(end) if !spec.stay => Left::Done(end.map(str::to_owned).map_err(str::to_owned)),
            _ => Left::Work,
        })
    }

    /// Returns whether the assistant, whose runner was started again, waits for the human's
    /// answer to a question of an earlier runner.
    pub(crate) fn waits_for_answer(&self) -> bool {
        self.waits_for_answer.load(Ordering::Relaxed)
    }

    /// Returns whether the assistant stays for further mail when it has finished.
    pub(crate) fn stays(&self) -> bool {
        self.spec.stay
    }

    fn note_waits(&self, state: &State) {
        self.waits_for_answer.store(state.dialogue.waits_for_answer(), Ordering::Relaxed);
    }

    /// Returns the number of calls that the runner may have open.
    pub(crate) fn open_calls(&self) -> usize {
        self.limits.open_calls.max(1)
    }

    /// Returns the number of characters of one message that the model is shown at once.
    fn message_chars(&self) -> usize {
        self.limits.message_chars.min(self.limits.context_chars / 2)
    }

    /// Returns the number of bytes of mail that one look takes, so that it fits into a
    /// request.
    pub(crate) fn mail_bytes(&self) -> usize {
        self.limits.context_chars / 2
    }

    /// Makes the answer to a call beyond that number.
    pub(crate) fn refuse_another(&self) -> Served {
        let most = self.open_calls();
        let why = format!("{most} calls are open already (runner.open_calls)");
        Err(Fault::new(protocol::NO_REQUEST, why)).into()
    }

    /// Returns the answer that the model is writing; empty while it writes none.
    pub(crate) fn writing(&self) -> watch::Receiver<String> {
        self.writing.subscribe()
    }

    /// Returns whether mail waits in the conversation for the runner.
    pub(crate) async fn is_turn_open(&self) -> bool {
        self.state.lock().await.dialogue.is_turn_open()
    }

    /// Stores mail for an idle assistant, and acks it.
    pub(crate) async fn store_mail(&self, batch: Batch) {
        let mut state = self.state.lock().await;
        self.keep_mail(&mut state, batch).await;
    }

    /// Cancels the calls of the running turn. They are answered with an error.
    pub(crate) fn cancel(&self) {
        self.cancel.lock().cancel();
    }

    /// Acks mail that stands in the conversation.
    async fn stored(&self, mail: &[u64]) {
        if !mail.is_empty() {
            self.hub.mail_stored(self.who, mail.iter().copied().map(Seq).collect()).await;
        }
    }

    /// Writes mail into the conversation, then acks it. Mail that stands there already, from
    /// before a crash, is acked and not written again.
    async fn keep_mail(&self, state: &mut State, batch: Batch) {
        let all: Vec<Mail> = batch.mail.iter().map(Mail::of).collect();
        let seqs: Vec<u64> = all.iter().map(|mail| mail.seq).collect();
        let mut new: Vec<Mail> =
            all.into_iter().filter(|mail| !state.dialogue.has_mail(mail.seq)).collect();
        if !state.dialogue.is_turn_open() && !new.is_empty() {
            state.began = Instant::now();
            *self.cancel.lock() = CancellationToken::new();
        }
        for mail in &mut new {
            mail.question = state.dialogue.asked_beside(mail).map(str::to_owned);
        }
        for mail in &new {
            self.tell(TranscriptKind::Prompt, &mail.text);
        }
        state.keep(new.into_iter().map(Record::Mail).collect()).await;
        self.note_waits(state);
        batch.handed.names_nothing();
        batch.handed.written();
        self.stored(&seqs).await;
    }

    fn tell(&self, kind: TranscriptKind, text: &str) {
        self.add_entry(TranscriptEntry {
            no: 0,
            at: self.hub.now(),
            kind,
            text: text.to_owned(),
            name: None,
            id: None,
            state: None,
        });
    }

    fn add_entry(&self, entry: TranscriptEntry) {
        // Entries of calls are written once: a call that is answered again writes none.
        self.transcript.add(0, entry);
    }
}

impl State {
    /// Writes records down, however long the disk takes, then counts them.
    async fn keep(&mut self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        while let Err(error) = self.file.append(&records) {
            let who = self.who;
            tracing::warn!(%who, %error, "the conversation of an assistant was not stored; it is tried again");
            sleep(AGAIN).await;
        }
        self.dialogue.extend(records);
    }
}
