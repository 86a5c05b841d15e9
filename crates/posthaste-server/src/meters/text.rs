//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

use posthaste_core::figures::Spread;

/// Microseconds in a second.
const MICROS: f64 = 1e6;

/// A page that is being written: a head for each metric, then its lines.
#[derive(Default)]
pub(crate) struct MetricsText {
    text: String,
    name: &'static str,
}

impl MetricsText {
    pub(crate) fn counter(&mut self, name: &'static str, about: &str) {
        self.head(name, about, "counter");
    }

    pub(crate) fn gauge(&mut self, name: &'static str, about: &str) {
        self.head(name, about, "gauge");
    }

    pub(crate) fn histogram(&mut self, name: &'static str, about: &str) {
        self.head(name, about, "histogram");
    }

    fn head(&mut self, name: &'static str, about: &str, kind: &str) {
        self.name = name;
        self.put(format_args!("# HELP {name} {about}\n# TYPE {name} {kind}\n"));
    }

    pub(crate) fn value(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Writes a histogram of sizes.
    pub(crate) fn counts(&mut self, labels: &[(&str, &str)], spread: &Spread) {
        self.spread(labels, spread, 1.0);
    }

    /// Writes a histogram of times, counted in microseconds and shown in seconds.
    pub(crate) fn times(&mut self, labels: &[(&str, &str)], spread: &Spread) {
        self.spread(labels, spread, MICROS);
    }

    fn spread(&mut self, labels: &[(&str, &str)], spread: &Spread, unit: f64) {
        let mut up_to = 0;
        for (bound, count) in &spread.buckets {
            up_to += count;
            let bound = (*bound as f64 / unit).to_string();
            self.line("_bucket", labels, Some(&bound), up_to);
        }
        // A value may have been counted between the reads of the total and of the buckets.
        let total = spread.total.max(up_to);
        self.line("_bucket", labels, Some("+Inf"), total);
        self.line("_sum", labels, None, spread.sum as f64 / unit);
        self.line("_count", labels, None, total);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: impl Display,
    ) {
        let name = self.name;
        self.put(format_args!("{name}{suffix}"));
        let mut open = '{';
        for (label, value) in labels.iter().copied().chain(bound.map(|b| ("le", b))) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.put(format_args!("{open}{label}=\"{value}\""));
            open = ',';
        }
        let close = if open == ',' { "}" } else { "" };
        self.put(format_args!("{close} {value}\n"));
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes every text");
    }

    pub(crate) fn text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_upwards_and_ends_with_everything() {
        let mut page = MetricsText::default();
        page.histogram("t_seconds", "Times.");
        let buckets = vec![(1_000, 2), (2_500, 1)];
        page.times(&[("route", "/a\"b")], &Spread { buckets, sum: 1_500_000, total: 4 });
        assert_eq!(
            page.text(),
            "# HELP t_seconds Times.\n\
             # TYPE t_seconds histogram\n\
             t_seconds_bucket{route=\"/a\\\"b\",le=\"0.001\"} 2\n\
             t_seconds_bucket{route=\"/a\\\"b\",le=\"0.0025\"} 3\n\
             t_seconds_bucket{route=\"/a\\\"b\",le=\"+Inf\"} 4\n\
             t_seconds_sum{route=\"/a\\\"b\"} 1.5\n\
             t_seconds_count{route=\"/a\\\"b\"} 4\n"
        );
    }
}
