//! Active means alive: who is away, who counts, and who is forgotten.

use posthaste_api::ErrorCode;
use posthaste_api::instances::InstancesQuery;
use posthaste_api::messages::SendRequest;
use serde_json::json;

use crate::house::{House, OPERATOR, read, refusal, send, texts, until};
use crate::mcp::agent::Agent;

async fn status(house: &House, id: &str) -> String {
    house.instance(id).await.status
}

async fn becomes_away(house: &House, id: &str) {
    until("it is away", async || status(house, id).await == "away").await;
}

#[tokio::test]
async fn an_agent_whose_stream_closes_is_away_in_every_door() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (alice, _) = house.agent("alice").await;
    let stream = Agent::old(&house, &bob).await.listen().await;
    assert_eq!(status(&house, &bob.instance).await, "running");
    drop(stream);
    becomes_away(&house, &bob.instance).await;

    let exact = send(&house.operator(), &bob.instance, "exact").await;
    let named = send(&house.operator(), "bob", "by name").await;
    assert_eq!((exact.recipients[0].active, named.recipients[0].active), (0, 0));
    let all = send(&house.operator(), "@everyone", "who is here?").await;
    assert_eq!(all.recipients.len(), 1, "only alice");
    let active = InstancesQuery { status: Some("active".into()), ..InstancesQuery::default() };
    let here = house.operator().instances(&active).await.expect("a list").instances;
    assert_eq!(here.iter().map(|i| &i.instance).collect::<Vec<_>>(), [&alice.instance]);
    let away = InstancesQuery { status: Some("away".into()), ..InstancesQuery::default() };
    let away = house.operator().instances(&away).await.expect("a list").instances;
    assert_eq!(away.iter().map(|i| &i.instance).collect::<Vec<_>>(), [&bob.instance]);
    let alice = Agent::old(&house, &alice).await;
    let found = alice.call("find_agents", json!({})).await.json();
    let of_bob = found["agents"].as_array().and_then(|all| all.iter().find(|a| a["name"] == "bob"));
    let of_bob = of_bob.expect("bob is known");
    assert_eq!((&of_bob["away"], &of_bob["active"]), (&json!([bob.address]), &json!(null)));
    let told = alice.call("agent_status", json!({ "instance": bob.instance })).await.json();
    assert_eq!(told["status"], "away");

    assert_eq!(texts(&read(&as_bob).await), ["exact", "by name"], "its mail waited");
    assert_eq!(status(&house, &bob.instance).await, "running");
}

#[tokio::test]
async fn following_the_events_is_a_lasting_connection() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let url = format!("http://{}/v1/events", house.address);
    let follow = || {
        posthaste_api::http::plain()
            .build()
            .expect("a client")
            .get(&url)
            .bearer_auth(&bob.token)
            .send()
    };
    let response = follow().await.expect("an answer");
    assert_eq!(response.status(), 200);
    drop(response);
    becomes_away(&house, &bob.instance).await;
}

#[tokio::test]
async fn what_the_dialect_of_assistants_calls_running_may_be_away() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let (alice, _) = house.agent("alice").await;
    drop(Agent::old(&house, &bob).await.listen().await);
    becomes_away(&house, &bob.instance).await;
    let mut alice = Agent::old(&house, &alice).await;
    alice.url = format!("{}?dialect=assistant", alice.url);
    let told = alice.call("poll_assistant", json!({ "process_id": bob.instance })).await.json();
    assert_eq!(told["process"]["status"], "running", "{told}");
}

#[tokio::test]
async fn the_operator_forgets_who_is_gone_and_nothing_else() {
    let house = House::new().await;
    let (gone, as_gone) = house.agent("gone").await;
    let (reader, as_reader) = house.agent("reader").await;
    let (here, _) = house.agent("here").await;
    let old = send(&as_gone, &here.instance, "I was here").await;
    send(&house.operator(), &reader.instance, "for later").await;
    for agent in [&gone, &reader] {
        drop(Agent::old(&house, agent).await.listen().await);
        becomes_away(&house, &agent.instance).await;
    }
    let (status, answer) = house.call("POST /v1/instances/prune", Some(&here.token), "").await;
    assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")));

    let pruned = house.operator().prune().await.expect("forgotten").forgotten;
    let names: Vec<_> = pruned.iter().map(|gone| &gone.address).collect();
    assert_eq!(names, [&gone.address], "who has mail stays, and who is here");
    let refused = house.operator().send(&SendRequest::new(&gone.instance, "hello?")).await;
    assert_eq!(refusal(refused).code, ErrorCode::RecipientGone);
    assert_eq!(house.record(old.seq).await.from, gone.address, "its history stays");
    assert_eq!(texts(&read(&as_reader).await), ["for later"]);
    let (status, again) = house.call("POST /v1/instances/prune", Some(OPERATOR), "").await;
    assert_eq!((status, again), (200, json!({ "forgotten": [] })));
}

#[tokio::test]
async fn the_counts_of_a_names_mailbox_say_whose_mail_it_is() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&house.operator(), "bob", "one").await;
    let of_name = async || {
        let all = house.operator().mailbox_stats().await.expect("counts");
        all.into_iter().find(|s| s.mailbox == "n.bob").expect("a mailbox")
    };
    let counted = of_name().await;
    assert_eq!((counted.unread, counted.reader), (1, Some(bob.instance.clone())));
    let (second, _) = house.agent("bob").await;
    assert_eq!(of_name().await.reader, None, "two could take it");
    let view = house.instance(&second.instance).await;
    assert_eq!((view.unread, view.unread_shared), (0, 1));
    let context = as_bob.context().await.expect("a context");
    assert_eq!(context.structured_state.pending_msgs, 0, "what is shared is not its own");
}
