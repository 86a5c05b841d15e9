//! The two answers that every message passes through, written as JSON field by
//! field: the receipt of a send, and the inbox.
//!
//! The derived way looks at each byte of each text in turn, which costs more than
//! all the rest of a send. Here a text that needs no escape is copied whole; one that
//! does goes the derived way. The tests hold both ways against each other.

use std::borrow::Cow;

use compact_str::{CompactString, ToCompactString};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::inbox::{Entry, Inbox};
use crate::messages::{Receipt, Recipient};

/// About as long as a receipt is, and an entry beside its text.
const RECEIPT: usize = 256;
const ENTRY: usize = 384;

impl Receipt {
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut out = Json(Vec::with_capacity(RECEIPT));
        out.number("{\"seq\":", self.seq);
        out.text(",\"id\":", &self.id)?;
        out.text(",\"thread_id\":", &self.thread_id)?;
        out.list(",\"recipients\":", &self.recipients, Json::recipient)?;
        out.flag(",\"duplicate\":", self.duplicate);
        out.flag(",\"durable\":", self.durable);
        if !self.skipped.is_empty() {
            out.other(",\"skipped\":", &self.skipped)?;
        }
        out.put("}");
        Ok(out.0)
    }
}

impl Inbox<'_> {
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let texts = self.messages.iter().map(|entry| entry.message.len() + ENTRY);
        let mut out = Json(Vec::with_capacity(texts.sum::<usize>() + ENTRY));
        out.list("{\"messages\":", &self.messages, Json::entry)?;
        out.number(",\"total\":", self.total as u64);
        out.text(",\"status\":", &self.status)?;
        out.other(",\"waited_s\":", &self.waited_s)?;
        if !self.missing.is_empty() {
            out.other(",\"missing\":", &self.missing)?;
        }
        if !self.already.is_empty() {
            out.other(",\"already\":", &self.already)?;
        }
        if self.remaining > 0 {
            out.number(",\"remaining\":", self.remaining as u64);
        }
        if !self.settled.is_empty() {
            out.other(",\"settled\":", &self.settled)?;
        }
        if let Some(receipt) = &self.receipt {
            out.text(",\"receipt\":", receipt)?;
        }
        out.put("}");
        Ok(out.0)
    }
}

pub(crate) struct Json(Vec<u8>);

impl Json {
    fn recipient(&mut self, to: &Recipient) -> Result<(), serde_json::Error> {
        self.text("{\"mailbox\":", &to.mailbox)?;
        self.number(",\"active\":", to.active.into());
        self.number(",\"waiting\":", to.waiting.into());
        self.put("}");
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<(), serde_json::Error> {
        let start = self.0.len();
        entry.write(self)?;
        // Each field that is told begins with a comma; the first has the brace instead.
        if let Some(first) = self.0.get_mut(start) {
            *first = b'{';
        }
        self.put("}");
        Ok(())
    }

    fn put(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, before: &str, number: u64) {
        self.put(before);
        self.put(&number.to_compact_string());
    }

    fn flag(&mut self, before: &str, flag: bool) {
        self.put(before);
        self.put(if flag { "true" } else { "false" });
    }

    /// Told only where it is so.
    fn mark(&mut self, before: &str, is_so: bool) {
        if is_so {
            self.flag(before, true);
        }
    }

    fn text(&mut self, before: &str, text: &str) -> Result<(), serde_json::Error> {
        let needs_escape = |b: u8| b < 0x20 || b == b'"' || b == b'\\';
        // No early end: the whole is looked at many bytes at a time.
        if text.bytes().fold(false, |found, b| found | needs_escape(b)) {
            return self.other(before, text);
        }
        self.put(before);
        self.put("\"");
        self.put(text);
        self.put("\"");
        Ok(())
    }

    fn list<T>(
        &mut self,
        before: &str,
        list: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), serde_json::Error>,
    ) -> Result<(), serde_json::Error> {
        self.put(before);
        let mut between = "[";
        for item in list {
            self.put(between);
            write(self, item)?;
            between = ",";
        }
        self.put(if list.is_empty() { "[]" } else { "]" });
        Ok(())
    }

    fn other<T: Serialize + ?Sized>(
        &mut self,
        before: &str,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        self.put(before);
        serde_json::to_writer(&mut self.0, value)
    }
}

/// A field of an entry, written with the comma and the name `before` it, or left out.
pub(crate) trait Field {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error>;
}

impl Field for str {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        json.text(before, self)
    }
}

impl Field for CompactString {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        json.text(before, self)
    }
}

impl Field for u64 {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        json.number(before, *self);
        Ok(())
    }
}

impl Field for usize {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        json.number(before, *self as u64);
        Ok(())
    }
}

/// A mark: told only where it is so.
impl Field for bool {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        json.mark(before, *self);
        Ok(())
    }
}

impl Field for RawValue {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        json.put(before);
        json.put(self.get());
        Ok(())
    }
}

impl<F: Field + ToOwned + ?Sized> Field for Cow<'_, F> {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        F::write(self, before, json)
    }
}

/// Left out if there is none.
impl<F: Field> Field for Option<F> {
    fn write(&self, before: &str, json: &mut Json) -> Result<(), serde_json::Error> {
        self.as_ref().map_or(Ok(()), |field| field.write(before, json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::{Already, Missing};

    const TEXTS: [&str; 9] = [
        "",
        "plain",
        "naïve ☃",
        "quote \" slash \\ line \n bell \u{7} snow \u{2603} \u{1f980} end \u{2028}",
        "\u{7f}",
        "{\"a\":1}",
        "a line\nand another, longer than what is looked at in one step",
        "\\",
        "the last byte is a quote\"",
    ];

    /// What the derived way makes of it.
    fn derived(value: &impl Serialize) -> String {
        serde_json::to_string(value).expect("it is JSON")
    }

    fn text(json: Result<Vec<u8>, serde_json::Error>) -> String {
        String::from_utf8(json.expect("it is JSON")).expect("JSON is UTF-8")
    }

    /// An entry of which only what it must have is known.
    fn bare(text: &str) -> Entry<'_> {
        let bare = serde_json::json!({
            "seq": u64::MAX, "id": u64::MAX, "uid": "9f86d081884c7d65", "from": text,
            "sender_id": "human", "relation": "peer", "to": text, "message": text, "type": "text",
            "thread_id": "t-00000000", "created_at": "2026-01-01T00:00:00.000Z", "via": "rest",
        });
        serde_json::from_value(bare).expect("an entry")
    }

    fn full(text: &str) -> Entry<'_> {
        let metadata = RawValue::from_string("{\"a\": [1, null]}".to_owned());
        Entry {
            urgent: true,
            label: Some(Cow::Borrowed(text)),
            in_reply_to: Some(7),
            redelivered: true,
            late: true,
            truncated: true,
            total_chars: Some(0),
            next_offset: Some(12),
            metadata: Some(Cow::Owned(metadata.expect("it is JSON"))),
            ..bare(text)
        }
    }

    #[test]
    fn an_inbox_is_written_as_it_would_be_by_derivation() {
        let missing =
            Missing { instance: None, label: Some("\"x\"".into()), status: "gone".into() };
        let (mut none, mut some) = (Vec::new(), Vec::new());
        for text in TEXTS {
            some.extend([bare(text), full(text)]);
            let one = Inbox {
                messages: vec![full(text)],
                total: 1,
                status: "partial".into(),
                waited_s: 0.25,
                missing: vec![missing.clone(), missing.clone()],
                already: vec![Already { seq: 7, id: 7, label: Some("\"y\"".into()) }],
                remaining: 3,
                settled: vec![1, 2],
                receipt: Some("r-0000000000000001".into()),
            };
            assert_eq!(self::text(one.to_json()), derived(&one));
        }
        for messages in [&mut none, &mut some] {
            let inbox = Inbox {
                total: messages.len(),
                messages: std::mem::take(messages),
                status: "empty".into(),
                waited_s: 60.0,
                missing: Vec::new(),
                already: Vec::new(),
                remaining: 0,
                settled: Vec::new(),
                receipt: None,
            };
            assert_eq!(text(inbox.to_json()), derived(&inbox));
        }
    }

    #[test]
    fn a_receipt_is_written_as_it_would_be_by_derivation() {
        let to = Recipient { mailbox: "i.a3f7b2c1".into(), active: 1, waiting: u32::MAX };
        for (copies, skipped) in [(0, vec![]), (1, vec![]), (3, vec!["n.\"".to_owned()])] {
            let receipt = Receipt {
                seq: 4711,
                id: "9f86d081884c7d65".into(),
                thread_id: "t-00000000".into(),
                recipients: vec![to.clone(); copies],
                duplicate: copies > 1,
                durable: copies < 3,
                skipped,
            };
            assert_eq!(text(receipt.to_json()), derived(&receipt));
        }
    }
}
