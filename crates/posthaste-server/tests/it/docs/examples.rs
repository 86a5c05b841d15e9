//! The examples of the document: each call, played with a real hub.
//!
//! `POSTHASTE_UPDATE=1 cargo test -p posthaste-server --test it docs::examples` writes
//! `posthaste-api/src/openapi/examples.json` anew.

mod standins;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posthaste_api::openapi::{Example, Token, calls};
use posthaste_core::address::{Address, InstanceId};
use posthaste_core::messaging::message::Kind;
use posthaste_core::needs::PermissionAsk;
use posthaste_core::orchestration::{AgentsConfig, TurnActivity, Utterance};
use posthaste_core::ports::TranscriptKind;
use posthaste_core::registry::{InstanceFilter, Status};
use posthaste_store::Place;
use posthaste_testkit::staff::Staff;
use serde_json::{Map, Value, json};

use self::standins::StandIns;
use crate::house::{House, JOIN, OPERATOR, Plan, until, within};

/// Plays the calls and writes down what was said.
struct Scribe {
    house: House,
    client: reqwest::Client,
    staff: Arc<Staff>,
    /// The token of whoever is `Token::Agent` now.
    agent: String,
    standins: StandIns,
    written: Vec<Example>,
}

/// What is asked, in the words of the table of calls.
struct Ask {
    token: Token,
    call: &'static str,
    part: Option<String>,
    query: Value,
    body: Option<Value>,
}

fn ask(token: Token, call: &'static str) -> Ask {
    Ask { token, call, part: None, query: json!({}), body: None }
}

impl Ask {
    fn of(mut self, part: &Value) -> Self {
        let text = part.as_str().map_or_else(|| part.to_string(), str::to_owned);
        self.part = Some(text);
        self
    }

    fn with(mut self, query: Value) -> Self {
        self.query = query;
        self
    }

    fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

impl Scribe {
    async fn new(folder: &Path) -> Self {
        let house =
            House::with(Plan { place: Place::File(folder.to_owned()), ..Plan::default() }).await;
        let staff = Arc::new(Staff::default());
        house.hub.employ(Arc::clone(&staff) as _, AgentsConfig::default()).await;
        let client = posthaste_api::http::plain();
        Self {
            house,
            client: client.build().expect("a client"),
            staff,
            agent: String::new(),
            standins: StandIns::default(),
            written: Vec::new(),
        }
    }

    /// Asks without writing it down.
    async fn say(&self, ask: &Example) -> reqwest::Response {
        let method = ask.method().parse().expect("a method");
        let url = format!("http://{}{}", self.house.address, ask.target());
        let mut request = self.client.request(method, url);
        match ask.token {
            Token::None => {}
            Token::Join => request = request.bearer_auth(JOIN),
            Token::Agent => request = request.bearer_auth(&self.agent),
            Token::Operator => request = request.bearer_auth(OPERATOR),
        }
        if let Some(body) = &ask.body {
            request = request.body(body.to_string());
        }
        within(&ask.call, request.send()).await.expect("an answer")
    }

    fn example(ask: Ask) -> Example {
        let Value::Object(query) = ask.query else { panic!("a query is an object") };
        let (call, part, body) = (ask.call.to_owned(), ask.part, ask.body);
        Example { call, token: ask.token, part, query, body, status: 0, answer: None }
    }

    /// Asks, writes down what was said, and hands over the real answer.
    async fn plays(&mut self, ask: Ask) -> Value {
        let example = Self::example(ask);
        let answer = self.say(&example).await;
        let status = answer.status().as_u16();
        let text = within(&example.call, answer.text()).await.expect("a text");
        assert!(status < 400, "{}: {status} {text}", example.call);
        let told = serde_json::from_str(&text).unwrap_or(Value::String(text));
        self.writes(example, status, Some(told.clone()));
        told
    }

    fn writes(&mut self, example: Example, status: u16, answer: Option<Value>) {
        if let Some(answer) = &answer {
            self.standins.learn(answer);
        }
        let shown = |value: Value| self.standins.shown(value);
        let query = match shown(Value::Object(example.query)) {
            Value::Object(query) => query,
            _ => Map::new(),
        };
        let part = example.part.map(|part| shown(part.into()));
        self.written.push(Example {
            part: part.and_then(|part| part.as_str().map(str::to_owned)),
            query,
            body: example.body.map(shown),
            answer: answer.map(shown),
            status,
            ..example
        });
    }

    /// Who works just now.
    fn workers(&self) -> Vec<InstanceId> {
        let at_work = InstanceFilter {
            agent: Some("reviewer".parse().expect("a name")),
            statuses: vec![Status::Starting, Status::Running],
            limit: 10,
            ..InstanceFilter::default()
        };
        let found = self.house.hub.instances(&at_work).into_iter();
        found.map(|view| view.instance.id).collect()
    }

    /// The worker that has just been given work.
    async fn new_worker(&self) -> InstanceId {
        until("there is a worker", async || !self.workers().is_empty()).await;
        self.workers().remove(0)
    }
}

#[expect(clippy::disallowed_methods, reason = "how a person asks for new examples")]
fn should_update() -> bool {
    std::env::var_os("POSTHASTE_UPDATE").is_some()
}

async fn played() -> Vec<Example> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut scribe = Scribe::new(folder.path()).await;
    about_the_hub(&mut scribe).await;
    let (alice, bob) = arrivals(&mut scribe).await;
    profiles(&mut scribe).await;
    mail(&mut scribe, &alice, &bob).await;
    work(&mut scribe, &alice).await;
    needs(&mut scribe, &alice).await;
    chat(&mut scribe).await;
    looking(&mut scribe, &alice, &bob).await;
    cao(&mut scribe, &alice, &bob).await;
    departures(&mut scribe, &alice, &bob).await;
    scribe.house.shutdown.cancel();
    within("the hub stops", scribe.house.served).await.expect("no panic").expect("stopped");
    scribe.written
}

async fn about_the_hub(scribe: &mut Scribe) {
    for call in ["GET /", "GET /health", "GET /ready"] {
        scribe.plays(ask(Token::None, call)).await;
    }
    scribe.plays(ask(Token::Operator, "POST /v1/tokens/reload")).await;
    for call in ["GET /openapi.json", "GET /docs"] {
        let example = Scribe::example(ask(Token::None, call));
        let status = scribe.say(&example).await.status().as_u16();
        scribe.writes(example, status, None);
    }
}

/// Alice comes by herself, Bob is made by the operator.
async fn arrivals(scribe: &mut Scribe) -> (Value, Value) {
    let join = ask(Token::Join, "POST /v1/join");
    let alice = scribe.plays(join.body(json!({ "agent": "alice", "key": "laptop-1" }))).await;
    let make = ask(Token::Operator, "POST /v1/instances");
    let bob = scribe.plays(make.body(json!({ "agent": "bob", "label": "night shift" }))).await;
    let team = json!({ "leaders": [alice["instance"]] });
    let put = ask(Token::Operator, "PUT /v1/teams/{name}").of(&json!("avalon"));
    scribe.plays(put.body(team)).await;
    scribe.agent = text(&alice["token"]);
    scribe.plays(ask(Token::Agent, "GET /v1/teams")).await;
    scribe.plays(ask(Token::Agent, "GET /v1/teams/{name}").of(&json!("main"))).await;
    (alice, bob)
}

async fn profiles(scribe: &mut Scribe) {
    let reviewer = json!({
        "name": "reviewer", "description": "reads diffs and says what is wrong",
        "driver": "command", "tags": ["rust"], "config": { "command": ["review"] },
    });
    let create = ask(Token::Operator, "POST /v1/profiles");
    scribe.plays(create.body(reviewer.clone())).await;
    scribe.plays(ask(Token::Agent, "GET /v1/profiles").with(json!({ "page_size": 5 }))).await;
    let search = ask(Token::Agent, "GET /v1/profiles/search");
    scribe.plays(search.with(json!({ "q": "rust diff", "limit": 3 }))).await;
    scribe.plays(ask(Token::Agent, "GET /v1/profiles/errors")).await;
    let named = |call, name: &str| ask(Token::Operator, call).of(&json!(name));
    let mut changed = reviewer;
    changed["description"] = json!("reads diffs and finds faults");
    changed["version"] = json!(1);
    scribe.plays(named("PUT /v1/profiles/{name}", "reviewer").body(changed)).await;
    let scribbler = json!({ "description": "takes notes" });
    scribe.plays(named("PUT /v1/profiles/{name}", "scribbler").body(scribbler)).await;
    scribe.plays(named("DELETE /v1/profiles/{name}", "scribbler")).await;
    let read = ask(Token::Agent, "GET /v1/profiles/{name}");
    scribe.plays(read.of(&json!("reviewer"))).await;
}

async fn mail(scribe: &mut Scribe, alice: &Value, bob: &Value) {
    let send = || ask(Token::Agent, "POST /v1/messages");
    let first = json!({ "to": "bob", "message": "the build is green", "label": "ci" });
    let first = scribe.plays(send().body(first)).await;
    let both = json!({ "to": ["bob", "nobody"], "message": "lunch?", "type": "question" });
    scribe.plays(send().body(both)).await;

    scribe.agent = text(&bob["token"]);
    let read = || ask(Token::Agent, "GET /v1/inbox").with(json!({ "timeout": 0 }));
    let inbox = scribe.plays(read()).await;
    let receipt = json!({ "receipt": inbox["receipt"] });
    scribe.plays(ask(Token::Agent, "POST /v1/inbox/ack").body(receipt)).await;

    scribe.agent = text(&alice["token"]);
    let third = json!({ "to": "bob", "message": "please deploy" });
    let third = Scribe::example(send().body(third));
    let third: Value = json_of(scribe.say(&third).await).await;
    scribe.agent = text(&bob["token"]);
    scribe.say(&Scribe::example(read())).await;
    let ids = json!({ "ids": [third["seq"]] });
    scribe.plays(ask(Token::Agent, "POST /v1/inbox/nack").body(ids)).await;
    let hook = json!({ "client": "claude", "conversation": "c-1" });
    scribe.plays(ask(Token::Agent, "POST /v1/hooks/{event}").of(&json!("prompt")).body(hook)).await;

    scribe.agent = text(&alice["token"]);
    let human = Scribe::example(send().body(json!({ "to": "human", "message": "may I?" })));
    let human: Value = json_of(scribe.say(&human).await).await;
    for call in ["POST /v1/messages/{id}/cancel", "POST /v1/messages/{id}/requeue"] {
        scribe.plays(ask(Token::Agent, call).of(&human["seq"])).await;
    }
    let history = ask(Token::Agent, "GET /v1/messages");
    scribe.plays(history.with(json!({ "last_n": 1, "status": "acked" }))).await;
    scribe.plays(ask(Token::Agent, "GET /v1/messages/{id}").of(&first["seq"])).await;
    scribe.plays(ask(Token::Agent, "GET /v1/messages/{id}/trail").of(&first["seq"])).await;
    let thread = ask(Token::Agent, "GET /v1/threads/{id}/messages").of(&alice["thread_id"]);
    scribe.plays(thread.with(json!({ "last_n": 1 }))).await;
}

async fn work(scribe: &mut Scribe, alice: &Value) {
    scribe.agent = text(&alice["token"]);
    let task = json!({ "agent": "reviewer", "message": "review the last commit", "label": "r1" });
    let given = scribe.plays(ask(Token::Agent, "POST /v1/assign").body(task)).await;
    let worker: InstanceId = text(&given["instance"]).parse().expect("an instance");
    scribe.staff.runs(worker).await;
    scribe.plays(ask(Token::Agent, "GET /v1/context")).await;
    scribe.staff.writes(worker, b"3 files to read\n").await;
    let output = ask(Token::Agent, "GET /v1/instances/{id}/output").of(&given["instance"]);
    scribe.plays(output.with(json!({ "from": 0 }))).await;
    scribe.staff.notes(worker, TranscriptKind::Text, "I read the first file.").await;
    let watch = ask(Token::Agent, "GET /v1/instances/{id}/stream").of(&given["instance"]);
    let watch = Scribe::example(watch.with(json!({ "follow": false })));
    let told = scribe.say(&watch).await.text().await.expect("a stream that ends");
    scribe.writes(watch, 200, Some(told.into()));
    scribe.staff.opens_terminal(worker).await;
    scribe.plays(ask(Token::Agent, "GET /v1/instances/{id}/terminal").of(&given["instance"])).await;
    let hub = Arc::clone(&scribe.house.hub);
    scribe.staff.answers(&hub, worker, "one fault: a lock is held too long").await;

    let task = json!({ "agent": "reviewer", "message": "and the one before", "timeout": 30 });
    let example = Scribe::example(ask(Token::Agent, "POST /v1/handoff").body(task));
    let answers = async {
        let worker = scribe.new_worker().await;
        scribe.staff.runs(worker).await;
        scribe.staff.answers(&hub, worker, "no fault").await;
    };
    let (answer, ()) = tokio::join!(scribe.say(&example), answers);
    let status = answer.status().as_u16();
    let told: Value = json_of(answer).await;
    scribe.writes(example, status, Some(told));

    let own = json!({ "agent": "reviewer", "message": "all of it" });
    let own = Scribe::example(ask(Token::Operator, "POST /v1/assign").body(own));
    scribe.say(&own).await;
    let worker = scribe.new_worker().await;
    scribe.staff.runs(worker).await;
    scribe.plays(ask(Token::Operator, "POST /v1/stop")).await;
    until("nobody works", async || scribe.workers().is_empty()).await;
}

/// A question, a worker that failed, and a request of a driver.
async fn needs(scribe: &mut Scribe, alice: &Value) {
    scribe.agent = text(&alice["token"]);
    let question = json!({
        "to": "human", "message": "deploy now?", "type": "question",
        "metadata": { "options": ["yes", "no"] },
    });
    scribe.say(&Scribe::example(ask(Token::Agent, "POST /v1/messages").body(question))).await;
    let open = json!({ "kind": "question" });
    let list = scribe.plays(ask(Token::Operator, "GET /v1/needs").with(open)).await;
    let answer = ask(Token::Operator, "POST /v1/needs/{id}/answer");
    scribe.plays(answer.of(&list["needs"][0]["id"]).body(json!({ "option": "yes" }))).await;

    let hub = Arc::clone(&scribe.house.hub);
    let who: InstanceId = text(&alice["instance"]).parse().expect("an instance");
    let request = PermissionAsk {
        request: "r-1".into(),
        subject: "Bash(git push)".into(),
        text: "Bash: git push origin main".into(),
    };
    let known = hub.open_needs();
    let asked = tokio::spawn(async move { hub.permission(who, request).await });
    until("it asks", async || scribe.house.hub.open_needs() > known).await;
    let open = json!({ "kind": "permission" });
    let list = Scribe::example(ask(Token::Operator, "GET /v1/needs").with(open));
    let list: Value = json_of(scribe.say(&list).await).await;
    scribe.plays(ask(Token::Operator, "GET /v1/needs/{id}").of(&list["needs"][0]["id"])).await;
    let yes = ask(Token::Operator, "POST /v1/needs/{id}/answer");
    let yes = yes.of(&list["needs"][0]["id"]).body(json!({ "allow": true, "remember": true }));
    scribe.say(&Scribe::example(yes)).await;
    within("a verdict", asked).await.expect("no panic");
    scribe.plays(ask(Token::Operator, "GET /v1/needs/remembered")).await;
    let forget = ask(Token::Operator, "DELETE /v1/needs/remembered/{profile}");
    let subject = json!({ "subject": "Bash(git push)" });
    scribe.plays(forget.of(&json!("alice")).with(subject)).await;
}

/// An agent that the operator talks to: it asks, and wants to do something.
async fn chat(scribe: &mut Scribe) {
    let helper = json!({
        "name": "helper", "description": "helps the human", "driver": "command",
        "config": { "command": ["help"], "stdin": "mail" },
    });
    scribe.say(&Scribe::example(ask(Token::Operator, "POST /v1/profiles").body(helper))).await;
    let start = ask(Token::Operator, "POST /v1/chat");
    let started = json!({ "agent": "helper", "message": "make the build green" });
    let started = scribe.plays(start.body(started)).await;
    let who: InstanceId = text(&started["instance"]).parse().expect("an instance");
    scribe.staff.runs(who).await;
    let hub = Arc::clone(&scribe.house.hub);
    let of = |call| ask(Token::Operator, call).of(&started["instance"]);

    let question = Utterance {
        to: Address::Human,
        kind: Kind::QUESTION,
        text: "which branch?".to_owned(),
        in_reply_to: None,
        metadata: json!({ "blocking": true, "options": ["main", "next"] }).to_string(),
        key: "q-1".to_owned(),
    };
    hub.utter(who, question).await.expect("it asks");
    scribe.plays(of("GET /v1/chat/{instance}").with(json!({ "last_n": 10 }))).await;
    let say = || of("POST /v1/chat/{instance}");
    scribe.plays(say().body(json!({ "message": "main" }))).await;

    let request = PermissionAsk {
        request: "r-2".into(),
        subject: "Bash(make)".into(),
        text: "Bash: make".into(),
    };
    let known = hub.open_needs();
    let asks = Arc::clone(&hub);
    let asked = tokio::spawn(async move { asks.permission(who, request).await });
    until("it asks", async || hub.open_needs() > known).await;
    scribe.plays(say().body(json!({ "message": "yes" }))).await;
    within("a verdict", asked).await.expect("no panic");

    scribe.staff.is_writing(who, "I have").await;
    hub.note_activity(who, Some(TurnActivity::Busy));
    scribe.plays(of("POST /v1/chat/{instance}/cancel")).await;
    hub.note_activity(who, None);
    scribe.staff.answers(&hub, who, "done").await;
}

async fn looking(scribe: &mut Scribe, alice: &Value, bob: &Value) {
    scribe.agent = text(&alice["token"]);
    let list = ask(Token::Agent, "GET /v1/instances");
    scribe.plays(list.with(json!({ "agent": "bob" }))).await;
    scribe.plays(ask(Token::Agent, "GET /v1/instances/{id}").of(&bob["instance"])).await;
    let waits = json!({ "to": "reviewer@avalon", "message": "anybody there?" });
    scribe.say(&Scribe::example(ask(Token::Agent, "POST /v1/messages").body(waits))).await;
    for call in ["GET /v1/stats/agents", "GET /v1/stats/teams", "GET /v1/stats/mailboxes"] {
        scribe.plays(ask(Token::Agent, call)).await;
    }
    scribe.plays(ask(Token::Operator, "GET /v1/stats/stuck")).await;
    // Of many figures the one that is the same in every run.
    let metrics = Scribe::example(ask(Token::None, "GET /metrics"));
    let page = scribe.say(&metrics).await.text().await.expect("a page");
    let accepted = page.lines().filter(|line| line.contains("messages_accepted_total"));
    let lines: String = accepted.map(|line| format!("{line}\n")).collect();
    scribe.writes(metrics, 200, Some(lines.into()));

    let newest = scribe.house.hub.newest().await.expect("a number").expect("a message").0;
    let export = ask(Token::Operator, "GET /v1/export").with(json!({ "after": newest - 1 }));
    scribe.plays_lines(export).await;
    follows(scribe, "GET /v1/events").await;
}

/// The first three events of a stream.
async fn follows(scribe: &mut Scribe, call: &'static str) {
    let events = json!({ "after": 0, "types": "message,instance" });
    let events = Scribe::example(ask(Token::Operator, call).with(events));
    let mut stream = scribe.say(&events).await;
    let mut heard = String::new();
    while heard.matches("\n\n").count() < 3 {
        let piece = within("an event", stream.chunk()).await.expect("no error").expect("more");
        heard.push_str(std::str::from_utf8(&piece).expect("UTF-8"));
    }
    let three: Vec<&str> = heard.split_inclusive("\n\n").take(3).collect();
    scribe.writes(events, 200, Some(three.concat().into()));
}

impl Scribe {
    /// Lines of JSON are shown as text.
    async fn plays_lines(&mut self, ask: Ask) {
        let example = Self::example(ask);
        let lines = self.say(&example).await.text().await.expect("lines");
        for line in lines.lines() {
            self.standins.learn(&serde_json::from_str(line).expect("a line of JSON"));
        }
        self.writes(example, 200, Some(lines.into()));
    }
}

async fn cao(scribe: &mut Scribe, alice: &Value, bob: &Value) {
    scribe.agent = text(&alice["token"]);
    let inbox = |call| ask(Token::Agent, call).of(&bob["instance"]);
    let words = json!({ "sender_id": alice["instance"], "message": "hello from CAO" });
    scribe.plays(inbox("POST /terminals/{id}/inbox/messages").body(words)).await;
    scribe.agent = text(&bob["token"]);
    let list = inbox("GET /terminals/{id}/inbox/messages");
    scribe.plays(list.with(json!({ "limit": 10, "status": "pending" }))).await;
    let wait = inbox("GET /terminals/{id}/inbox/messages/wait");
    scribe.plays(wait.with(json!({ "timeout": 5, "batch_window": 0.05 }))).await;
    terminals(scribe).await;
}

/// A session of CAO's with two terminals, and a step.
async fn terminals(scribe: &mut Scribe) {
    let words = json!({
        "agent_profile": "developer", "provider": "mock_cli", "session_name": "shop",
        "working_directory": "/tmp",
    });
    let make = ask(Token::None, "POST /sessions").with(words);
    let boss = scribe.plays(make.body(json!({ "description": "leads the shop" }))).await;
    let boss_id: InstanceId = text(&boss["id"]).parse().expect("an instance");
    scribe.staff.runs(boss_id).await;
    scribe.plays(ask(Token::None, "GET /sessions")).await;
    let of_session = |call| ask(Token::None, call).of(&boss["session_name"]);
    let words = json!({
        "agent_profile": "developer", "provider": "mock_cli", "caller_id": boss["id"],
        "defer_init": true,
    });
    let add = of_session("POST /sessions/{name}/terminals").with(words);
    let add = Scribe::example(add.body(json!({ "initial_message": "count the bricks" })));
    let mut worker: Value = json_of(scribe.say(&add).await).await;
    // The worker may have its task already.
    worker["initial_delivery"]["state"] = json!("pending");
    scribe.writes(add, 201, Some(worker.clone()));
    let worker_id: InstanceId = text(&worker["id"]).parse().expect("an instance");
    scribe.staff.runs(worker_id).await;
    scribe.plays(of_session("GET /sessions/{name}")).await;
    scribe.plays(of_session("GET /sessions/{name}/terminals")).await;
    let of_worker = |call| ask(Token::None, call).of(&worker["id"]);
    scribe.plays(of_worker("GET /terminals/{id}")).await;
    scribe.plays(of_worker("GET /terminals/{id}/working-directory")).await;
    let told = json!({ "metadata": { "counts": "bricks" } });
    scribe.plays(of_worker("PATCH /terminals/{id}/metadata").body(told)).await;
    let of_boss = |call| ask(Token::None, call).of(&boss["id"]);
    scribe.plays(of_boss("GET /terminals/{id}/siblings").with(json!({ "depth": 1 }))).await;
    let words = json!({ "message": "and the tiles" });
    scribe.plays(of_worker("POST /terminals/{id}/input").with(words)).await;
    scribe.house.hub.turn_ended(worker_id, "4711 bricks, 12 tiles".to_owned(), Vec::new()).await;
    let last = json!({ "mode": "last" });
    scribe.plays(of_worker("GET /terminals/{id}/output").with(last)).await;

    let step = json!({
        "provider": "mock_cli", "agent": "developer", "prompt": "count the doors",
        "session_name": boss["session_name"], "caller_id": boss["id"], "timeout": 60,
        "job_id": "9f2c41d07ab84e1d",
    });
    let example = Scribe::example(ask(Token::None, "POST /terminals/run-step").body(step));
    let hub = Arc::clone(&scribe.house.hub);
    let staff = Arc::clone(&scribe.staff);
    let plays = async {
        let started = || {
            staff.at_work().into_iter().find(|start| {
                start.task.as_ref().is_some_and(|task| task.text == "count the doors")
            })
        };
        until("the step has begun", async || started().is_some()).await;
        let worker = started().expect("it works").worker.id;
        hub.turn_ended(worker, "three doors".to_owned(), Vec::new()).await;
    };
    let (answer, ()) = tokio::join!(scribe.say(&example), plays);
    let status = answer.status().as_u16();
    let told = json_of(answer).await;
    scribe.writes(example, status, Some(told));
    let job = ask(Token::None, "GET /handoff-results/{job_id}").of(&json!("9f2c41d07ab84e1d"));
    scribe.plays(job).await;
    scribe.plays(of_worker("POST /terminals/{id}/exit")).await;
    scribe.plays(of_worker("DELETE /terminals/{id}")).await;
    scribe.plays(of_session("DELETE /sessions/{name}")).await;
    follows(scribe, "GET /events").await;
}

async fn departures(scribe: &mut Scribe, alice: &Value, bob: &Value) {
    scribe.plays(ask(Token::Operator, "POST /v1/instances/prune")).await;
    scribe.agent = text(&alice["token"]);
    let stop = ask(Token::Operator, "DELETE /v1/instances/{id}");
    scribe.plays(stop.of(&bob["instance"])).await;
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

async fn json_of(answer: reqwest::Response) -> Value {
    let text = within("an answer", answer.text()).await.expect("a text");
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

/// So long the test may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn the_examples_of_the_document_are_what_a_hub_answers() {
    let played = tokio::time::timeout(PATIENCE, played()).await.expect("it takes seconds");
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../posthaste-api/src/openapi/examples.json");
    if should_update() {
        let text = serde_json::to_string_pretty(&played).expect("JSON");
        std::fs::write(place, format!("{text}\n")).expect("written");
    }
    let kept = std::fs::read_to_string(place).expect("the kept examples");
    let kept: Vec<Example> = serde_json::from_str(&kept).expect("examples");
    for (now, kept) in played.iter().zip(&kept) {
        let shown = |example| serde_json::to_string_pretty(example).expect("JSON");
        assert_eq!(
            shown(now),
            shown(kept),
            "stale: POSTHASTE_UPDATE=1 cargo test -p posthaste-server --test it docs::examples"
        );
    }
    assert_eq!(played.len(), kept.len());
}

#[test]
fn every_call_has_an_example_of_each_answer() {
    let document = posthaste_api::openapi::document("", true);
    let mut missing = Vec::new();
    for call in calls() {
        let operation = &document["paths"][call.path][call.method.as_str().to_ascii_lowercase()];
        if !operation["x-codeSamples"][0]["source"].is_string() {
            missing.push(format!("{} {}", call.method, call.path));
        }
        for (status, response) in operation["responses"].as_object().expect("answers") {
            let media = response["content"].as_object().and_then(|c| c.values().next());
            let Some(media) = media.filter(|_| status.as_str() < "400") else { continue };
            let is_page = ["/docs", "/openapi.json"].contains(&call.path);
            if media["example"].is_null() && !is_page {
                missing.push(format!("{} {}: {status}", call.method, call.path));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
