//! R9: mixed load of 200 agents for as long as one likes, and nothing may grow.
//!
//! Most agents read through REST, some through MCP, some follow the events as well.
//! [`orders`] come at a fixed rate whatever the answers do. The hub is the real binary
//! with short retention, so that after the warm-up as much is forgotten as is new. Every
//! few seconds it is looked at from outside ([`sample`]); at the end the [`record`] of
//! what senders were told is held against what readers got, and [`growth`] says whether
//! anything grew.

mod client;
mod follower;
mod growth;
mod line;
mod orders;
mod reader;
mod record;
mod report;
mod sample;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::agents::{self, Agent};
use crate::cli::SoakArgs;
use crate::http::Conn;
use crate::hub::Hub;
use crate::load::watch;
use crate::mcp::Era;
use crate::output;
use crate::requests;
use crate::settings::Settings;

use self::client::McpAgent;
use self::line::Line;
use self::orders::{Lane, Order};
use self::reader::Reader;
use self::record::{Record, Who};
use self::report::Report;
use self::sample::Sample;

const AGENTS: usize = 200;
/// Of these, through MCP; every other one in the newer era.
const MCP_AGENTS: usize = 40;
/// Of these, with a stream of events beside.
const FOLLOWERS: usize = 6;
/// Connections that carry orders out.
const LANES: usize = 16;
/// The number of whoever is here for a moment only.
const GUEST: Who = usize::MAX;
const NAME: &str = "agent";
const WORKER: &str = "parrot";
const EVERYONE_EVERY: Duration = Duration::from_secs(4);
const WORK_EVERY: Duration = Duration::from_secs(2);
const LONGEST_TEXT: usize = 2_000;

/// Two hours are sampled every ten seconds, a minute every half second.
const SAMPLES: u32 = 120;
const RAREST_SAMPLE: Duration = Duration::from_secs(10);
/// Samples between two words about how it goes.
const NOTE_EVERY: usize = 60;
/// Not judged: the part in which caches fill, until retention has come round.
const WARM_UP: u32 = 4;
/// How much longer a run may take than it should.
const LONGEST: u32 = 10;
/// Retention as a part of the whole: it comes round within the warm-up.
const RETENTION: u32 = 16;
const LONGEST_RETENTION: Duration = Duration::from_secs(60);
/// How long the readers have to get what was accepted last.
const LAST_READS: Duration = Duration::from_secs(60);

/// What everybody of the load has.
struct Shared {
    hub: SocketAddr,
    operator: String,
    agents: Vec<Agent>,
    /// The first so many read through REST.
    rest_readers: usize,
    numbers: HashMap<String, Who>,
    record: Record,
    /// No order is carried out any more; who reads goes on.
    over: AtomicBool,
    stop: AtomicBool,
    lanes: Vec<UnboundedSender<Order>>,
    next_lane: AtomicUsize,
    /// Orders that were given and not carried out yet.
    open: AtomicUsize,
}

impl Shared {
    /// Orders go round the lanes.
    fn order(&self, order: Order) {
        let lane = self.next_lane.fetch_add(1, Ordering::Relaxed) % self.lanes.len();
        if self.lanes[lane].send(order).is_ok() {
            self.open.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_done(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    fn number_of(&self, instance: &str) -> Option<Who> {
        self.numbers.get(instance).copied()
    }

    /// Of any length.
    fn text(&self, rng: &mut StdRng) -> String {
        "x".repeat(rng.random_range(1..LONGEST_TEXT))
    }
}

pub(crate) async fn run(settings: &Settings, args: &SoakArgs) -> anyhow::Result<ExitCode> {
    let time = Duration::try_from_secs_f64(args.minutes * 60.0).context("minutes")?;
    ensure!(time >= Duration::from_secs(5), "a soak of less than five seconds says nothing");
    let seed = args.seed.unwrap_or_else(rand::random);
    let mut rng = StdRng::seed_from_u64(seed);
    let settings = forgetful(settings, (time / RETENTION).min(LONGEST_RETENTION));
    let scratch = settings.folder()?;
    let folder = scratch.path().join("data");
    let mut hub = Hub::start(&settings, &folder, 0).await?;
    add_worker(&hub).await?;
    let agents = agents::create(&hub, NAME, AGENTS).await?;
    let numbers = agents.iter().enumerate().map(|(who, agent)| (agent.id.clone(), who));
    let (lanes, queues): (Vec<_>, Vec<_>) = (0..LANES).map(|_| unbounded_channel()).unzip();
    let shared = Arc::new(Shared {
        hub: hub.address,
        operator: hub.operator.clone(),
        rest_readers: AGENTS - MCP_AGENTS,
        numbers: numbers.collect(),
        agents,
        record: Record::default(),
        over: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        lanes,
        next_lane: AtomicUsize::new(0),
        open: AtomicUsize::new(0),
    });

    let mut tasks = JoinSet::new();
    for who in 0..shared.rest_readers {
        tasks.spawn(Reader::new(who, Arc::clone(&shared), rng.random()).run());
    }
    for who in shared.rest_readers..AGENTS {
        let era = if who % 2 == 0 { Era::Old } else { Era::New };
        tasks.spawn(McpAgent::new(who, era, Arc::clone(&shared), rng.random()).run());
    }
    for who in 0..FOLLOWERS {
        tasks.spawn(follower::follow(who, Arc::clone(&shared), rng.random()));
    }
    for queue in queues {
        tasks.spawn(Lane::new(Arc::clone(&shared), rng.random()).run(queue));
    }
    let seed_text = format!("{AGENTS} agents for {} s, seed {seed}", time.as_secs());
    output::note(&seed_text);

    let cpu = hub.cpu()?;
    let began = Instant::now();
    let samples = tokio::select! {
        samples = take_samples(&hub, &folder, &shared, time) => samples?,
        never = give_orders(&shared, args.rate) => match never {},
        Some(ended) = tasks.join_next() => {
            ended??;
            anyhow::bail!("a part of the load ended by itself");
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let cpu = (hub.cpu()? - cpu).as_secs_f64();
    let behind = shared.open.load(Ordering::Relaxed);

    // What is under way is finished, and the readers go on until everything was seen.
    shared.over.store(true, Ordering::Relaxed);
    while shared.open.load(Ordering::Relaxed) > 0 {
        watch(&mut tasks, Duration::from_millis(50)).await?;
    }
    let deadline = Instant::now() + LAST_READS;
    while shared.record.missing() != (0, 0) && Instant::now() < deadline {
        watch(&mut tasks, Duration::from_millis(50)).await?;
    }
    let missing = shared.record.missing();
    if missing != (0, 0) {
        output::note(&format!("missing: {}", shared.record.some_missing()));
    }
    shared.stop.store(true, Ordering::Relaxed);
    tasks.shutdown().await;
    let clean = hub.stop().await?;
    let report = Report {
        seed,
        agents: AGENTS,
        warm_up: (time / WARM_UP).as_secs_f64(),
        seconds,
        samples,
        counts: shared.record.counts(),
        cpu,
        missing,
        behind,
        clean,
    };
    report.print(&settings, args)?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Without this, memory and disk would grow for a day, and rightly.
fn forgetful(settings: &Settings, retention: Duration) -> Settings {
    let ms = |time: Duration| format!("{}ms", time.as_millis());
    let short = ms(retention / 4);
    let keep = ms(retention);
    let mut with = settings.with("POSTHASTE_LIMITS__SWEEP", &short);
    for (name, value) in [
        ("PRUNE", &short),
        ("KEY_RETENTION", &keep),
        ("SETTLED_RETENTION", &keep),
        ("DEAD_RETENTION", &keep),
        ("EVENT_RETENTION", &keep),
    ] {
        with = with.with(&format!("POSTHASTE_LIMITS__{name}"), value);
    }
    with
}

/// A program that says what it was told.
async fn add_worker(hub: &Hub) -> anyhow::Result<()> {
    let config = json!({ "command": ["/bin/cat"] });
    let profile = json!({ "name": WORKER, "driver": "command", "config": config });
    let request = requests::post("/v1/profiles", &hub.operator, &profile.to_string());
    let mut conn = Conn::open(hub.address).await?;
    let answer = conn.call(&request).await?;
    ensure!(answer.status == 201, answer.unexpected());
    Ok(())
}

/// Gives orders at their rates, whatever becomes of them, until it is dropped.
async fn give_orders(shared: &Shared, rate: u32) -> Infallible {
    let began = Instant::now();
    let (mut due, mut given) = ([began; 3], [0; 3]);
    let every = [Duration::from_secs(1) / rate, EVERYONE_EVERY, WORK_EVERY];
    loop {
        let next = (0..due.len()).min_by_key(|kind| due[*kind]).unwrap_or(0);
        sleep_until(due[next]).await;
        due[next] += every[next];
        given[next] += 1;
        shared.order(match next {
            0 => Order::Any(given[next]),
            1 => Order::Everyone(given[next]),
            _ => Order::Assign(given[next]),
        });
    }
}

/// Looks at the hub again and again, for `time`, and on a machine that is too busy until
/// there is enough to judge.
async fn take_samples(
    hub: &Hub,
    folder: &Path,
    shared: &Shared,
    time: Duration,
) -> anyhow::Result<Vec<Sample>> {
    let mut line = Line::new(hub.address);
    let mut samples = Vec::new();
    let began = Instant::now();
    let mut looks = interval((time / SAMPLES).min(RAREST_SAMPLE));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let warm_up = (time / WARM_UP).as_secs_f64();
    let judged = |samples: &[Sample]| samples.iter().filter(|s| s.at >= warm_up).count();
    while began.elapsed() < time || judged(&samples) < growth::FEWEST {
        ensure!(began.elapsed() < time * LONGEST, "the hub is too slow to be looked at");
        looks.tick().await;
        let at = began.elapsed().as_secs_f64();
        samples.push(Sample::take(at, hub, folder, &mut line, &shared.record).await?);
        if samples.len().is_multiple_of(NOTE_EVERY) {
            note(&samples, shared);
        }
    }
    Ok(samples)
}

fn note(samples: &[Sample], shared: &Shared) {
    let Some(last) = samples.last() else { return };
    let (counts, open) = (shared.record.counts(), shared.open.load(Ordering::Relaxed));
    let missing = shared.record.missing().0;
    output::note(&format!(
        "{:.0} s: {} calls, {} accepted, {missing} under way, {open} orders open, {:.1} MiB",
        last.at, counts.calls, counts.accepted, last.values[0]
    ));
}
