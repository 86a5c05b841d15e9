//! Is the disk in its right mind?
//!
//! In spells a flush takes a whole tick of the kernel instead of a tenth of a
//! millisecond. A run in such a spell measures the spell.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::output;
use crate::settings::Settings;
use crate::stats;

const FLUSHES: usize = 9;
/// Slower than this, in microseconds, and the run is repeated.
const SLOW_US: f64 = 700.0;
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Flushes of 4 KiB, over and over in the same place, each in microseconds.
pub(crate) fn flushes(folder: &Path, count: usize) -> anyhow::Result<Vec<f64>> {
    const PLACES: usize = 64;
    let page = [0x5a_u8; 4096];
    let mut file = File::create(folder.join("flush.probe"))?;
    file.write_all(&page.repeat(PLACES))?;
    file.sync_all()?;
    let mut took = Vec::with_capacity(count);
    for number in 0..count {
        let at = u64::try_from(number % PLACES * page.len())?;
        let began = Instant::now();
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&page)?;
        file.sync_data()?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(took)
}

/// The median flush now, in microseconds.
pub(crate) fn flush_now(settings: &Settings) -> anyhow::Result<f64> {
    let scratch = settings.folder()?;
    stats::median(&flushes(scratch.path(), FLUSHES)?).context("no flush")
}

/// What a run found, and the slower of the flushes before and after it.
pub(crate) struct Steady<T> {
    pub(crate) found: T,
    pub(crate) flush_us: f64,
    pub(crate) slow: bool,
}

/// Runs `work` between two probes, again when the disk was slow, at most three
/// times. What is slow to the end is kept and flagged.
pub(crate) async fn steady<T>(
    settings: &Settings,
    mut work: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<Steady<T>> {
    let mut attempt = 1;
    loop {
        let before = flush_now(settings)?;
        if before > SLOW_US && attempt < ATTEMPTS {
            output::note(&format!("    a flush takes {before:.0} us: waiting"));
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let found = work().await?;
        let flush_us = before.max(flush_now(settings)?);
        let slow = flush_us > SLOW_US;
        if !slow || attempt >= ATTEMPTS {
            return Ok(Steady { found, flush_us, slow });
        }
        output::note(&format!("    a flush takes {flush_us:.0} us: once more"));
        attempt += 1;
    }
}
