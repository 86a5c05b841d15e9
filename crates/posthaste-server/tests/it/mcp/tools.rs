//! Each tool does what its description says.

use posthaste_api::messages::SendRequest;
use posthaste_api::needs::{AnswerRequest, NeedsQuery};
use posthaste_core::Limits;
use posthaste_server::McpConfig;
use serde_json::json;

use super::agent::Agent;
use crate::house::{House, Plan, send, texts, until};

#[tokio::test]
async fn a_message_from_one_agent_reaches_another_with_its_sender() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let (as_alice, as_bob) = (Agent::old(&house, &alice).await, Agent::old(&house, &bob).await);

    let sent = as_alice.call("send_message", json!({ "to": "bob", "message": "hello" })).await;
    let told = sent.json();
    assert_eq!((&told["status"], &told["active"]), (&json!("queued"), &json!(1)), "{told}");

    let inbox = as_bob.check(5.0).await.json();
    let entry = &inbox["messages"][0];
    assert_eq!(*entry, json!({ "id": told["id"], "from": alice.address, "message": "hello" }));
    assert_eq!(inbox["status"], "complete");
    let record = house.record(told["id"].as_u64().expect("a number")).await;
    assert_eq!(record.via, "mcp");
}

#[tokio::test]
async fn a_reply_without_an_address_goes_to_whom_it_answers_and_proves_the_question() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let bob_at_work = Agent::old(&house, &bob).await;
    let asked = as_alice
        .send(&SendRequest { kind: Some("question".into()), ..SendRequest::new("bob", "why?") })
        .await
        .expect("accepted");
    let inbox = bob_at_work.check(5.0).await.json();
    assert_eq!(inbox["messages"][0]["type"], "question");

    let reply = json!({ "message": "because", "in_reply_to": asked.seq, "type": "answer" });
    let told = bob_at_work.call("send_message", reply).await;
    assert!(!told.is_error, "{told:?}");

    let mail = as_alice.inbox(&crate::house::now()).await.expect("mail");
    assert_eq!(texts(&mail), ["because"]);
    assert_eq!(mail.messages[0].in_reply_to, Some(asked.seq));
    assert_eq!(mail.messages[0].from, bob.address);
    let question = house.becomes(asked.seq, "acked").await;
    assert_eq!(question.proof.as_deref(), Some("reply"));
    assert_eq!(alice.instance.len(), 8);
}

#[tokio::test]
async fn without_an_address_a_worker_writes_to_whoever_assigned_it() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let create = posthaste_api::instances::CreateInstance {
        agent: "worker".into(),
        parent: Some(boss.instance.clone()),
        ..Default::default()
    };
    let (worker, _) = house.create(create).await;
    let at_work = Agent::old(&house, &worker).await;
    let result = json!({ "message": "42", "type": "result" });
    assert!(!at_work.call("send_message", result).await.is_error);
    let mail = crate::house::read(&as_boss).await;
    assert_eq!(texts(&mail), ["42"]);

    let lonely = Agent::old(&house, &boss).await;
    let told = lonely.call("send_message", json!({ "message": "x" })).await;
    assert_eq!(told.code(), "invalid_argument");
    assert!(told.json()["error"]["hint"].as_str().expect("a hint").contains("find_agents"));
}

#[tokio::test]
async fn synonyms_are_taken_and_a_list_answers_each_in_order() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &alice).await;
    for (to, text) in
        [("receiver_id", "message"), ("to_assistant_id", "content"), ("to", "content")]
    {
        let told = me.call("send_message", json!({ to: bob.instance, text: "hi" })).await;
        assert!(!told.is_error, "{to} {text}: {told:?}");
    }
    let told =
        me.call("send_message", json!({ "to": ["bob", "nobody-here"], "message": "x" })).await;
    let results = told.json()["results"].clone();
    assert_eq!(results[0]["status"], "queued");
    assert_eq!(results[1]["error"]["code"], "no_recipient");
}

#[tokio::test]
async fn a_wrong_call_is_a_tool_error_that_says_what_to_do_and_takes_no_mail() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&house.operator(), &bob.instance, "keep me").await;

    for (tool, arguments, code) in [
        ("check_inbox", json!({ "timeout": -1 }), "invalid_argument"),
        ("check_inbox", json!({ "timeout": 601 }), "invalid_argument"),
        ("check_inbox", json!({ "timeout": "soon" }), "invalid_argument"),
        ("check_inbox", json!({ "wait_for": "some" }), "invalid_argument"),
        ("check_inbox", json!({ "wait_for": 0 }), "invalid_argument"),
        ("check_inbox", json!({ "patience": 1 }), "invalid_argument"),
        ("read_messages", json!({ "last_n": 0 }), "invalid_argument"),
        ("read_messages", json!({ "id": "abc" }), "invalid_argument"),
        ("read_messages", json!({ "offset": 3 }), "invalid_argument"),
        ("read_messages", json!({ "id": 999_999 }), "not_found"),
        ("read_messages", json!({ "team": "main" }), "forbidden"),
    ] {
        let told = me.call(tool, arguments.clone()).await;
        assert_eq!(told.code(), code, "{tool} {arguments}");
        assert!(told.pending().is_empty(), "reads carry nothing");
    }
    assert_eq!(house.standing(sent.seq).await.state, "queued");

    // Other tools' errors do carry mail.
    let told = me.call("send_message", json!({ "to": "@main", "message": "x" })).await;
    assert_eq!(told.code(), "invalid_address");
    assert_eq!(told.pending(), [(sent.seq, "keep me".to_owned(), false)]);
    drop(as_bob);
}

#[tokio::test]
async fn long_mail_is_clipped_and_read_on_to_its_end() {
    let house = House::with(McpConfig { answer_chars: 2_000, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    // Every character of it is longer in JSON, or in bytes.
    let body: String = "\"ü\n\\😀\u{1}".chars().cycle().take(5_000).collect();
    let sent = send(&house.operator(), &bob.instance, &body).await;

    let told = me.check(0.0).await;
    assert!(told.blocks[0].chars().count() <= 2_000, "{}", told.blocks[0].chars().count());
    let entry = told.json()["messages"][0].clone();
    assert_eq!((&entry["truncated"], &entry["total_chars"]), (&json!(true), &json!(5_000)));
    let mut text = entry["message"].as_str().expect("a text").to_owned();
    let mut next = entry["next_offset"].as_u64();
    while let Some(offset) = next {
        let arguments = json!({ "id": sent.seq, "offset": offset });
        let part = me.call("read_messages", arguments).await;
        assert!(part.blocks[0].chars().count() <= 2_000);
        let part = part.json();
        let more = part["message"].as_str().expect("a text");
        assert!(!more.is_empty());
        text.push_str(more);
        next = part["next_offset"].as_u64();
    }
    assert_eq!(text, body);
}

#[tokio::test]
async fn fifty_short_results_fit_into_one_answer_of_an_unknown_client() {
    let limits = Limits { pair_per_minute: 0, sender_per_minute: 0, ..Limits::default() };
    let house = House::with(limits).await;
    let (boss, _) = house.agent("boss").await;
    let me = Agent::old(&house, &boss).await;
    for n in 0..50 {
        let (_, worker) = house.agent("a-worker-with-a-name").await;
        let result = SendRequest {
            kind: Some("result".into()),
            label: Some(format!("task {n}")),
            ..SendRequest::new(boss.instance.clone(), format!("result {n}: all is well"))
        };
        worker.send(&result).await.expect("accepted");
    }
    let told = me.call("check_inbox", json!({ "timeout": 5, "wait_for": 50 })).await;
    assert_eq!(told.mail().len(), 50);
    assert_eq!(told.status(), "complete");
    assert!(told.blocks[0].chars().count() <= 10_000, "{}", told.blocks[0].chars().count());
    assert!(told.mail().iter().all(|(_, text, _)| text.ends_with("all is well")), "none is cut");
}

#[tokio::test]
async fn what_does_not_fit_stays_queued_and_is_counted() {
    let house = House::with(McpConfig { answer_chars: 1_000, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let mut seqs = Vec::new();
    for n in 0..20 {
        seqs.push(
            send(&house.operator(), &bob.instance, &format!("{n} {}", "x".repeat(300))).await.seq,
        );
    }
    let first = me.check(0.0).await;
    assert!(first.blocks[0].chars().count() <= 1_000, "{}", first.blocks[0].chars().count());
    let remaining = first.json()["remaining"].as_u64().expect("a count");
    assert_eq!(first.mail().len() as u64 + remaining, 20);
    let mut got: Vec<u64> = first.mail().iter().map(|(id, ..)| *id).collect();
    while got.len() < 20 {
        let more = me.check(0.0).await.mail();
        assert!(!more.is_empty() && more.iter().all(|(.., marked)| !marked), "{more:?}");
        got.extend(more.iter().map(|(id, ..)| *id));
    }
    assert_eq!(got, seqs);
}

#[tokio::test]
async fn an_agent_learns_who_it_is_and_who_else_is_here() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &alice).await;
    send(&house.operator(), "@anyone", "for whoever reads").await;
    let who = me.call("whoami", json!({})).await.json();
    assert_eq!((&who["address"], &who["team"]), (&json!(alice.address), &json!("main")));
    let here = me.call("find_agents", json!({})).await.json();
    let names: Vec<_> =
        here["agents"].as_array().expect("a list").iter().map(|a| &a["name"]).collect();
    assert_eq!(names, ["alice", "bob"]);
    assert_eq!(here["agents"][1]["active"], json!([bob.address]));
    let found = me.call("find_agents", json!({ "query": "bob" })).await.json();
    assert_eq!(found["agents"][0]["name"], "bob");
    let none = me.call("find_agents", json!({ "query": "zebra (\"* OR" })).await.json();
    assert_eq!(none["agents"], json!([]));
    assert!(none["note"].is_string());
}

#[tokio::test]
async fn a_leader_reads_its_team_and_takes_nothing() {
    let house = House::new().await;
    let (boss, _) = house.agent("boss").await;
    let (bob, _) = house.agent("bob").await;
    let team = posthaste_api::teams::PutTeam { leaders: vec![boss.instance.clone()] };
    house.operator().put_team("main", &team).await.expect("a team");
    let sent = send(&house.operator(), &bob.instance, "for bob").await;
    let me = Agent::old(&house, &boss).await;
    let seen = me.call("read_messages", json!({ "team": "main" })).await.json();
    assert_eq!(seen["messages"][0]["message"], "for bob");
    assert_eq!(seen["messages"][0]["state"], "queued");
    assert_eq!(house.standing(sent.seq).await.state, "queued");
}

#[tokio::test]
async fn a_question_to_the_operator_waits_for_its_answer() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let asking = tokio::spawn(async move {
        let question = json!({ "question": "red or blue?", "options": ["red", "blue"] });
        (me.call("ask_user", question).await, me)
    });
    let operator = house.operator();
    until("the operator is asked", async || {
        operator.instance(&bob.instance).await.expect("known").activity == "waiting_user"
    })
    .await;
    let mail = crate::house::read(&operator).await;
    let question = &mail.messages[0];
    assert_eq!((&*question.message, &*question.kind), ("red or blue?", "question"));
    let options = serde_json::to_value(&question.metadata).expect("JSON");
    assert_eq!(options["options"], json!(["red", "blue"]));
    send(&operator, &bob.instance, "not yet").await;
    let (told, me) = asking.await.expect("no panic");
    let answer = told.json();
    assert_eq!((&answer["status"], &answer["answer"]), (&json!("answered"), &json!("not yet")));
    assert_eq!(answer["question_id"], question.id);

    let told = me.call("ask_user", json!({ "question": "and now?", "blocking": false })).await;
    assert_eq!(told.json()["status"], "pending");
    let told = me.call("respond_to_user", json!({ "message": "I go on" })).await;
    assert!(!told.is_error);
    let mail = crate::house::read(&operator).await;
    assert_eq!(texts(&mail), ["and now?", "I go on"]);
}

#[tokio::test]
async fn a_question_needs_the_operator_and_says_whether_its_asker_waits() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let asking = tokio::spawn(async move {
        let question = json!({ "question": "red or blue?", "options": ["red", "blue"] });
        (me.call("ask_user", question).await, me)
    });
    let operator = house.operator();
    until("the operator is asked", async || house.hub.open_needs() == 1).await;
    let open = NeedsQuery::default();
    let need = operator.needs(&open).await.expect("a list").needs.remove(0);
    assert!(need.blocking && need.options == ["red", "blue"], "{need:?}");
    let blue = AnswerRequest { option: Some("blue".into()), ..AnswerRequest::default() };
    operator.answer_need(&need.id.to_string(), &blue).await.expect("answered");
    let (told, me) = asking.await.expect("no panic");
    let answer = told.json();
    assert_eq!((&answer["status"], &answer["answer"]), (&json!("answered"), &json!("blue")));
    me.call("ask_user", json!({ "question": "and now?", "blocking": false })).await;
    let need = operator.needs(&open).await.expect("a list").needs.remove(0);
    assert!(!need.blocking && need.text == "and now?", "{need:?}");
}

#[tokio::test]
async fn an_answer_linked_to_something_else_is_no_answer_and_patience_ends_as_pending() {
    let brief = std::time::Duration::from_millis(400);
    let house = House::with(McpConfig { patience: brief, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let (_, as_eve) = house.agent("eve").await;
    let me = Agent::old(&house, &bob).await;
    send(&as_eve, &bob.instance, "blue!").await;
    let told = me.call("ask_user", json!({ "question": "red or blue?" })).await.json();
    assert_eq!(told["status"], "pending");
    let id = told["question_id"].as_u64().expect("a number");
    let reply = SendRequest {
        in_reply_to: Some(posthaste_api::messages::MessageRef::Seq(id)),
        ..SendRequest::new(bob.instance.clone(), "red")
    };
    house.operator().send(&reply).await.expect("accepted");
    let inbox = me.check(5.0).await;
    assert_eq!(inbox.texts(), ["blue!", "red"]);
    assert_eq!(inbox.json()["messages"][1]["in_reply_to"], id);
}

#[tokio::test]
async fn mail_that_crossed_ones_own_says_so() {
    let house = House::with(Plan::default()).await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &alice).await;
    send(&as_alice, &bob.instance, "please stop").await;
    send(&as_bob, &alice.instance, "I began").await;
    let inbox = me.check(5.0).await.json();
    assert_eq!(inbox["messages"][0]["crossed"], true, "bob wrote before he read");
    let read = crate::house::read(&as_bob).await;
    as_bob.ack(&crate::house::receipt_of(&read)).await.expect("settled");
    send(&as_bob, &alice.instance, "I stopped").await;
    let inbox = me.check(5.0).await.json();
    assert!(inbox["messages"][0]["crossed"].is_null(), "{inbox}");
}

#[tokio::test]
async fn every_answer_stays_within_what_the_client_can_read() {
    let small = McpConfig { answer_chars: 1_500, ..McpConfig::default() };
    let limits = Limits { pair_per_minute: 0, sender_per_minute: 0, ..Limits::default() };
    let house = House::with(Plan { mcp: small, limits, ..Plan::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let long = "l".repeat(200);
    for n in 0..30 {
        let (_, sender) = house.agent(&format!("an-agent-with-a-rather-long-name-{n}")).await;
        let request = SendRequest {
            label: Some(format!("{long:.195}{n}")),
            ..SendRequest::new(bob.instance.clone(), "\"\\".repeat(300))
        };
        sender.send(&request).await.expect("accepted");
    }
    for (tool, arguments) in [
        ("check_inbox", json!({ "timeout": 0 })),
        ("read_messages", json!({ "last_n": 200 })),
        ("find_agents", json!({ "limit": 50 })),
        ("whoami", json!({})),
    ] {
        let told = me.call(tool, arguments).await;
        assert!(!told.is_error, "{told:?}");
        let length: usize = told.blocks.iter().map(|block| block.chars().count()).sum();
        assert!(length <= 1_500, "{tool}: {length}");
    }
}

#[tokio::test]
async fn what_the_human_said_before_is_no_answer_to_a_question() {
    let brief = std::time::Duration::from_millis(200);
    let house = House::with(McpConfig { patience: brief, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    send(&house.operator(), &bob.instance, "yes, rename the file").await;
    let told = me.call("ask_user", json!({ "question": "Delete the database?" })).await.json();
    assert_eq!(told["status"], "pending", "{told}");
    assert_eq!(me.check(0.0).await.texts(), ["yes, rename the file"]);
}

#[tokio::test]
async fn a_gather_whose_reports_do_not_fit_says_call_again_and_marks_none_of_the_rest() {
    let small = McpConfig { answer_chars: 2_000, ..McpConfig::default() };
    let house = House::with(small).await;
    let (boss, _) = house.agent("boss").await;
    let me = Agent::old(&house, &boss).await;
    let mut from = Vec::new();
    for n in 0..12 {
        let (worker, as_worker) = house.agent("w").await;
        let result = SendRequest {
            kind: Some("result".into()),
            label: Some(format!("{n} {}", "l".repeat(190))),
            ..SendRequest::new(boss.instance.clone(), format!("result {n}"))
        };
        as_worker.send(&result).await.expect("accepted");
        from.push(worker.instance);
    }
    let first = me.call("check_inbox", json!({ "timeout": 5, "wait_for": 12 })).await;
    assert_eq!(first.status(), "call_again", "{first:?}");
    let mut seen = first.mail();
    while seen.len() < 12 {
        let more = me.check(0.0).await.mail();
        assert!(!more.is_empty());
        seen.extend(more);
    }
    assert!(seen.iter().all(|(.., marked)| !marked), "{seen:?}");
    drop(from);
}

#[tokio::test]
async fn nobody_is_not_everybody() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let (_, as_eve) = house.agent("eve").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&as_eve, &bob.instance, "hello").await;
    for from in [json!(" , "), json!([""]), json!([" "])] {
        let told = me.call("check_inbox", json!({ "timeout": 0, "from": from })).await;
        assert_eq!(told.code(), "invalid_argument");
    }
    assert_eq!(house.standing(sent.seq).await.state, "queued");
    let by_team = me.call("check_inbox", json!({ "timeout": 0, "from": "eve@main" })).await;
    assert_eq!(by_team.texts(), ["hello"]);
}
