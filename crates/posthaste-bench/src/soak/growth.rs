//! Whether a series of samples grows, in spite of its noise.
//!
//! Two estimates must agree. The trend is the Theil-Sen slope, the median of the slopes
//! between all pairs of samples, over the whole time: single peaks do not move it. The
//! rise is the median of the last third less the median of the first: a curve that
//! flattens out does not reach it. A leak shows in both.

use crate::stats;

/// How far a series may drift before it counts as growth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    /// A share of the first third's median.
    pub(super) share: f64,
    /// What comes on top, in the unit of the series.
    pub(super) swing: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    pub(super) first: f64,
    pub(super) last: f64,
    /// The slope times the time.
    pub(super) trend: f64,
    pub(super) allowed: f64,
    pub(super) grows: bool,
}

/// Fewest samples that are judged: two in each third.
pub(super) const FEWEST: usize = 6;

/// Judges samples of equal distance; `None` for too few.
pub(super) fn judge(values: &[f64], allowance: Allowance) -> Option<Growth> {
    if values.len() < FEWEST {
        return None;
    }
    let third = values.len() / 3;
    let first = stats::median(&values[..third])?;
    let last = stats::median(&values[values.len() - third..])?;
    let trend = slope(values)? * (values.len() - 1) as f64;
    let allowed = first * allowance.share + allowance.swing;
    let grows = last - first > allowed && trend > allowed;
    Some(Growth { first, last, trend, allowed, grows })
}

/// Per sample.
fn slope(values: &[f64]) -> Option<f64> {
    let pairs = values.iter().enumerate().flat_map(|(at, earlier)| {
        let later = values.iter().enumerate().skip(at + 1);
        later.map(move |(then, value)| (value - earlier) / (then - at) as f64)
    });
    stats::median(&pairs.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Allowance = Allowance { share: 0.05, swing: 4.0 };

    fn grows(values: impl IntoIterator<Item = f64>) -> bool {
        judge(&values.into_iter().collect::<Vec<_>>(), MEMORY).expect("enough samples").grows
    }

    /// Noise that is the same each time.
    fn noise(at: usize) -> f64 {
        ((at * 7919) % 13) as f64 / 2.0 - 3.0
    }

    #[test]
    fn noise_around_a_level_is_no_growth() {
        assert!(!grows((0..100).map(|at| 50.0 + noise(at))));
    }

    #[test]
    fn a_slow_leak_under_noise_is_growth() {
        assert!(grows((0..100).map(|at| 50.0 + noise(at) + at as f64 * 0.15)));
    }

    #[test]
    fn a_single_peak_is_no_growth() {
        assert!(!grows((0..100).map(|at| if (60..70).contains(&at) { 500.0 } else { 50.0 })));
    }

    #[test]
    fn what_falls_or_flattens_out_is_no_growth() {
        assert!(!grows((0..100).map(|at| 100.0 - at as f64)));
        assert!(!grows((0..100).map(|at| 50.0 - 8.0 / (1.0 + at as f64))));
    }

    #[test]
    fn a_few_samples_are_not_judged() {
        assert_eq!(judge(&[1.0, 100.0, 1_000.0], MEMORY), None);
    }
}
