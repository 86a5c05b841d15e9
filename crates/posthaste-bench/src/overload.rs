//! R10: far more senders than the hub can serve.
//!
//! What the hub sustains is measured first, with as many senders as T4 has. Then a crowd
//! comes that is larger than the line in front of the writer (`store.waiting`), and each
//! of it sends again as soon as it was answered: 201, or 503 because the line is full.
//! Nobody reads meanwhile. At the end every message that was accepted must be in its
//! mailbox, once, and a send alone must be about as quick as before.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::agents::Agent;
use crate::answers::{Tail, stamps};
use crate::http::Conn;
use crate::hub::Hub;
use crate::load::{Crew, first_key, saturate};
use crate::measure::saturate::{PRODUCERS, READERS};
use crate::output;
use crate::requests::{Poll, Send, post};
use crate::settings::Settings;
use crate::stats;

/// Writes that may wait, and who comes: several times as many.
const LINE: usize = 500;
const CROWD: usize = 2_000;
/// Sends one by one, before and after.
const ALONE: usize = 100;
/// How much slower a send alone may be afterwards.
const SLOWER: f64 = 3.0;
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);
/// Memory that the crowd may cost: a connection with its request each, and what is
/// accepted and unread.
const RSS_EACH: u64 = 64 * 1024;
const RSS_MESSAGE: u64 = 2 * 1024;
const RSS_BASE: u64 = 128 * 1024 * 1024;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let settings = settings.with("POSTHASTE_STORE__WAITING", &LINE.to_string());
    let scratch = settings.folder()?;
    let hub = Hub::start(&settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let sustained = saturate::run(&hub, &crew, settings.warm_up(), settings.seconds).await?;
    let before = alone(&hub, &crew).await?;
    let small = hub.rss()?;
    let crowd = Crowd::come(&hub, &crew, settings.seconds).await?;
    let large = hub.rss()?;
    let after = recovered(&hub, &crew, before).await?;
    let read = read_out(&hub, &crew.readers).await?;

    let sent: HashSet<u64> = crowd.accepted.iter().copied().collect();
    let came: HashSet<u64> = read.iter().copied().collect();
    // What was sent alone has no stamp of the crowd.
    let lost = sent.difference(&came).count();
    let twice = read.iter().filter(|stamp| sent.contains(stamp)).count() - (sent.len() - lost);
    let seconds = crowd.took.as_secs_f64();
    let (accepted, refused) = (sent.len() as f64 / seconds, crowd.refused as f64 / seconds);
    let room = RSS_BASE + RSS_EACH * CROWD as u64 + RSS_MESSAGE * sent.len() as u64;
    let grown = large.saturating_sub(small);
    let longest = stats::span(&crowd.took_ms).map_or(0.0, |(_, most)| most);
    let p99 = stats::percentile(&crowd.took_ms, 0.99).unwrap_or(0.0);
    output::say(&format!(
        "sustained by {PRODUCERS} senders  {:.0}/s\n\
         asked by {CROWD} senders      {:.0}/s, {:.1} times that; line of {LINE}\n\
         accepted (201)            {accepted:.0}/s, {:.2} times what is sustained\n\
         refused (503)             {refused:.0}/s\n\
         time to an answer         p99 {p99:.0} ms, longest {longest:.0} ms\n\
         memory                    {:.0} MiB more, {:.0} MiB allowed\n\
         one send alone            {before:.2} ms before, {after:.2} ms after",
        sustained.per_second(),
        accepted + refused,
        (accepted + refused) / sustained.per_second(),
        accepted / sustained.per_second(),
        grown as f64 / 1048576.0,
        room as f64 / 1048576.0,
    ));
    let musts = [
        ("accepted and lost", lost == 0),
        ("accepted and read twice", twice == 0),
        ("other answers than 201 and 503", crowd.odd.is_none()),
        ("nobody was refused: no overload", crowd.refused > 0),
        ("too much memory", grown <= room),
        ("a send alone is slow afterwards", after <= before * SLOWER),
    ];
    for (broken, good) in musts {
        if !good {
            output::say(&format!("BROKEN: {broken}"));
        }
    }
    if let Some(odd) = &crowd.odd {
        output::say(odd);
    }
    let good = musts.iter().all(|(_, good)| *good);
    output::say(if good { "good" } else { "not good" });
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The median of some sends, one by one, in milliseconds.
async fn alone(hub: &Hub, crew: &Crew) -> anyhow::Result<f64> {
    let mut conn = Conn::open(hub.address).await?;
    let mut send = Send::new(&crew.producers[0].token, PRODUCERS);
    let mut took = Vec::with_capacity(ALONE);
    for key in (first_key()..).take(ALONE) {
        let request = send.to(&crew.readers[0].id).key(key).bytes();
        let began = Instant::now();
        let answer = conn.call(request).await?;
        ensure!(answer.status == 201, answer.unexpected());
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    stats::median(&took).context("no sends")
}

/// The same when the hub has recovered, which it is given some tries for: others may
/// have the machine just then.
async fn recovered(hub: &Hub, crew: &Crew, before: f64) -> anyhow::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        best = alone(hub, crew).await?.min(best);
        if best <= before * SLOWER {
            break;
        }
        sleep(PAUSE).await;
    }
    Ok(best)
}

/// What became of everything that the crowd sent.
#[derive(Default)]
struct Crowd {
    /// Stamps.
    accepted: Vec<u64>,
    refused: u64,
    /// An answer that nobody should get.
    odd: Option<String>,
    took_ms: Vec<f64>,
    took: Duration,
}

impl Crowd {
    async fn come(hub: &Hub, crew: &Crew, time: Duration) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut conns = Vec::with_capacity(CROWD);
        for _ in 0..CROWD {
            conns.push(Conn::open(hub.address).await?);
        }
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for (number, conn) in conns.into_iter().enumerate() {
            let from = &crew.producers[number % crew.producers.len()];
            let to = crew.readers[number % crew.readers.len()].id.clone();
            tasks.spawn(press(conn, Send::new(&from.token, number), number, to, Arc::clone(&stop)));
        }
        watch_for(&mut tasks, time).await?;
        stop.store(true, Ordering::Relaxed);
        let mut all = Self::default();
        while let Some(one) = tasks.join_next().await {
            let one = one??;
            all.accepted.extend(one.accepted);
            all.refused += one.refused;
            all.odd = all.odd.or(one.odd);
            all.took_ms.extend(one.took_ms);
        }
        all.took = began.elapsed();
        Ok(all)
    }
}

/// Lets the crowd press; nobody of it ends before it is told to.
async fn watch_for(
    tasks: &mut JoinSet<anyhow::Result<Crowd>>,
    time: Duration,
) -> anyhow::Result<()> {
    tokio::select! {
        () = sleep(time) => Ok(()),
        Some(ended) = tasks.join_next() => match ended?? {
            Crowd { odd: Some(odd), .. } => Err(anyhow::anyhow!(odd)),
            _ => Err(anyhow::anyhow!("one of the crowd went away")),
        },
    }
}

/// One of the crowd: sends again as soon as it is answered.
async fn press(
    mut conn: Conn,
    mut send: Send,
    number: usize,
    to: String,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Crowd> {
    let mut seen = Crowd::default();
    let mut stamp = u64::try_from(number)? << 32;
    let first = first_key();
    while !stop.load(Ordering::Relaxed) {
        stamp += 1;
        let request = send.to(&to).key(first + (stamp & 0xffff_ffff)).stamp(stamp).bytes();
        let began = Instant::now();
        let answer = conn.call(request).await?;
        seen.took_ms.push(began.elapsed().as_secs_f64() * 1e3);
        match answer.status {
            201 => seen.accepted.push(stamp),
            503 => seen.refused += 1,
            _ => {
                seen.odd = Some(answer.unexpected().to_string());
                return Ok(seen);
            }
        }
    }
    Ok(seen)
}

/// Everything that waits for these: the stamps.
async fn read_out(hub: &Hub, readers: &[Agent]) -> anyhow::Result<Vec<u64>> {
    let mut tasks = JoinSet::new();
    for reader in readers {
        tasks.spawn(read_one(hub.address, reader.clone()));
    }
    let mut all = Vec::new();
    while let Some(one) = tasks.join_next().await {
        all.extend(one??);
    }
    Ok(all)
}

async fn read_one(hub: SocketAddr, reader: Agent) -> anyhow::Result<Vec<u64>> {
    let mut conn = Conn::open(hub).await?;
    let mut poll = Poll::new(&reader.token, 0);
    let mut found = Vec::new();
    loop {
        let answer = conn.call(poll.with(None)).await?;
        ensure!(answer.status == 200, answer.unexpected());
        found.extend(stamps(answer.body));
        let Some(receipt) = Tail::read(answer.body)?.receipt.map(str::to_owned) else {
            return Ok(found);
        };
        let body = serde_json::json!({ "receipt": receipt }).to_string();
        let answer = conn.call(&post("/v1/inbox/ack", &reader.token, &body)).await?;
        ensure!(answer.status == 200, answer.unexpected());
    }
}
