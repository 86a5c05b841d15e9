//! What an operator sees of a hub from outside: figures, readiness, request ids.

use posthaste_api::error::ErrorCode;
use posthaste_api::messages::SendRequest;
use posthaste_core::Limits;
use posthaste_server::ServerConfig;
use posthaste_store::{Place, StoreConfig};
use posthaste_testkit::excerpt::excerpt;
use tokio::io::AsyncWriteExt;

use crate::house::{
    House, Plan, Reply, by_ids, ids, now, read, read_reply, receipt_of, refusal, request, send,
    until, wait, within,
};

async fn page(house: &House) -> String {
    house.stranger().metrics().await.expect("a page of figures")
}

/// The figure on the line that begins so.
fn figure(page: &str, line: &str) -> f64 {
    let value = page.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {line} in\n{}", excerpt(page)));
    value.parse().unwrap_or_else(|e| panic!("{line} {value}: {e}"))
}

async fn ask(house: &House, text: &str) -> Reply {
    let mut socket = house.dial().await;
    socket.write_all(text.as_bytes()).await.expect("sent");
    read_reply(&mut socket).await.expect("an answer")
}

fn id_of(reply: &Reply) -> Option<&str> {
    reply.head.lines().find_map(|line| line.strip_prefix("x-request-id: "))
}

#[tokio::test]
async fn the_figures_tell_what_became_of_mail() {
    let house = House::with(Limits { attempts: 1, ..Limits::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_alice) = house.agent("alice").await;
    for text in ["one", "two", "three", "four"] {
        send(&as_alice, &bob.address, text).await;
    }
    let told = page(&house).await;
    assert_eq!(figure(&told, "posthaste_messages_accepted_total"), 4.0);
    assert_eq!(figure(&told, "posthaste_open_deliveries"), 4.0);
    assert!(figure(&told, "posthaste_oldest_unread_age_seconds") >= 0.0);

    let inbox = read(&as_bob).await;
    let held = ids(&inbox);
    as_bob.ack(&by_ids(&held[..2])).await.expect("acked");
    as_bob.nack(&by_ids(&held[2..3])).await.expect("refused once too often");
    drop(as_bob.nack(&receipt_of(&inbox)).await);

    let told = page(&house).await;
    let moved = |outcome: &str| {
        figure(&told, &format!("posthaste_deliveries_total{{outcome=\"{outcome}\"}}"))
    };
    let dead = |reason: &str| {
        figure(&told, &format!("posthaste_deliveries_dead_total{{reason=\"{reason}\"}}"))
    };
    assert_eq!((moved("leased"), moved("acked")), (4.0, 2.0));
    assert_eq!((dead("refused"), dead("expired")), (2.0, 0.0));
    assert_eq!(figure(&told, "posthaste_open_deliveries"), 0.0);
    assert_eq!(figure(&told, "posthaste_oldest_unread_age_seconds"), 0.0);
    assert!(figure(&told, "posthaste_store_commit_seconds_count") >= 5.0);
    assert!(figure(&told, "posthaste_store_group_size_count") >= 5.0);
}

#[tokio::test]
async fn returned_mail_is_counted() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&house.operator(), &bob.address, "again").await;
    let inbox = read(&as_bob).await;
    as_bob.nack(&receipt_of(&inbox)).await.expect("returned");
    let told = page(&house).await;
    assert_eq!(figure(&told, "posthaste_deliveries_total{outcome=\"returned\"}"), 1.0);
    assert_eq!(figure(&told, "posthaste_open_deliveries"), 1.0);
}

#[tokio::test]
async fn requests_are_counted_by_route_and_refusals_by_code() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let operator = house.operator();
    send(&operator, &bob.address, "hello").await;
    read(&as_bob).await;
    house.instance(&bob.instance).await;
    refusal(operator.send(&SendRequest::new("nobody-here", "hello")).await);
    refusal(house.client("wrong").instance(&bob.instance).await);
    house.call("PATCH /no/such/place", None, "").await;

    let told = page(&house).await;
    let count = |method: &str, route: &str, class: &str| {
        let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{class}\"");
        figure(&told, &format!("posthaste_http_requests_total{{{labels}}}"))
    };
    assert_eq!(count("POST", "/v1/messages", "2xx"), 1.0);
    assert_eq!(count("POST", "/v1/messages", "4xx"), 1.0);
    assert_eq!(count("GET", "/v1/inbox", "2xx"), 1.0);
    assert_eq!(count("GET", "/v1/instances/{id}", "2xx"), 1.0);
    assert_eq!(count("GET", "/v1/instances/{id}", "4xx"), 1.0);
    assert_eq!(count("other", "unmatched", "4xx"), 1.0);
    let refused =
        |code: &str| figure(&told, &format!("posthaste_refusals_total{{code=\"{code}\"}}"));
    assert_eq!((refused("no_recipient"), refused("unauthorized")), (1.0, 1.0));
    assert_eq!(refused("not_found"), 1.0);
    let took = "posthaste_http_request_seconds_count{method=\"GET\",route=\"/v1/inbox\"}";
    assert_eq!(figure(&told, took), 1.0);
}

#[tokio::test]
async fn those_who_wait_and_those_who_are_connected_are_counted() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let waiting = tokio::spawn(async move { as_bob.inbox(&wait(600.0)).await });
    house.waits(&bob.instance).await;
    let told = page(&house).await;
    assert_eq!(figure(&told, "posthaste_waiting_readers"), 1.0);
    assert!(figure(&told, "posthaste_connections") >= 2.0);
    send(&house.operator(), &bob.address, "wake up").await;
    within("the mail", waiting).await.expect("no panic").expect("mail");
    until("nobody waits", async || figure(&page(&house).await, "posthaste_waiting_readers") == 0.0)
        .await;
}

#[tokio::test]
async fn no_figure_names_an_agent_or_a_message() {
    let house = House::new().await;
    let (bob, as_bob) = house.join("zacharias", Some("avalon"), "k").await;
    let sent = send(&house.operator(), &bob.address, "sesame-open-sesame").await;
    read(&as_bob).await;
    house.call(&format!("GET /terminals/{}/inbox/messages", bob.instance), None, "").await;
    house.call("GET /zacharias/avalon", None, "").await;
    let told = page(&house).await;
    for secret in ["zacharias", "avalon", &bob.instance, &sent.id, "sesame"] {
        assert!(!told.contains(secret), "{secret} in\n{told}");
    }
    // Every line is a comment or a name with a number.
    for line in told.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("posthaste_") || name.starts_with("process_"), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(told.contains(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{told}");
    #[cfg(target_os = "linux")]
    assert!(figure(&told, "process_resident_memory_bytes") > 0.0);
}

#[tokio::test]
async fn a_hub_that_stops_is_not_ready() {
    let house = House::new().await;
    assert_eq!(house.stranger().ready().await.expect("it is").status, "ready");
    house.hub.stop_waiting();
    let told = refusal(house.stranger().ready().await);
    assert_eq!(told.code, ErrorCode::Unavailable);
    assert!(told.message.contains("stopping") && told.hint.is_some(), "{told:?}");
}

#[tokio::test]
async fn a_hub_whose_disk_is_full_is_not_ready() {
    let store = StoreConfig { wal_bytes: 0, max_bytes: 1 << 20, ..StoreConfig::default() };
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    let house = House::with(Plan { place, store, ..Plan::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    // Until not even a little fits.
    for size in [100_000, 10_000, 1_000] {
        let text = "x".repeat(size);
        let full = loop {
            let sent = house.operator().send(&SendRequest::new(bob.address.as_str(), &text)).await;
            if let Err(error) = sent {
                break refusal::<()>(Err(error));
            }
        };
        assert_eq!(full.code, ErrorCode::Unavailable);
    }
    // Nobody else writes, and nobody asks but whoever looks whether it is ready.
    for _ in 0..2 {
        let told = refusal(house.stranger().ready().await);
        assert_eq!(told.code, ErrorCode::Unavailable);
        assert!(told.message.starts_with("the disk cannot be written: "), "{told:?}");
    }
    // What is there can still be read.
    assert!(as_bob.inbox(&now()).await.expect("mail").total > 0);
}

#[tokio::test]
async fn a_request_keeps_the_name_that_its_client_gave_it() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    drop(as_bob);
    let (bob, _) = house.agent("bob").await;
    for call in ["GET /v1/inbox?timeout=0", "GET /v1/instances", "GET /no/such/place"] {
        let given = [("X-Request-Id", "mine-4711")];
        let reply = ask(&house, &request(call, Some(&bob.token), &given, "")).await;
        assert_eq!(id_of(&reply), Some("mine-4711"), "{call}");
    }
}

#[tokio::test]
async fn every_failure_has_a_name_and_no_two_have_the_same() {
    let house = House::new().await;
    let mut names = std::collections::HashSet::new();
    let long = "a".repeat(65);
    for bad in ["two words", "<script>", &long] {
        for call in ["POST /v1/messages", "GET /v1/inbox", "GET /v1/instances", "PUT /x"] {
            let given = [("X-Request-Id", bad)];
            let reply = ask(&house, &request(call, None, &given, "")).await;
            let name = id_of(&reply).expect("a failure has a name").to_owned();
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{name}");
            assert!(names.insert(name), "{call}: the same name twice");
        }
    }
}

#[tokio::test]
async fn a_caller_from_this_machine_needs_no_token_for_the_figures() {
    let house = House::with(ServerConfig::default()).await;
    let (status, _) = house.call("GET /metrics", None, "").await;
    assert_eq!(status, 200);
    // A name that is not ours gets nothing, with or without a token.
    let text = request("GET /metrics", None, &[("Host", "evil.example")], "");
    assert_eq!(ask(&house, &text).await.status, 403);
}

#[tokio::test]
async fn every_metric_is_explained_to_the_operator() {
    let explained = include_str!("../../../../docs/operating.md");
    let house = House::new().await;
    let told = page(&house).await;
    let names = told.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in names {
        assert!(explained.contains(&format!("`{name}`")), "{name} is not in docs/operating.md");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_before_its_answer_is_counted() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let mut socket = house.dial().await;
    let text = request("GET /v1/inbox?timeout=600", Some(&bob.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");
    house.waits(&bob.instance).await;
    drop(socket);
    until("it is noticed", async || {
        figure(&page(&house).await, "posthaste_http_requests_cut_total") == 1.0
    })
    .await;
}
