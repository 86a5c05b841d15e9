//! A launcher without processes: it records the workers that it started, and the test
//! decides how they end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use posthaste_core::address::InstanceId;
use posthaste_core::ports::{
    Clock, Ended, Found, Job, LaunchError, Launcher, Letter, Outcome, Output, Start, Stream,
    Terminal, TranscriptEntry, TranscriptKind, TranscriptPage, WakeRequest, Way, Workplace,
};
use posthaste_core::profiles::{Expect, PutProfile, Source, Template};
use posthaste_core::registry::{AgentKind, Instance};
use posthaste_core::{Hub, SystemClock, Timestamp};
use tokio::sync::{oneshot, watch};

/// A worker of this name does not end when it is asked to.
pub const STUBBORN: &str = "stubborn";

/// The workers that this launcher started, woke and stopped.
#[derive(Default)]
pub struct Staff {
    started: Mutex<BTreeMap<InstanceId, Start>>,
    ended: Mutex<BTreeSet<InstanceId>>,
    asked_to_stop: Mutex<Vec<InstanceId>>,
    wrote: Mutex<BTreeMap<InstanceId, Vec<u8>>>,
    transcripts: Mutex<BTreeMap<InstanceId, Transcript>>,
    /// The workers that have a terminal.
    terminals: Mutex<BTreeSet<InstanceId>>,
    /// The texts that the models of workers are writing.
    writing: Mutex<BTreeMap<InstanceId, watch::Sender<String>>>,
    cancelled: Mutex<Vec<InstanceId>>,
    woken: Mutex<Vec<WakeRequest>>,
    /// Results of [`Launcher::find`] after a hub start, by worker.
    left: Mutex<BTreeMap<InstanceId, Found>>,
    /// Texts for workers whose task is `listen`.
    told: Mutex<Vec<(InstanceId, String, bool)>>,
    /// Delays the next [`Launcher::find`] until this signal.
    look: Mutex<Option<oneshot::Receiver<()>>>,
    count: watch::Sender<usize>,
    hub: Mutex<Option<Arc<Hub>>>,
}

/// The transcript of a worker, and the number of its last entry.
#[derive(Default)]
struct Transcript {
    entries: Vec<TranscriptEntry>,
    last: watch::Sender<u64>,
}

impl Staff {
    /// Returns the workers that were started and have not ended.
    pub fn at_work(&self) -> Vec<Start> {
        let ended = self.ended.lock();
        let started = self.started.lock();
        started.values().filter(|s| !ended.contains(&s.worker.id)).cloned().collect()
    }

    /// Returns the number of workers ever started.
    pub fn began(&self) -> usize {
        *self.count.borrow()
    }

    /// Returns the workers that the hub asked to stop.
    pub fn asked_to_stop(&self) -> Vec<InstanceId> {
        self.asked_to_stop.lock().clone()
    }

    /// Lets a worker write to its stdout.
    pub async fn writes(&self, who: InstanceId, bytes: &[u8]) {
        self.runs(who).await;
        self.wrote.lock().entry(who).or_default().extend_from_slice(bytes);
    }

    /// Gives a worker a terminal.
    pub async fn opens_terminal(&self, who: InstanceId) {
        self.runs(who).await;
        self.terminals.lock().insert(who);
    }

    /// Lets a worker's driver add an entry to its transcript.
    pub async fn notes(&self, who: InstanceId, kind: TranscriptKind, text: &str) {
        self.runs(who).await;
        let mut all = self.transcripts.lock();
        let transcript = all.entry(who).or_default();
        let no = transcript.entries.len() as u64 + 1;
        let (at, text) = (Timestamp(1_000_000_000_000), text.to_owned());
        let (name, id, state) = (None, None, None);
        transcript.entries.push(TranscriptEntry { no, at, kind, text, name, id, state });
        transcript.last.send_replace(no);
    }

    /// Lets a worker's driver note that a call of a tool began or ended.
    pub async fn calls(&self, who: InstanceId, id: &str, state: &str) {
        self.notes(who, TranscriptKind::Tool, "{}").await;
        let mut all = self.transcripts.lock();
        let Some(entry) = all.get_mut(&who).and_then(|t| t.entries.last_mut()) else { return };
        entry.at = SystemClock::new().now();
        entry.name = Some("count".to_owned());
        (entry.id, entry.state) = (Some(id.to_owned()), Some(state.to_owned()));
    }

    /// Lets a worker's model write an answer; the worker's turns can be cancelled from then
    /// on.
    pub async fn is_writing(&self, who: InstanceId, text: &str) {
        self.runs(who).await;
        let mut all = self.writing.lock();
        all.entry(who).or_default().send_replace(text.to_owned());
    }

    /// Returns the workers whose turn the hub cancelled.
    pub fn cancelled(&self) -> Vec<InstanceId> {
        self.cancelled.lock().clone()
    }

    fn is_at_work(&self, who: InstanceId) -> bool {
        self.started.lock().contains_key(&who) && !self.ended.lock().contains(&who)
    }

    pub fn woken(&self) -> Vec<WakeRequest> {
        std::mem::take(&mut self.woken.lock())
    }

    /// Sets the result of the next [`Launcher::find`] for this worker.
    pub fn leaves(&self, who: InstanceId, found: Found) {
        self.left.lock().insert(who, found);
    }

    /// Delays the next [`Launcher::find`] until `told` is signalled.
    pub fn looks_after(&self, told: oneshot::Receiver<()>) {
        *self.look.lock() = Some(told);
    }

    /// Waits until `count` workers were started, since the beginning.
    pub async fn has_started(&self, count: usize) {
        let mut started = self.count.subscribe();
        started.wait_for(|n| *n >= count).await.expect("it counts as long as it is");
    }

    /// Waits until this worker runs.
    pub async fn runs(&self, who: InstanceId) -> Start {
        let mut started = self.count.subscribe();
        let known = |_: &usize| self.started.lock().contains_key(&who);
        started.wait_for(known).await.expect("it counts as long as it is");
        self.started.lock()[&who].clone()
    }

    /// Waits until `count` texts were told, and returns them with their `redelivered`
    /// marks.
    pub async fn has_told(&self, count: usize) -> Vec<(InstanceId, String, bool)> {
        let mut news = self.count.subscribe();
        let enough = |_: &usize| self.told.lock().len() >= count;
        news.wait_for(enough).await.expect("it counts as long as it is");
        self.told.lock().clone()
    }

    /// Lets a worker end by itself.
    pub async fn ends(&self, hub: &Arc<Hub>, who: InstanceId, outcome: Outcome) {
        self.ended.lock().insert(who);
        hub.conclude(who, outcome).await;
    }

    /// Lets a worker end well, with this answer.
    pub async fn answers(&self, hub: &Arc<Hub>, who: InstanceId, answer: &str) {
        let (end, why) = (Ended::Finished, "exit code 0".to_owned());
        let (code, answer) = (Some(0), Some(answer.to_owned()));
        self.ends(hub, who, Outcome { end, code, answer, why, ..Outcome::default() }).await;
    }

    /// Lets a worker end with an exit code.
    pub async fn fails(&self, hub: &Arc<Hub>, who: InstanceId, code: i32, tail: &str) {
        let (code, why, tail) = (Some(code), format!("exit code {code}"), tail.to_owned());
        self.ends(hub, who, Outcome { code, why, tail, ..Outcome::default() }).await;
    }
}

fn hears_mail(job: &Job) -> bool {
    job.profile.template.config.contains("\"stdin\":\"mail\"")
}

impl Launcher for Staff {
    fn check(&self, job: &Job) -> Result<Way, LaunchError> {
        match job.profile.template.driver.as_deref() {
            None | Some("external") => Ok(Way::ByItself),
            Some("command") => {
                let hears = hears_mail(job);
                Ok(Way::Started { worktree: job.worktree.unwrap_or(false), timeout: None, hears })
            }
            Some(other) => Err(LaunchError::new(
                format!("the program `{other}` is not here"),
                "install it, or name another in the profile",
            )),
        }
    }

    fn prepare<'a>(
        &'a self,
        worker: &'a Instance,
        job: &'a Job,
    ) -> BoxFuture<'a, Result<Workplace, LaunchError>> {
        let directory = job.directory.clone().unwrap_or_else(|| "/scratch".into());
        let branch = job.worktree.filter(|w| *w).map(|_| format!("posthaste/{}", worker.id));
        async move { Ok(Workplace { directory, branch }) }.boxed()
    }

    fn discard<'a>(&'a self, _: &'a Instance) -> BoxFuture<'a, Option<String>> {
        async { None }.boxed()
    }

    fn start<'a>(
        &'a self,
        hub: &'a Arc<Hub>,
        start: Start,
    ) -> BoxFuture<'a, Result<(), LaunchError>> {
        async move {
            self.hub.lock().get_or_insert_with(|| Arc::clone(hub));
            if start.task_text() == "cannot" {
                return Err(LaunchError::new("no such program: cannot", "install it"));
            }
            self.started.lock().insert(start.worker.id, start);
            self.count.send_modify(|n| *n += 1);
            Ok(())
        }
        .boxed()
    }

    fn find<'a>(&'a self, _: &'a Arc<Hub>, worker: &'a Instance) -> BoxFuture<'a, Found> {
        let found = self.left.lock().remove(&worker.id);
        let look = self.look.lock().take();
        async move {
            if let Some(told) = look {
                let _ = told.await;
            }
            found.unwrap_or(Found::NeverRan)
        }
        .boxed()
    }

    /// A worker whose profile says `stdin: mail`, or whose task is `listen` or `deaf`,
    /// hears; telling one that is `deaf` fails.
    fn hears(&self, who: InstanceId) -> bool {
        let hears = |start: &Start| {
            hears_mail(&start.job) || matches!(start.task_text(), "listen" | "deaf")
        };
        self.started.lock().get(&who).is_some_and(hears)
    }

    fn tell(&self, who: InstanceId, mail: &[Letter]) -> io::Result<()> {
        if self.started.lock().get(&who).is_some_and(|start| start.task_text() == "deaf") {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "its stdin is closed"));
        }
        let texts = mail.iter().map(|l| (who, l.message.body.to_string(), l.redelivered));
        self.told.lock().extend(texts);
        self.count.send_modify(|_| ());
        Ok(())
    }

    fn stop(&self, who: InstanceId, why: &str) -> bool {
        if !self.is_at_work(who) {
            return false;
        }
        self.asked_to_stop.lock().push(who);
        let stubborn = self.started.lock()[&who].worker.agent.as_str() == STUBBORN;
        let Some(hub) = self.hub.lock().clone().filter(|_| !stubborn) else { return true };
        self.ended.lock().insert(who);
        let (end, why) = (Ended::Stopped, why.to_owned());
        tokio::spawn(async move {
            hub.conclude(who, Outcome { end, why, ..Outcome::default() }).await;
        });
        true
    }

    fn silent_for(&self, who: InstanceId) -> Option<Duration> {
        // A worker that has written anything counts as having written just now.
        (!self.wrote.lock().contains_key(&who)).then_some(Duration::MAX)
    }

    fn output(
        &self,
        who: InstanceId,
        stream: Stream,
        from: u64,
        most: usize,
    ) -> BoxFuture<'_, io::Result<Option<Output>>> {
        let kept = self.wrote.lock().get(&who).cloned();
        let kept = kept.filter(|_| stream == Stream::Stdout).map(|all| {
            let total = all.len() as u64;
            let begin = usize::try_from(from.min(total)).unwrap_or(all.len());
            let bytes: Vec<u8> = all[begin..].iter().take(most).copied().collect();
            Output { next: (begin + bytes.len()) as u64, bytes, total, dropped: 0 }
        });
        async move { Ok(kept) }.boxed()
    }

    fn transcript(
        &self,
        who: InstanceId,
        after: u64,
        most: usize,
    ) -> BoxFuture<'_, io::Result<Option<TranscriptPage>>> {
        let page = self.transcripts.lock().get(&who).map(|transcript| {
            let entries = transcript.entries.iter().filter(|entry| entry.no > after);
            let entries = entries.take(most).cloned().collect();
            TranscriptPage { entries, oldest: 1, last: *transcript.last.borrow() }
        });
        async move { Ok(page) }.boxed()
    }

    fn transcript_news(&self, who: InstanceId) -> Option<watch::Receiver<u64>> {
        self.transcripts.lock().get(&who).map(|transcript| transcript.last.subscribe())
    }

    fn terminal(&self, who: InstanceId) -> Option<Terminal> {
        let opened = self.is_at_work(who) && self.terminals.lock().contains(&who);
        opened.then(|| Terminal {
            socket: "/tmp/tmux-1000/default".into(),
            session: "$0".to_owned(),
            pane: "%1".to_owned(),
        })
    }

    fn answers_operator(&self, job: &Job) -> bool {
        hears_mail(job)
    }

    fn cancel(&self, who: InstanceId) -> bool {
        let can = self.writing.lock().contains_key(&who);
        if can {
            self.cancelled.lock().push(who);
        }
        can
    }

    fn writing(&self, who: InstanceId) -> Option<watch::Receiver<String>> {
        self.writing.lock().get(&who).map(watch::Sender::subscribe)
    }

    fn wake<'a>(
        &'a self,
        _: &'a Arc<Hub>,
        request: WakeRequest,
    ) -> BoxFuture<'a, Result<bool, LaunchError>> {
        let wakes = request.profile.template.config.contains("wake");
        if wakes {
            self.woken.lock().push(request);
        }
        async move { Ok(wakes) }.boxed()
    }

    fn forget_all_but<'a>(&'a self, _: &'a [InstanceId]) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            let left = self.at_work();
            let Some(hub) = self.hub.lock().take() else { return };
            for who in left.into_iter().map(|start| start.worker.id) {
                self.ended.lock().insert(who);
                let (end, why) = (Ended::Stopped, "the hub stopped".to_owned());
                hub.conclude(who, Outcome { end, why, ..Outcome::default() }).await;
            }
        }
        .boxed()
    }
}

/// Makes a profile whose workers this launcher starts.
pub async fn profile(hub: &Hub, name: &str, driver: Option<&str>, config: &str) {
    let kind = AgentKind::External;
    let template = Template {
        driver: driver.map(str::to_owned),
        config: config.to_owned(),
        ..Template::new(name.parse().expect("a good name"), kind)
    };
    let put = PutProfile { template, by: Source::Api, expect: Expect::Anything };
    hub.put_profile(put).await.expect("kept");
}
