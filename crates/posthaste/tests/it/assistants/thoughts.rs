//! What a model thought before it called a tool.

use posthaste_testkit::provider::{Format, ProviderServer, Said, Turn};

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_thought_goes_back_to_it_until_its_turn_ends() {
    let (world, model) = (World::new(), ProviderServer::start(Format::Anthropic).await);
    let config = world.config(&format!(
        "[models.large]\nprovider = 'anthropic'\nmodel = 'm'\nbase_url = '{}'\n",
        model.base_url()
    ));
    let _hub = world.hub_with(&["--config", &config]);
    let profiles = world.scratch().join("profiles");
    std::fs::create_dir_all(&profiles).expect("a folder");
    let profile = "---\nname: helper\ndescription: helps\ndriver: runner\n---\nYou help.\n";
    std::fs::write(profiles.join("helper.md"), profile).expect("written");
    world.say(&["profiles", "load", profiles.to_str().expect("a plain path")]);

    model.plan(Turn::says(&[]).calls("a", "whoami", "{}").thinks("Who am I?", "signed-1"));
    model.plan(Turn::says(&["I am the helper."]));
    world.say(&["chat", "helper", "Who are you?"]);
    model.plan(Turn::says(&["Still the helper."]));
    world.say(&["chat", "helper", "And now?"]);

    let thoughts = |request: usize| {
        let heard = model.heard();
        let is_thought = |said: &&Said| matches!(said, Said::Thought(_));
        heard[request].said.iter().filter(is_thought).cloned().collect::<Vec<_>>()
    };
    assert_eq!(thoughts(1), [Said::Thought("signed-1".to_owned())]);
    assert_eq!(thoughts(2), []);
}
