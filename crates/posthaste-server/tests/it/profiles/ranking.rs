//! How many a search finds, and in which order.

use posthaste_api::profiles::{ProfileInput, ProfileSearch};
use serde_json::json;

use super::{described, found, names};
use crate::house::House;
use crate::mcp::agent::Agent;

#[tokio::test]
async fn a_search_finds_the_ten_best_unless_told_otherwise_and_the_best_comes_first() {
    let house = House::new().await;
    let operator = house.operator();
    let filler = "among many other things that have nothing to do with it";
    for n in 0..12 {
        // The more of other things it says, the less it is about gardens.
        let text = format!("tends a garden {}", filler.repeat(n));
        let input = described(&format!("helper-{n:02}"), &text);
        operator.create_profile(&input).await.expect("created");
    }
    let gardener = ProfileInput {
        tags: vec!["garden".into()],
        ..described("garden-expert", "a garden, always")
    };
    operator.create_profile(&gardener).await.expect("created");

    let limit = |limit| ProfileSearch { q: "garden".into(), limit };
    let all = names(operator.search_profiles(&limit(Some(100))).await.expect("all").items);
    assert_eq!((all.len(), &*all[0]), (13, "garden-expert"));
    assert_eq!(all[1..], (0..12).map(|n| format!("helper-{n:02}")).collect::<Vec<_>>());

    assert_eq!(found(&operator, "garden").await, all[..10], "the ten best");
    let (ann, _) = house.agent("ann").await;
    let me = Agent::speaking(&house, &ann, "assistant").await;
    let ids = |list: serde_json::Value| -> Vec<String> {
        let list = list.as_array().expect("a list").clone();
        list.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
    };
    let told = me.call("search_assistant", json!({ "query": "garden" })).await.json();
    assert_eq!(ids(told), all[..10], "the assistants' own tool");
    let told = me.call("search_assistant", json!({ "query": "garden", "limit": 3 })).await.json();
    assert_eq!(ids(told), all[..3]);
}
