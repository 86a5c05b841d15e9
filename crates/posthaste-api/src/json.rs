//! The two answers that every message passes through, written as JSON field by
//! field: the receipt of a send, and the inbox.
//!
//! The derived way looks at each byte of each text in turn, which costs more than
//! all the rest of a send. Here a text that needs no escape is copied whole; one that
//! does goes the derived way. The tests hold both ways against each other.

use compact_str::ToCompactString;
use serde::Serialize;

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

struct Json(Vec<u8>);

impl Json {
    fn recipient(&mut self, to: &Recipient) -> Result<(), serde_json::Error> {
        self.text("{\"mailbox\":", &to.mailbox)?;
        self.number(",\"active\":", to.active.into());
        self.number(",\"waiting\":", to.waiting.into());
        self.put("}");
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<(), serde_json::Error> {
        self.number("{\"seq\":", entry.seq);
        self.number(",\"id\":", entry.id);
        self.text(",\"uid\":", &entry.uid)?;
        self.text(",\"from\":", &entry.from)?;
        self.text(",\"sender_id\":", &entry.sender_id)?;
        self.text(",\"relation\":", &entry.relation)?;
        self.text(",\"to\":", &entry.to)?;
        self.text(",\"message\":", &entry.message)?;
        self.text(",\"type\":", &entry.kind)?;
        self.mark(",\"urgent\":", entry.urgent);
        self.text(",\"thread_id\":", &entry.thread_id)?;
        self.text(",\"created_at\":", &entry.created_at)?;
        self.text(",\"via\":", &entry.via)?;
        if let Some(label) = &entry.label {
            self.text(",\"label\":", label)?;
        }
        if let Some(seq) = entry.in_reply_to {
            self.number(",\"in_reply_to\":", seq);
        }
        self.mark(",\"redelivered\":", entry.redelivered);
        self.mark(",\"late\":", entry.late);
        self.mark(",\"truncated\":", entry.truncated);
        if let Some(chars) = entry.total_chars {
            self.number(",\"total_chars\":", chars as u64);
        }
        if let Some(offset) = entry.next_offset {
            self.number(",\"next_offset\":", offset as u64);
        }
        if let Some(metadata) = &entry.metadata {
            self.put(",\"metadata\":");
            self.put(metadata.get());
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::value::RawValue;

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

    fn entry(text: &str, full: bool) -> Entry<'_> {
        let metadata = RawValue::from_string("{\"a\": [1, null]}".to_owned());
        Entry {
            seq: u64::MAX,
            id: u64::MAX,
            uid: "9f86d081884c7d65".into(),
            from: Cow::Borrowed(text),
            sender_id: "human".into(),
            relation: Cow::Borrowed("peer"),
            to: Cow::Borrowed(text),
            message: Cow::Borrowed(text),
            kind: Cow::Borrowed("text"),
            urgent: full,
            thread_id: "t-00000000".into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
            via: Cow::Borrowed("rest"),
            label: full.then_some(Cow::Borrowed(text)),
            in_reply_to: full.then_some(7),
            redelivered: full,
            late: full,
            truncated: full,
            total_chars: full.then_some(0),
            next_offset: full.then_some(12),
            metadata: full.then(|| Cow::Owned(metadata.expect("it is JSON"))),
        }
    }

    #[test]
    fn an_inbox_is_written_as_it_would_be_by_derivation() {
        let missing =
            Missing { instance: None, label: Some("\"x\"".into()), status: "gone".into() };
        let (mut empty, mut full) = (Vec::new(), Vec::new());
        for text in TEXTS {
            full.extend([entry(text, false), entry(text, true)]);
            let one = Inbox {
                messages: vec![entry(text, true)],
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
        for messages in [&mut empty, &mut full] {
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
