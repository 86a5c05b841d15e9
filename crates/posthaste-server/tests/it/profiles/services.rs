//! The list of built-in services that an agent of a profile may call.

use posthaste_api::work::AssignRequest;
use serde_json::{Value, json};

use crate::house::OPERATOR;
use crate::mcp::agent::{Agent, Era};
use crate::staff::house;

const LIST: &str = "allowed_builtin_service_aliases";

#[tokio::test]
async fn a_profile_without_a_list_of_services_has_none_beyond_the_core_like_one_with_an_empty_list()
{
    let (house, staff) = house().await;
    let mut offered = Vec::new();
    for (name, list) in [("unsaid", Value::Null), ("none", json!([]))] {
        let body = json!({ "name": name, "driver": "command", LIST: list }).to_string();
        let (status, made) = house.call("POST /v1/profiles", Some(OPERATOR), &body).await;
        assert_eq!(status, 201, "{made}");
        let (_, kept) = house.call(&format!("GET /v1/profiles/{name}"), Some(OPERATOR), "").await;
        // Null and nothing are two things, and are kept apart.
        assert_eq!((&kept[LIST], &kept["tools"]), (&list, &Value::Null), "{name}: {kept}");

        let task = AssignRequest {
            agent: name.into(),
            message: "work".into(),
            ..AssignRequest::default()
        };
        let worker = house.operator().assign(&task).await.expect("assigned").instance;
        let token = staff.works(&worker).await.token.0;
        let mut agent = Agent::silent(&house, &token, Era::Old, "test");
        agent.hello().await;
        let listed = agent.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().expect("tools").clone();
        let names: Vec<String> =
            tools.iter().map(|t| t["name"].as_str().expect("a name").to_owned()).collect();
        offered.push(names);
    }
    assert_eq!(offered[0], offered[1]);
    let core = [
        "send_message",
        "check_inbox",
        "read_messages",
        "find_agents",
        "assign",
        "handoff",
        "agent_status",
        "stop_agent",
        "whoami",
        "ask_user",
        "respond_to_user",
    ];
    assert_eq!(offered[0], core, "the post office itself, and nothing more");
}
