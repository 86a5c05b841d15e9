//! Assistants whose model is behind a provider that is as strict as the real ones, and
//! fails as they do.

use posthaste_testkit::provider::{Ending, Format, ProviderServer, Reply, Said, Turn};

use crate::world::{Hub, World};

struct Stage {
    world: World,
    model: ProviderServer,
    _hub: Hub,
}

impl Stage {
    /// A hub with one assistant, whose model has these settings.
    async fn set(format: Format, provider: &str, settings: &str) -> Self {
        let (world, model) = (World::new(), ProviderServer::start(format).await);
        let config = world.config(&format!(
            "[runner]\nretry_after = '5ms'\n[models.large]\nprovider = '{provider}'\n\
             model = 'm'\nbase_url = '{}'\n{settings}\n",
            model.base_url()
        ));
        let hub = world.hub_with(&["--config", &config]);
        let profiles = world.scratch().join("profiles");
        std::fs::create_dir_all(&profiles).expect("a folder");
        let profile = "---\nname: helper\ndescription: helps\ndriver: runner\n---\nYou help.\n";
        std::fs::write(profiles.join("helper.md"), profile).expect("written");
        world.say(&["profiles", "load", profiles.to_str().expect("a plain path")]);
        Self { world, model, _hub: hub }
    }

    /// The thoughts in a request.
    fn thoughts(&self, request: usize) -> Vec<Said> {
        let heard = self.model.heard();
        let is_thought = |said: &&Said| matches!(said, Said::Thought(_));
        heard[request].said.iter().filter(is_thought).cloned().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_thought_goes_back_to_it_until_its_turn_ends() {
    let stage = Stage::set(Format::Anthropic, "anthropic", "").await;
    let (world, model) = (&stage.world, &stage.model);
    model.plan(Turn::says(&[]).calls("a", "whoami", "{}").thinks("Who am I?", "signed-1"));
    model.plan(Turn::says(&["I am the helper."]));
    world.say(&["chat", "helper", "Who are you?"]);
    model.plan(Turn::says(&["Still the helper."]));
    world.say(&["chat", "helper", "And now?"]);
    assert_eq!(stage.thoughts(1), [Said::Thought("signed-1".to_owned())]);
    assert_eq!(stage.thoughts(2), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_for_a_moment_is_asked_again_and_the_transcript_says_why() {
    let stage = Stage::set(Format::OpenAi, "openai", "").await;
    stage.model.plan(Reply::error(429, "slow down").header("retry-after", "0"));
    stage.model.plan(Reply::error(503, "too many people"));
    stage.model.plan(Reply::from(Turn::says(&["half ", "of it"])).ends(Ending::Breaks(2)));
    stage.model.plan(Turn::says(&["all of it"]));
    assert_eq!(stage.world.say(&["chat", "helper", "Go."]).trim(), "all of it");
    let said = [Said::user("Go.")];
    assert!(stage.model.heard().iter().all(|heard| heard.said == said), "the same request");
    let logs = stage.world.say(&["logs", "helper"]);
    for why in ["limits our rate: slow down", "cannot answer now (503): too many people"] {
        assert!(logs.contains(&format!("{why}; trying again")), "{why}: {logs}");
    }
    assert!(!logs.contains("half"), "what was not whole is not told: {logs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_silent_ends_the_turn_in_one_sentence_and_the_conversation_stays() {
    let stage = Stage::set(Format::OpenAi, "openai", "timeout = '200ms'").await;
    for _ in 0..4 {
        stage.model.plan(Reply::from(Turn::says(&["I"])).ends(Ending::Silent(1)));
    }
    let ran = stage.world.run(&["chat", "helper", "Go."]);
    let why =
        "I had to stop: the model large took longer than 200ms (models.large.timeout) (4 tries)";
    assert!(ran.out.starts_with(why), "{ran:?}");
    assert_eq!(ran.code, Some(9), "{ran:?}");
    stage.model.plan(Turn::says(&["Here."]));
    assert_eq!(stage.world.say(&["chat", "helper", "And now?"]).trim(), "Here.");
    let heard = stage.model.heard();
    let [first, end, last] = heard[4].said.as_slice() else { panic!("{heard:?}") };
    assert_eq!([first, last], [&Said::user("Go."), &Said::user("And now?")]);
    let Said::User(end) = end else { panic!("{end:?}") };
    assert!(end.starts_with("[posthaste] The turn ended here without an answer"), "{end}");
}
