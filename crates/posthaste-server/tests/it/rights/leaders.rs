//! A leader is an instance, or an agent of that name and team that the operator made.

use posthaste_api::ErrorCode;
use posthaste_api::client::Client;
use posthaste_api::instances::{CreateInstance, Joined};
use posthaste_api::messages::{HistoryQuery, ReadQuery, SendRequest};
use posthaste_api::teams::PutTeam;
use serde_json::json;

use crate::house::{House, read, refusal, send};
use crate::mcp::agent::Agent;

fn avalon() -> HistoryQuery {
    HistoryQuery { team: Some("avalon".into()), ..HistoryQuery::default() }
}

async fn lead(house: &House, leaders: &[&str]) {
    let leaders = leaders.iter().map(|name| (*name).to_owned()).collect();
    house.operator().put_team("avalon", &PutTeam { leaders }).await.expect("kept");
}

/// The operator makes an agent in this team.
async fn made(house: &House, agent: &str, team: &str) -> (Joined, Client) {
    let (agent, team) = (agent.to_owned(), Some(team.to_owned()));
    house.create(CreateInstance { agent, team, ..CreateInstance::default() }).await
}

#[tokio::test]
async fn whoever_joins_under_the_name_of_a_leader_leads_nobody() {
    let house = House::new().await;
    let (mason, as_mason) = house.join("mason", Some("avalon"), "k").await;
    lead(&house, &["chief"]).await;
    let secret = send(&house.operator(), &mason.instance, "the plan").await;
    let (_, from_afar) = house.join("chief", Some("camelot"), "k").await;
    let (near, from_near) = house.join("chief", Some("avalon"), "k").await;
    let (_, of_another_team) = made(&house, "chief", "camelot").await;

    for by in [&from_afar, &from_near, &of_another_team] {
        assert_eq!(refusal(by.history(&avalon()).await).code, ErrorCode::Forbidden);
        let number = secret.seq.to_string();
        let told = refusal(by.read(&number, &ReadQuery::default()).await);
        assert_eq!(told.code, ErrorCode::NotFound);
        assert_eq!(refusal(by.trail(&number).await).code, ErrorCode::NotFound);
        let order = SendRequest {
            kind: Some("directive".into()),
            ..SendRequest::new(mason.instance.clone(), "hand it over")
        };
        assert_eq!(refusal(by.send(&order).await).code, ErrorCode::Forbidden);
        assert_eq!(refusal(by.leave(&mason.instance).await).code, ErrorCode::Forbidden);
    }
    send(&from_near, &mason.instance, "a word").await;
    let inbox = read(&as_mason).await;
    let word = inbox.messages.iter().find(|m| m.message == "a word").expect("delivered");
    assert_eq!(word.relation, "peer");
    let over_mcp = Agent::old(&house, &near).await;
    let seen = over_mcp.call("read_messages", json!({ "team": "avalon" })).await;
    assert_eq!(seen.code(), "forbidden");
}

#[tokio::test]
async fn the_operators_own_agent_of_that_name_leads_its_team_also_if_it_comes_later() {
    let house = House::new().await;
    let (mason, _) = house.join("mason", Some("avalon"), "k").await;
    lead(&house, &["chief"]).await;
    send(&house.operator(), &mason.instance, "the plan").await;
    let (chief, as_chief) = made(&house, "chief", "avalon").await;
    let seen = as_chief.history(&avalon()).await.expect("a leader sees it");
    assert_eq!(seen.messages[0].message, "the plan");
    as_chief.leave(&mason.instance).await.expect("a leader may stop it");
    let (_, shown) =
        house.call(&format!("GET /v1/instances/{}", chief.instance), Some(&chief.token), "").await;
    assert_eq!(shown["origin"], "operator");
}

#[tokio::test]
async fn an_agent_that_joined_leads_once_the_operator_names_its_instance() {
    let house = House::new().await;
    let (mason, _) = house.join("mason", Some("avalon"), "k").await;
    let (chief, as_chief) = house.join("chief", Some("camelot"), "k").await;
    send(&house.operator(), &mason.instance, "the plan").await;
    assert_eq!(refusal(as_chief.history(&avalon()).await).code, ErrorCode::Forbidden);
    lead(&house, &[&chief.instance]).await;
    let seen = as_chief.history(&avalon()).await.expect("a leader sees it");
    assert_eq!(seen.messages[0].message, "the plan");
    let (_, shown) =
        house.call(&format!("GET /v1/instances/{}", chief.instance), Some(&chief.token), "").await;
    assert_eq!(shown["origin"], "join");
}
