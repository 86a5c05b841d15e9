//! Stand-ins for what differs from run to run: ids, tokens, receipts, times.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const TIME: &str = "2026-01-05T09:30:00.000Z";

/// Fields whose values are made by chance, what stands before the hex digits of each, and
/// how many digits there are.
const FIELDS: [(&str, &str, usize); 11] = [
    ("instance", "", 8),
    ("sender_id", "", 8),
    ("thread_id", "t-", 8),
    ("id", "", 8),
    ("id", "", 16),
    ("terminal_id", "", 8),
    ("uid", "", 16),
    ("receipt", "r-", 16),
    ("token", "", 64),
    ("secret", "", 64),
    ("worker", "", 8),
];

/// What stands for a number that differs from run to run.
fn measured(name: &str) -> Option<Value> {
    match name {
        "waited_s" => Some(json!(0.0)),
        "age_sec" | "oldest_unread_age_sec" => Some(json!(12)),
        "pid" => Some(json!(4711)),
        _ => None,
    }
}

#[derive(Default)]
pub(super) struct StandIns {
    /// By what they stand for.
    known: BTreeMap<String, String>,
}

impl StandIns {
    /// Gives everything new in an answer a stand-in, in the order of its coming.
    pub(super) fn learn(&mut self, answer: &Value) {
        match answer {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let Some(text) = value.as_str() {
                        self.learn_field(name, text);
                    }
                    self.learn(value);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.learn(value)),
            _ => {}
        }
    }

    fn learn_field(&mut self, name: &str, text: &str) {
        let is_hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
        for (field, before, length) in FIELDS {
            let digits = text.strip_prefix(before).filter(|digits| digits.len() == length);
            if field == name && digits.is_some_and(is_hex) && !self.known.contains_key(text) {
                let digest = Sha256::digest(format!("{before}{length} {}", self.known.len()));
                let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                self.known.insert(text.to_owned(), format!("{before}{}", &digits[..length]));
            }
        }
    }

    /// The value with its stand-ins.
    pub(super) fn shown(&self, value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let is_health = fields.contains_key("service");
                let shown = fields.into_iter().map(|(name, value)| {
                    let value = match name.as_str() {
                        "version" if is_health => json!("1.0.0"),
                        // By id, which is made by chance.
                        "members" => sorted(self.shown(value)),
                        name => measured(name).unwrap_or_else(|| self.shown(value)),
                    };
                    (name, value)
                });
                Value::Object(shown.collect())
            }
            Value::Array(list) => list.into_iter().map(|value| self.shown(value)).collect(),
            Value::String(text) => self.text(&text).into(),
            other => other,
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text =
            text.replace(concat!("Posthaste ", env!("CARGO_PKG_VERSION")), "Posthaste 1.0.0");
        // A thread and a receipt may hold the digits of something shorter.
        let mut known: Vec<_> = self.known.iter().collect();
        known.sort_by_key(|(real, _)| std::cmp::Reverse(real.len()));
        for (real, shown) in known {
            text = text.replace(real.as_str(), shown);
        }
        with_one_time(text)
    }
}

fn sorted(list: Value) -> Value {
    let Value::Array(mut list) = list else { return list };
    list.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    list.into()
}

/// Every time in a text becomes the same one.
fn with_one_time(mut text: String) -> String {
    let is_time = |bytes: &[u8]| {
        bytes.iter().zip(TIME.bytes()).all(|(byte, like)| match like {
            b'0'..=b'9' => byte.is_ascii_digit(),
            _ => *byte == like,
        })
    };
    let found = text.as_bytes().windows(TIME.len()).enumerate();
    let places: Vec<usize> = found.filter(|(_, at)| is_time(at)).map(|(at, _)| at).collect();
    for at in places {
        text.replace_range(at..at + TIME.len(), TIME);
    }
    text
}
