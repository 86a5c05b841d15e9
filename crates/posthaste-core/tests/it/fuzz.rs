//! Broken words: every text that names something is read, or refused with a clear error,
//! and what is printed reads back as the same.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use posthaste_core::address::{Address, InstanceId, Mailbox, Name};
use posthaste_core::messaging::message::{Kind, MessageRef, Priority, ThreadId};
use posthaste_core::registry::{AgentKind, Status};
use posthaste_core::road::TraceParent;
use posthaste_core::time::Timestamp;
use posthaste_testkit::fuzz;

const WORDS: [&str; 22] = [
    "human",
    "Operator",
    "mason",
    "mason@avalon",
    "mason.a3f7b2c1@avalon",
    "inst-A3F7B2C1",
    "a3f7b2c1",
    "@anyone",
    "@everyone@avalon",
    "n.mason@avalon",
    "any@avalon",
    "i.a3f7b2c1",
    "t-a3f7b2c1",
    "9f86d081884c7d65",
    "4711",
    "system.agent_failed",
    "question",
    "urgent",
    "external",
    "running",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "größe@日本",
];

/// What reads is printed as something that reads as the same.
fn reads_back<T>(text: &str)
where
    T: FromStr<Err: Debug> + Display + PartialEq + Debug,
{
    if let Ok(read) = text.parse::<T>() {
        let printed = read.to_string();
        assert_eq!(printed.parse::<T>().expect(&printed), read, "{printed}");
    }
}

/// A refusal is one line that people can read, however long the text was.
fn is_clear(told: &str) {
    assert!(!told.is_empty() && told.chars().count() < 500, "{} bytes", told.len());
}

#[test]
fn every_name_reads_back_or_is_refused_clearly() {
    for case in fuzz::cases(20_000, &WORDS) {
        let text = case.text();
        reads_back::<Address>(&text);
        reads_back::<Mailbox>(&text);
        reads_back::<Name>(&text);
        reads_back::<InstanceId>(&text);
        reads_back::<ThreadId>(&text);
        reads_back::<MessageRef>(&text);
        for refused in [
            text.parse::<Address>().err().map(|e| e.to_string()),
            text.parse::<Mailbox>().err().map(|e| e.to_string()),
            text.parse::<ThreadId>().err().map(|e| e.to_string()),
            text.parse::<MessageRef>().err().map(|e| e.to_string()),
            text.parse::<Kind>().err().map(|e| e.to_string()),
            text.parse::<Priority>().err().map(|e| e.to_string()),
            text.parse::<AgentKind>().err().map(|e| e.to_string()),
            text.parse::<Status>().err().map(|e| e.to_string()),
        ]
        .into_iter()
        .flatten()
        {
            is_clear(&refused);
        }
        let _ = text.parse::<TraceParent>();
    }
}

#[test]
fn a_message_is_named_by_its_number_only_as_it_is_printed() {
    for number in ["1", "999999999999999", "9223372036854775807"] {
        assert_eq!(number.parse::<MessageRef>().expect("a number").to_string(), number);
    }
    // The last one would be printed as sixteen digits, which name a message by its id.
    for odd in ["+5", "-5", " 5", "5 ", "0x5", "0", "05", "01000000000000000"] {
        assert!(odd.parse::<MessageRef>().is_err(), "{odd}");
    }
}

#[test]
fn no_time_is_too_early_or_too_late_to_be_told_apart() {
    let times = [i64::MIN, i64::MIN + 1, -1, 0, 1, 1_700_000_000_000, i64::MAX - 1, i64::MAX];
    for a in times.map(Timestamp) {
        assert!(!a.to_string().is_empty());
        for b in times.map(Timestamp) {
            assert_eq!(a.since(b).is_zero(), a <= b, "{a} since {b}");
            assert!(a + b.since(a) <= b.max(a), "{a} and {b}");
        }
    }
}
