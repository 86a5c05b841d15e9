//! T14: finding one of ten thousand profiles by its words.

use std::fmt::Write as _;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::http::Conn;
use crate::hub::Hub;
use crate::requests::{get, post};
use crate::rounds::Found;
use crate::settings::Settings;
use crate::stats;

/// Different words; the first are the commonest, as in any text.
const WORDS: usize = 2_000;
/// Words of one description.
const LENGTH: usize = 20;
const WRITERS: usize = 16;
const QUERIES: usize = 400;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    fill(&hub, settings.profiles).await?;
    hub.quiet().await?;
    let mut chance = StdRng::seed_from_u64(14);
    let mut conn = Conn::open(hub.address).await?;
    let mut three = Vec::with_capacity(QUERIES);
    let mut common = Vec::with_capacity(QUERIES);
    for _ in 0..QUERIES {
        let words: Vec<String> = (0..3).map(|_| word(rank(&mut chance))).collect();
        three.push(ask(&hub, &mut conn, &words.join("+")).await?);
        common.push(ask(&hub, &mut conn, &word(0)).await?);
    }
    let p99 = |took: &[f64]| stats::percentile(took, 0.99).context("nothing was asked");
    Ok(vec![("t14.three_ms", p99(&three)?), ("t14.common_ms", p99(&common)?)])
}

async fn ask(hub: &Hub, conn: &mut Conn, words: &str) -> anyhow::Result<f64> {
    let request = get(&format!("/v1/profiles/search?q={words}&limit=10"), &hub.operator);
    let began = Instant::now();
    let answer = conn.call(&request).await?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    ensure!(answer.status == 200, answer.unexpected());
    Ok(took)
}

async fn fill(hub: &Hub, profiles: usize) -> anyhow::Result<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (address, token) = (hub.address, hub.operator.clone());
        writers.spawn(async move {
            let mut conn = Conn::open(address).await?;
            let mut chance = StdRng::seed_from_u64(writer as u64);
            for number in (writer..profiles).step_by(WRITERS) {
                let body = profile(number, &mut chance);
                let answer = conn.call(&post("/v1/profiles", &token, &body)).await?;
                ensure!(answer.status == 201, answer.unexpected());
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}

fn profile(number: usize, chance: &mut StdRng) -> String {
    let mut told = word(0);
    for _ in 1..LENGTH {
        let _ = write!(told, " {}", word(rank(chance)));
    }
    let tag = word(rank(chance));
    format!(r#"{{"name":"agent-{number}","description":"{told}","tags":["{tag}"]}}"#)
}

/// The commoner, the likelier: about as Zipf says.
fn rank(chance: &mut StdRng) -> usize {
    let share: f64 = chance.random();
    let rank = (WORDS as f64).powf(share) - 1.0;
    (rank as usize).min(WORDS - 1)
}

/// A word that can be said: `ba`, `bake`, …
fn word(number: usize) -> String {
    const FIRST: [&str; 20] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu",
        "va", "we", "xi", "yo", "zu",
    ];
    let mut text = String::from("w");
    let mut left = number;
    loop {
        text.push_str(FIRST[left % FIRST.len()]);
        left /= FIRST.len();
        if left == 0 {
            return text;
        }
    }
}
