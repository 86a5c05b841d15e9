//! The little that a fast reader needs of an inbox answer.
//!
//! Reading a megabyte of JSON as JSON would make the load generator the slower of
//! the two. What matters stands behind the messages: how many, and the receipt.
//! The kill test, which must not be fooled, reads the whole with the wire types.

use anyhow::Context;

use crate::requests::stamp_of;

/// The end of an answer: everything behind the messages fits well into it.
const TAIL: usize = 512;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail<'a> {
    pub(crate) total: usize,
    pub(crate) receipt: Option<&'a str>,
}

impl<'a> Tail<'a> {
    pub(crate) fn read(body: &'a [u8]) -> anyhow::Result<Self> {
        let start = body.len().saturating_sub(TAIL);
        // A cut in the middle of a character is no concern: texts here are ASCII.
        let end = std::str::from_utf8(&body[start..]).context("an answer that is not text")?;
        let mark = r#"],"total":"#;
        let at = end.rfind(mark).context("an inbox answer without a total")?;
        let rest = &end[at + mark.len()..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let total = rest[..digits].parse().context("a total that is no number")?;
        let receipt = rest.split_once(r#""receipt":""#).and_then(|(_, r)| r.split('"').next());
        Ok(Self { total, receipt })
    }
}

/// The stamps of the messages in an answer, see [`crate::requests::Send::stamp`].
pub(crate) fn stamps(body: &[u8]) -> impl Iterator<Item = u64> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    text.split(r#""message":""#).skip(1).filter_map(stamp_of)
}

/// Whether `send_message` says that it was sent, and under which id.
pub(crate) fn is_sent(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let told = text.split_once(r#""text":"{\"id\":"#).map(|(_, told)| told);
    let id = told.is_some_and(|told| told.starts_with(|c: char| c.is_ascii_digit()));
    id && text.contains(r#""isError":false"#) && !text.contains(r#"\"duplicate\":true"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &[u8] = br#"{"messages":[{"id":1,"message":"00000000000000000017xx","type":"text"},{"id":2,"message":"00000000000000000018xx"}],"total":2,"status":"complete","waited_s":0.0,"receipt":"r-00ff"}"#;

    #[test]
    fn total_and_receipt_stand_behind_the_messages() {
        let tail = Tail::read(FULL).expect("an answer");
        assert_eq!(tail, Tail { total: 2, receipt: Some("r-00ff") });
        let empty = br#"{"messages":[],"total":0,"status":"empty","waited_s":1.0}"#;
        let tail = Tail::read(empty).expect("an answer");
        assert_eq!(tail, Tail { total: 0, receipt: None });
    }

    #[test]
    fn stamps_are_found_in_each_message() {
        assert_eq!(stamps(FULL).collect::<Vec<_>>(), [17, 18]);
    }

    #[test]
    fn a_send_counts_once_and_only_with_an_id() {
        let good = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"{\"id\":3,\"status\":\"accepted\"}"}],"isError":false}}"#;
        assert!(is_sent(good.as_bytes()));
        for (was, is) in [
            ("false", "true"),
            (r#"\"id\":3"#, r#"\"id\":null"#),
            (r#"accepted\"}"#, r#"accepted\",\"duplicate\":true}"#),
        ] {
            let bad = good.replace(was, is);
            assert_ne!(bad, good);
            assert!(!is_sent(bad.as_bytes()), "{bad}");
        }
    }
}
