//! What assistants may spend, and what they have spent: told to whoever looks, and ended in
//! one sentence to the giver of the work.

use std::os::unix::fs::PermissionsExt;

use posthaste_testkit::provider::{Ending, Format, KEY, ProviderServer, Reply, Turn};
use serde_json::Value;

use crate::world::{Hub, World, eventually};

struct Stage {
    world: World,
    model: ProviderServer,
    config: String,
}

impl Stage {
    /// A hub whose assistants have a model with prices, and these settings of `[runner]`.
    async fn set(runner: &str) -> Self {
        let (world, model) = (World::new(), ProviderServer::start(Format::OpenAi).await);
        let key = world.scratch().join("key");
        std::fs::write(&key, KEY).expect("written");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&key, private).expect("our own file");
        let config = world.config(&format!(
            "[runner]\n{runner}\n[models.large]\nprovider = 'openai'\nmodel = 'm'\n\
             base_url = '{}'\napi_key_file = 'key'\n\
             price = {{ input = 1000.0, output = 2000.0 }}\n",
            model.base_url()
        ));
        let profiles = world.file("profiles");
        std::fs::create_dir_all(&profiles).expect("a folder");
        let profile = "---\nname: helper\ndescription: helps\ndriver: runner\n---\nYou help.\n";
        std::fs::write(profiles.join("helper.md"), profile).expect("written");
        Self { world, model, config }
    }

    fn hub(&self) -> Hub {
        self.world.hub_with(&["--config", &self.config])
    }

    /// Plans answers that call a tool, each of 10 tokens in and 5 out: 0.02 USD.
    fn plan(&self, answers: usize) {
        for _ in 0..answers {
            self.model.plan(Turn::says(&["I look."]).calls("a", "look", "{}").used(10, 0, 5));
        }
    }

    /// Alice gives the assistant work, and waits for what comes of it.
    fn work(&self) -> (String, Value) {
        let given = self.world.json(&["assign", "helper", "help me", "--as", "alice"]);
        let id = given["instance"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned();
        let inbox = self.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
        let message = inbox["messages"][0].clone();
        assert!(message.is_object(), "no mail: {inbox}");
        (id, message)
    }

    fn look(&self, agent: &str) -> Value {
        self.world.json(&["poll", agent])
    }
}

fn text(message: &Value) -> &str {
    message["message"].as_str().unwrap_or_else(|| panic!("{message}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_budget_ends_the_turn_with_a_sentence_that_names_its_setting() {
    for (setting, answers, told) in [
        ("iterations = 2", 2, "it asked its model 2 times in one turn (runner.iterations)"),
        ("turn_tokens = 40", 3, "its turn used 45 tokens (runner.turn_tokens)"),
        ("cost_usd = 0.03", 2, "it has cost 0.0400 USD (runner.cost_usd)"),
        ("session_cost_usd = 0.01", 1, "its session has cost 0.0200 USD (runner.session_cost_usd)"),
        ("turn = '1ms'", 0, "its turn took longer than 1ms (runner.turn)"),
    ] {
        let stage = Stage::set(setting).await;
        let _hub = stage.hub();
        stage.world.say(&["join", "alice"]);
        stage.plan(5);
        let (_, message) = stage.work();
        assert_eq!(message["type"], "system.agent_failed", "{setting}: {message}");
        let text = text(&message);
        assert!(text.contains(&format!("a budget is reached: {told}")), "{setting}: {text}");
        assert_eq!(stage.model.heard().len(), answers, "{setting}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_takes_longer_than_the_turn_is_not_waited_for() {
    let stage = Stage::set("turn = '500ms'").await;
    let _hub = stage.hub();
    stage.world.say(&["join", "alice"]);
    stage.model.plan(Reply::from(Turn::says(&["I"])).ends(Ending::Silent(1)));
    let (_, message) = stage.work();
    let text = text(&message);
    assert!(text.contains("its turn took longer than 500ms (runner.turn)"), "{text}");
    assert_eq!(stage.model.heard().len(), 1, "it is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_used_for_no_answer_counts_against_the_budget() {
    let stage = Stage::set("session_cost_usd = 0.02").await;
    let _hub = stage.hub();
    stage.world.say(&["join", "alice"]);
    stage.model.plan(Turn::says(&[]).finished("length").used(10, 0, 5));
    let (id, message) = stage.work();
    assert!(text(&message).contains("reached its longest answer"), "{message}");
    let usage = &stage.look(&id)["usage"];
    let cost = usage["cost_usd"].as_f64().expect("a number");
    assert!((cost - 0.02).abs() < 1e-9, "{usage}");
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&10.into(), &5.into()));

    let (_, message) = stage.work();
    let told = "its session has cost 0.0200 USD (runner.session_cost_usd)";
    assert!(text(&message).contains(told), "{message}");
    assert_eq!(stage.model.heard().len(), 1, "the second one has not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_assistant_has_used_is_told_while_it_works_and_after_its_end() {
    let stage = Stage::set("").await;
    let hub = stage.hub();
    stage.world.say(&["join", "alice"]);
    stage.plan(1);
    stage.model.plan(Turn::says(&["42"]).used(100, 0, 5));
    let (id, message) = stage.work();
    assert_eq!(text(&message), "42");
    let is_right = |usage: &Value| {
        assert_eq!(usage["calls"], 2, "{usage}");
        assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&110.into(), &10.into()));
        let cost = usage["cost_usd"].as_f64().expect("a number");
        assert!((cost - 0.13).abs() < 1e-9, "{usage}");
    };
    is_right(&stage.look(&id)["usage"]);
    let alice = stage.look("alice");
    assert_eq!(alice["usage"], Value::Null, "nobody counts what she uses");
    is_right(&alice["usage_of_workers"]);

    stage.world.run(&["stop", &id]);
    eventually(|| !stage.look(&id)["ended_at"].is_null());
    is_right(&stage.look(&id)["usage"]);
    assert_eq!(hub.stop().code, Some(0));
    let _hub = stage.hub();
    is_right(&stage.look(&id)["usage"]);
    is_right(&stage.look("alice")["usage_of_workers"]);
    let told = stage.world.say(&["poll", &id]);
    let line = "model      2 answers of a model, 110 tokens in, 10 out, 0.1300 USD";
    assert!(told.contains(line), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_pays_for_its_ended_assistants_also_after_a_restart_of_the_hub() {
    let stage = Stage::set("session_cost_usd = 0.1").await;
    let hub = stage.hub();
    stage.world.say(&["join", "alice"]);
    stage.model.plan(Turn::says(&["42"]).used(100, 0, 0));
    let (id, message) = stage.work();
    assert_eq!(text(&message), "42");
    stage.world.run(&["stop", &id]);
    eventually(|| !stage.look(&id)["ended_at"].is_null());
    assert_eq!(hub.stop().code, Some(0));

    let _hub = stage.hub();
    let (_, message) = stage.work();
    let told = "its session has cost 0.1000 USD (runner.session_cost_usd)";
    assert!(text(&message).contains(told), "{message}");
    assert_eq!(stage.model.heard().len(), 1, "the second one has not asked");

    // Another session has a budget of its own.
    stage.world.say(&["join", "bob"]);
    stage.model.plan(Turn::says(&["43"]).used(10, 0, 0));
    stage.world.say(&["assign", "helper", "help me", "--as", "bob"]);
    let inbox = stage.world.json(&["inbox", "--as", "bob", "--timeout", "60"]);
    assert_eq!(inbox["messages"][0]["message"], "43", "{inbox}");
}
