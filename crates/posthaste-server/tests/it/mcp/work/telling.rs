//! What agents are told of themselves and of others.

use serde_json::{Value, json};

use super::super::agent::Agent;
use super::{assign, at_work, boss, id};
use crate::house::until;
use crate::staff::{STUBBORN, house};

async fn listed(agent: &Agent) -> Vec<String> {
    let listed = agent.ask("tools/list", json!({})).await;
    assert!(listed.to_string().len() < 5_000, "{}", listed.to_string().len());
    let tools = listed["result"]["tools"].as_array().expect("tools");
    tools.iter().map(|t| t["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn questions_to_the_user_are_listed_for_those_whom_the_hub_runs_and_taken_from_all() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    let given = assign(&me, json!({ "agent": "worker", "message": "count" })).await;
    let worker = at_work(&house, &staff, &id(&given)).await;
    let own = ["ask_user".to_owned(), "respond_to_user".to_owned()];

    let (mine, its) = (listed(&me).await, listed(&worker).await);

    assert!(own.iter().all(|tool| its.contains(tool) && !mine.contains(tool)), "{mine:?} {its:?}");
    assert_eq!(mine.len() + 2, its.len());
    let told = me.call("respond_to_user", json!({ "message": "hello" })).await;
    assert!(!told.is_error, "{told:?}");
}

#[tokio::test]
async fn a_status_has_counts_and_no_content() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    let part = json!({ "agent": "worker", "message": "a secret task", "label": "part 1" });
    let given = assign(&me, part).await;
    staff.works(&id(&given)).await;
    until("it runs", async || house.instance(&id(&given)).await.status == "running").await;

    let told = me.call("agent_status", json!({ "instance": id(&given) })).await;

    let doing = told.json();
    assert_eq!((&doing["status"], &doing["activity"]), (&json!("running"), &json!("busy")));
    assert_eq!((&doing["open"], &doing["messages"]), (&json!(1), &json!(1)));
    assert_eq!(doing["label"], "part 1");
    assert!(!told.blocks[0].contains("secret"), "{doing}");
    staff.fails(&id(&given), 3, "secret words").await;
    let told = me.call("agent_status", json!({ "instance": given["address"] })).await;
    assert_eq!((&told.json()["status"], &told.json()["exit_code"]), (&json!("failed"), &json!(3)));
    assert!(!told.blocks[0].contains("secret"));

    for (wrong, code) in [("00000000", "not_found"), ("worker", "invalid_argument")] {
        assert_eq!(me.call("agent_status", json!({ "instance": wrong })).await.code(), code);
    }
}

#[tokio::test]
async fn a_worker_is_stopped_by_those_above_it_and_by_nobody_else() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    let (peer, _) = house.agent("peer").await;
    let peer = Agent::old(&house, &peer).await;
    let given = assign(&me, json!({ "agent": "worker", "message": "count" })).await;
    let stubborn = assign(&me, json!({ "agent": STUBBORN, "message": "stay" })).await;
    staff.works(&id(&given)).await;
    staff.works(&id(&stubborn)).await;
    until("it runs", async || house.instance(&id(&stubborn)).await.status == "running").await;

    let refused = peer.call("stop_agent", json!({ "instance": id(&given) })).await;
    assert_eq!(refused.code(), "forbidden");
    let told = me.call("stop_agent", json!({ "instance": id(&given) })).await.json();
    assert_eq!(told["stopped"], 1);
    until("it ends", async || house.instance(&id(&given)).await.status == "stopped").await;
    let told = me.call("stop_agent", json!({ "instance": id(&stubborn) })).await.json();
    assert_eq!(told["status"], "running", "it was asked, and that is all that is true");
    let again = me.call("stop_agent", json!({ "instance": id(&given) })).await;
    assert_eq!(again.code(), "conflict");
}

#[tokio::test]
async fn without_an_address_a_worker_reports_to_whoever_gave_it_the_work() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    let (visitor, _) = house.agent("visitor").await;
    let visitor = Agent::old(&house, &visitor).await;
    let given = assign(&me, json!({ "agent": "visitor", "message": "look" })).await;
    assert_eq!(visitor.check(10.0).await.texts(), ["look"]);

    let report = json!({ "message": "seen", "type": "result" });
    assert!(!visitor.call("send_message", report.clone()).await.is_error);

    let told = me.call("check_inbox", json!({ "wait_for": "all", "timeout": 10 })).await;
    assert_eq!((told.status().as_str(), told.texts()), ("complete", vec!["seen".into()]));
    assert_eq!(told.json()["messages"][0]["in_reply_to"], given["task"]);
    let refused = visitor.call("send_message", report).await;
    assert_eq!(refused.code(), "invalid_argument", "nothing is open, and it has no parent");

    let mine = assign(&me, json!({ "agent": "worker", "message": "count" })).await;
    let worker = at_work(&house, &staff, &id(&mine)).await;
    for text in ["42", "43"] {
        let report = json!({ "message": text, "type": "result" });
        assert!(!worker.call("send_message", report).await.is_error);
    }
    let told = me.check(10.0).await.json();
    let late = |n: usize| told["messages"][n]["late"].clone();
    assert_eq!((late(0), late(1)), (Value::Null, json!(true)), "{told}");
}

#[tokio::test]
async fn everybody_can_ask_who_they_are_and_what_is_open() {
    let (house, staff) = house().await;
    let (boss, me) = boss(&house).await;
    let part = json!({ "agent": "worker", "message": "count", "label": "part 1" });
    let given = assign(&me, part).await;
    let worker = at_work(&house, &staff, &id(&given)).await;

    let mine = me.call("whoami", json!({})).await.json();
    let its = worker.call("whoami", json!({})).await.json();

    let open = json!([{ "task": given["task"], "worker": given["instance"], "label": "part 1" }]);
    assert_eq!((&mine["assigned"], &mine["running"]), (&open, &json!(1)));
    assert!(mine["context"].as_str().expect("a prompt").contains("Open assignments: 1"));
    let task = json!([{ "task": given["task"], "by": boss.address, "label": "part 1" }]);
    assert_eq!((&its["tasks"], &its["parent"]), (&task, &json!(boss.address)));
    assert_eq!((&its["running"], &its["assigned"]), (&json!(0), &Value::Null));
}

#[tokio::test]
async fn whoever_looks_for_agents_learns_who_can_be_assigned() {
    let (house, _staff) = house().await;
    let (_, me) = boss(&house).await;
    let can = async || {
        let told = me.call("find_agents", json!({ "limit": 50 })).await.json();
        let agents = told["agents"].as_array().expect("agents").clone();
        let can = agents.iter().filter(|a| a["can_assign"] == true);
        let mut names: Vec<String> =
            can.map(|a| a["name"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(can().await, ["builder", STUBBORN, "worker"]);
    house.agent("visitor").await;
    assert_eq!(can().await, ["builder", STUBBORN, "visitor", "worker"], "somebody is here now");
}
