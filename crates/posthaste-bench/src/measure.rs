//! One file per measure. Each starts what it needs, measures once, and ends it.

pub(crate) mod commit;
pub(crate) mod connected;
pub(crate) mod drain;
pub(crate) mod gather;
pub(crate) mod limits;
pub(crate) mod mcp;
pub(crate) mod paced;
pub(crate) mod parts;
pub(crate) mod pending;
pub(crate) mod saturate;
pub(crate) mod search;
pub(crate) mod start;
pub(crate) mod sustained;
pub(crate) mod wait;
pub(crate) mod workers;

use anyhow::Context;

use crate::rounds::Found;
use crate::stats;

/// The rate of everything that is paced.
pub(crate) const PER_SECOND: u32 = 300;

fn percentiles(took: &[f64], p50: &'static str, p99: &'static str) -> anyhow::Result<Found> {
    let of = |share| stats::percentile(took, share).context("nothing was measured");
    Ok(vec![(p50, of(0.5)?), (p99, of(0.99)?)])
}
