//! The same calls over and over, on many connections: what does a call cost?

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::watch;
use crate::http::Conn;
use crate::procfs;

pub(crate) struct Hammered {
    pub(crate) per_second: f64,
    /// CPU of the server per call, in microseconds.
    pub(crate) server_us: f64,
    /// The longest call, warm-up included.
    pub(crate) longest: Duration,
}

/// One connection for each of `requests`, closed loop.
pub(crate) async fn run(
    server: SocketAddr,
    pid: u32,
    requests: Vec<Vec<u8>>,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Hammered> {
    let done = Arc::new(AtomicU64::new(0));
    let longest_ns = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for request in requests {
        let (done, stop) = (Arc::clone(&done), Arc::clone(&stop));
        let longest_ns = Arc::clone(&longest_ns);
        tasks.spawn(async move {
            let mut conn = Conn::open(server).await?;
            while !stop.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let answer = conn.call(&request).await?;
                ensure!(answer.status == 200, answer.unexpected());
                let took = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
                longest_ns.fetch_max(took, Ordering::Relaxed);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    watch(&mut tasks, warm_up).await?;
    let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
    let cpu = procfs::cpu(pid)?;
    watch(&mut tasks, time).await?;
    let (took, count) = (began.elapsed(), done.load(Ordering::Relaxed) - before);
    let cpu = procfs::cpu(pid)? - cpu;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    ensure!(count > 0, "nothing was answered");
    let count = count as f64;
    Ok(Hammered {
        per_second: count / took.as_secs_f64(),
        server_us: cpu.as_secs_f64() * 1e6 / count,
        longest: Duration::from_nanos(longest_ns.load(Ordering::Relaxed)),
    })
}
