//! A thread is read by the family of its owner, and by nobody else.

use posthaste_api::client::Client;
use posthaste_api::instances::{CreateInstance, Joined};
use posthaste_api::messages::{HistoryQuery, ReadQuery};
use posthaste_api::threads::ThreadQuery;
use serde_json::json;

use crate::house::{House, send};
use crate::mcp::agent::Agent;

/// What each door shows somebody of a thread with one message: how many messages.
async fn shown(house: &House, who: &(Joined, Client), thread: &str, seq: u64) -> [usize; 6] {
    let (joined, client) = who;
    let of = HistoryQuery { thread_id: Some(thread.into()), ..HistoryQuery::default() };
    let history = client.history(&of).await.expect("a page").messages.len();
    let marking = ThreadQuery { mark_as_read: Some(true), ..ThreadQuery::default() };
    let page = client.thread(thread, &marking).await.expect("a page");
    assert_eq!(page.summary.marked_as_read, 0, "it is for the human to read");
    let one = client.read(&seq.to_string(), &ReadQuery::default()).await;
    let trail = client.trail(&seq.to_string()).await;
    let native = Agent::old(house, joined).await;
    let tool = native.call("read_messages", json!({ "thread_id": thread })).await.json();
    let assistant = Agent::speaking(house, joined, "assistant").await;
    let receive = json!({ "thread_id": thread, "mark_as_read": true });
    let received = assistant.call("recv_message", receive).await;
    let fetched = match received.is_error {
        true => 0,
        false => received.json()["messages"].as_array().map_or(0, Vec::len),
    };
    [
        history,
        page.messages.len(),
        usize::from(one.is_ok()),
        usize::from(trail.is_ok()),
        tool["messages"].as_array().map_or(0, Vec::len),
        fetched,
    ]
}

#[tokio::test]
async fn a_thread_is_read_by_parent_child_and_sibling_and_by_nobody_else_through_any_door() {
    let house = House::new().await;
    let child = async |name: &str, of: &str| {
        let parent = Some(of.to_owned());
        house.create(CreateInstance { agent: name.into(), parent, ..Default::default() }).await
    };
    let top = house.agent("top").await;
    let parent = child("parent", &top.0.instance).await;
    let aunt = child("aunt", &top.0.instance).await;
    let owner = child("owner", &parent.0.instance).await;
    let sibling = child("sibling", &parent.0.instance).await;
    let own_child = child("child", &owner.0.instance).await;
    let nephew = child("nephew", &sibling.0.instance).await;
    let stranger = house.agent("stranger").await;
    let sent = send(&owner.1, "human", "between us").await;
    let thread = &owner.0.thread_id;
    assert_eq!(sent.thread_id, *thread);

    for (who, member) in
        [("owner", &owner), ("parent", &parent), ("sibling", &sibling), ("child", &own_child)]
    {
        assert_eq!(shown(&house, member, thread, sent.seq).await, [1; 6], "{who}");
    }
    for (who, other) in
        [("grandparent", &top), ("aunt", &aunt), ("nephew", &nephew), ("stranger", &stranger)]
    {
        assert_eq!(shown(&house, other, thread, sent.seq).await, [0; 6], "{who}");
    }
    assert_eq!(house.standing(sent.seq).await.state, "queued", "looking takes nothing");
}
