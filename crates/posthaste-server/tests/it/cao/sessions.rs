//! Sessions, and making terminals.

use posthaste_core::orchestration::TurnActivity;
use posthaste_testkit::staff::profile;
use serde_json::{Value, json};

use super::stage::{MOCK, id, message, stage};
use crate::house::OPERATOR;

#[tokio::test]
async fn a_session_without_a_message_has_a_terminal_that_waits_for_its_first_prompt() {
    let stage = stage().await;

    let terminal = stage.session("dev", Value::Null).await;

    assert_eq!(terminal["session_name"], "cao-dev", "CAO's own prefix");
    assert_eq!(
        (&terminal["provider"], &terminal["agent_profile"]),
        (&json!("mock_cli"), &json!("developer"))
    );
    assert_eq!(terminal["allowed_tools"], json!(["*"]));
    assert_eq!(terminal.get("caller_id"), None);
    let id = id(&terminal);
    let (start, _) = stage.works(&id).await;
    assert_eq!(start.task, None);
    assert_eq!(start.job.profile.template.driver.as_deref(), Some("command"));
    stage.becomes(&id, "idle").await;
    let shown = stage.get("/sessions/cao-dev").await;
    assert_eq!(shown["session"]["status"], "active");
    assert_eq!(shown["terminals"][0]["id"], id);
    let sessions = stage.get("/sessions").await;
    assert_eq!(
        (&sessions[0]["name"], &sessions[0]["agent_profile"]),
        (&json!("cao-dev"), &json!("developer"))
    );
}

#[tokio::test]
async fn a_session_with_a_message_tells_when_it_has_arrived_and_when_it_is_done() {
    let stage = stage().await;
    let terminal = stage.session("dev", message("count the words")).await;
    let id = id(&terminal);

    let (start, _) = stage.works(&id).await;
    assert_eq!(start.task.expect("its task").text, "count the words");
    stage.becomes(&id, "processing").await;
    let hub = &stage.house.hub;
    for (activity, state) in
        [(Some(TurnActivity::Starting), "pending"), (Some(TurnActivity::Busy), "delivered")]
    {
        hub.note_activity(id.parse().expect("an instance"), activity);
        let shown = stage.get(&format!("/terminals/{id}")).await;
        assert_eq!(shown["initial_delivery"], json!({"state": state}));
    }
    hub.note_activity(id.parse().expect("an instance"), None);

    stage.reports(&id, "three").await;

    stage.becomes(&id, "completed").await;
    let output = stage.get(&format!("/terminals/{id}/output?mode=last")).await;
    assert_eq!(output, json!({"output": "three", "mode": "last"}));
}

#[tokio::test]
async fn a_terminal_is_made_in_the_session_of_its_caller_and_reports_to_it() {
    let stage = stage().await;
    let boss = id(&stage.session("dev", Value::Null).await);
    stage.works(&boss).await;

    let worker = stage.add("cao-dev", &boss, message("lay bricks")).await;

    assert_eq!((&worker["caller_id"], &worker["session_name"]), (&json!(boss), &json!("cao-dev")));
    let of_session = stage.get("/sessions/cao-dev/terminals").await;
    let ids: Vec<&str> =
        of_session.as_array().expect("a list").iter().filter_map(|t| t["id"].as_str()).collect();
    assert_eq!(ids, [&*boss, &*id(&worker)], "the oldest first");
    stage.reports(&id(&worker), "they lie").await;
    let told = stage.staff.has_told(1).await;
    assert_eq!((told[0].0.to_string(), &*told[0].1), (boss, "they lie"), "without asking for it");
}

#[tokio::test]
async fn variables_of_a_session_reach_all_its_terminals_and_no_answer() {
    let stage = stage().await;
    let body = json!({"env_vars": {"STAGE": "beta"}, "metadata": {"role": "boss"}, "description": "leads"});
    let boss = stage.session("dev", body).await;
    assert_eq!(
        (&boss["metadata"]["role"], &boss["description"]),
        (&json!("boss"), &json!("leads"))
    );
    assert!(!boss.to_string().contains("beta"), "{boss}");

    let worker = stage.add("cao-dev", &id(&boss), message("work")).await;

    for terminal in [&boss, &worker] {
        let (start, _) = stage.works(&id(terminal)).await;
        let config: Value = serde_json::from_str(&start.job.profile.template.config).expect("JSON");
        assert_eq!(config["env"]["STAGE"], "beta", "{config}");
    }
}

#[tokio::test]
async fn the_same_key_makes_one_terminal() {
    let stage = stage().await;
    for body in [Value::Null, message("work")] {
        let name = if body.is_null() { "idle" } else { "busy" };
        let call = format!("POST /sessions?{MOCK}&session_name={name}&idempotency_key=k-{name}");
        let (_, first) = stage.call(&call, &body).await;
        let (status, again) = stage.call(&call, &body).await;
        assert_eq!((status, &again["id"]), (201, &first["id"]), "{again}");
    }
    let (status, _) =
        stage.call(&format!("POST /sessions?{MOCK}&session_name=busy"), &Value::Null).await;
    assert_eq!(status, 409, "the name is taken");
}

#[tokio::test]
async fn a_session_ends_with_all_its_terminals_and_is_forgotten() {
    let stage = stage().await;
    let boss = id(&stage.session("dev", Value::Null).await);
    stage.works(&boss).await;
    let worker = id(&stage.add("cao-dev", &boss, message("work")).await);
    stage.works(&worker).await;

    let (status, answer) = stage.call("DELETE /sessions/dev", &Value::Null).await;

    assert_eq!((status, &answer["deleted"]), (200, &json!(["cao-dev"])), "{answer}");
    assert_eq!(stage.get("/sessions").await, json!([]));
    for id in [&boss, &worker] {
        let (status, _) = stage.call(&format!("GET /terminals/{id}"), &Value::Null).await;
        assert_eq!(status, 404);
    }
    let (status, _) = stage.call("DELETE /sessions/dev", &Value::Null).await;
    assert_eq!(status, 404);
    // The name is free again.
    stage.session("dev", Value::Null).await;
}

#[tokio::test]
async fn a_provider_stands_in_where_the_profile_names_no_way_of_its_own() {
    let stage = stage().await;
    let make = |query: &str| format!("POST /sessions?{query}");
    // The profile's own command counts, whatever provider CAO's programs fill in.
    let (status, own) =
        stage.call(&make("agent_profile=worker&provider=kiro_cli"), &message("count")).await;
    assert_eq!((status, &own["provider"]), (201, &json!("kiro_cli")), "{own}");
    let (start, _) = stage.works(&id(&own)).await;
    assert_eq!(start.job.profile.template.driver.as_deref(), Some("command"));

    // A terminal that calls does not pass its own provider on.
    profile(&stage.house.hub, "driven", Some("claude"), "{}").await;
    let boss = id(&stage.session("dev", Value::Null).await);
    let made = format!("POST /sessions/cao-dev/terminals?caller_id={boss}&provider=mock_cli");
    let (status, own) =
        stage.call(&format!("{made}&agent_profile=driven"), &message("count")).await;
    assert_eq!(status, 422, "{own}");
    assert!(own["detail"].as_str().is_some_and(|told| told.contains("program `claude`")), "{own}");

    for (query, expected, word) in [
        ("agent_profile=worker&memory_manager=true", 422, "memory"),
        ("agent_profile=worker&engine=kas", 422, "engine"),
        ("agent_profile=worker&resume_session_id=x", 422, "resume"),
        ("agent_profile=nobody&provider=claude_code", 404, "nobody"),
        ("agent_profile=worker&provider=ouija", 422, "claude_code"),
        ("agent_profile=visitor&provider=claude_code", 422, "claude"),
        ("agent_profile=Not+a+name&provider=mock_cli", 422, "name"),
        ("provider=mock_cli", 422, "agent_profile"),
        ("agent_profile=worker", 422, "task"),
        ("agent_profile=developer&provider=mock_cli&working_directory=tmp", 422, "absolute"),
        ("agent_profile=developer&provider=mock_cli&session_name=a.b", 422, "session_name"),
        ("agent_profile=developer&provider=mock_cli&session_name=a%3Bb", 422, "session_name"),
    ] {
        let (status, answer) = stage.call(&make(query), &Value::Null).await;
        assert_eq!(status, expected, "{query}: {answer}");
        let detail = answer["detail"].as_str().expect("CAO's form of an error");
        assert!(detail.contains(word), "{query}: {detail}");
    }
    let (status, _) =
        stage.call(&format!("POST /sessions/cao-nowhere/terminals?{MOCK}"), &Value::Null).await;
    assert_eq!(status, 404, "no such session");
}

#[tokio::test]
async fn an_agent_sees_its_own_session_and_the_operator_all() {
    let stage = stage().await;
    let one = stage.session("one", Value::Null).await;
    stage.session("two", Value::Null).await;
    let (start, _) = stage.works(&id(&one)).await;

    let names = async |token: &str| {
        let (status, list) = stage.house.call("GET /sessions", Some(token), "").await;
        assert_eq!(status, 200, "{list}");
        let list = list.as_array().expect("a list").clone();
        list.iter().map(|s| s["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&start.token.0).await, ["cao-one"]);
    assert_eq!(names(OPERATOR).await, ["cao-one", "cao-two"]);
    let (status, _) = stage.house.call("DELETE /sessions/cao-two", Some(&start.token.0), "").await;
    assert_eq!(status, 403);
}
