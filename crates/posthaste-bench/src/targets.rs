//! One table from figures to measures, and what the hub must reach.
//!
//! `Must` is a promise, `aim` is where it should be. Ratios are taken within a
//! round; the median over the rounds is what counts.

use std::collections::BTreeMap;

/// How a measure comes from the figures of one round.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Formula {
    Plain(&'static str),
    /// The first divided by the sum of the others.
    Ratio(&'static str, &'static [&'static str]),
}

impl Formula {
    pub(crate) fn of(self, round: &BTreeMap<&'static str, f64>) -> Option<f64> {
        match self {
            Self::Plain(name) => round.get(name).copied(),
            Self::Ratio(name, by) => {
                let by: Option<f64> = by.iter().map(|name| round.get(name).copied()).sum();
                Some(round.get(name)? / by?)
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// A limit of the machine, or a figure that helps to read another.
    None,
    AtLeast {
        must: f64,
        aim: f64,
    },
    AtMost {
        must: f64,
        aim: f64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    None,
    Short,
    /// The must is reached, the aim is not.
    Ok,
    Aim,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Short => "short",
            Self::Ok => "ok",
            Self::Aim => "ok, aim",
        }
    }
}

impl Target {
    pub(crate) fn judge(self, value: f64) -> Verdict {
        let by = |must: bool, aim: bool| match (must, aim) {
            (_, true) => Verdict::Aim,
            (true, false) => Verdict::Ok,
            (false, false) => Verdict::Short,
        };
        match self {
            Self::None => Verdict::None,
            Self::AtLeast { must, aim } => by(value >= must, value >= aim),
            Self::AtMost { must, aim } => by(value <= must, value <= aim),
        }
    }

    pub(crate) fn words(self) -> (String, String) {
        match self {
            Self::None => (String::new(), String::new()),
            Self::AtLeast { must, aim } => (format!(">= {must}"), format!(">= {aim}")),
            Self::AtMost { must, aim } => (format!("<= {must}"), format!("<= {aim}")),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Measure {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) formula: Formula,
    pub(crate) target: Target,
}

impl Measure {
    /// Rates should be high; times, CPU and memory low.
    pub(crate) fn more_is_better(&self) -> bool {
        let (Formula::Plain(name) | Formula::Ratio(name, _)) = self.formula;
        name.ends_with("_per_s")
    }
}

const fn plain(
    id: &'static str,
    what: &'static str,
    name: &'static str,
    target: Target,
) -> Measure {
    Measure { id, what, formula: Formula::Plain(name), target }
}

const fn ratio(
    id: &'static str,
    what: &'static str,
    name: &'static str,
    by: &'static [&'static str],
    target: Target,
) -> Measure {
    Measure { id, what, formula: Formula::Ratio(name, by), target }
}

const fn at_least(must: f64, aim: f64) -> Target {
    Target::AtLeast { must, aim }
}

const fn at_most(must: f64, aim: f64) -> Target {
    Target::AtMost { must, aim }
}

const NONE: Target = Target::None;

/// In the order of the table.
pub(crate) const MEASURES: &[Measure] = &[
    plain("limit", "HTTP echo of 1 KiB, 64 connections, /s", "echo.per_s", NONE),
    plain("limit", "HTTP echo, server CPU, us", "echo.server_us", NONE),
    plain("limit", "HTTP echo, longest call of 64 connections, ms", "echo.longest_ms", NONE),
    plain("limit", "HTTP echo at 300/s, p50 us", "echo_paced.p50_us", NONE),
    plain("limit", "HTTP echo at 300/s, p99 us", "echo_paced.p99_us", NONE),
    plain("limit", "flush of 4 KiB, p50 us", "flush.p50_us", NONE),
    plain("limit", "commit, closed loop, p50 us", "commit.p50_us", NONE),
    plain("limit", "commit at 300/s, p50 us", "commit_paced.p50_us", NONE),
    plain("limit", "commit at 300/s, p99 us", "commit_paced.p99_us", NONE),
    plain("T4", "durable sends/s", "t4.sends_per_s", NONE),
    ratio("T4", "durable sends/s / echo", "t4.sends_per_s", &["echo.per_s"], at_least(0.26, 0.32)),
    plain("T4", "server CPU per message, us", "t4.server_us", at_most(26.0, 21.0)),
    ratio("T4", "server CPU / echo's", "t4.server_us", &["echo.server_us"], NONE),
    plain("T4", "client CPU per message, us", "t4.client_us", NONE),
    plain("T4s", "second half of the sustained run, sends/s", "t4s.sends_per_s", NONE),
    plain("T4s", "server CPU per message, first half, us", "t4s.first_us", NONE),
    plain("T4s", "server CPU per message, second half, us", "t4s.server_us", NONE),
    ratio(
        "T4s",
        "server CPU, second half / T4's",
        "t4s.server_us",
        &["t4.server_us"],
        at_most(1.1, 1.03),
    ),
    plain("T4s", "put off until after the load, us per message", "t4s.put_off_us", NONE),
    plain("T4s", "ack, second half, p50 ms", "t4s.p50_ms", NONE),
    plain("T4s", "ack, second half, p99 ms", "t4s.p99_ms", NONE),
    plain("T4s", "longest ack, second half, ms", "t4s.longest_ms", at_most(25.0, 10.0)),
    plain("parts", "a call that does nothing, server CPU, us", "parts.door_us", NONE),
    plain("parts", "a poll of an empty mailbox, server CPU, us", "parts.poll_us", NONE),
    plain("parts", "a send that nobody reads, server CPU, us", "parts.unread_us", NONE),
    plain("parts", "sends that nobody reads, /s", "parts.unread_per_s", NONE),
    plain("T6", "send to receive at 300/s, p50 us", "t6.p50_us", NONE),
    plain("T6", "send to receive at 300/s, p99 us", "t6.p99_us", NONE),
    ratio(
        "T6",
        "p50 / (echo + commit, both at 300/s)",
        "t6.p50_us",
        &["echo_paced.p50_us", "commit_paced.p50_us"],
        at_most(1.5, 1.25),
    ),
    plain("T8", "50 send at once, one call holds all, p50 ms", "t8.p50_ms", NONE),
    plain("T8", "the same through MCP, p50 ms", "t8.mcp_p50_ms", NONE),
    plain("T8", "RabbitMQ, quorum queue, p50 ms", "t8.rabbit_p50_ms", NONE),
    ratio("T8", "p50 / RabbitMQ's", "t8.p50_ms", &["t8.rabbit_p50_ms"], at_most(0.35, 0.2)),
    ratio(
        "T8",
        "p50 through MCP / RabbitMQ's",
        "t8.mcp_p50_ms",
        &["t8.rabbit_p50_ms"],
        at_most(0.35, 0.2),
    ),
    plain("T8", "p99 ms", "t8.p99_ms", NONE),
    plain("T8", "through MCP, p99 ms", "t8.mcp_p99_ms", NONE),
    plain("T8", "RabbitMQ, p99 ms", "t8.rabbit_p99_ms", NONE),
    plain("T8", "server CPU per message, us", "t8.server_us", NONE),
    plain("T8", "server CPU per message, MCP, us", "t8.mcp_server_us", NONE),
    plain("T8", "server CPU per message, RabbitMQ, us", "t8.rabbit_server_us", NONE),
    plain("T8", "client CPU per message, us", "t8.client_us", NONE),
    plain("T8", "client CPU per message, RabbitMQ, us", "t8.rabbit_client_us", NONE),
    plain(
        "workers",
        "hub CPU per worker that does nothing, ms",
        "workers.hub_ms",
        at_most(20.0, 5.0),
    ),
    plain("workers", "started, ended and reported, /s", "workers.per_s", NONE),
    plain("T9", "memory per waiting reader, KiB", "t9.kib", at_most(14.0, 9.0)),
    plain("T9", "wake-up with 10 waiting, p50 us", "t9.few_p50_us", NONE),
    plain("T9", "wake-up with all waiting, p50 us", "t9.many_p50_us", NONE),
    plain("T9", "wake-up with 10 waiting, p99 us", "t9.few_p99_us", NONE),
    plain("T9", "wake-up with all waiting, p99 us", "t9.many_p99_us", NONE),
    ratio("T9", "wake-up p99, all / 10", "t9.many_p99_us", &["t9.few_p99_us"], at_most(1.15, 1.05)),
    plain("T11", "sends/s, empty hub", "t11.empty_per_s", NONE),
    plain("T11", "sends/s, pending elsewhere", "t11.full_per_s", NONE),
    plain("T11", "hub memory with them, MB", "t11.rss_mb", NONE),
    ratio(
        "T11",
        "sends/s, pending elsewhere / empty",
        "t11.full_per_s",
        &["t11.empty_per_s"],
        at_least(0.9, 0.95),
    ),
    plain("T11", "/health answers after kill -9, ms", "t11.health_ms", NONE),
    plain("T11", "/ready after kill -9, ms", "t11.ready_ms", at_most(300.0, 100.0)),
    plain("T12", "backlog read out, /s", "t12.drained_per_s", NONE),
    plain("T12", "server CPU per message read, us", "t12.server_us", NONE),
    ratio("T12", "drain / send", "t12.drained_per_s", &["t4.sends_per_s"], at_least(4.0, 6.0)),
    plain("T13", "sends/s through REST", "t13.rest_per_s", NONE),
    plain("T13", "sends/s through MCP", "t13.mcp_per_s", NONE),
    plain("T13", "sends/s through MCP of 2026-07-28", "t13.new_per_s", NONE),
    ratio("T13", "sends/s, MCP / REST", "t13.mcp_per_s", &["t13.rest_per_s"], at_least(0.7, 0.85)),
    ratio(
        "T13",
        "sends/s, MCP of 2026-07-28 / REST",
        "t13.new_per_s",
        &["t13.rest_per_s"],
        at_least(0.7, 0.85),
    ),
    plain("T13", "server CPU per message, REST, us", "t13.rest_us", NONE),
    plain("T13", "server CPU per message, MCP, us", "t13.mcp_us", NONE),
    plain("T13", "server CPU per message, MCP of 2026-07-28, us", "t13.new_us", NONE),
    plain("T13", "client CPU per message, REST, us", "t13.rest_client_us", NONE),
    plain("T13", "client CPU per message, MCP, us", "t13.mcp_client_us", NONE),
    plain("T14", "search, three words, p99 ms", "t14.three_ms", at_most(5.0, 2.0)),
    plain("T14", "search, commonest word, p99 ms", "t14.common_ms", at_most(10.0, 3.0)),
    plain("T15", "hub memory, idle, MB", "t15.rss_mb", at_most(20.0, 10.0)),
    plain("T15", "start to first answer, fresh folder, ms", "t15.fresh_ms", at_most(150.0, 50.0)),
    plain("T15", "start to first answer, again, ms", "t15.again_ms", at_most(150.0, 50.0)),
    plain("T16", "memory per connected MCP agent, KiB", "t16.kib", at_most(40.0, 20.0)),
    plain("T16", "the same for an agent of 2026-07-28, KiB", "t16.new_kib", NONE),
    plain("T16", "of which its open stream alone, KiB", "t16.stream_kib", NONE),
    plain("T16", "memory per waiting check_inbox alone, KiB", "t16.waiting_kib", NONE),
    plain("T16", "memory per joined agent, not connected, KiB", "t16.joined_kib", NONE),
    plain("T17", "hub memory after 1,000 settled messages, MB", "t17.few_mb", NONE),
    plain("T17", "hub memory after all of the sustained run, MB", "t17.all_mb", NONE),
    ratio(
        "T17",
        "hub memory, after all / after 1,000",
        "t17.all_mb",
        &["t17.few_mb"],
        at_most(2.0, 1.2),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_within_a_round_and_only_if_all_of_it_was_measured() {
        let round = BTreeMap::from([("a", 6.0), ("b", 1.0), ("c", 2.0)]);
        assert_eq!(Formula::Ratio("a", &["b", "c"]).of(&round), Some(2.0));
        assert_eq!(Formula::Ratio("a", &["b", "d"]).of(&round), None);
        assert_eq!(Formula::Plain("d").of(&round), None);
    }

    #[test]
    fn the_direction_of_a_measure_is_that_of_its_target() {
        for measure in MEASURES {
            match measure.target {
                Target::None => {}
                Target::AtLeast { .. } => assert!(measure.more_is_better(), "{}", measure.what),
                Target::AtMost { .. } => assert!(!measure.more_is_better(), "{}", measure.what),
            }
        }
    }

    #[test]
    fn more_is_better_or_less_is() {
        let rate = Target::AtLeast { must: 0.26, aim: 0.32 };
        assert_eq!(rate.judge(0.25), Verdict::Short);
        assert_eq!(rate.judge(0.26), Verdict::Ok);
        assert_eq!(rate.judge(0.32), Verdict::Aim);
        let cost = Target::AtMost { must: 26.0, aim: 21.0 };
        assert_eq!(cost.judge(27.0), Verdict::Short);
        assert_eq!(cost.judge(26.0), Verdict::Ok);
        assert_eq!(cost.judge(20.0), Verdict::Aim);
    }
}
