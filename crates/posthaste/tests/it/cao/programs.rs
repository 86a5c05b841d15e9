//! CAO's command line and MCP server at work.

use serde_json::{Value, json};

use super::Stage;
use crate::world::eventually;

#[test]
fn its_command_line_launches_prompts_shows_and_ends_sessions() {
    let Some(stage) = Stage::new() else { return };
    let boss = stage.launch("shop");

    let said = stage.cao(&["session", "send", "cao-shop", "and now this"], None);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("> MOCK: and now this"), "{said:?}");
    let status = stage.cao_json(&["session", "status", "cao-shop", "--json"], None);
    assert_eq!(status["conductor"]["id"], boss, "{status}");
    assert_eq!(status["conductor"]["last_output"], "> MOCK: and now this");

    let given = stage.cao_json(&["agent", "assign", "developer", "count", "--json"], Some(&boss));
    let worker = given["terminal_id"].as_str().expect("an id").to_owned();
    eventually(|| {
        let told = stage.cao_json(&["agent", "status", &worker, "--json"], None);
        told["status"] == "completed"
    });
    let result = stage.cao_json(&["agent", "result", &worker, "--json"], None);
    assert!(result["output"].as_str().is_some_and(|o| o.starts_with("> MOCK: count")), "{result}");
    let handoff = ["agent", "handoff", "developer", "dig", "--timeout", "60", "--json"];
    let handed = stage.cao_json(&handoff, Some(&boss));
    assert_eq!((&handed["success"], &handed["output"]), (&json!(true), &json!("> MOCK: dig")));
    let reply = ["agent", "send-message", "half done", "--json"];
    let sent = stage.cao_json(&reply, Some(&worker));
    assert_eq!((&sent["success"], &sent["receiver_id"]), (&json!(true), &json!(boss)), "{sent}");
    let gone = stage.cao(&["agent", "cancel", "--delete", &worker], Some(&boss));
    assert_eq!(gone.code, Some(0), "{gone:?}");
    let gone = stage.cao(&["agent", "status", &worker], None);
    assert!(gone.out.contains("not found"), "{gone:?}");

    let ended = stage.cao(&["shutdown", "--all"], None);
    assert!(ended.out.contains("cao-shop"), "{ended:?}");
    assert_eq!(stage.cao_json(&["session", "list", "--json"], None), json!([]));
}

#[test]
fn its_mcp_server_hands_off_assigns_and_writes() {
    let Some(stage) = Stage::new() else { return };
    let boss = stage.launch("shop");
    let mut server = stage.server(&boss);

    let handed = server.call("handoff", json!({"agent_profile": "developer", "message": "dig"}));
    assert_eq!((&handed["success"], &handed["output"]), (&json!(true), &json!("> MOCK: dig")));

    let work = json!({"agent_profile": "developer", "message": "lay bricks"});
    let given = server.call("assign", work);
    assert_eq!(given["success"], true, "{given}");
    let worker = given["terminal_id"].as_str().expect("an id").to_owned();
    // The report reaches its giver without a call for it.
    let told = || stage.world.say(&["logs", &boss]);
    eventually(|| told().contains("> MOCK: > MOCK: lay bricks"));
    assert!(!told().contains("> MOCK: > MOCK: dig"), "the handoff brought that: {}", told());

    let mut of_worker = stage.server(&worker);
    let sent = of_worker.call("send_message", json!({"message": "one more thing"}));
    assert_eq!((&sent["success"], &sent["receiver_id"]), (&json!(true), &json!(boss)), "{sent}");
    eventually(|| told().contains("one more thing"));
    let sent = server.call("send_message", json!({"receiver_id": worker, "message": "thank you"}));
    assert_eq!((&sent["success"], &sent["sender_id"]), (&json!(true), &json!(boss)), "{sent}");
    eventually(|| stage.world.say(&["logs", &worker]).contains("thank you"));
    let id = sent["message_id"].as_u64().expect("a number").to_string();
    let kept = stage.world.json(&["read", &id]);
    assert_eq!((&kept["via"], &kept["sender_id"]), (&json!("cao"), &json!(boss)), "{kept}");

    let refused = server.call("send_message", json!({"receiver_id": "00000000", "message": "x"}));
    assert_eq!(refused["success"], false, "{refused}");
    let gone = server.call("delete_terminal", json!({"terminal_id": worker}));
    assert_eq!(gone["success"], true, "{gone}");
    let gone = server.call("delete_terminal", json!({"terminal_id": worker}));
    assert_eq!(gone["success"], false, "{gone}");
}

#[test]
fn siblings_find_each_other_by_its_mcp_server() {
    let Some(stage) = Stage::new() else { return };
    let launch =
        ["launch", "--agents", "developer", "--provider", "mock_cli", "--headless", "--yolo"];
    let ran = stage.cao(&[&launch[..], &["--session-name", "shop", "hello"]].concat(), None);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let sessions = stage.cao_json(&["session", "list", "--json"], None);
    let boss = sessions[0]["conductor"]["id"].as_str().expect("an id").to_owned();
    let mut server = stage.server(&boss);
    let work = json!({"agent_profile": "developer", "message": "lay bricks"});
    let worker = server.call("assign", work)["terminal_id"].as_str().expect("an id").to_owned();

    let told =
        stage.server(&worker).call("update_metadata", json!({"metadata": {"does": "bricks"}}));
    let allowed = told["success"] == true;
    let found = server.call("list_siblings", json!({}));
    assert_eq!(found["success"], true, "{found}");
    assert_eq!(found["siblings"][0]["id"], worker, "{found}");
    // CAO itself decides whether a worker's tools let it tell anything.
    let expected = if allowed { json!({"does": "bricks"}) } else { Value::Null };
    assert_eq!(found["siblings"][0]["metadata"], expected, "{found}");
}

#[test]
fn what_is_not_here_degrades_by_itself() {
    let Some(stage) = Stage::new() else { return };
    let boss = stage.launch("shop");
    let mut server = stage.server(&boss);
    for (tool, arguments) in [
        ("load_skill", json!({"name": "none"})),
        ("workflow_list", json!({})),
        ("get_handoff_result", json!({"job_id": "none"})),
    ] {
        let answer = server.call(tool, arguments);
        let said_no = answer["success"] == false || answer["ok"] == false;
        assert!(said_no, "{tool}: {answer}");
    }
    let handed = server.call("handoff", json!({"agent_profile": "nobody-here", "message": "x"}));
    // The caller's provider is the echo agent's, which needs no profile.
    assert_eq!(handed["output"], "> MOCK: x", "{handed}");
}

#[test]
fn terminals_outlive_a_hub_that_is_killed_and_lose_nothing() {
    let Some(mut stage) = Stage::new() else { return };
    let boss = stage.launch("shop");

    stage.restarts();

    let said = stage.cao(&["session", "send", "cao-shop", "still there?"], None);

    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("> MOCK: still there?"), "{said:?}");
    let status = stage.cao_json(&["session", "status", "cao-shop", "--json"], None);
    assert_eq!(status["conductor"]["id"], boss, "{status}");
}
