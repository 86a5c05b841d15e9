//! Fuzzes the input of the bridge: lines of a client on stdin, events of the hub.

use bytes::Bytes;
use posthaste_testkit::fuzz;

use super::lines::{LONGEST, Line, next};
use super::message::{Broken, Message, id_of};
use super::sse::tests::read;

const LINES: [&str; 6] = [
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\r\n",
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/call\",\"params\":{\"name\":\"größe\",\"arguments\":{},\"_meta\":{\"threadId\":\"t\",\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n",
    "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n",
    "nonsense\n{}",
];

#[test]
fn every_line_is_a_message_or_is_refused_and_none_is_lost() {
    for case in fuzz::cases(6_000, &LINES) {
        let mut rest = case.bytes.as_slice();
        let mut count = 0;
        while let Some(line) = next(&mut rest).expect("memory can be read") {
            count += 1;
            let Line::Whole(line) = line else { panic!("no line is longer than {LONGEST}") };
            assert!(!line.contains(&b'\n') && line.trim_ascii().len() == line.len());
            let _ = id_of(&line);
            match Message::read(Bytes::clone(&line)) {
                Ok(message) => {
                    assert_eq!(message.line, line, "it is handed on as it came");
                    assert!(!message.is_request() || message.id.is_some());
                }
                Err(Broken::Json) => {
                    let json = serde_json::from_slice::<serde_json::Value>(&line);
                    assert!(json.is_err(), "this is JSON");
                }
                Err(Broken::Shape) => {}
            }
        }
        let lines = case.bytes.split(|byte| *byte == b'\n');
        assert_eq!(count, lines.filter(|line| !line.trim_ascii().is_empty()).count());
    }
}

#[test]
fn events_are_the_same_however_the_stream_is_cut() {
    let stream = ": hi\n\nid: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\nretry: 5\r\n\r\ndata:\n\ndata:[2]\r\n\r\n";
    for mut case in fuzz::cases(4_000, &[stream]) {
        // Bytes that are not text end a stream, sooner or later.
        read(&case.bytes, 1 + case.dice.below(20));
        let text = case.text();
        let whole = read(text.as_bytes(), text.len().max(1));
        let size = 1 + case.dice.below(20);
        assert_eq!(read(text.as_bytes(), size), whole, "in pieces of {size}");
        assert!(whole.iter().all(|text| !text.contains('\n')));
    }
}
