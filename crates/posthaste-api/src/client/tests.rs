use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;
use crate::events::EventsQuery;

fn client() -> Client {
    Client::new("http://127.0.0.1:9889").expect("a good address")
}

/// Answers one request with `answer`, and returns the request.
fn answers_once(answer: String) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a caller");
        let mut heard = Vec::new();
        let mut part = [0; 4096];
        while !complete(&heard) {
            let n = stream.read(&mut part).expect("a request");
            heard.extend_from_slice(&part[..n]);
        }
        stream.write_all(answer.as_bytes()).expect("the caller listens");
        String::from_utf8(heard).expect("text")
    });
    (Client::new(&url).expect("a good address"), asked)
}

/// Returns whether the head has ended and the announced body is there.
fn complete(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

#[test]
fn an_id_never_changes_the_path() {
    let at = |id: &str| client().at(crate::instances::SHOW.of(id)).map(|url| url.to_string());
    assert_eq!(at("a3f7b2c1").expect("good"), "http://127.0.0.1:9889/v1/instances/a3f7b2c1");
    for (id, encoded) in [
        ("../teams", "..%2Fteams"),
        ("a/b", "a%2Fb"),
        ("a?b=c#d", "a%3Fb=c%23d"),
        ("%2e%2e", "%252e%252e"),
        ("a\\b", "a%5Cb"),
    ] {
        let url = at(id).expect("encoded");
        assert_eq!(url, format!("http://127.0.0.1:9889/v1/instances/{encoded}"), "{id:?}");
    }
    for id in ["", ".", "..", ".\n.", "a\nb", "a\tb", "a\0"] {
        let error = at(id).expect_err("refused");
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{id:?}");
    }
}

#[test]
fn the_token_is_never_printed() {
    let client = client().with_token("geheim");
    assert_eq!(
        format!("{client:?}"),
        r#"Client { url: "http://127.0.0.1:9889", token: "present" }"#
    );
}

#[test]
fn an_address_that_is_no_hub_is_refused_before_any_token_leaves() {
    for text in [
        "127.0.0.1:9889",
        "https://127.0.0.1:9889",
        "http://127.0.0.1:9889/v1",
        "http://127.0.0.1:9889?a=b",
        "http://me:secret@127.0.0.1:9889",
        "mailto:bob",
        "",
    ] {
        let error = Client::new(text).expect_err("refused");
        assert_eq!((error.exit(), error.hint().is_some()), (2, true), "{text}");
    }
}

#[test]
fn only_loopback_counts_as_this_machine() {
    let local = |url: &str| Client::new(url).expect("a good address").is_local();
    for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "http://127.1"] {
        assert!(local(url), "{url}");
    }
    for url in
        ["http://10.0.0.1:1", "http://[fe80::1]:1", "http://localhost.evil.test", "http://hub"]
    {
        assert!(!local(url), "{url}");
    }
}

#[test]
fn a_hub_that_is_not_running_is_told_with_a_hint_how_to_start_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let client = Client::new(&url).expect("a good address");
    let error = run(client.health()).expect_err("nobody there");
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    assert_eq!(error.exit(), 5);
    assert!(error.is_passing());
    let told = ApiError::from(error);
    assert_eq!(told.message, format!("no hub answers at {url}"));
    assert!(told.hint.expect("a hint").contains("posthaste up"));
}

#[test]
fn an_answer_cut_short_says_that_it_may_have_been_done() {
    let (client, asked) =
        answers_once("HTTP/1.1 201 Created\r\ncontent-length: 99\r\n\r\n{".into());
    let error = run(client.send(&SendRequest::new("bob", "hi"))).expect_err("half an answer");
    assert!(matches!(error, ClientError::Interrupted { .. }), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("may have been done")), "{error:?}");
    asked.join().expect("no panic");
}

#[test]
fn a_hub_that_hangs_does_not_answer_and_a_read_of_it_can_be_repeated() {
    // The system accepts connections, and no program reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let client = Client::new(&url).expect("a good address");
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    let read = runtime.block_on(client.health()).expect_err("no answer");
    let sent = runtime.block_on(client.send(&SendRequest::new("bob", "hi"))).expect_err("none");
    for error in [&read, &sent] {
        assert_eq!(error.to_string(), format!("the hub at {url} does not answer"));
        assert!(error.exit() == 5 && error.is_passing(), "{error:?}");
    }
    let repeat = |error: &ClientError| error.hint().is_some_and(|hint| hint.contains("repeat"));
    assert!(repeat(&sent) && !repeat(&read), "only what was to change something");
}

#[test]
fn a_page_is_not_mistaken_for_a_stream_of_events() {
    let (client, asked) = answers_once(http("200 OK", "<h1>hello</h1>"));
    let error = run(client.events(&EventsQuery::default())).map(|_| ()).expect_err("no hub");
    assert!(matches!(error, ClientError::NotAHub { .. }), "{error:?}");
    asked.join().expect("no panic");
}

#[test]
fn what_the_hub_refuses_arrives_as_the_hub_told_it() {
    let body =
        r#"{"error":{"code":"no_recipient","message":"nobody is called bbo","hint":"bob?"}}"#;
    let (client, asked) = answers_once(http("404 Not Found", body));
    let error = run(client.with_token("t").send(&SendRequest::new("bbo", "hi"))).expect_err("no");
    assert_eq!((error.code(), error.exit()), (ErrorCode::NoRecipient, 3));
    assert_eq!((error.to_string().as_str(), error.hint()), ("nobody is called bbo", Some("bob?")));
    let asked = asked.join().expect("no panic");
    assert!(asked.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("authorization: Bearer t\r\n"), "{asked}");
    assert!(asked.ends_with(r#"{"to":"bbo","message":"hi"}"#), "{asked}");
}

#[test]
fn something_else_on_the_port_is_not_mistaken_for_a_hub() {
    for answer in [http("200 OK", "<h1>hello</h1>"), http("404 Not Found", "gone")] {
        let (client, asked) = answers_once(answer);
        let error = run(client.health()).expect_err("no hub");
        assert!(matches!(error, ClientError::NotAHub { .. }), "{error:?}");
        asked.join().expect("no panic");
    }
}

#[test]
fn a_redirect_takes_no_token_anywhere() {
    let away = "HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let (client, asked) = answers_once(away.into());
    let error = run(client.with_token("t").health()).expect_err("no hub");
    assert!(matches!(error, ClientError::NotAHub { status: 307, .. }), "{error:?}");
    asked.join().expect("no panic");
}

#[test]
fn a_query_names_only_what_was_given() {
    let body = r#"{"messages":[],"total":0,"status":"empty","waited_s":1.5}"#;
    let (client, asked) = answers_once(http("200 OK", body));
    let query = InboxQuery {
        timeout: Some(1.5),
        from: Some("bob,x&y".into()),
        begin: Some(true),
        ..InboxQuery::default()
    };
    let inbox = run(client.inbox(&query)).expect("an answer");
    assert_eq!((inbox.status.as_ref(), inbox.total), ("empty", 0));
    let asked = asked.join().expect("no panic");
    assert!(
        asked.starts_with("GET /v1/inbox?timeout=1.5&from=bob%2Cx%26y&begin=true HTTP"),
        "{asked}"
    );
}

#[test]
fn a_list_is_sent_as_a_list_even_when_it_has_one_name() {
    let (client, asked) = answers_once(http("207 Multi-Status", r#"{"results":[]}"#));
    run(client.send_many(&SendRequest::new("bob", "hi"))).expect("an answer");
    assert!(asked.join().expect("no panic").ends_with(r#"{"to":["bob"],"message":"hi"}"#));
    let list = SendRequest { to: To::Many(vec![]), ..SendRequest::new("", "hi") };
    let error = run(self::client().send(&list)).expect_err("the wrong method");
    assert_eq!(error.exit(), 2);
}
