//! All doors send in one way, and none of them can write what only the hub knows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_api::messages::{HistoryQuery, SendRequest, To};
use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{Principal, Seq};
use posthaste_core::ports::Leased;
use posthaste_core::road::{Accepted, Road};
use serde_json::{Map, Value, json};

use crate::house::{House, OPERATOR, read, send};
use crate::mcp::agent::Agent;

/// Remembers what passed the hub's own send.
#[derive(Default)]
struct Followed(Mutex<Vec<u64>>);

impl Road for Followed {
    fn accepted(&self, message: Accepted) {
        self.0.lock().push(message.seq.0);
    }

    fn leased(&self, _: &[Leased], _: Principal, _: Duration) {}

    fn acked(&self, _: &[Seq], _: Principal, _: Proof, _: Duration) {}
}

#[tokio::test]
async fn every_door_sends_through_one_function_lists_too() {
    let house = House::new().await;
    let followed = Arc::new(Followed::default());
    house.hub.follow(Arc::clone(&followed) as _);
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let two = || vec![bob.instance.clone(), "bob".to_owned()];

    send(&as_alice, &bob.instance, "by REST").await;
    send(&as_alice.clone().as_command_line(), &bob.instance, "by hand").await;
    let list = SendRequest { to: To::Many(two()), ..SendRequest::new("", "to a list") };
    as_alice.send_many(&list).await.expect("an answer each");
    let post = format!(
        "POST /terminals/{}/inbox/messages?sender_id={}&message=x",
        bob.instance, alice.instance
    );
    assert_eq!(house.call(&post, Some(&alice.token), "").await.0, 200);
    let calls = [
        ("native", "send_message", json!({ "to": "bob", "message": "x" })),
        ("native", "send_message", json!({ "to": two(), "message": "x" })),
        ("native", "ask_user", json!({ "question": "x", "blocking": false })),
        ("native", "respond_to_user", json!({ "message": "x" })),
        ("cao", "send_message", json!({ "receiver_id": bob.instance, "message": "x" })),
        (
            "assistant",
            "send_message",
            json!({ "to_assistant_id": bob.instance, "thread_id": bob.thread_id, "message": "x" }),
        ),
        ("herd", "herd_send", json!({ "to": "bob", "message": "x" })),
        ("chat", "askUser", json!({ "question": "x", "blocking": false })),
        ("chat", "respondToUser", json!({ "message": "x" })),
    ];
    for (dialect, tool, arguments) in calls {
        let me = Agent::speaking(&house, &alice, dialect).await;
        let told = me.call(tool, arguments).await;
        assert!(!told.is_error, "{dialect} {tool}: {told:?}");
    }

    let query = HistoryQuery { last_n: Some(200), ..HistoryQuery::default() };
    let kept = house.operator().history(&query).await.expect("a page").messages;
    let numbers: Vec<u64> = kept.iter().map(|m| m.seq).collect();
    assert_eq!(*followed.0.lock(), numbers, "what is kept has passed the one function");
    assert_eq!(numbers.len(), 15, "each door, and each recipient of a list");
    let doors: BTreeSet<&str> = kept.iter().map(|m| &*m.via).collect();
    assert_eq!(doors, BTreeSet::from(["cao", "cli", "mcp", "rest"]));
}

#[tokio::test]
async fn a_message_is_a_text_unless_it_says_otherwise_and_any_word_is_a_type() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &alice).await;
    let cases = [None, Some("text"), Some("context_push"), Some("my-own.type_2")];
    for kind in cases {
        let expected = kind.unwrap_or("text");
        let request = SendRequest {
            kind: kind.map(str::to_owned),
            ..SendRequest::new(bob.instance.clone(), "by REST")
        };
        let sent = as_alice.send(&request).await.expect("accepted");
        assert_eq!(house.record(sent.seq).await.kind, expected);
        let mut arguments = json!({ "to": bob.instance, "message": "by a tool" });
        kind.into_iter().for_each(|kind| arguments["type"] = json!(kind));
        let told = me.call("send_message", arguments).await.json();
        let record = house.record(told["id"].as_u64().expect("a number")).await;
        assert_eq!(record.kind, expected, "by a tool");
    }
    let kinds: Vec<String> =
        read(&as_bob).await.messages.iter().map(|m| m.kind.to_string()).collect();
    let expected = ["text", "text", "context_push", "my-own.type_2"];
    assert_eq!(kinds, expected.iter().flat_map(|kind| [*kind; 2]).collect::<Vec<_>>());
    for bad in ["", "Text", "two words", "9lives", "system.agent_failed"] {
        let told = me
            .call("send_message", json!({ "to": bob.instance, "message": "x", "type": bad }))
            .await;
        assert_eq!(told.code(), "invalid_argument", "{bad}");
    }
    assert!(read(&as_bob).await.messages.is_empty(), "nothing of it was kept");
}

#[tokio::test]
async fn nobody_can_write_the_time_the_number_or_the_mark_of_a_message() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &alice).await;
    let forged = [
        ("created_at", json!("1999-01-01T00:00:00Z")),
        ("timestamp", json!("not a time")),
        ("read", json!(true)),
        ("read_at", json!(1)),
        ("seq", json!(1)),
        ("id", json!("00000000000000ff")),
        ("from", json!("human")),
    ];
    for (field, value) in &forged {
        let mut body = json!({ "to": bob.instance, "message": "forged" });
        body[*field] = value.clone();
        let (status, answer) =
            house.call("POST /v1/messages", Some(&alice.token), &body.to_string()).await;
        assert_eq!(status, 422, "{field}: {answer}");
        assert!(answer["error"]["message"].as_str().expect("why").contains(field), "{answer}");
        let told = me.call("send_message", body).await;
        assert_eq!(told.code(), "invalid_argument", "{field}");
    }
    assert!(read(&as_bob).await.messages.is_empty(), "nothing of it was kept");

    // CAO's clients may say more than its routes know: the hub does not listen.
    let mut body = json!({ "sender_id": alice.instance, "message": "plain" });
    forged.iter().for_each(|(field, value)| body[*field] = value.clone());
    let post = format!("POST /terminals/{}/inbox/messages", bob.instance);
    let (status, answer) = house.call(&post, Some(OPERATOR), &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let record = house.record(answer["message_id"].as_u64().expect("a number")).await;
    assert_eq!((record.read, &record.metadata), (false, &Map::<String, Value>::new()));
    assert_eq!((&*record.deliveries[0].state, &*record.from), ("queued", &*alice.address));
    assert!(&*record.created_at > "2020" && record.created_at.ends_with('Z'), "UTC, now");
    assert_ne!(record.id, "00000000000000ff");
}

/// The Rust files of a folder of the server's sources and below.
pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_door_imports_from_another() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![src.join("mcp.rs"), src.join("cao.rs"), src.join("words.rs")];
    sources(&src.join("mcp"), &mut files);
    sources(&src.join("cao"), &mut files);
    sources(&src.join("words"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        assert!(!text.contains("rest::"), "{}: what doors share is in words/", file.display());
    }
    let mut files = Vec::new();
    sources(&src.join("rest"), &mut files);
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a source");
        assert!(!text.contains("crate::mcp"), "{}: what doors share is in words/", file.display());
    }
}
