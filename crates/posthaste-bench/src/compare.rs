//! One build of the hub against another, from the same rounds.

use serde_json::{Value, json};

use crate::rounds::Sheet;
use crate::stats;
use crate::targets::{MEASURES, Measure};

/// A smaller difference is not called one.
const NOISE: f64 = 0.03;

/// A measure of both builds, in each round that has it.
pub(crate) struct Comparison {
    pub(crate) measure: &'static Measure,
    this: Vec<f64>,
    other: Vec<f64>,
    /// This build's value divided by the other's, round by round.
    pub(crate) ratios: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    Better,
    Even,
    Worse,
}

impl Difference {
    /// Of the ratios of all rounds. A median beyond the noise counts only if every
    /// round lies on the same side.
    fn of(ratios: &[f64], more_is_better: bool) -> Self {
        let (Some(median), Some((least, most))) = (stats::median(ratios), stats::span(ratios))
        else {
            return Self::Even;
        };
        let more = median > 1.0 + NOISE && least > 1.0;
        let less = median < 1.0 - NOISE && most < 1.0;
        match (more, less) {
            (true, _) if more_is_better => Self::Better,
            (_, true) if !more_is_better => Self::Better,
            (false, false) => Self::Even,
            _ => Self::Worse,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Even => "even",
            Self::Worse => "worse",
        }
    }
}

impl Comparison {
    pub(crate) fn difference(&self) -> Difference {
        Difference::of(&self.ratios, self.measure.more_is_better())
    }

    /// Medians of this build, of the other and of their ratio, and the ratio's span.
    pub(crate) fn line(&self, short: impl Fn(f64) -> String) -> [String; 8] {
        let median = |values: &[f64]| stats::median(values).map(&short).unwrap_or_default();
        let (least, most) = stats::span(&self.ratios).unwrap_or_default();
        let rounds: Vec<String> = self.ratios.iter().map(|ratio| short(*ratio)).collect();
        [
            self.measure.id.to_owned(),
            self.measure.what.to_owned(),
            median(&self.this),
            median(&self.other),
            median(&self.ratios),
            format!("{} - {}", short(least), short(most)),
            self.difference().word().to_owned(),
            rounds.join(" "),
        ]
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "id": self.measure.id,
            "measure": self.measure.what,
            "this": self.this,
            "other": self.other,
            "ratios": self.ratios,
            "median": stats::median(&self.ratios),
            "verdict": self.difference().word(),
        })
    }
}

/// Everything that both builds have. A limit of the machine is neither's.
pub(crate) fn all(sheet: &Sheet) -> Vec<Comparison> {
    let measures = MEASURES.iter().filter(|measure| measure.id != "limit");
    let all = measures.map(|measure| {
        let rounds = sheet.rounds.iter().zip(&sheet.other);
        let both = rounds.filter_map(|(this, other)| {
            Some((measure.formula.of(this)?, measure.formula.of(other)?))
        });
        let (this, other): (Vec<f64>, Vec<f64>) = both.unzip();
        let ratios = this.iter().zip(&other).map(|(this, other)| this / other).collect();
        Comparison { measure, this, other, ratios }
    });
    all.filter(|comparison| !comparison.ratios.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Round;

    #[test]
    fn a_difference_counts_when_every_round_shows_it() {
        assert_eq!(Difference::of(&[1.1, 1.2, 1.05], true), Difference::Better);
        assert_eq!(Difference::of(&[1.1, 1.2, 1.05], false), Difference::Worse);
        assert_eq!(Difference::of(&[0.9, 0.8, 0.95], false), Difference::Better);
        assert_eq!(Difference::of(&[0.9, 0.8, 0.95], true), Difference::Worse);
        assert_eq!(Difference::of(&[1.1, 1.2, 0.99], false), Difference::Even);
        assert_eq!(Difference::of(&[1.01, 1.02, 1.02], false), Difference::Even);
    }

    #[test]
    fn only_rounds_of_both_builds_are_compared() {
        let of = |cost: f64| Round::from([("t4.server_us", cost)]);
        let sheet = Sheet {
            rounds: vec![of(20.0), of(30.0)],
            other: vec![of(40.0), Round::new()],
            ..Sheet::default()
        };
        let all = all(&sheet);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].ratios, [0.5]);
    }
}
