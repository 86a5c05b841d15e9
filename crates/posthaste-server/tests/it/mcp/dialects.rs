//! The seeds' own tools: names, parameters and answers as their callers know them.

use posthaste_core::Limits;
use serde_json::{Value, json};

use super::agent::{Agent, Era};
use crate::house::{House, send, texts};

async fn speaks(house: &House, token: &str, dialect: &str) -> Agent {
    let mut agent = Agent::silent(house, token, Era::Old, "test");
    agent.url = format!("{}?dialect={dialect}", agent.url);
    agent.hello().await;
    agent
}

async fn names(agent: &Agent) -> Vec<String> {
    let listed = agent.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    tools.iter().map(|t| t["name"].as_str().expect("a name").to_owned()).collect()
}

/// The parameters of a tool, in the order of the alphabet.
async fn parameters(agent: &Agent, tool: &str) -> Vec<String> {
    let listed = agent.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    let tool = tools.into_iter().find(|t| t["name"] == tool).expect("a tool");
    let properties = tool["inputSchema"]["properties"].as_object().expect("properties").clone();
    properties.keys().cloned().collect()
}

#[tokio::test]
async fn a_dialect_lists_its_own_tools_and_no_others() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for (dialect, tools) in [
        ("cao", &["handoff", "assign", "send_message", "check_inbox"][..]),
        (
            "assistant",
            &[
                "list_assistant",
                "search_assistant",
                "spawn_assistant",
                "poll_assistant",
                "send_message",
                "recv_message",
            ],
        ),
        ("herd", &["herd_send"]),
        ("chat", &["respondToUser", "askUser"]),
    ] {
        let me = speaks(&house, &bob.token, dialect).await;
        assert_eq!(names(&me).await, tools, "{dialect}");
        let native = me.request(1, "tools/call", json!({ "name": "whoami" })).await;
        let answer: Value = native.json().await.expect("JSON");
        assert_eq!(answer["error"]["code"], -32602, "never two at once");
    }
    let mut wrong = Agent::silent(&house, &bob.token, Era::Old, "test");
    wrong.url.push_str("?dialect=klingon");
    let refused = wrong.request(1, "ping", json!({})).await;
    assert_eq!(refused.status(), 422);
    let why: Value = refused.json().await.expect("JSON");
    assert!(why["error"]["message"].as_str().expect("why").contains("cao, assistant"), "{why}");
}

#[tokio::test]
async fn cao_sends_and_checks_as_ever() {
    let limits = Limits { proof_grace: std::time::Duration::ZERO, ..Limits::default() };
    let house = House::with(limits).await;
    let (boss, _) = house.agent("boss").await;
    let (worker, _) = house.agent("worker").await;
    let (supervisor, at_work) =
        (speaks(&house, &boss.token, "cao").await, speaks(&house, &worker.token, "cao").await);
    assert_eq!(parameters(&at_work, "send_message").await, ["receiver_id", "message"]);
    assert!(parameters(&supervisor, "check_inbox").await.contains(&"timeout".to_owned()));

    let sent = at_work
        .call("send_message", json!({ "receiver_id": boss.instance, "message": "[Task: a] 3.0" }))
        .await
        .json();
    assert_eq!((&sent["success"], &sent["sender_id"]), (&json!(true), &json!(worker.instance)));

    let told =
        supervisor.call("check_inbox", json!({ "timeout": 5, "batch_window": 0 })).await.json();
    assert_eq!((&told["success"], &told["total"]), (&json!(true), &json!(1)));
    assert_eq!(told["terminal_id"], json!(boss.instance));
    let entry = &told["messages"][0];
    assert_eq!(entry["id"], sent["message_id"]);
    assert_eq!(entry["sender_id"], json!(worker.instance));
    assert_eq!(entry["message"], "[Task: a] 3.0");
    assert!(entry["created_at"].is_string());
    assert_eq!(entry["via"], "mcp");

    let again = supervisor.call("check_inbox", json!({ "timeout": 0 })).await;
    assert!(!again.is_error, "time up is a success");
    assert_eq!((&again.json()["messages"], &again.json()["total"]), (&json!([]), &json!(0)));
    house.becomes(sent["message_id"].as_u64().expect("a number"), "acked").await;

    for bad in [json!({ "timeout": 601 }), json!({ "timeout": -1 })] {
        let told = supervisor.call("check_inbox", bad).await;
        assert!(told.is_error);
        assert_eq!(told.json()["success"], false);
        assert!(told.json()["error"].as_str().expect("why").contains("timeout"));
    }
    let told =
        at_work.call("send_message", json!({ "receiver_id": "ffffffff", "message": "x" })).await;
    assert!(told.is_error && told.json()["success"] == false, "{told:?}");
}

#[tokio::test]
async fn cao_answers_may_be_confirmed_by_their_receipt() {
    let house = House::new().await;
    let (boss, _) = house.agent("boss").await;
    let me = speaks(&house, &boss.token, "cao").await;
    let sent = send(&house.operator(), &boss.instance, "hello").await;
    let told = me.call("check_inbox", json!({ "timeout": 0 })).await.json();
    let receipt = told["receipt"].as_str().expect("a receipt");
    me.call("check_inbox", json!({ "timeout": 0, "receipt": receipt })).await;
    let standing = house.becomes(sent.seq, "acked").await;
    assert_eq!(standing.proof.as_deref(), Some("receipt"));
}

#[tokio::test]
async fn assistants_are_listed_searched_written_to_and_read() {
    let house = House::new().await;
    let (ann, _) = house.agent("ann").await;
    let (ben, _) = house.agent("ben").await;
    let (as_ann, as_ben) = (
        speaks(&house, &ann.token, "assistant").await,
        speaks(&house, &ben.token, "assistant").await,
    );
    let listed = as_ann.call("list_assistant", json!({ "page": 1, "pageSize": 1 })).await.json();
    assert_eq!((&listed["totalItems"], &listed["items"][0]["id"]), (&json!(2), &json!("ann")));
    assert!(listed["items"][0]["system_prompt"].is_null());
    let beyond = as_ann.call("list_assistant", json!({ "page": 9 })).await.json();
    assert_eq!((&beyond["totalItems"], &beyond["items"]), (&json!(2), &json!([])));
    for bad in [json!({ "page": 0 }), json!({ "pageSize": 0 }), json!({ "pageSize": 101 })] {
        assert!(as_ann.call("list_assistant", bad).await.is_error);
    }
    let prefixed = "builtin_assistant__search_assistant";
    let found = as_ann.call(prefixed, json!({ "query": "ben" })).await.json();
    assert_eq!(found[0]["id"], "ben");

    let thread = ben.thread_id.clone();
    for text in ["one", "two"] {
        let message =
            json!({ "to_assistant_id": ben.instance, "thread_id": thread, "message": text });
        let sent = as_ann.call("send_message", message).await;
        assert_eq!(sent.json(), json!({ "success": true }));
    }
    let lost = json!({ "to_assistant_id": "nobody", "thread_id": thread, "message": "x" });
    let told = as_ann.call("send_message", lost).await;
    assert!(told.is_error && told.json()["success"] == false && told.json()["reason"].is_string());

    let read = as_ben.call("recv_message", json!({ "thread_id": thread })).await.json();
    assert_eq!(read["thread_id"], json!(thread));
    assert_eq!(read["summary"], json!({ "total_fetched": 2, "marked_as_read": 0 }));
    let first = &read["messages"][0];
    assert_eq!((&first["content"], &first["read_at"]), (&json!("one"), &json!(null)));
    assert_eq!(first["from_assistant_id"], "ann", "an id that the registry lists");
    assert_eq!(
        (&first["to_assistant_id"], &first["from_process_id"]),
        (&json!("ben"), &json!(ann.instance))
    );
    assert!(first["created_at"].is_i64() && first["id"].is_string());
}

#[tokio::test]
async fn marking_as_read_leases_what_is_shown_and_is_proven_like_any_read() {
    let limits = Limits { proof_grace: std::time::Duration::ZERO, ..Limits::default() };
    let house = House::with(limits).await;
    let (ann, _) = house.agent("ann").await;
    let (ben, _) = house.agent("ben").await;
    let (as_ann, as_ben) = (
        speaks(&house, &ann.token, "assistant").await,
        speaks(&house, &ben.token, "assistant").await,
    );
    let thread = ben.thread_id.clone();
    for text in ["one", "two", "three"] {
        let message =
            json!({ "to_assistant_id": ben.instance, "thread_id": thread, "message": text });
        as_ann.call("send_message", message).await;
    }
    let mark =
        json!({ "thread_id": thread, "unread_only": true, "last_n": 2, "mark_as_read": true });
    let read = as_ben.call("recv_message", mark.clone()).await.json();
    assert_eq!(read["summary"], json!({ "total_fetched": 2, "marked_as_read": 2 }), "{read}");
    assert!(read["messages"][0]["read_at"].is_i64());
    let seq: u64 = read["messages"][0]["id"].as_str().expect("a text").parse().expect("a number");
    assert_eq!(house.standing(seq).await.state, "leased");
    // Mine are not marked by another's reading, and neither are others by mine.
    let sender = as_ann.call("recv_message", mark.clone()).await;
    assert_eq!(sender.json()["summary"]["marked_as_read"], 0);

    let rest = as_ben.call("recv_message", mark).await.json();
    let standing = house.becomes(seq, "acked").await;
    assert_eq!(standing.proof.as_deref(), Some("next_call"));
    assert_eq!(rest["summary"]["marked_as_read"], 1, "{rest}");
}

#[tokio::test]
async fn the_herd_sends_by_address_and_hears_beside_its_answers() {
    let house = House::new().await;
    let (mason, _) = house.agent("mason").await;
    let (steve, as_steve) = house.agent("steve").await;
    let me = speaks(&house, &mason.token, "herd").await;
    assert_eq!(parameters(&me, "herd_send").await, ["to", "message", "priority", "type"]);
    let urgent = json!({ "to": "steve@main", "message": "the wall", "priority": "urgent" });
    assert!(!me.call("herd_send", urgent).await.is_error);
    let mail = crate::house::read(&as_steve).await;
    assert_eq!(texts(&mail), ["the wall"]);
    assert!(mail.messages[0].urgent);
    send(&as_steve, &mason.instance, "which one?").await;
    let told = me.call("herd_send", json!({ "to": steve.address, "message": "well" })).await;
    assert_eq!(told.pending()[0].1, "which one?");
}

#[tokio::test]
async fn the_chat_asks_and_responds_in_plain_words() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = speaks(&house, &bob.token, "chat").await;
    assert_eq!(parameters(&me, "respondToUser").await, ["message", "inReplyTo"]);
    assert_eq!(parameters(&me, "askUser").await, ["question", "blocking"]);
    let operator = house.operator();
    let asked = send(&operator, &bob.instance, "what is the weather?").await;

    let linked = json!({ "message": "sunny", "inReplyTo": asked.seq.to_string() });
    assert_eq!(me.call("respondToUser", linked).await.blocks[0], "delivered");
    let quoted = json!({ "message": "15 degrees", "inReplyTo": "what is the weather?" });
    assert_eq!(me.call("respondToUser", quoted).await.blocks[0], "delivered");
    let open = json!({ "question": "OAuth or JWT?", "blocking": false });
    assert_eq!(me.call("askUser", open).await.blocks[0], "question sent, continuing");

    let mail = crate::house::read(&operator).await;
    assert_eq!(texts(&mail), ["sunny", "15 degrees", "OAuth or JWT?"]);
    assert_eq!(mail.messages[0].in_reply_to, Some(asked.seq));
    let quote = serde_json::to_value(&mail.messages[1].metadata).expect("JSON");
    assert_eq!(quote["quote"], "what is the weather?");

    let asking =
        tokio::spawn(async move { me.call("askUser", json!({ "question": "sure?" })).await });
    crate::house::until("the operator is asked", async || {
        operator.instance(&bob.instance).await.expect("known").activity == "waiting_user"
    })
    .await;
    send(&operator, &bob.instance, "yes").await;
    assert_eq!(asking.await.expect("no panic").blocks[0], "yes");
}
