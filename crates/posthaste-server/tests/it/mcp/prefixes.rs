//! The tools of assistants under the names with their prefix.

use serde_json::json;

use super::agent::Agent;
use crate::house::House;

#[tokio::test]
async fn every_tool_of_an_assistant_answers_to_its_prefixed_name() {
    let house = House::new().await;
    let (ann, _) = house.agent("ann").await;
    let me = Agent::speaking(&house, &ann, "assistant").await;
    let nobody = json!({ "to_assistant_id": "nobody", "thread_id": "t-0000dead", "message": "x" });
    for (tool, arguments, is_error) in [
        ("list_assistant", json!({}), false),
        ("search_assistant", json!({ "query": "ann" }), false),
        ("spawn_assistant", json!({ "assistant_id": "nobody", "query": "x" }), true),
        ("poll_assistant", json!({ "process_id": "00000000" }), true),
        ("send_message", nobody, true),
        ("recv_message", json!({ "thread_id": ann.thread_id }), false),
    ] {
        let plain = me.call(tool, arguments.clone()).await;
        let prefixed = me.call(&format!("builtin_assistant__{tool}"), arguments).await;
        assert_eq!(plain.is_error, is_error, "{tool}: {plain:?}");
        assert_eq!(prefixed.whole["result"], plain.whole["result"], "{tool}");
    }
}
