//! What an agent of a name is: profiles kept, paged, found, changed by one at a
//! time, and removed without losing anybody's mail.

mod many;
mod ranking;
mod services;

use std::sync::Arc;

use posthaste_api::messages::SendRequest;
use posthaste_api::profiles::{ProfileInput, ProfileSearch, ProfileView, ProfilesQuery};
use posthaste_api::work::AssignRequest;
use posthaste_api::{Client, ErrorCode};
use posthaste_core::profiles::{Expect, FileFault, PutProfile, Source};
use serde_json::json;

use crate::house::{
    House, OPERATOR, read, read_reply, receipt_of, refusal, request, send, texts, within,
};
use tokio::io::AsyncWriteExt;

fn named(name: &str) -> ProfileInput {
    ProfileInput { name: Some(name.into()), ..ProfileInput::default() }
}

fn described(name: &str, description: &str) -> ProfileInput {
    ProfileInput { description: description.into(), ..named(name) }
}

async fn page(client: &Client, page: u32, page_size: u32) -> (Vec<String>, u64) {
    let query = ProfilesQuery { page: Some(page), page_size: Some(page_size) };
    let found = client.profiles(&query).await.expect("a page");
    (names(found.items), found.total)
}

async fn found(client: &Client, q: &str) -> Vec<String> {
    let query = ProfileSearch { q: q.into(), limit: None };
    names(client.search_profiles(&query).await.expect("an answer").items)
}

fn names(items: Vec<ProfileView>) -> Vec<String> {
    items.into_iter().map(|item| item.name).collect()
}

#[tokio::test]
async fn a_profile_is_kept_whole_and_lists_leave_its_prompt_out() {
    let house = House::new().await;
    let operator = house.operator();
    let mut input = described("Reviewer", "reads diffs");
    input.title = Some("The Reviewer".into());
    input.kind = Some("mechanical".into());
    input.driver = Some("runner".into());
    input.system_prompt = "You review.\u{0} 🦀".into();
    input.tags = vec!["rust".into(), "\"quoted\" \\ tag".into()];
    input.tools = Some(vec!["read".into()]);
    input.allowed_tools = Some(vec!["read(docs/*)".into()]);
    input.services = Some(vec!["files".into()]);
    input.config = serde_json::from_value(json!({"mcp_config": {"a": [1, null]}})).expect("object");

    let made = operator.create_profile(&input).await.expect("created");

    assert_eq!((made.name.as_str(), made.version, made.source.as_str()), ("reviewer", 1, "api"));
    let (_, agent) = house.agent("eve").await;
    let whole = agent.profile("reviewer").await.expect("reads are open to every token");
    assert_eq!(whole, made);
    assert_eq!(whole.input(), ProfileInput { name: Some("reviewer".into()), ..input });
    let list = agent.profiles(&ProfilesQuery::default()).await.expect("a list");
    assert_eq!((list.total, list.items[1].name.as_str()), (2, "reviewer"));
    assert_eq!((&list.items[1].system_prompt, &list.items[1].config), (&None, &None));
    assert_eq!((list.items[0].source.as_str(), list.items[0].name.as_str()), ("join", "eve"));
    let (_, body) = house.call("GET /v1/profiles", Some(OPERATOR), "").await;
    assert!(!body.to_string().contains("You review"), "{body}");
}

#[tokio::test]
async fn a_name_without_a_description_is_anybodys_and_a_file_may_describe_it() {
    let house = House::new().await;
    let bare = house.operator().create_profile(&named("claude")).await.expect("created");
    assert_eq!((bare.version, bare.source.as_str()), (1, "join"));
    let template = described("claude", "writes code").template("claude".parse().expect("a name"));
    let template = template.expect("a template");
    let by = Source::File("/profiles/claude.md".into());
    let put = PutProfile { template, by, expect: Expect::Anything };
    house.hub.put_profile(put).await.expect("the file describes it");
}

#[tokio::test]
async fn a_new_profile_makes_its_name_an_address_at_once() {
    let house = House::new().await;
    let operator = house.operator();
    let error =
        refusal(operator.send(&posthaste_api::messages::SendRequest::new("mason", "x")).await);
    assert_eq!(error.code, ErrorCode::NoRecipient);

    operator.create_profile(&named("mason")).await.expect("created");

    let receipt = send(&operator, "mason", "for the first mason").await;
    assert_eq!(receipt.recipients[0].active, 0);
    let (_, mason) = house.agent("mason").await;
    assert_eq!(texts(&read(&mason).await), ["for the first mason"]);
}

#[tokio::test]
async fn an_instance_has_the_kind_of_its_profile() {
    let house = House::new().await;
    let machine = ProfileInput { kind: Some("mechanical".into()), ..named("clock") };
    house.operator().create_profile(&machine).await.expect("created");
    let (joined, _) = house.agent("clock").await;
    assert_eq!(house.instance(&joined.instance).await.kind, "mechanical");
}

#[tokio::test]
async fn only_the_operator_writes_profiles() {
    let house = House::new().await;
    let (joined, agent) = house.agent("eve").await;
    let codes = [
        refusal(agent.create_profile(&named("x")).await).code,
        refusal(agent.put_profile("x", &named("x")).await).code,
        refusal(agent.remove_profile("eve").await).code,
    ];
    assert_eq!(codes, [ErrorCode::Forbidden; 3]);
    assert_eq!(refusal(house.stranger().profile("eve").await).code, ErrorCode::Unauthorized);
    let (status, _) = house.call("GET /v1/profiles/errors", Some(&joined.token), "").await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn the_same_name_is_created_once_and_replaced_by_put() {
    let house = House::new().await;
    let operator = house.operator();
    operator.create_profile(&named("mason")).await.expect("created");
    let error = refusal(operator.create_profile(&named("MASON")).await);
    assert_eq!(error.code, ErrorCode::Conflict);
    assert!(error.hint.is_some_and(|hint| hint.contains("PUT")));

    let put = operator.put_profile("mason", &described("mason", "lays bricks")).await;
    let put = put.expect("replaced");
    assert_eq!((put.version, put.description.as_str()), (2, "lays bricks"));
    let put = operator.put_profile("carver", &ProfileInput::default()).await.expect("created");
    assert_eq!((put.version, put.name.as_str()), (1, "carver"));
    let (_, _) = house.agent("joiner").await;
    let put = operator.put_profile("joiner", &described("joiner", "joins")).await.expect("adopted");
    assert_eq!((put.version, put.source.as_str()), (2, "api"));
}

#[tokio::test]
async fn of_two_who_write_with_one_version_one_is_told_the_current_one() {
    let house = Arc::new(House::new().await);
    house.operator().create_profile(&named("mason")).await.expect("created");
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let house = Arc::clone(&house);
            let input = ProfileInput { version: Some(1), ..described("mason", &format!("by {n}")) };
            tokio::spawn(async move { house.operator().put_profile("mason", &input).await })
        })
        .collect();
    let mut won = Vec::new();
    for writer in writers {
        match within("a write", writer).await.expect("no panic") {
            Ok(profile) => won.push(profile),
            lost => {
                let error = refusal(lost);
                assert_eq!(error.code, ErrorCode::Conflict);
                assert!(error.message.contains("version 2"), "{error:?}");
                assert_eq!(error.details.as_deref(), Some(&json!({"version": 2})));
            }
        }
    }
    assert_eq!(won.len(), 1, "{won:?}");
    let kept = house.operator().profile("mason").await.expect("kept");
    assert_eq!(kept, won[0]);
    let late = ProfileInput { version: Some(1), ..ProfileInput::default() };
    let error = refusal(house.operator().put_profile("nobody", &late).await);
    assert_eq!(error.code, ErrorCode::NotFound, "a version that was seen was of something");
}

#[tokio::test]
async fn if_match_and_etag_say_the_same_as_the_version() {
    let house = House::new().await;
    let put = async |tag: &str, body: &str| {
        let headers = [("If-Match", tag)];
        let text = request("PUT /v1/profiles/mason", Some(OPERATOR), &headers, body);
        let mut socket = house.dial().await;
        socket.write_all(text.as_bytes()).await.expect("sent");
        read_reply(&mut socket).await.expect("an answer")
    };
    assert_eq!(put("*", "{}").await.status, 404, "nothing to match yet");
    house.operator().create_profile(&named("mason")).await.expect("created");
    let reply = put("\"1\"", "{}").await;
    assert_eq!(reply.status, 200);
    assert!(reply.head.contains("etag: \"2\""), "{}", reply.head);
    assert_eq!(put("\"1\"", "{}").await.status, 409);
    assert_eq!(put("W/\"2\"", "{}").await.status, 200);
    assert_eq!(put("*", "{}").await.status, 200);
    assert_eq!(put("4", "{\"version\": 4}").await.status, 200);
    assert_eq!(put("\"5\"", "{\"version\": 4}").await.status, 422);
    for bad in ["\"x\"", "\"1\", \"2\"", "", "-1"] {
        assert_eq!(put(bad, "{}").await.status, 422, "{bad}");
    }
}

#[tokio::test]
async fn a_page_beyond_the_end_is_empty_with_the_right_total() {
    let house = House::new().await;
    let operator = house.operator();
    assert_eq!(page(&operator, 1, 20).await, (Vec::new(), 0));
    for n in 0..45 {
        operator.create_profile(&named(&format!("p{n:02}"))).await.expect("created");
    }
    let all = operator.profiles(&ProfilesQuery::default()).await.expect("a page");
    assert_eq!((all.items.len(), all.total), (20, 45), "twenty are a page by default");
    let (third, total) = page(&operator, 3, 20).await;
    assert_eq!((third, total), ((40..45).map(|n| format!("p{n:02}")).collect(), 45));
    assert_eq!(page(&operator, 4, 20).await, (Vec::new(), 45));
    assert_eq!(page(&operator, u32::MAX, 100).await, (Vec::new(), 45));
    assert_eq!(page(&operator, 1, 100).await.0.len(), 45);
    for bad in [
        "page=0",
        "page=-1",
        "page=x",
        "page=1.5",
        "page_size=0",
        "page_size=101",
        "page=4294967296",
        "pages=1",
    ] {
        let (status, told) =
            house.call(&format!("GET /v1/profiles?{bad}"), Some(OPERATOR), "").await;
        assert_eq!(
            (status, told["error"]["code"].as_str()),
            (422, Some("invalid_argument")),
            "{bad}"
        );
    }
    for bad in ["limit=0", "limit=101", "limit=x"] {
        let call = format!("GET /v1/profiles/search?q=a&{bad}");
        assert_eq!(house.call(&call, Some(OPERATOR), "").await.0, 422, "{bad}");
    }
}

#[tokio::test]
async fn the_best_hit_comes_first_and_the_last_word_may_be_unfinished() {
    let house = House::new().await;
    let operator = house.operator();
    for (name, description, tags) in [
        ("rust-reviewer", "reads diffs", vec!["review"]),
        ("writer", "writes texts about rust and other things, among them reviews", vec![]),
        ("tester", "writes tests", vec!["rust"]),
        ("painter", "paints the café façade", vec![]),
    ] {
        let tags = tags.into_iter().map(str::to_owned).collect();
        let input = ProfileInput { tags, ..described(name, description) };
        operator.create_profile(&input).await.expect("created");
    }
    assert_eq!(found(&operator, "rust review").await[0], "rust-reviewer");
    assert_eq!(found(&operator, "rust").await, ["rust-reviewer", "tester", "writer"]);
    assert_eq!(found(&operator, "RUST-REVIEWER").await[0], "rust-reviewer");
    assert_eq!(found(&operator, "pai").await, ["painter"]);
    assert_eq!(found(&operator, "cafe FACADE").await, ["painter"]);
    assert_eq!(found(&operator, "cobol").await, Vec::<String>::new());
    let one = ProfileSearch { q: "rust".into(), limit: Some(1) };
    assert_eq!(operator.search_profiles(&one).await.expect("one").items.len(), 1);
}

#[tokio::test]
async fn the_search_keeps_in_step_with_every_change() {
    let house = House::new().await;
    let operator = house.operator();
    let (_, _) = house.agent("walnut").await;
    assert_eq!(found(&operator, "walnut").await, ["walnut"], "who joins can be found");
    operator.create_profile(&described("mason", "lays bricks")).await.expect("created");
    assert_eq!(found(&operator, "bricks").await, ["mason"]);

    let stone = ProfileInput { tags: vec!["granite".into()], ..described("mason", "cuts stone") };
    operator.put_profile("mason", &stone).await.expect("replaced");
    assert_eq!(found(&operator, "bricks").await, Vec::<String>::new());
    assert_eq!(found(&operator, "granite").await, ["mason"]);
    let stale = ProfileInput { version: Some(1), ..described("mason", "bricks again") };
    refusal(operator.put_profile("mason", &stale).await);
    assert_eq!(found(&operator, "bricks").await, Vec::<String>::new(), "refused is not indexed");

    operator.remove_profile("mason").await.expect("removed");
    assert_eq!(found(&operator, "granite stone mason").await, Vec::<String>::new());
    operator.create_profile(&described("mason", "is back")).await.expect("created");
    assert_eq!(found(&operator, "mason").await, ["mason"]);
}

#[tokio::test]
async fn a_profile_in_use_stays_and_a_removed_one_keeps_its_mail() {
    let house = House::new().await;
    let operator = house.operator();
    let (joined, _) = house.agent("mason").await;
    let error = refusal(operator.remove_profile("mason").await);
    assert_eq!(error.code, ErrorCode::Conflict);
    assert_eq!(error.details.as_deref(), Some(&json!({"active": 1})));
    operator.leave(&joined.instance).await.expect("ended");
    send(&operator, "mason", "nobody took this").await;
    send(&operator, "mason@main", "nor this").await;

    let removed = operator.remove_profile("Mason").await.expect("removed");

    assert_eq!((removed.name.as_str(), removed.waiting), ("mason", 2));
    assert_eq!(refusal(operator.profile("mason").await).code, ErrorCode::NotFound);
    assert_eq!(refusal(operator.remove_profile("mason").await).code, ErrorCode::NotFound);
    let error =
        refusal(operator.send(&posthaste_api::messages::SendRequest::new("mason", "x")).await);
    assert_eq!(error.code, ErrorCode::NoRecipient, "new mail finds nobody");
    let (_, next) = house.agent("mason").await;
    let mut mail = Vec::new();
    while mail.len() < 2 {
        let inbox = read(&next).await;
        assert!(!inbox.messages.is_empty(), "still missing: {mail:?}");
        mail.extend(texts(&inbox).iter().map(|text| (*text).to_owned()));
        next.ack(&receipt_of(&inbox)).await.expect("acked");
    }
    mail.sort();
    assert_eq!(mail, ["nobody took this", "nor this"], "old mail was kept");
}

#[tokio::test]
async fn a_profile_that_does_not_fit_is_refused_with_the_field() {
    let house = House::new().await;
    let long = "x".repeat(300 << 10);
    for (body, status, told) in [
        (json!({}), 422, "name"),
        (json!({"name": "no good"}), 422, "name"),
        (json!({"name": "human"}), 422, "reserved"),
        (json!({"name": "search"}), 422, "call of the API"),
        (json!({"name": "a3f7b2c1"}), 422, "instance"),
        (json!({"name": "a", "kind": "robot"}), 422, "kind"),
        (json!({"name": "a", "tags": "rust"}), 422, "expected a list"),
        (json!({"name": "a", "tags": [""]}), 422, "tags"),
        (json!({"name": "a", "config": []}), 422, "invalid type: list"),
        (json!({"name": "a", "colour": "red"}), 422, "colour"),
        (json!({"name": "a", "version": 1}), 422, "version"),
        (json!({"name": "a", "system_prompt": long}), 422, "limits.profile_prompt_bytes"),
        (json!({"name": "a", "description": long}), 422, "limits.profile_description_chars"),
        (json!({"name": "a", "config": {"a": long}}), 422, "limits.profile_config_bytes"),
    ] {
        let body = body.to_string();
        let (got, answer) = house.call("POST /v1/profiles", Some(OPERATOR), &body).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(got, status, "{}: {answer}", &body[..body.len().min(80)]);
        assert!(message.contains(told), "{told}: {message}");
    }
    let other = house.call("PUT /v1/profiles/a", Some(OPERATOR), r#"{"name": "b"}"#).await;
    assert_eq!(other.0, 422);
    assert_eq!(house.call("PUT /v1/profiles/search", Some(OPERATOR), "{}").await.0, 405);
    assert_eq!(page(&house.operator(), 1, 20).await.1, 0, "nothing was kept");
}

#[tokio::test]
async fn a_profile_whose_file_is_wrong_is_named_with_the_file_by_everybody_who_asks_for_it() {
    let house = House::new().await;
    let reviewer = "reviewer".parse().expect("a name");
    let why = "the front matter is not good YAML".to_owned();
    let file = "/srv/agents/reviewer.md".to_owned();
    let fault = FileFault { profile: Some(reviewer), file, line: Some(3), why };
    house.hub.set_profile_faults(vec![fault]);
    let operator = house.operator();

    let shown = refusal(operator.profile("reviewer").await);
    let assigned = AssignRequest {
        agent: "reviewer".into(),
        message: "look".into(),
        ..AssignRequest::default()
    };
    let assigned = refusal(operator.assign(&assigned).await);
    let sent = refusal(operator.send(&SendRequest::new("reviewer", "look")).await);

    for (error, code) in [
        (shown, ErrorCode::NotFound),
        (assigned, ErrorCode::NotFound),
        (sent, ErrorCode::NoRecipient),
    ] {
        assert_eq!(error.code, code);
        let told = "/srv/agents/reviewer.md:3: the front matter is not good YAML";
        assert!(error.message.contains(told), "{}", error.message);
    }
    let other = refusal(operator.profile("reviewr").await);
    assert!(!other.message.contains("reviewer.md"), "{}", other.message);
}

#[tokio::test]
async fn the_permission_mode_of_cao_is_the_one_of_a_profile() {
    let house = House::new().await;
    let operator = house.operator();
    let mut input = described("planner", "plans");
    input.config = serde_json::from_value(json!({"permissionMode": "plan"})).expect("object");
    let made = operator.create_profile(&input).await.expect("created");
    let config = made.config.expect("whole");
    assert_eq!(json!(config), json!({"permission_mode": "plan"}));
    let both = json!({"permissionMode": "plan", "permission_mode": "auto"});
    input.name = Some("other".into());
    input.config = serde_json::from_value(both).expect("object");
    let refused = operator.create_profile(&input).await.expect_err("none of them wins");
    assert!(refused.to_string().contains("permissionMode"), "{refused}");
}
