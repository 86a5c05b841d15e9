//! A hub that the test plays, for what a real one does not do: answer half of what it is
//! asked, and then nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::world::eventually;

/// A port on which the test plays the hub.
pub(crate) struct Played {
    door: TcpListener,
    pub(crate) url: String,
}

impl Played {
    pub(crate) fn new() -> Self {
        let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", door.local_addr().expect("bound"));
        Self { door, url }
    }

    /// The next connection.
    #[track_caller]
    pub(crate) fn accepts(&self) -> TcpStream {
        self.door.set_nonblocking(true).expect("a socket");
        let mut line = None;
        eventually(|| {
            line = self.door.accept().ok();
            line.is_some()
        });
        let line = line.expect("it calls").0;
        line.set_nonblocking(false).expect("a socket");
        line
    }

    /// Answers the question whether the hub is alive, and nothing else.
    pub(crate) fn shows_life(&self) {
        self.answers(
            "GET /health ",
            &json!({
                "status": "ok", "service": "posthaste", "version": "0", "pid": 1, "durable": true,
            }),
        );
    }

    /// Answers the next request, which must be this one.
    #[track_caller]
    pub(crate) fn answers(&self, request: &str, answer: &Value) {
        let mut line = self.accepts();
        let asked = asked_on(&line);
        assert!(asked.head.starts_with(request), "{}", asked.head);
        let answer = answer.to_string();
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
        let answer = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
        line.write_all(answer.as_bytes()).expect("it listens");
    }
}

/// A request as it came.
pub(crate) struct Asked {
    pub(crate) head: String,
    /// `null` without a body.
    pub(crate) body: Value,
}

/// What is asked on this connection. Nobody has answered it yet.
pub(crate) fn asked_on(line: &TcpStream) -> Asked {
    let mut line = BufReader::new(line);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        line.read_line(&mut header).expect("a header");
        if header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().expect("a length");
        }
        head.push_str(&header);
    }
    let mut body = vec![0; length];
    line.read_exact(&mut body).expect("a whole body");
    let body = match length {
        0 => Value::Null,
        _ => serde_json::from_slice(&body).expect("JSON"),
    };
    Asked { head, body }
}
