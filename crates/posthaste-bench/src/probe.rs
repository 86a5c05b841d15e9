//! Is the machine in its right mind?
//!
//! In spells a flush takes a whole tick of the kernel instead of a tenth of a
//! millisecond, and at times others work on the same cores. A run in such a spell
//! measures the spell.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::settings::Settings;
use crate::{output, procfs, stats};

const FLUSHES: usize = 9;
/// Slower than this, in microseconds, and the run is repeated.
const SLOW_US: f64 = 700.0;
const ATTEMPTS: usize = 3;
/// A larger share of the cores for others, and the run is flagged.
const BUSY: f64 = 0.1;
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

/// What a run found, and what it was up against.
pub(crate) struct Steady<T> {
    pub(crate) found: T,
    /// The slower of the flushes before and after it.
    pub(crate) flush_us: f64,
    /// The share of both cores that neither the load nor its servers used.
    pub(crate) others: f64,
}

impl<T> Steady<T> {
    /// What a reader of the figure must know.
    pub(crate) fn flag(&self) -> Option<String> {
        let slow =
            (self.flush_us > SLOW_US).then(|| format!("a flush took {:.0} us", self.flush_us));
        let busy = (self.others > BUSY)
            .then(|| format!("others used {:.0} % of the cores", self.others * 100.0));
        let both: Vec<String> = [slow, busy].into_iter().flatten().collect();
        (!both.is_empty()).then(|| both.join(", "))
    }
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
        calm(settings).await?;
        let crowd = Crowd::look(settings)?;
        let found = work().await?;
        let others = crowd.share(settings)?;
        let flush_us = before.max(flush_now(settings)?);
        if flush_us <= SLOW_US || attempt >= ATTEMPTS {
            return Ok(Steady { found, flush_us, others });
        }
        output::note(&format!("    a flush takes {flush_us:.0} us: once more"));
        attempt += 1;
    }
}

/// Everybody on our cores, at one moment.
struct Crowd {
    at: Instant,
    all: Duration,
    own: Duration,
}

impl Crowd {
    fn look(settings: &Settings) -> anyhow::Result<Self> {
        let all = procfs::cores_cpu(&settings.cores())?;
        Ok(Self { at: Instant::now(), all, own: procfs::own_cpu()? })
    }

    /// What others used since then. Children count as own once they are reaped.
    fn share(&self, settings: &Settings) -> anyhow::Result<f64> {
        let now = Self::look(settings)?;
        let others = (now.all - self.all).saturating_sub(now.own - self.own);
        let room = self.at.elapsed().as_secs_f64() * settings.cores().len() as f64;
        Ok(others.as_secs_f64() / room.max(f64::MIN_POSITIVE))
    }
}

/// Waits for others to leave the cores, as long as the settings allow.
async fn calm(settings: &Settings) -> anyhow::Result<()> {
    let deadline = Instant::now() + settings.calm;
    while Instant::now() < deadline {
        let crowd = Crowd::look(settings)?;
        tokio::time::sleep(PAUSE).await;
        if crowd.share(settings)? <= BUSY {
            break;
        }
    }
    Ok(())
}
