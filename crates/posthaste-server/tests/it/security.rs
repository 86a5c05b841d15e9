//! Who gets in, and what nobody gets.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_api::inbox::{InboxQuery, SettleRequest};
use posthaste_api::messages::{HistoryQuery, MessageRef, ReadQuery, SendRequest};
use posthaste_api::{ApiError, ErrorCode};
use posthaste_core::Limits;
use posthaste_server::{KeyFiles, Keys, ServerConfig};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::house::{
    House, JOIN, OPERATOR, Plan, hash, now, read, read_reply, refusal, request, send, texts,
};

/// Every call but `GET /health`.
const CALLS: [(&str, &str); 19] = [
    ("POST /v1/tokens/reload", ""),
    ("POST /v1/messages", r#"{"to": "bob", "message": "x"}"#),
    ("GET /v1/messages", ""),
    ("GET /v1/messages/1", ""),
    ("POST /v1/messages/1/cancel", ""),
    ("POST /v1/messages/1/requeue", ""),
    ("GET /v1/inbox?timeout=0", ""),
    ("POST /v1/inbox/ack", r#"{"ids": [1]}"#),
    ("POST /v1/inbox/nack", r#"{"ids": [1]}"#),
    ("POST /v1/join", r#"{"agent": "bob", "key": "k"}"#),
    ("POST /v1/instances", r#"{"agent": "bob"}"#),
    ("GET /v1/instances", ""),
    ("GET /v1/instances/00000000", ""),
    ("DELETE /v1/instances/00000000", ""),
    ("GET /v1/teams", ""),
    ("GET /v1/teams/main", ""),
    ("PUT /v1/teams/main", r#"{"leaders": []}"#),
    ("GET /terminals/00000000/inbox/messages", ""),
    ("GET /terminals/00000000/inbox/messages/wait?timeout=0", ""),
];

#[tokio::test]
async fn without_a_token_only_health_is_answered() {
    let house = House::new().await;
    for (call, body) in CALLS {
        // The tests run as the hub's own user, who needs no token for terminals of CAO's; a
        // page that this user looks at does.
        let page = [("Sec-Fetch-Mode", "cors")];
        let (status, answer) = match call.contains("/terminals/") {
            true => house.raw(request(call, None, &page, body)).await,
            false => house.call(call, None, body).await,
        };
        assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")), "{call}");
        assert!(answer["error"]["hint"].is_string(), "{call}: {answer}");
    }
    let (status, health) = house.call("GET /health", None, "").await;
    assert_eq!(
        (status, &health["service"], &health["status"]),
        (200, &"posthaste".into(), &"ok".into())
    );
    let listed = house.operator().instances(&Default::default()).await.expect("a listing");
    assert!(listed.instances.is_empty(), "and nothing was done");
}

#[tokio::test]
async fn a_wrong_token_opens_nothing_anywhere() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let cut = &bob.token[..63];
    let hashed: String = hash(OPERATOR).iter().map(|b| format!("{b:02x}")).collect();
    let lines = [
        format!("Bearer {cut}"),
        format!("Bearer {}0", bob.token),
        format!("Bearer {}", bob.token.to_uppercase()),
        format!("Bearer {hashed}"),
        format!("Basic {OPERATOR}"),
        OPERATOR.to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer \u{e9}".to_owned(),
    ];
    for line in &lines {
        for (call, body) in CALLS {
            let text = request(call, None, &[("Authorization", line)], body);
            let (status, answer) = house.raw(text).await;
            assert_eq!(status, 401, "{call} with {line}: {answer}");
        }
    }
    let good = [("Authorization", &*format!("bearer  {OPERATOR} "))];
    assert_eq!(house.raw(request("GET /v1/teams", None, &good, "")).await.0, 200);
}

#[tokio::test]
async fn each_token_opens_its_own_doors_only() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let agent = bob.token.as_str();
    for (call, body) in CALLS.into_iter().filter(|(call, _)| *call != "POST /v1/join") {
        let (status, answer) = house.call(call, Some(JOIN), body).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")), "{call}");
    }
    let (carol, _) = house.agent("carol").await;
    let ends_another = format!("DELETE /v1/instances/{}", carol.instance);
    let for_the_operator = [
        ("POST /v1/instances", r#"{"agent": "carol"}"#),
        ("PUT /v1/teams/main", r#"{"leaders": ["bob"]}"#),
        (&*ends_another, ""),
        ("POST /v1/stop", ""),
        ("POST /v1/join", r#"{"agent": "carol", "key": "k"}"#),
    ];
    for (call, body) in for_the_operator {
        let (status, answer) = house.call(call, Some(agent), body).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")), "{call}");
    }
    let for_all = ["GET /v1/instances", "GET /v1/teams", "GET /v1/inbox?timeout=0"];
    for call in for_all {
        assert_eq!(house.call(call, Some(agent), "").await.0, 200, "{call}");
    }
    let team = house.operator().team("main").await.expect("a team");
    assert!(team.leaders.is_empty(), "nobody makes himself a leader");
}

#[tokio::test]
async fn nobody_speaks_in_anothers_name() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    for forged in ["from", "sender", "sender_id", "via", "relation", "seq", "created_at"] {
        let body = json!({"to": "bob", "message": "trust me", forged: "human"}).to_string();
        let (status, answer) = house.call("POST /v1/messages", Some(&alice.token), &body).await;
        assert_eq!(status, 422, "{forged}: {answer}");
    }
    let cao = |receiver: &str, sender: &str| {
        format!("POST /terminals/{receiver}/inbox/messages?sender_id={sender}&message=trust+me")
    };
    let (carol, _) = house.agent("carol").await;
    let forged = cao(&bob.instance, &carol.instance);
    let (status, answer) = house.call(&forged, Some(&alice.token), "").await;
    assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")), "{answer}");
    assert!(read(&as_bob).await.messages.is_empty());

    let (status, _) =
        house.call(&cao(&bob.instance, &alice.instance), Some(&alice.token), "").await;
    assert_eq!(status, 200, "in one's own name");
    assert_eq!(read(&as_bob).await.messages[0].sender_id, alice.instance);
}

#[tokio::test]
async fn strangers_learn_nothing_of_a_conversation() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_eve) = house.agent("eve").await;
    let secret = send(&as_alice, &bob.instance, "the cellar is open").await;
    let to_the_operator = send(&as_alice, "human", "I told bob").await;

    let none = HistoryQuery::default();
    let some = |text: &str| Some(text.to_owned());
    for query in [
        none.clone(),
        HistoryQuery { thread_id: some(&alice.thread_id), ..none.clone() },
        HistoryQuery { mailbox: some(&bob.instance), ..none.clone() },
        HistoryQuery { mailbox: some("human"), ..none.clone() },
        HistoryQuery { status: some("queued"), last_n: Some(200), ..none },
    ] {
        let page = as_eve.history(&query).await.expect("a page");
        assert!(page.messages.is_empty(), "{query:?}: {page:?}");
        assert_eq!(page.cursor, None, "{query:?}");
    }
    let unknown = refusal(as_eve.read("4711", &ReadQuery::default()).await);
    for name in [secret.seq.to_string(), secret.id.to_string(), to_the_operator.id.to_string()] {
        let told = refusal(as_eve.read(&name, &ReadQuery::default()).await);
        assert_eq!(told, unknown, "it is as if there were none");
        assert_eq!(refusal(as_eve.cancel(&name).await).code, ErrorCode::NotFound);
        assert_eq!(refusal(as_eve.requeue(&name).await).code, ErrorCode::NotFound);
        let reply = SendRequest {
            in_reply_to: Some(MessageRef::Text(name)),
            ..SendRequest::new("alice", "I know")
        };
        assert_eq!(refusal(as_eve.send(&reply).await).code, ErrorCode::NotFound);
    }
    let settle =
        SettleRequest { ids: Some(vec![MessageRef::Text(secret.id.to_string())]), receipt: None };
    assert_eq!(refusal(as_eve.ack(&settle).await).code, ErrorCode::NotFound);
    assert_eq!(refusal(as_eve.nack(&settle).await).code, ErrorCode::NotFound);
    let filtered =
        InboxQuery { from: some(&alice.instance), thread_id: some(&alice.thread_id), ..now() };
    assert!(as_eve.inbox(&filtered).await.expect("an answer").messages.is_empty());

    assert!(read(&as_alice).await.messages.is_empty(), "no reply reached her");
    assert_eq!(texts(&read(&as_bob).await), ["the cellar is open"]);
}

#[tokio::test]
async fn the_host_must_be_one_of_ours() {
    let server = ServerConfig {
        listen: SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9889)),
        hosts: vec!["Hub.Example".into()],
        ..ServerConfig::default()
    };
    let house = House::with(server).await;
    let get =
        async |host: &str| house.raw(request("GET /health", None, &[("Host", host)], "")).await;
    let ours = [
        "localhost",
        "LocalHost:9889",
        "127.0.0.1",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:9889",
        "hub.example",
        "hub.example:80",
        "[2001:db8::1]:9889",
        "[2001:DB8:0::1]",
    ];
    for host in ours {
        assert_eq!(get(host).await.0, 200, "{host}");
    }
    let foreign = [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:9889",
        "localhost:80:80",
        "localhost@evil.example",
        "[2001:db8::2]",
        "0.0.0.0",
        "10.0.0.1",
        "xlocalhost",
        "[::1",
        "localhost/evil",
        "\u{e9}",
    ];
    for host in foreign {
        let (status, answer) = get(host).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")), "{host}");
    }
    let nowhere = "GET /health HTTP/1.1\r\n\r\n";
    assert_eq!(house.raw(nowhere).await.0, 403, "and there must be one");
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    let body = r#"{"to": "bob", "message": "x"}"#;
    let with = async |name: &str, value: &str| {
        let header = [(name, value)];
        let get = request("GET /v1/teams", Some(OPERATOR), &header, "");
        let post = request("POST /v1/messages", Some(OPERATOR), &header, body);
        (house.raw(get).await.0, house.raw(post).await.0)
    };
    for origin in [
        "http://evil.example",
        "https://evil.example:9889",
        "null",
        "",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "chrome-extension://abcdef",
        "localhost",
    ] {
        assert_eq!(with("Origin", origin).await, (403, 403), "{origin}");
    }
    assert!(read(&as_bob).await.messages.is_empty());
    for origin in ["http://localhost:9889", "http://127.0.0.1:3000", "http://[::1]"] {
        assert_eq!(with("Origin", origin).await, (200, 201), "{origin}");
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(with("Sec-Fetch-Site", site).await, (200, 403), "{site}");
    }
    for site in ["same-origin", "none"] {
        assert_eq!(with("Sec-Fetch-Site", site).await, (200, 201), "{site}");
    }
}

#[tokio::test]
async fn no_page_elsewhere_is_invited_to_read_answers() {
    let house = House::new().await;
    let ours = [("Origin", "http://localhost:3000")];
    let asks = [
        ("Origin", "http://localhost:3000"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ];
    for text in [
        request("GET /v1/teams", Some(OPERATOR), &ours, ""),
        request("OPTIONS /v1/messages", None, &asks, ""),
        request("GET /health", None, &ours, ""),
    ] {
        let mut socket = house.dial().await;
        socket.write_all(text.as_bytes()).await.expect("sent");
        let reply = read_reply(&mut socket).await.expect("an answer");
        assert!(!reply.head.contains("access-control-"), "{}", reply.head);
    }
}

#[tokio::test]
async fn a_picture_on_a_page_elsewhere_takes_no_mail() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&house.operator(), &bob.instance, "not for pictures").await;
    let wait = format!("GET /terminals/{}/inbox/messages/wait?timeout=0", bob.instance);
    let list = format!("GET /terminals/{}/inbox/messages", bob.instance);

    for site in ["cross-site", "same-site"] {
        for call in [&wait, &list] {
            let text = request(call, None, &[("Sec-Fetch-Site", site)], "");
            let (status, answer) = house.raw(text).await;
            assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")), "{call}");
        }
    }

    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox), ["not for pictures"]);
    assert!(!inbox.messages[0].redelivered, "nobody was handed it");
}

#[tokio::test]
async fn a_terminal_of_cao_is_its_owners_and_the_operators() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let own = format!("/terminals/{}/inbox/messages", bob.instance);
    let post = format!("POST {own}?sender_id={}&message=hello", alice.instance);
    assert_eq!(house.call(&post, Some(&alice.token), "").await.0, 200, "its sender");
    assert_eq!(house.call(&post, Some(&bob.token), "").await.0, 403, "not its sender");
    assert_eq!(house.call(&post, Some(OPERATOR), "").await.0, 200, "the operator");
    for call in [format!("GET {own}"), format!("GET {own}/wait?timeout=0")] {
        assert_eq!(house.call(&call, Some(OPERATOR), "").await.0, 200, "the operator: {call}");
        assert_eq!(house.call(&call, Some(&bob.token), "").await.0, 200, "its owner: {call}");
        assert_eq!(house.call(&call, Some(&alice.token), "").await.0, 403, "another: {call}");
    }
}

#[tokio::test]
async fn hostile_text_comes_out_as_it_went_in() {
    let hostile = [
        "'; DROP TABLE messages; --",
        "<script>alert(1)</script><img src=x onerror=alert(1)>",
        "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m",
        "nul \u{0} in the middle \u{0}",
        "\u{202e}right to left\u{202c} \u{200b}\u{feff}",
        "../../../etc/passwd\r\nSet-Cookie: a=b\r\n\r\nHTTP/1.1 200 OK",
        "$(rm -rf ~) `id` && ; | > /dev/null",
        "{\"messages\": [], \"total\": 0}\n\ndata: x\n\n",
        "\\ \" \\u0000 \\\" %00 %s %n {0} {{7*7}} ${7*7}",
        "\u{10ffff}\u{fffe}\u{ffff} \u{1f469}\u{200d}\u{1f680} e\u{301}",
        " ",
        "\n",
    ];
    // From memory, and from where the store keeps what does not fit there.
    for window_messages in [256, 0] {
        let house = House::with(Limits { window_messages, ..Limits::default() }).await;
        let (alice, as_alice) = house.agent("alice").await;
        let (bob, as_bob) = house.agent("bob").await;
        for text in hostile {
            let request = SendRequest {
                label: Some(text.into()),
                metadata: json!({text: [text]}).as_object().cloned(),
                idempotency_key: Some(text.into()),
                ..SendRequest::new(bob.instance.clone(), text)
            };
            as_alice.send(&request).await.expect("accepted");
        }
        let page = as_bob.history(&HistoryQuery::default()).await.expect("a page");
        let shown: Vec<&str> = page.messages.iter().map(|m| &*m.message).collect();
        assert_eq!(shown, hostile);
        for text in hostile {
            let labelled = InboxQuery { label: Some(text.into()), ..now() };
            let inbox = as_bob.inbox(&labelled).await.expect("an answer");
            assert_eq!(texts(&inbox), [text]);
            let entry = &inbox.messages[0];
            assert_eq!(entry.label.as_deref(), Some(text));
            assert_eq!(entry.sender_id, alice.instance);
            let metadata = entry.metadata.as_deref().expect("metadata").get();
            let metadata: Value = serde_json::from_str(metadata).expect("JSON");
            assert_eq!(metadata, json!({text: [text]}));
        }
    }
}

#[tokio::test]
async fn hostile_names_are_refused_and_not_repeated_at_length() {
    let house = House::new().await;
    for name in ["../x", "<b>", "a\u{0}b", "'--", "ａlice", "\u{1b}[31m", &"x".repeat(100_000)] {
        let error = refusal(house.operator().send(&SendRequest::new(name, "x")).await);
        assert_eq!(error.code, ErrorCode::InvalidAddress, "{name:?}");
        assert!(error.message.len() < 1000, "{} bytes", error.message.len());
    }
}

#[test]
fn debug_output_tells_no_token() {
    let keys = Keys { operator: hash(OPERATOR), join: hash(JOIN) };
    let shown = format!("{keys:?} {keys:#?}");
    for secret in [OPERATOR, JOIN] {
        assert!(!shown.contains(secret));
        assert!(!shown.contains(&format!("{:?}", hash(secret))));
        let hex: String = hash(secret).iter().map(|b| format!("{b:02x}")).collect();
        assert!(!shown.to_lowercase().contains(&hex[..8]));
    }
    assert!(!shown.bytes().any(|b| b.is_ascii_digit()), "{shown}");
}

/// Tokens that stand somewhere and may be replaced there.
#[derive(Clone)]
struct Files(Arc<Mutex<Keys>>);

impl KeyFiles for Files {
    fn read(&self) -> Result<Keys, ApiError> {
        Ok(*self.0.lock())
    }
}

#[tokio::test]
async fn a_new_token_of_the_operator_counts_as_soon_as_the_hub_has_read_it() {
    let first = Keys { operator: hash(OPERATOR), join: hash(JOIN) };
    let files = Files(Arc::new(Mutex::new(first)));
    let house = House::with_keys(Plan::default(), files.clone()).await;
    let knows = async |token: &str| house.client(token).teams().await.is_ok();
    let new = "a new token of the operator";
    assert!(knows(OPERATOR).await && !knows(new).await);
    files.0.lock().operator = hash(new);
    assert!(knows(OPERATOR).await && !knows(new).await, "nothing was read again yet");
    let (_, as_bob) = house.agent("bob").await;
    assert_eq!(refusal(as_bob.reload_tokens().await).code, ErrorCode::Forbidden);
    assert_eq!(refusal(house.client(new).reload_tokens().await).code, ErrorCode::Unauthorized);

    let read = house.operator().reload_tokens().await.expect("read again");

    assert_eq!(read.changed, ["operator"]);
    assert!(!knows(OPERATOR).await && knows(new).await, "from now on");
    assert!(as_bob.teams().await.is_ok(), "an agent keeps its own");
    let again = house.client(new).reload_tokens().await.expect("read again");
    assert!(again.changed.is_empty(), "{again:?}");
}
