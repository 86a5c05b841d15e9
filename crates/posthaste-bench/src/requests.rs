//! Requests as bytes, made once and patched in place.

use std::fmt::Write;

/// Digits of a time in nanoseconds at the start of a text.
const DIGITS: usize = 20;
/// Where a template names the recipient: an instance's id is as long.
pub(crate) const TO: &str = "<--to-->";
/// Where a template names itself, by digits; may be there more than once.
pub(crate) const KEY: &str = "<------ key ----->";
/// What one message carries.
pub(crate) const BODY: usize = 1024;

pub(crate) fn get(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n")
        .into_bytes()
}

pub(crate) fn post(path: &str, token: &str, body: &str) -> Vec<u8> {
    send("POST", path, token, body)
}

/// With a body, which may be empty.
pub(crate) fn send(verb: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    format!(
        "{verb} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A send of 1 KiB. Recipient, key and the text's first digits have fixed places,
/// so that a producer writes three numbers and allocates nothing.
pub(crate) struct Send {
    bytes: Vec<u8>,
    to: usize,
    stamp: usize,
    keys: Vec<usize>,
}

impl Send {
    /// `producer` keeps the keys of two producers apart.
    pub(crate) fn new(token: &str, producer: usize) -> Self {
        let text = text();
        let body = format!(
            r#"{{"to":"{TO}","message":"{text}","idempotency_key":"{producer:05}-{KEY}"}}"#
        );
        Self::template(post("/v1/messages", token, &body))
    }

    /// Of a request that has [`TO`], [`KEY`] and [`text`] in it.
    pub(crate) fn template(bytes: Vec<u8>) -> Self {
        let request = String::from_utf8_lossy(&bytes);
        let at = |mark: &str| request.find(mark).unwrap_or(0);
        let (to, stamp) = (at(TO), at(&text()));
        let keys = request.match_indices(KEY).map(|(at, _)| at).collect();
        Self { bytes, to, stamp, keys }
    }

    /// `to` is an instance's id.
    pub(crate) fn to(&mut self, to: &str) -> &mut Self {
        self.bytes[self.to..][..to.len()].copy_from_slice(to.as_bytes());
        self
    }

    pub(crate) fn key(&mut self, number: u64) -> &mut Self {
        for key in &self.keys {
            put(&mut self.bytes[*key..][..KEY.len()], number);
        }
        self
    }

    /// A number that the reader finds at the start of the text.
    pub(crate) fn stamp(&mut self, number: u64) -> &mut Self {
        put_stamp(&mut self.bytes[self.stamp..], number);
        self
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What one message says: digits for a stamp, then nothing of interest.
pub(crate) fn text() -> String {
    "0".repeat(DIGITS) + &"x".repeat(BODY - DIGITS)
}

/// Writes a number to the start of a text, where [`stamp_of`] finds it.
pub(crate) fn put_stamp(text: &mut [u8], number: u64) {
    put(&mut text[..DIGITS], number);
}

/// The last digits of `number`, as many as there is room for.
fn put(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

/// The number that [`put_stamp`] put at the start of a text.
pub(crate) fn stamp_of(text: &str) -> Option<u64> {
    text.get(..DIGITS)?.parse().ok()
}

/// A wait for mail that proves the answer before it.
pub(crate) struct Poll {
    head: String,
    tail: String,
    text: String,
}

impl Poll {
    pub(crate) fn new(token: &str, timeout: u32) -> Self {
        Self {
            head: format!("GET /v1/inbox?timeout={timeout}&batch_window=0"),
            tail: format!(" HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n"),
            text: String::new(),
        }
    }

    /// Waits in one call until each of `from` has sent.
    pub(crate) fn for_all(token: &str, timeout: u32, from: &[String]) -> Self {
        let mut poll = Self::new(token, timeout);
        poll.head = format!("{}&wait_for=all&from={}", poll.head, from.join(","));
        poll
    }

    pub(crate) fn with(&mut self, receipt: Option<&str>) -> &[u8] {
        self.text.clear();
        self.text.push_str(&self.head);
        if let Some(receipt) = receipt {
            // Writing to a string does not fail.
            let _ = write!(self.text, "&receipt={receipt}");
        }
        self.text.push_str(&self.tail);
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_api::messages::{SendRequest, To};

    use super::*;

    fn body(request: &[u8]) -> SendRequest {
        let text = std::str::from_utf8(request).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        serde_json::from_str(body).expect("a request of the hub")
    }

    #[test]
    fn a_patched_template_is_a_request_that_the_hub_reads() {
        let mut send = Send::new("secret", 7);
        let request = body(send.to("a3f7b2c1").key(42).stamp(123_456).bytes());
        assert_eq!(request.to, To::One("a3f7b2c1".into()));
        assert_eq!(request.message.len(), BODY);
        assert_eq!(stamp_of(&request.message), Some(123_456));
        assert_eq!(request.idempotency_key.as_deref(), Some("00007-000000000000000042"));
    }

    #[test]
    fn a_poll_carries_the_receipt_of_the_answer_before() {
        let mut poll = Poll::new("secret", 30);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        assert!(text(poll.with(None)).starts_with("GET /v1/inbox?timeout=30&batch_window=0 HTTP"));
        let second = text(poll.with(Some("r-00")));
        assert!(second.contains("batch_window=0&receipt=r-00 HTTP/1.1\r\n"), "{second}");
    }

    #[test]
    fn a_poll_for_all_names_those_whom_it_waits_for() {
        let from = ["a3f7b2c1".to_owned(), "b4c5d6e7".to_owned()];
        let mut poll = Poll::for_all("secret", 30, &from);
        let text = String::from_utf8(poll.with(Some("r-00")).to_vec()).expect("text");
        let asked = "batch_window=0&wait_for=all&from=a3f7b2c1,b4c5d6e7&receipt=r-00 HTTP/1.1";
        assert!(text.contains(asked), "{text}");
    }
}
