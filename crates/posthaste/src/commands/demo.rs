//! `posthaste demo`: shows the use of a hub in a quarter of a minute.
//!
//! Everything is real and nothing is the user's: a separate hub in a separate folder, a
//! supervisor that speaks MCP, and five workers that are processes. Then the demo kills
//! processes, and the supervisor's one call still returns every result.
//!
//! With a program (`--with`) the demo is a real little job instead: `job.rs`.

mod hub;
mod job;
mod pages;
mod programs;
mod repository;
mod supervisor;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal as ProcessSignal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use self::hub::DemoHub;
use self::supervisor::{Gathered, Supervisor};
use crate::cli::DemoArgs;
use crate::failure::{Failure, internal};
use crate::output::Output;

/// Number of parts in which a worker reads its page.
const PARTS: u32 = 8;

/// The result of the demo, for programs.
#[derive(Debug, Serialize)]
struct Told {
    settled: usize,
    failed: usize,
    lost: usize,
    seconds: f64,
    pages: Vec<Page>,
}

#[derive(Debug, Serialize)]
struct Page {
    page: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

pub(super) async fn run(args: &DemoArgs, output: &mut Output) -> Result<(), Failure> {
    if let Some(program) = args.with {
        return job::run(program, args, output).await;
    }
    let told =
        in_scratch(args.keep, output, async |folder, output| play(args, folder, output).await)
            .await?;
    if output.json() {
        output.answer(&told)?;
    }
    output.flush()?;
    match told.lost == 0 && told.settled == told.pages.len() && told.failed == 1 {
        true => Ok(()),
        false => Err(internal("the demo did not end as it should").into()),
    }
}

/// Plays in a folder that is removed afterwards, unless it is to be kept. Ctrl-C drops the
/// play, which stops its hub.
async fn in_scratch<T>(
    keep: bool,
    output: &mut Output,
    play: impl AsyncFnOnce(&Path, &mut Output) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut signals = Signals::new().map_err(|e| internal(format!("no signals: {e}")))?;
    let folder = tempfile::Builder::new().prefix("posthaste-demo-").tempdir();
    let folder = folder.map_err(|e| internal(format!("no folder for the demo: {e}")))?;
    let told = tokio::select! {
        told = play(folder.path(), output) => told,
        () = signals.any() => Err(Failure::Interrupted),
    };
    if keep {
        let kept = folder.keep();
        output.note(&format!("the demo's folder stays: {}", kept.display()));
    }
    told
}

async fn play(args: &DemoArgs, folder: &Path, output: &mut Output) -> Result<Told, Failure> {
    let mut story = Story::new(output);
    story.say(OPENS)?;
    let part = args.pace;
    let data = folder.join("data");
    pages::write(folder, &data, part).map_err(|e| internal(format!("the demo's pages: {e}")))?;

    let mut hub = story.hub(&data).await?;

    let supervisor = Supervisor::join(&data)?;
    story.tells(&format!("{} is here: a script that speaks MCP", supervisor.address))?;
    let (supervisor, workers) = blocking(move || supervisor.assigns(pages::NAMES)).await?;
    story.tells(&format!("it has assigned {} workers, one for each page", workers.len()))?;
    story.tells("it calls check_inbox(wait_for=\"all\"): one call for everything")?;
    let gather = tokio::task::spawn_blocking(move || supervisor.gathers());

    sleep(part * 2).await;
    let victim = &workers[1];
    let process = worker_process(&data, victim)?;
    kill(process, "the worker")?;
    story.tells(&format!("the worker of {} is killed (process {process})", pages::NAMES[1]))?;

    sleep(part).await;
    let pid = hub.kill()?;
    story.tells(&format!("the hub is killed with -9 (process {pid}); its workers go on"))?;
    sleep(part).await;
    hub.restart().await?;
    story.tells("the hub is back on the same folder, and has found its workers")?;

    let (supervisor, gathered) = gather.await.map_err(|e| internal(e.to_string()))??;
    story.tells(&format!("the one call answers: {}", gathered.status))?;
    supervisor.leaves();
    let told = judged(&gathered, story.began.elapsed());
    story.closes(&told)?;
    hub.stop().await;
    Ok(told)
}

/// The signals that end the demo early: Ctrl-C, `kill`, and a closed terminal.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
            _ = self.hangup.recv() => (),
        }
    }
}

/// Returns what the supervisor tells its human.
fn judged(gathered: &Gathered, took: Duration) -> Told {
    let page = |name: &'static str| {
        let report = gathered.reports.iter().find(|report| report.label == name);
        let (words, failed) = match report {
            Some(report) if report.failed => {
                (None, Some(report.text.lines().next().unwrap_or_default().to_owned()))
            }
            Some(report) => (report.text.trim().parse().ok(), None),
            None => (None, None),
        };
        Page { page: name, words, failed }
    };
    let pages: Vec<Page> = pages::NAMES.into_iter().map(page).collect();
    let failed = pages.iter().filter(|page| page.failed.is_some()).count();
    let counted = pages.iter().filter(|page| page.words == pages::words(page.page)).count();
    Told {
        settled: pages.iter().filter(|p| p.failed.is_some() || p.words.is_some()).count(),
        failed,
        lost: pages.len() - failed - counted,
        seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
        pages,
    }
}

/// The keeper's note of a worker's start.
#[derive(Deserialize)]
struct Started {
    worker: Option<i32>,
}

fn worker_process(data: &Path, instance: &str) -> Result<i32, Failure> {
    let note = data.join("agents").join(instance).join("started");
    let text = std::fs::read(note).map_err(|e| internal(format!("no worker runs: {e}")))?;
    let started: Option<Started> = serde_json::from_slice(&text).ok();
    let process = started.and_then(|started| started.worker);
    process.ok_or_else(|| internal("no worker runs").into())
}

fn kill(process: i32, who: &str) -> Result<(), Failure> {
    let pid = Pid::from_raw(process).ok_or_else(|| internal("no such process"))?;
    let killed = kill_process(pid, ProcessSignal::KILL);
    killed.map_err(|e| internal(format!("{who} cannot be killed: {e}")).into())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    spawn_blocking(work).await.map_err(|e| internal(e.to_string()))?
}

/// Tells the story as it happens.
struct Story<'a> {
    began: Instant,
    output: &'a mut Output,
}

/// The first words of the demo with scripts.
const OPENS: &str = "A supervisor and five workers count the words of Posthaste's own pages.\n\
    All six are scripts: no model is asked, no key is needed. Then things go wrong.\n";

impl<'a> Story<'a> {
    fn new(output: &'a mut Output) -> Self {
        Self { began: Instant::now(), output }
    }

    /// Starts a hub on this folder, and says where it is.
    async fn hub(&mut self, data: &Path) -> Result<DemoHub, Failure> {
        let hub = DemoHub::start(data).await?;
        self.tells(&format!("a hub of its own listens at {}", hub.url))?;
        self.adds(&format!("watch it live: posthaste tail --data {}", data.display()))?;
        Ok(hub)
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.output.json() {
            return Ok(());
        }
        self.output.say(text)?;
        self.output.flush()
    }

    fn tells(&mut self, what: &str) -> Result<(), Failure> {
        let seconds = self.began.elapsed().as_secs_f64();
        self.say(&format!("{seconds:5.1} s  {what}"))
    }

    fn adds(&mut self, what: &str) -> Result<(), Failure> {
        self.say(&format!("         {what}"))
    }

    fn closes(&mut self, told: &Told) -> Result<(), Failure> {
        let mut table = String::new();
        for page in &told.pages {
            let what = match (&page.words, &page.failed) {
                (Some(words), _) => format!("{words:>6} words"),
                (None, Some(why)) => why.clone(),
                (None, None) => "lost".to_owned(),
            };
            table.push_str(&format!("\n  {:<18} {what}", page.page));
        }
        let Told { settled, failed, lost, .. } = told;
        let all = told.pages.len();
        self.say(&format!("{table}\n\n{settled} of {all} settled, {failed} failed, {lost} lost"))
    }
}

const _: () = assert!(PARTS > 4, "the worker must outlast the hub's absence");
