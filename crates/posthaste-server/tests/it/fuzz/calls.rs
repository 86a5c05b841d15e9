//! Every call of REST and CAO: its path, its query, its headers and its body.

use posthaste_testkit::fuzz::{self, Dice};
use serde_json::{Value, json};

use super::{assert_clear, exchange, first_reply, impatient, still_delivers};
use crate::documented::assert_documented;
use crate::house::{House, JOIN, OPERATOR, SECRET, request, send};

/// A valid request: method, path with its parts, query, body.
struct Example {
    method: &'static str,
    path: &'static str,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
}

/// One valid request for each call. `{id}` and the like stand for what `known` tells.
fn examples() -> Vec<Example> {
    let get = |path, query: &[(&'static str, &str)]| Example {
        method: "GET",
        path,
        query: query.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        body: None,
    };
    let with =
        |method, path, body: Value| Example { method, path, query: Vec::new(), body: Some(body) };
    let hook = json!({
        "source": "startup", "stop_active": false, "client": "claude-code", "conversation": "c-1",
        "tool": "mcp__posthaste__check_inbox", "call": "toolu_1", "failed": false, "quiet": false,
        "max_chars": 4000,
    });
    let profile = json!({
        "name": "mason", "title": "Mason", "description": "lays bricks", "kind": "worker",
        "driver": "command", "system_prompt": "Lay bricks.", "tags": ["a"], "tools": ["b"],
        "config": { "command": ["true"] }, "version": 1,
    });
    let work = json!({
        "agent": "mason", "message": "lay", "label": "l", "team": "main",
        "working_directory": "/tmp", "worktree": false, "idempotency_key": "k",
    });
    let mut handoff = work.clone();
    handoff["timeout"] = json!(0.01);
    vec![
        get("/", &[]),
        get("/health", &[]),
        get("/ready", &[]),
        get("/metrics", &[]),
        get("/openapi.json", &[]),
        get("/docs", &[]),
        get("/docs/page.js", &[]),
        get("/docs/page.css", &[]),
        with(
            "POST",
            "/v1/messages",
            json!({
                "to": "ben", "message": "hello", "priority": "urgent", "type": "question",
                "label": "l", "thread_id": "t-00000000", "in_reply_to": 1,
                "metadata": { "a": [1, { "b": null }] }, "ttl_s": 60, "idempotency_key": "k",
            }),
        ),
        with("POST", "/v1/messages", json!({ "to": ["ben", "human"], "message": "hello" })),
        get(
            "/v1/messages",
            &[
                ("mailbox", "human"),
                ("thread_id", "t-00000000"),
                ("team", "main"),
                ("status", "queued"),
                ("since", "1700000000000"),
                ("last_n", "20"),
                ("cursor", "9"),
                ("from", "ann"),
                ("type", "text"),
            ],
        ),
        get("/v1/messages", &[("after", "0")]),
        get("/v1/messages/{message}", &[("offset", "1"), ("max_chars", "3")]),
        get("/v1/messages/{message}/trail", &[]),
        with("POST", "/v1/messages/{message}/cancel", json!({})),
        with("POST", "/v1/messages/{message}/requeue", json!({})),
        get(
            "/v1/inbox",
            &[
                ("timeout", "0"),
                ("batch_window", "0"),
                ("wait_for", "any"),
                ("from", "ann,ben"),
                ("label", "l"),
                ("thread_id", "t-00000000"),
                ("receipt", "r-0000000000000001"),
                ("ack", "auto"),
                ("max_chars", "100"),
                ("begin", "true"),
            ],
        ),
        get("/v1/inbox", &[("timeout", "0"), ("wait_for", "all")]),
        with("POST", "/v1/inbox/ack", json!({ "receipt": "r-0000000000000001" })),
        with("POST", "/v1/inbox/ack", json!({ "ids": [1, "2", "9f86d081884c7d65"] })),
        with("POST", "/v1/inbox/nack", json!({ "ids": [1] })),
        with("POST", "/v1/hooks/{event}", hook),
        with(
            "POST",
            "/v1/join",
            json!({ "agent": "cyd", "team": "main", "key": "k", "secret": SECRET }),
        ),
        with(
            "POST",
            "/v1/instances",
            json!({ "agent": "dan", "team": "main", "label": "l", "kind": "external" }),
        ),
        get(
            "/v1/instances",
            &[
                ("agent", "ann"),
                ("team", "main"),
                ("parent", "00000001"),
                ("session", "human"),
                ("status", "all"),
                ("limit", "10"),
                ("cursor", "00000000"),
            ],
        ),
        with("POST", "/v1/instances/prune", json!({})),
        get("/v1/instances/{instance}", &[]),
        Example {
            method: "DELETE",
            path: "/v1/instances/{instance}",
            query: Vec::new(),
            body: None,
        },
        get(
            "/v1/instances/{instance}/output",
            &[("stream", "stdout"), ("from", "0"), ("most", "10")],
        ),
        with("POST", "/v1/stop", json!({})),
        with("POST", "/v1/assign", work),
        with("POST", "/v1/handoff", handoff),
        get("/v1/context", &[]),
        get("/v1/profiles", &[("page", "1"), ("page_size", "10")]),
        with("POST", "/v1/profiles", profile.clone()),
        get("/v1/profiles/search", &[("q", "lays bricks"), ("limit", "5")]),
        get("/v1/profiles/errors", &[]),
        get("/v1/profiles/{name}", &[]),
        with("PUT", "/v1/profiles/{name}", profile),
        Example { method: "DELETE", path: "/v1/profiles/{name}", query: Vec::new(), body: None },
        get("/v1/events", &[("topics", "agent:00000001,team:main"), ("types", "message")]),
        get("/v1/events", &[("after", "3")]),
        get("/v1/events", &[("topics", "thread:t-00000001"), ("types", "tool,writing,response")]),
        with(
            "POST",
            "/v1/chat",
            json!({
                "agent": "mason", "message": "hello", "team": "main", "label": "l",
                "working_directory": "/tmp", "idempotency_key": "k",
            }),
        ),
        get("/v1/chat/{instance}", &[("last_n", "9"), ("before", "4")]),
        with("POST", "/v1/chat/{instance}", json!({ "message": "/answer 1 yes" })),
        with("POST", "/v1/chat/{name}", json!({ "message": "no", "idempotency_key": "k" })),
        with("POST", "/v1/chat/{instance}/cancel", json!({})),
        get("/v1/needs", &[("kind", "dead"), ("open", "false"), ("limit", "9"), ("cursor", "0")]),
        get("/v1/needs/{message}", &[]),
        with("POST", "/v1/needs/{message}/answer", json!({ "text": "yes" })),
        with("POST", "/v1/needs/{message}/answer", json!({ "option": "requeue" })),
        with("POST", "/v1/needs/{message}/answer", json!({ "allow": true, "remember": true })),
        get("/v1/needs/remembered", &[]),
        Example {
            method: "DELETE",
            path: "/v1/needs/remembered/{name}",
            query: vec![("subject", "Edit".to_owned())],
            body: None,
        },
        get("/v1/teams", &[]),
        get("/v1/teams/{name}", &[]),
        with("PUT", "/v1/teams/{name}", json!({ "leaders": ["ann", "00000001"] })),
        get(
            "/v1/threads/{thread}/messages",
            &[
                ("unread_only", "true"),
                ("last_n", "5"),
                ("since", "1700000000000"),
                ("mark_as_read", "true"),
            ],
        ),
        with("POST", "/v1/tokens/reload", json!({})),
        get("/v1/export", &[("after", "1")]),
        get("/v1/stats/mailboxes", &[]),
        get("/v1/stats/agents", &[]),
        get("/v1/stats/teams", &[]),
        get("/v1/stats/stuck", &[]),
        get("/terminals/{instance}/inbox/messages", &[("limit", "10"), ("status", "pending")]),
        get(
            "/terminals/{instance}/inbox/messages/wait",
            &[("timeout", "0"), ("batch_window", "0")],
        ),
        with(
            "POST",
            "/terminals/{instance}/inbox/messages",
            json!({ "sender_id": "00000001", "message": "x" }),
        ),
        get("/v1/instances/{instance}/terminal", &[]),
        get("/v1/instances/{instance}/stream", &[("offset", "0"), ("follow", "false")]),
        get("/events", &[("after", "0")]),
        get("/sessions", &[]),
        get("/sessions/cao-one", &[]),
        get("/sessions/cao-one/terminals", &[]),
        get("/handoff-results/0123abcd", &[]),
        with(
            "POST",
            "/sessions",
            json!({
                "env_vars": { "A": "b" }, "initial_message": "x", "description": "d",
                "metadata": { "a": 1 }, "group": ["a", "b"],
            }),
        ),
        with("POST", "/sessions/cao-one/terminals", json!({ "initial_message": "x" })),
        get("/terminals/{instance}", &[]),
        get("/terminals/{instance}/output", &[("mode", "last")]),
        get("/terminals/{instance}/working-directory", &[]),
        get("/terminals/{instance}/siblings", &[("depth", "1"), ("cross_session", "true")]),
        with("PATCH", "/terminals/{instance}/metadata", json!({ "metadata": { "a": 1 } })),
        with("POST", "/terminals/{instance}/exit", json!({})),
        with("POST", "/terminals/{instance}/input", json!({})),
        with("DELETE", "/terminals/{instance}", json!({})),
        with("DELETE", "/sessions/cao-one", json!({})),
        with(
            "POST",
            "/terminals/run-step",
            json!({
                "provider": "mock_cli", "agent": "worker", "prompt": "x", "timeout": 0,
                "session_name": "cao-one", "reuse_terminal_id": "00000001", "teardown": true,
                "working_directory": "/tmp", "caller_id": "00000001", "allowed_tools": ["*"],
                "env_vars": { "A": "b" }, "model": "m", "job_id": "j", "description": "d",
            }),
        ),
    ]
}

/// Everything that is no plain letter, digit or mark, as `%xx`; now and then raw.
fn encoded(dice: &mut Dice, text: &[u8]) -> String {
    text.iter()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(*byte).to_string()
            }
            b'/' | b'%' | b'&' | b'=' | b'+' | b',' | b':' | b'@' if dice.one_in(2) => {
                char::from(*byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// What the parts of a path may name.
struct Known {
    instance: String,
    thread: String,
}

impl Known {
    fn part(&self, dice: &mut Dice, name: &str) -> String {
        let words: &[&str] = match name {
            "message" => &["1", "2", "9f86d081884c7d65"],
            "event" => &["session_start", "prompt", "before_tool", "tool", "stop"],
            "instance" => &[&self.instance, "00000001"],
            "thread" => &[&self.thread, "t-00000000"],
            _ => &["mason", "main", "ann"],
        };
        (*dice.pick(words)).to_owned()
    }
}

/// A request that is valid but for what this case breaks, and its method and target.
fn broken(case: &mut fuzz::Case, known: &Known, token: Option<&str>) -> (String, Vec<u8>) {
    let examples = examples();
    let example = case.dice.pick(&examples);
    // What to break: the path, the query, a header or the body.
    let what = case.dice.below(5);
    let noise = std::mem::take(&mut case.bytes);
    let mut path = String::new();
    for part in example.path.split('/').skip(1) {
        let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        let part = match name {
            Some(_) if what == 0 => encoded(&mut case.dice, &noise),
            Some(name) => known.part(&mut case.dice, name),
            None => part.to_owned(),
        };
        path = format!("{path}/{part}");
    }
    let mut query = Vec::new();
    for (name, value) in &example.query {
        // Few filters at a time: together they would let nothing pass.
        if case.dice.one_in(2) && *name != "timeout" {
            continue;
        }
        let value = match what == 1 && case.dice.one_in(2) {
            true => encoded(&mut case.dice, &noise),
            false => encoded(&mut case.dice, value.as_bytes()),
        };
        query.push(format!("{name}={value}"));
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let body = match &example.body {
        Some(body) if what >= 3 => case.odd_json(body).to_string().into_bytes(),
        Some(body) => body.to_string().into_bytes(),
        None => Vec::new(),
    };
    let length = body.len().to_string();
    let mut headers = vec![("Connection", "close"), ("Content-Length", &length)];
    let plain: String =
        String::from_utf8_lossy(&noise).chars().filter(|c| !c.is_control()).collect();
    if what == 2 {
        let names = [
            "Last-Event-ID",
            "Mcp-Session-Id",
            "X-Posthaste-Agent",
            "X-Posthaste-Instance",
            "X-Posthaste-Key",
            "User-Agent",
            "traceparent",
            "Sec-Fetch-Site",
            "X-Request-Id",
        ];
        headers.push((*case.dice.pick::<&str>(&names), &plain));
    }
    let call = format!("{} {path}{query}", example.method);
    let mut bytes = request(&call, token, &headers, "").into_bytes();
    bytes.extend_from_slice(&body);
    case.bytes.clone_from(&bytes);
    (call, bytes)
}

#[tokio::test]
async fn every_broken_call_gets_a_clear_answer() {
    let house = impatient().await;
    let mut tokens = Vec::new();
    let mut known = Known { instance: String::new(), thread: String::new() };
    // Words that stand in a path, a query or a header.
    let words = [
        "ann",
        "00000001",
        "inst-00000001",
        "t-00000000",
        "9f86d081884c7d65",
        "4711",
        "0.5",
        "true",
        "human",
        "n.ann@main",
        "@everyone@main",
        "agent:00000001",
        "r-0000000000000001",
        "all",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "ph1-00000001-x-0",
        "a,b,c",
    ];
    for (n, mut case) in fuzz::cases(2_500, &words).enumerate() {
        if n % 100 == 0 {
            // A call may have ended them.
            let (ann, as_ann) = house.agent("ann").await;
            let (ben, _) = house.agent("ben").await;
            send(&as_ann, &ben.instance, "mail to act on").await;
            tokens = vec![Some(OPERATOR.to_owned()), Some(ann.token), Some(ben.token), None];
            tokens.push(Some(JOIN.to_owned()));
            known = Known { instance: ann.instance, thread: ann.thread_id };
        }
        let token = match case.dice.below(8) {
            chosen @ 0..4 => tokens[chosen + 1].clone(),
            _ => tokens[0].clone(),
        };
        let (call, request) = broken(&mut case, &known, token.as_deref());
        let answer = exchange(&house, &request, false).await;
        let (status, body) = first_reply(&answer);
        assert_clear(status, &body);
        assert_documented(&call, status, &body);
    }
    still_delivers(&house).await;
}

/// The calls of the document that no example has.
async fn missing(house: &House) -> Vec<String> {
    let document = house.call("GET /openapi.json", None, "").await.1;
    let shape = |path: &str| {
        let is_open = |part: &str| part.starts_with('{') || ["cao-one", "0123abcd"].contains(&part);
        let parts = path.split('/').map(|part| if is_open(part) { "{}" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let known: Vec<String> =
        examples().iter().map(|e| format!("{} {}", e.method, shape(e.path))).collect();
    let paths = document["paths"].as_object().expect("paths");
    let calls = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(move |method| format!("{} {}", method.to_uppercase(), shape(path)))
    });
    calls.filter(|call| !known.contains(call)).collect()
}

#[tokio::test]
async fn no_call_of_the_document_is_left_out_of_the_fuzzing() {
    assert_eq!(missing(&House::new().await).await, Vec::<String>::new());
}
