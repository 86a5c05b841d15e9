//! Who is here: joining, leaving, families, teams, and mail to many.

use std::sync::Arc;
use std::time::Duration;

use posthaste_api::ErrorCode;
use posthaste_api::inbox::Inbox;
use posthaste_api::instances::{CreateInstance, InstancesQuery, JoinRequest};
use posthaste_api::messages::SendRequest;
use posthaste_api::teams::PutTeam;
use posthaste_core::Limits;
use tokio::io::AsyncWriteExt;

use crate::house::{
    House, JOIN, OPERATOR, now, read, receipt_of, refusal, request, send, texts, until, wait,
    within,
};

fn created(agent: &str) -> CreateInstance {
    CreateInstance { agent: agent.into(), ..CreateInstance::default() }
}

#[tokio::test]
async fn the_same_key_comes_back_as_the_same_instance() {
    let house = House::new().await;
    let (first, before) = house.join("mason", None, "window 1").await;
    send(&house.operator(), &first.instance, "for the first window").await;

    let (again, after) = house.join("Mason", None, "window 1").await;
    let (other, _) = house.join("mason", None, "window 2").await;
    let (elsewhere, _) = house.join("mason", Some("avalon"), "window 1").await;

    assert_eq!((first.resumed, again.resumed), (false, true));
    assert_eq!((&again.instance, &again.address), (&first.instance, &first.address));
    assert_eq!(again.thread_id, first.thread_id);
    assert_eq!(again.token, first.token);
    assert!(!other.resumed && other.instance != first.instance, "two windows are two");
    assert!(!elsewhere.resumed && elsewhere.instance != first.instance, "another team, too");
    assert_eq!(elsewhere.address, format!("mason.{}@avalon", elsewhere.instance));
    assert_eq!(texts(&read(&after).await), ["for the first window"], "its mailbox was kept");
    assert!(read(&before).await.messages.is_empty(), "both tokens are the same reader");
}

#[tokio::test]
async fn one_key_used_at_once_from_many_sides_is_one_instance() {
    let house = Arc::new(House::new().await);
    let joins: Vec<_> = (0..6)
        .map(|_| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.join("mason", None, "k").await })
        })
        .collect();
    let mut joined = Vec::new();
    for join in joins {
        joined.push(join.await.expect("no panic"));
    }

    let (first, _) = &joined[0];
    assert!(joined.iter().all(|(j, _)| j.instance == first.instance));
    assert_eq!(joined.iter().filter(|(j, _)| !j.resumed).count(), 1);
    for (_, client) in &joined {
        client.inbox(&now()).await.expect("every token is good");
    }
}

#[tokio::test]
async fn who_is_silent_for_long_is_lost_and_any_call_brings_it_back() {
    let limits = Limits {
        lost_after: Duration::from_secs(1),
        sweep: Duration::from_millis(20),
        ..Limits::default()
    };
    let house = House::with(limits).await;
    let (silent, as_silent) = house.agent("mason").await;
    let (waiting, as_waiting) = house.agent("waiting").await;
    let own = send(&house.operator(), &silent.instance, "its own").await;
    let shared = send(&house.operator(), "mason", "for any mason").await;
    assert_eq!(read(&as_silent).await.total, 2);
    let call = tokio::spawn(async move { as_waiting.inbox(&wait(60.0)).await });

    until("it is lost", async || house.instance(&silent.instance).await.status == "lost").await;

    assert_eq!(house.instance(&waiting.instance).await.status, "running", "to wait is to live");
    let back = house.standing(shared.seq).await;
    assert_eq!((&*back.state, back.redelivered), ("queued", true), "others may have it");
    assert_eq!(house.standing(own.seq).await.state, "leased", "its own mail stays its own");
    let receipt = send(&house.operator(), &silent.instance, "it is still an address").await;
    assert_eq!(receipt.recipients[0].active, 0);
    let listed = house.operator().instances(&InstancesQuery::default()).await.expect("a listing");
    assert!(listed.instances.iter().any(|i| i.instance == silent.instance), "and is still listed");

    let inbox = read(&as_silent).await;
    assert_eq!(texts(&inbox), ["for any mason", "it is still an address"]);
    assert_eq!(house.instance(&silent.instance).await.status, "running");
    send(&house.operator(), &waiting.instance, "you too").await;
    within("the one who waits", call).await.expect("no panic").expect("an answer");
}

#[tokio::test]
async fn every_call_and_an_open_stream_are_signs_of_life() {
    let limits = Limits {
        lost_after: Duration::from_secs(1),
        sweep: Duration::from_millis(20),
        ..Limits::default()
    };
    let house = House::with(limits).await;
    let calls = [
        ("GET /v1/context", ""),
        ("GET /v1/messages?last_n=1", ""),
        ("GET /v1/messages/99/trail", ""),
        ("GET /v1/instances", ""),
        ("GET /v1/instances/SELF", ""),
        ("GET /v1/teams", ""),
        ("GET /v1/stats/mailboxes", ""),
        ("GET /v1/profiles", ""),
        ("POST /v1/inbox/ack", r#"{"receipt": "r-0"}"#),
        ("POST /v1/inbox/nack", r#"{"receipt": "r-0"}"#),
        ("POST /v1/messages", r#"{"to": "@@", "message": "x"}"#),
        ("POST /v1/messages", "no JSON"),
        ("GET /v1/inbox?timeout=no", ""),
        ("GET /v1/export", ""),
        ("GET /terminals/SELF/inbox/messages", ""),
        ("GET /terminals/SELF/inbox/messages", "by the operator"),
        ("GET /mcp", ""),
    ];
    let mut callers = Vec::new();
    for _ in &calls {
        callers.push(house.agent("caller").await.0);
    }
    let (follower, _) = house.agent("follower").await;
    let mut stream = house.dial().await;
    let follow = request("GET /v1/events", Some(&follower.token), &[], "");
    stream.write_all(follow.as_bytes()).await.expect("sent");
    let is = async |id: &str, status: &str| house.instance(id).await.status == status;

    for caller in &callers {
        until("it is lost", async || is(&caller.instance, "lost").await).await;
    }
    assert!(is(&follower.instance, "running").await, "an open stream lives");
    for ((call, body), caller) in calls.iter().zip(&callers) {
        let id = &caller.instance;
        let (token, body) = match *body {
            "by the operator" => (Some(OPERATOR), ""),
            body => (Some(&*caller.token), body),
        };
        house.call(&call.replace("SELF", id), token, body).await;
        assert!(is(id, "running").await, "{call} {body}");
    }
    drop(stream);
    until("it is lost, too", async || is(&follower.instance, "lost").await).await;
}

#[tokio::test]
async fn joining_is_answered_with_201_and_a_token_told_once() {
    let house = House::new().await;
    let body = r#"{"agent": "mason", "team": "avalon", "key": "k"}"#;

    let (status, joined) = house.call("POST /v1/join", Some(JOIN), body).await;
    let other = body.replace("\"k\"", "\"of the operator\"");
    let (also, _) = house.call("POST /v1/join", Some(OPERATOR), &other).await;

    assert_eq!((status, also), (201, 201));
    let id = joined["instance"].as_str().expect("an instance");
    assert_eq!(joined["address"], format!("mason.{id}@avalon"));
    assert_eq!(joined["team"], "avalon");
    let token = joined["token"].as_str().expect("a token");
    assert!(token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit()), "256 bits");
    let call = format!("GET /v1/instances/{id}");
    let (_, shown) = house.call(&call, Some(OPERATOR), "").await;
    assert!(!shown.to_string().contains(token) && shown.get("token").is_none());
}

#[tokio::test]
async fn a_listing_has_pages_filters_and_statuses() {
    let house = House::new().await;
    let mut all = Vec::new();
    for n in 0..5 {
        let team = if n < 2 { "avalon" } else { "main" };
        let agent = if n % 2 == 0 { "even" } else { "odd" };
        let request = CreateInstance { team: Some(team.into()), ..created(agent) };
        all.push(house.create(request).await.0);
    }
    let operator = house.operator();
    operator.leave(&all[0].instance).await.expect("ended");
    let list = async |query: InstancesQuery| {
        operator.instances(&query).await.expect("a listing").instances
    };
    let some = |text: &str| Some(text.to_owned());
    let none = InstancesQuery::default();

    assert_eq!(list(none.clone()).await.len(), 4, "the active ones");
    let cases = [
        (InstancesQuery { status: some("all"), ..none.clone() }, 5),
        (InstancesQuery { status: some("active"), ..none.clone() }, 4),
        (InstancesQuery { status: some("running"), ..none.clone() }, 4),
        (InstancesQuery { status: some("stopped"), ..none.clone() }, 1),
        (InstancesQuery { status: some("lost"), ..none.clone() }, 0),
        (InstancesQuery { team: some("avalon"), ..none.clone() }, 1),
        (InstancesQuery { team: some("Avalon"), status: some("all"), ..none.clone() }, 2),
        (InstancesQuery { agent: some("even"), status: some("all"), ..none.clone() }, 3),
        (InstancesQuery { agent: some("even"), team: some("main"), ..none.clone() }, 2),
        (InstancesQuery { agent: some("nobody"), ..none.clone() }, 0),
    ];
    for (query, expected) in cases {
        assert_eq!(list(query.clone()).await.len(), expected, "{query:?}");
    }

    let mut paged = Vec::new();
    let mut query = InstancesQuery { status: some("all"), limit: Some(2), ..none };
    loop {
        let page = operator.instances(&query).await.expect("a page");
        assert!(page.instances.len() <= 2);
        paged.extend(page.instances.into_iter().map(|i| i.instance));
        match page.cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => break,
        }
        assert!(paged.len() < 9, "pages end");
    }
    let mut expected: Vec<String> = all.into_iter().map(|i| i.instance).collect();
    expected.sort();
    assert_eq!(paged, expected, "each once, in order");
}

#[tokio::test]
async fn an_instance_shows_what_it_is() {
    let house = House::new().await;
    let (boss, _) = house.create(created("boss")).await;
    let request = CreateInstance {
        team: Some("Avalon".into()),
        label: Some("the cellar".into()),
        parent: Some(format!("inst-{}", boss.instance)),
        kind: Some("mechanical".into()),
        ..created("pump")
    };
    let (pump, as_pump) = house.create(request).await;
    send(&house.operator(), &pump.instance, "one").await;
    send(&house.operator(), "pump", "it is the only pump").await;

    let shown = as_pump.instance(&pump.instance).await.expect("known");

    assert_eq!((&shown.instance, &shown.address), (&pump.instance, &pump.address));
    assert_eq!((&*shown.agent, &*shown.team, &*shown.kind), ("pump", "avalon", "mechanical"));
    assert_eq!((&*shown.status, &*shown.activity), ("running", "unknown"));
    assert_eq!(shown.parent.as_ref(), Some(&boss.instance));
    assert_eq!((shown.label.as_deref(), shown.unread), (Some("the cellar"), 2));
    assert_eq!((&shown.thread_id, shown.ended_at), (&pump.thread_id, None));
    assert_eq!(refusal(as_pump.instance("00000000").await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn whoever_leaves_is_gone_with_its_token_once_and_for_all() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;
    assert_eq!(refusal(as_carol.leave(&bob.instance).await).code, ErrorCode::Forbidden);

    let left = as_bob.leave(&bob.instance).await.expect("left");

    assert_eq!((&*left.status, left.ended_at.is_some()), ("stopped", true));
    assert_eq!(refusal(as_bob.inbox(&now()).await).code, ErrorCode::Unauthorized);
    let twice = refusal(house.operator().leave(&bob.instance).await);
    assert_eq!((twice.code, twice.code.status()), (ErrorCode::Conflict, 409));
    let nobody = refusal(house.operator().leave("00000000").await);
    assert_eq!(nobody.code, ErrorCode::NotFound);
    let (again, _) = house.agent("bob").await;
    assert_ne!(again.instance, bob.instance);
}

#[tokio::test]
async fn a_key_of_one_who_left_is_a_new_instance() {
    let house = House::new().await;
    let (bob, as_bob) = house.join("bob", None, "k").await;
    as_bob.leave(&bob.instance).await.expect("left");

    let (again, as_again) = house.join("bob", None, "k").await;

    assert!(!again.resumed && again.instance != bob.instance);
    as_again.inbox(&now()).await.expect("a good token");
}

#[tokio::test]
async fn leaving_ends_ones_own_waiting_call() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let reader = as_bob.clone();
    let waiting = tokio::spawn(async move { reader.inbox(&wait(60.0)).await });
    house.waits(&bob.instance).await;

    as_bob.leave(&bob.instance).await.expect("left");

    let inbox = within("the call ends", waiting).await.expect("no panic").expect("an answer");
    assert_eq!((inbox.total, &*inbox.status), (0, "call_again"));
}

#[tokio::test]
async fn whoever_leaves_gives_one_of_mail_back_and_takes_its_own_along() {
    let house = House::new().await;
    let (first, as_first) = house.agent("mason").await;
    let (_, as_second) = house.agent("mason").await;
    let own = send(&house.operator(), &first.instance, "for the first alone").await;
    let shared = send(&house.operator(), "mason", "for any mason").await;
    assert_eq!(read(&as_first).await.total, 2);

    as_first.leave(&first.instance).await.expect("left");

    let dead = house.standing(own.seq).await;
    assert_eq!((&*dead.state, dead.reason.as_deref()), ("dead", Some("recipient_gone")));
    assert!(dead.maybe_seen, "it was handed out");
    let inbox = read(&as_second).await;
    assert_eq!(inbox.messages[0].id, shared.seq);
    assert!(inbox.messages[0].redelivered);
}

#[tokio::test]
async fn families_and_leaders_know_each_other() {
    let house = House::new().await;
    let (parent, as_parent) = house.create(created("parent")).await;
    let child =
        |name: &str| CreateInstance { parent: Some(parent.instance.clone()), ..created(name) };
    let (ann, as_ann) = house.create(child("ann")).await;
    let (_, as_ben) = house.create(child("ben")).await;
    let (_, as_chief) = house.create(created("chief")).await;
    let (_, as_other) = house.create(created("other")).await;
    let leaders = PutTeam { leaders: vec!["chief".into(), ann.instance.clone()] };
    let team = house.operator().put_team("main", &leaders).await.expect("kept");
    assert_eq!(team.leaders, ["chief".to_owned(), ann.instance.clone()]);

    for sender in [&as_parent, &as_ben, &as_chief, &as_other] {
        send(sender, &ann.instance, "hello").await;
    }
    send(&house.operator(), &ann.instance, "hello").await;
    send(&as_ann, &parent.instance, "hello").await;
    send(&as_ann, "other", "hello").await;

    let relations = |inbox: &Inbox<'_>| -> Vec<String> {
        inbox.messages.iter().map(|m| m.relation.to_string()).collect()
    };
    let got = relations(&read(&as_ann).await);
    assert_eq!(got, ["parent", "sibling", "leader", "peer", "human"]);
    assert_eq!(relations(&read(&as_parent).await), ["child"], "family before rank");
    assert_eq!(relations(&read(&as_other).await), ["leader"]);
}

#[tokio::test]
async fn teams_are_kept_and_listed_with_their_members() {
    let house = House::new().await;
    let (mason, _) = house.join("mason", Some("avalon"), "k").await;
    let (gone, as_gone) = house.join("mason", Some("avalon"), "l").await;
    as_gone.leave(&gone.instance).await.expect("left");
    let operator = house.operator();
    let camelot = PutTeam { leaders: vec!["Arthur".into()] };
    operator.put_team("Camelot", &camelot).await.expect("kept");

    let teams = operator.teams().await.expect("a list").teams;

    let names: Vec<&str> = teams.iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["avalon", "camelot"]);
    assert_eq!(teams[0].members, [mason.address]);
    assert_eq!((teams[1].leaders.as_slice(), teams[1].members.len()), (&["arthur".into()][..], 0));
    let emptied = operator.put_team("camelot", &PutTeam::default()).await.expect("kept");
    assert!(emptied.leaders.is_empty());
    assert_eq!(refusal(operator.team("nowhere").await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn everyone_is_frozen_at_the_send_and_leaves_the_sender_out() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let machine = CreateInstance { kind: Some("mechanical".into()), ..created("pump") };
    let (pump, as_pump) = house.create(machine).await;
    let (gone, as_gone) = house.agent("gone").await;
    as_gone.leave(&gone.instance).await.expect("left");

    let receipt = send(&as_alice, "@everyone", "lunch").await;
    let (_, as_late) = house.agent("late").await;

    let mut boxes: Vec<&str> = receipt.recipients.iter().map(|r| &*r.mailbox).collect();
    boxes.sort_unstable();
    let mut expected = [format!("i.{}", bob.instance), format!("i.{}", pump.instance)];
    expected.sort();
    assert_eq!(boxes, expected);
    assert!(receipt.recipients.iter().all(|r| r.active == 1));
    let bobs = read(&as_bob).await;
    assert_eq!((texts(&bobs), &*bobs.messages[0].to), (vec!["lunch"], "@everyone"));
    assert_eq!(texts(&read(&as_pump).await), ["lunch"], "the mechanical, too");
    for nobody in [&as_alice, &as_late] {
        assert!(read(nobody).await.messages.is_empty());
    }
    as_bob.ack(&receipt_of(&bobs)).await.expect("acked");
    let record = house.record(receipt.seq).await;
    let states: Vec<&str> = record.deliveries.iter().map(|d| &*d.state).collect();
    assert!(states.contains(&"acked") && states.contains(&"leased"), "each stands for itself");
    assert!(!record.read);
}

#[tokio::test]
async fn everyone_in_a_team_is_that_team() {
    let house = House::new().await;
    let (_, inside) = house.join("ann", Some("avalon"), "k").await;
    let (_, outside) = house.agent("ben").await;

    send(&house.operator(), "@everyone@avalon", "round table").await;

    assert_eq!(texts(&read(&inside).await), ["round table"]);
    assert!(read(&outside).await.messages.is_empty());
    let alone = refusal(inside.send(&SendRequest::new("@everyone@avalon", "hm")).await);
    assert_eq!(alone.code, ErrorCode::NoRecipient, "nobody but the sender");
}

#[tokio::test]
async fn a_full_mailbox_is_left_out_of_everyone_and_named() {
    let house = House::with(Limits { mailbox_messages: 1, ..Limits::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let (carol, as_carol) = house.agent("carol").await;
    send(&house.operator(), &bob.instance, "fills it").await;

    let receipt = send(&house.operator(), "@everyone", "lunch").await;

    assert_eq!(receipt.skipped, [format!("i.{}", bob.instance)]);
    assert_eq!(receipt.recipients.len(), 1);
    assert_eq!(receipt.recipients[0].mailbox, format!("i.{}", carol.instance));
    assert_eq!(texts(&read(&as_carol).await), ["lunch"]);
}

#[tokio::test]
async fn anyone_is_never_the_sender_nor_a_machine() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let machine = CreateInstance { kind: Some("mechanical".into()), ..created("pump") };
    let (_, as_pump) = house.create(machine).await;

    let receipt = send(&as_alice, "@anyone", "who is free?").await;

    let to = &receipt.recipients[0];
    assert_eq!((&*to.mailbox, to.active), ("any", 0), "nobody else who may read it");
    assert!(read(&as_alice).await.messages.is_empty());
    assert!(read(&as_pump).await.messages.is_empty());
    let (_, as_bob) = house.agent("bob").await;
    assert_eq!(texts(&read(&as_bob).await), ["who is free?"]);
    send(&house.operator(), "pump", "by name").await;
    assert_eq!(texts(&read(&as_pump).await), ["by name"], "a machine has a name");
}

#[tokio::test]
async fn mail_to_a_name_is_read_by_one_of_that_name_in_that_team() {
    let house = House::new().await;
    let (_, at_home) = house.agent("mason").await;
    let (_, abroad) = house.join("mason", Some("avalon"), "k").await;

    let receipt = send(&house.operator(), "mason@avalon", "build a wall").await;
    let both = send(&house.operator(), "mason", "either").await;

    assert_eq!(
        (&*receipt.recipients[0].mailbox, receipt.recipients[0].active),
        ("n.mason@avalon", 1)
    );
    assert_eq!(both.recipients[0].active, 2);
    assert_eq!(texts(&read(&at_home).await), ["either"]);
    assert_eq!(texts(&read(&abroad).await), ["build a wall"]);
}

#[tokio::test]
async fn mail_to_a_name_with_nobody_there_waits_and_the_receipt_says_so() {
    let house = House::new().await;
    let (first, as_first) = house.agent("mason").await;
    as_first.leave(&first.instance).await.expect("left");

    let receipt = send(&house.operator(), "mason", "when you are back").await;

    let to = &receipt.recipients[0];
    assert_eq!((&*to.mailbox, to.active, to.waiting), ("n.mason", 0, 0));
    assert_eq!(house.standing(receipt.seq).await.state, "queued");
    let (_, as_next) = house.agent("mason").await;
    let inbox = read(&as_next).await;
    assert_eq!(texts(&inbox), ["when you are back"]);
    assert!(!inbox.messages[0].redelivered);
}

#[tokio::test]
async fn of_two_who_wait_one_is_woken_by_one_of_mail() {
    let house = House::new().await;
    let (first, as_first) = house.agent("mason").await;
    let (second, as_second) = house.agent("mason").await;
    let one = tokio::spawn(async move { as_first.inbox(&wait(60.0)).await });
    house.waits(&first.instance).await;
    let two = tokio::spawn(async move { as_second.inbox(&wait(60.0)).await });
    house.waits(&second.instance).await;

    let receipt = send(&house.operator(), "mason", "one of you").await;
    assert_eq!((receipt.recipients[0].active, receipt.recipients[0].waiting), (2, 2));
    let woken = within("the first", one).await.expect("no panic").expect("an answer");
    assert_eq!(texts(&woken), ["one of you"]);
    assert_eq!(house.instance(&second.instance).await.activity, "waiting_inbox");

    send(&house.operator(), "mason", "and the other").await;
    let woken = within("the second", two).await.expect("no panic").expect("an answer");
    assert_eq!(texts(&woken), ["and the other"]);
}

#[tokio::test]
async fn an_unknown_parent_is_refused_and_a_child_outlives_nobody() {
    let house = House::new().await;
    let (boss, as_boss) = house.create(created("boss")).await;
    let child = CreateInstance { parent: Some(boss.instance.clone()), ..created("child") };
    let orphan = CreateInstance { parent: Some("00000000".into()), ..created("child") };

    house.create(child.clone()).await;
    assert_eq!(refusal(house.operator().create_instance(&orphan).await).code, ErrorCode::NotFound);
    as_boss.leave(&boss.instance).await.expect("left");
    let refused = refusal(house.operator().create_instance(&child).await);
    assert_eq!(refused.code, ErrorCode::NotFound, "a parent that has ended is none");
}

#[tokio::test]
async fn a_join_key_has_one_to_two_hundred_characters() {
    let house = House::new().await;
    let door = house.client(JOIN);
    let join = |key: String| JoinRequest { agent: "bob".into(), key, ..JoinRequest::default() };

    for bad in [String::new(), "k".repeat(201)] {
        let error = refusal(door.join(&join(bad)).await);
        assert_eq!((error.code, error.code.status()), (ErrorCode::InvalidArgument, 422));
    }
    door.join(&join("é".repeat(200))).await.expect("joined");
}

#[tokio::test]
async fn only_the_operator_is_told_which_conversation_an_agent_is() {
    let house = House::new().await;
    let (bob, as_bob) = house.join("bob", None, "window 7").await;
    let seen = house.operator().instance(&bob.instance).await.expect("known");
    assert_eq!(seen.key.as_deref(), Some("window 7"));
    let (_, as_eve) = house.agent("eve").await;
    for other in [&as_bob, &as_eve] {
        assert_eq!(other.instance(&bob.instance).await.expect("known").key, None);
        let listed = other.instances(&Default::default()).await.expect("a list");
        assert!(listed.instances.iter().all(|agent| agent.key.is_none()));
    }
}
