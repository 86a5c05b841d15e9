//! Whose an identity is: key and secret, never the key alone; and who is born by what.

use std::time::Duration;

use posthaste_api::error::ErrorCode;
use posthaste_api::instances::JoinRequest;
use posthaste_core::Limits;
use posthaste_server::McpConfig;
use serde_json::json;

use crate::house::{House, JOIN, Plan, SECRET, now, read, refusal, request, send, texts, until};
use crate::mcp::agent::{Agent, Era};

/// Not the owner's.
const GUESSED: &str = "what-a-thief-would-try-first-of-all";

fn bob(secret: Option<&str>) -> JoinRequest {
    let secret = secret.map(str::to_owned);
    JoinRequest { agent: "bob".into(), key: "cli:bob".into(), secret, ..JoinRequest::default() }
}

/// The door for clients that say who they are in every request.
fn headers(secret: &str) -> Vec<(&'static str, String)> {
    vec![
        ("x-posthaste-agent", "bob".into()),
        ("x-posthaste-key", "cli:bob".into()),
        ("x-posthaste-secret", secret.into()),
    ]
}

async fn everybody(house: &House) -> Vec<String> {
    let listed = house.operator().instances(&Default::default()).await.expect("a listing");
    listed.instances.into_iter().map(|i| i.instance).collect()
}

#[tokio::test]
async fn a_secret_is_told_once_when_its_identity_is_made() {
    let house = House::new().await;
    let door = house.client(JOIN);
    let first = door.join(&bob(None)).await.expect("joined");
    let secret = first.secret.expect("a secret");
    assert!(secret.len() == 64 && secret.bytes().all(|b| b.is_ascii_hexdigit()), "256 bits");
    let again = door.join(&bob(Some(&secret))).await.expect("joined again");
    assert_eq!((again.instance, again.resumed), (first.instance.clone(), true));
    assert_eq!(again.secret, None);
    let shown = house.operator().instance(&first.instance).await.expect("known");
    assert!(!serde_json::to_string(&shown).expect("JSON").contains(&secret));
    let short = refusal(door.join(&bob(Some("guessable"))).await);
    assert_eq!(short.code, ErrorCode::InvalidArgument);
    assert!(short.message.contains("limits.secret_chars"), "{}", short.message);
}

#[tokio::test]
async fn a_thief_with_the_join_token_is_refused_at_every_door_while_the_owner_is_here() {
    let house = House::new().await;
    let (owner, as_owner) = house.join("bob", None, "cli:bob").await;
    send(&house.operator(), &owner.instance, "for bob alone").await;
    let door = house.client(JOIN);
    for secret in [None, Some(GUESSED), Some(owner.token.as_str())] {
        let refused = refusal(door.join(&bob(secret)).await);
        assert_eq!((refused.code, refused.code.status()), (ErrorCode::IdentityTaken, 409));
        assert!(refused.hint.expect("advice").contains("another key"));
    }
    let mut thief = Agent::silent(&house, JOIN, Era::Old, "test");
    thief.more = headers(GUESSED);
    let call = thief.request(1, "tools/call", json!({ "name": "check_inbox" })).await;
    assert_eq!(call.status(), 409);
    let hook: Vec<(&str, &str)> = thief.more.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let hook = [&hook[..], &[("content-type", "application/json")]].concat();
    let (status, told) = house.raw(request("POST /v1/hooks/prompt", Some(JOIN), &hook, "{}")).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("identity_taken")));
    assert_eq!(everybody(&house).await, [owner.instance]);
    assert_eq!(texts(&read(&as_owner).await), ["for bob alone"]);
}

#[tokio::test]
async fn a_thief_with_the_join_token_gets_nothing_of_an_owner_who_is_away() {
    let limits = Limits { away_after: Duration::ZERO, ..Limits::default() };
    let house = House::with(limits).await;
    let (owner, as_owner) = house.join("bob", None, "cli:bob").await;
    send(&house.operator(), &owner.instance, "for bob alone").await;
    let door = house.client(JOIN);
    // More often than an instance may have tokens.
    for _ in 0..20 {
        let stolen = door.join(&bob(None)).await.expect("the key is free");
        assert!(!stolen.resumed && stolen.instance != owner.instance);
        assert!(read(&house.client(&stolen.token)).await.messages.is_empty());
    }
    let mut thief = Agent::silent(&house, JOIN, Era::Old, "test");
    thief.more = headers(GUESSED);
    let me = thief.call("whoami", json!({})).await.json();
    assert_ne!(me["instance"], json!(owner.instance));
    as_owner.inbox(&now()).await.expect("its own token was not pushed out");
    let (again, as_again) = house.join("bob", None, "cli:bob").await;
    assert_eq!((again.instance, again.resumed), (owner.instance, true));
    as_again.inbox(&now()).await.expect("a good token");
}

#[tokio::test]
async fn whoever_only_looks_at_the_tools_leaves_nobody_behind() {
    let often = Duration::from_millis(10);
    let house = House::with(Plan {
        limits: Limits { sweep: often, ..Limits::default() },
        mcp: McpConfig { ping: often, ..Default::default() },
        ..Plan::default()
    })
    .await;
    let mut client = Agent::silent(&house, JOIN, Era::Old, "test");
    client.more = headers(SECRET);
    client.hello().await;
    assert!(client.ask("tools/list", json!({})).await["result"]["tools"].is_array());
    let stream = client.listen().await;
    assert_eq!(stream.status(), 200, "it may listen all the same");
    assert!(everybody(&house).await.is_empty());

    // Its first call makes it somebody, and the stream is its own from then on: a sign of
    // life again and again.
    let me = client.call("whoami", json!({})).await.json();
    let id = me["instance"].as_str().expect("an instance").to_owned();
    assert_eq!(everybody(&house).await, [id.as_str()]);
    let seen = async || house.operator().instance(&id).await.expect("known").last_seen;
    let before = seen().await;
    until("its stream is a sign of life", async || seen().await > before).await;
}

#[tokio::test]
async fn eighty_joins_of_its_owner_push_no_token_out() {
    let house = House::new().await;
    let (first, as_first) = house.join("bob", None, "cli:bob").await;
    for _ in 0..80 {
        let (again, as_again) = house.join("bob", None, "cli:bob").await;
        assert_eq!((&again.instance, again.resumed), (&first.instance, true));
        as_again.inbox(&now()).await.expect("a good token");
    }
    as_first.inbox(&now()).await.expect("the token of the first join is good");
}

#[tokio::test]
async fn a_token_that_leaked_is_worth_nothing_once_the_operator_has_ended_its_agent() {
    let house = House::new().await;
    let (first, as_first) = house.join("bob", None, "cli:bob").await;
    house.operator().stop(&first.instance).await.expect("ended");
    as_first.inbox(&now()).await.expect_err("it has ended");
    let (second, as_second) = house.join("bob", None, "cli:bob").await;
    assert!(!second.resumed && second.instance != first.instance);
    as_second.inbox(&now()).await.expect("its own token");
    as_first.inbox(&now()).await.expect_err("that was another agent's");
}

#[tokio::test]
async fn eighty_joins_of_a_thief_push_no_token_out_and_make_nobody_while_the_owner_is_here() {
    let house = House::new().await;
    let (owner, as_owner) = house.join("bob", None, "process:4711:1731700000").await;
    let door = house.client(JOIN);
    for n in 0..80 {
        let guess = JoinRequest {
            key: "process:4711:1731700000".into(),
            ..bob(Some(&format!("{GUESSED}-{n}")))
        };
        assert_eq!(refusal(door.join(&guess).await).code, ErrorCode::IdentityTaken);
    }
    as_owner.inbox(&now()).await.expect("its own token was not pushed out");
    assert_eq!(everybody(&house).await, [owner.instance]);
}

#[tokio::test]
async fn a_thief_gets_nothing_of_an_owner_who_was_forgotten() {
    let limits = Limits { away_after: Duration::ZERO, ..Limits::default() };
    let house = House::with(limits).await;
    let (owner, as_owner) = house.join("bob", None, "cli:bob").await;
    let kept = send(&house.operator(), &owner.instance, "for bob alone").await;
    let inbox = read(&as_owner).await;
    as_owner.ack(&crate::house::receipt_of(&inbox)).await.expect("acked");
    let pruned = house.hub.forget_all_gone().await.expect("forgotten");
    assert_eq!(pruned.len(), 1, "it was away and had nothing to lose");

    let number = kept.seq.to_string();
    let whole = posthaste_api::messages::ReadQuery::default();
    let stolen = house.client(JOIN).join(&bob(Some(GUESSED))).await.expect("a free key");
    assert!(!stolen.resumed && stolen.instance != owner.instance);
    let as_thief = house.client(&stolen.token);
    assert_eq!(refusal(as_thief.read(&number, &whole).await).code, ErrorCode::NotFound);
    let mut by_headers = Agent::silent(&house, JOIN, Era::Old, "test");
    by_headers.more = headers("another-guess-of-the-very-same-thief");
    let told = by_headers.call("read_messages", json!({ "id": number })).await;
    assert_eq!(told.code(), "not_found");
    let old = refusal(as_owner.inbox(&now()).await);
    assert_eq!(old.code, ErrorCode::Unauthorized, "the forgotten have no token");
    let to_the_forgotten =
        posthaste_api::messages::SendRequest::new(&*owner.instance, "still here?");
    let gone = refusal(house.operator().send(&to_the_forgotten).await);
    assert_eq!(gone.code, ErrorCode::RecipientGone);
}

#[tokio::test]
async fn a_thief_gets_nothing_by_a_hook_while_the_owner_is_away() {
    let limits = Limits { away_after: Duration::ZERO, ..Limits::default() };
    let house = House::with(limits).await;
    let (owner, _) = house.join("bob", None, "cli:bob").await;
    send(&house.operator(), &owner.instance, "for bob alone").await;
    let more = headers(GUESSED);
    let hook: Vec<(&str, &str)> = more.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let hook = [&hook[..], &[("content-type", "application/json")]].concat();
    for event in ["session_start", "prompt", "tool", "stop"] {
        let call = format!("POST /v1/hooks/{event}");
        let (status, told) = house.raw(request(&call, Some(JOIN), &hook, "{}")).await;
        assert_eq!(status, 200, "{event}: {told}");
        assert!(!told.to_string().contains("for bob alone"), "{event}: {told}");
    }
    assert_eq!(house.instance(&owner.instance).await.unread, 1);
}
