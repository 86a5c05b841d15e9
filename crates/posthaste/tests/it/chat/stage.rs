//! A hub with one profile of assistants, and the model that the test plays.

use posthaste_api::Client;
use posthaste_api::chat::{ChatEntry, ChatQuery, ChatSaid, ChatSay, ChatStart, ChatView};
use posthaste_testkit::model_server::{Asked, ModelServer};
use serde_json::Value;

use crate::world::{Hub, World, until};

pub(super) struct Stage {
    pub(super) world: World,
    model: ModelServer,
    hub: Option<Hub>,
    pub(super) operator: Client,
    config: String,
}

impl Stage {
    pub(super) async fn set() -> Self {
        let (world, model) = (World::new(), ModelServer::start().await);
        let profiles = world.file("profiles");
        std::fs::create_dir_all(&profiles).expect("a folder");
        let profile = "---\nname: helper\ndescription: helps the human\ndriver: runner\n\
            config: {model: play}\n---\nYou help.\n";
        std::fs::write(profiles.join("helper.md"), profile).expect("written");
        let config = world.config(&format!(
            "[models.play]\nprovider = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"scripted\"\n",
            model.url()
        ));
        let hub = world.hub_with(&["--config", &config]);
        let operator = operator_of(&world, &hub);
        Self { world, model, hub: Some(hub), operator, config }
    }

    /// An agent with a first message; gives its id.
    pub(super) async fn starts(&self, message: Option<&str>) -> String {
        self.starts_agent("helper", message).await
    }

    pub(super) async fn starts_agent(&self, agent: &str, message: Option<&str>) -> String {
        let start = ChatStart {
            agent: agent.into(),
            message: message.map(str::to_owned),
            ..ChatStart::default()
        };
        self.operator.start_chat(&start).await.expect("started").instance
    }

    /// Makes another profile of assistants.
    pub(super) async fn profile(&self, name: &str, settings: &str) {
        self.profile_of(name, "runner", settings).await;
    }

    /// Makes a profile of agents with this driver.
    pub(super) async fn profile_of(&self, name: &str, driver: &str, settings: &str) {
        let text = format!("---\nname: {name}\ndriver: {driver}\n{settings}\n---\nYou {name}.\n");
        std::fs::write(self.world.file("profiles").join(format!("{name}.md")), text)
            .expect("written");
        until(async || self.world.say(&["profiles"]).contains(name)).await;
    }

    /// The next turn of the model.
    pub(super) async fn turn(&mut self) -> Asked {
        self.model.asked().await
    }

    pub(super) async fn say(&self, to: &str, text: &str) -> ChatSaid {
        let say = ChatSay { message: text.to_owned(), idempotency_key: None };
        self.operator.say(to, &say).await.expect("said")
    }

    pub(super) async fn sends(&self, to: &str, text: &str) -> u64 {
        self.say(to, text).await.receipt.expect("a message").seq
    }

    pub(super) async fn look(&self, who: &str) -> ChatView {
        self.operator.chat(who, &ChatQuery::default()).await.expect("a view")
    }

    /// The entry with this text, once it is there.
    pub(super) async fn hears(&self, who: &str, text: &str) -> ChatEntry {
        let mut found = None;
        let is_there = async || {
            found = self.look(who).await.entries.into_iter().find(|entry| entry.text == text);
            found.is_some()
        };
        until(is_there).await;
        found.expect("an entry")
    }

    pub(super) async fn until_state(&self, who: &str, seq: u64, state: &str) {
        let is_so = async || {
            let entries = self.look(who).await.entries;
            let entry = entries.iter().find(|entry| entry.seq == Some(seq));
            entry.and_then(|entry| entry.state.as_deref()) == Some(state)
        };
        until(is_so).await;
    }

    pub(super) async fn until_idle(&self, who: &str) {
        until(async || !self.look(who).await.working).await;
    }

    /// The plug is pulled, and the hub comes back at the same address.
    pub(super) fn kill_and_start_again(&mut self) {
        self.kill_and_start_again_after(|| ());
    }

    pub(super) fn kill_and_start_again_after(&mut self, meanwhile: impl FnOnce()) {
        self.hub.take().expect("a hub").kill();
        meanwhile();
        let listen = self.operator.url().trim_start_matches("http://").trim_end_matches('/');
        let listen = listen.to_owned();
        self.start_at(&listen);
    }

    /// The plug is pulled, and the hub comes back at this address.
    pub(super) fn kill_and_start_at(&mut self, listen: &str) {
        self.hub.take().expect("a hub").kill();
        self.start_at(listen);
    }

    fn start_at(&mut self, listen: &str) {
        let hub = self.world.hub_with(&["--config", &self.config, "--listen", listen]);
        self.operator = operator_of(&self.world, &hub);
        self.hub = Some(hub);
    }
}

fn operator_of(world: &World, hub: &Hub) -> Client {
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    Client::new(&hub.url).expect("a good address").with_token(token.trim())
}

/// The user's messages that the model was given, in order.
pub(super) fn of_user(turn: &Asked) -> Vec<String> {
    let messages = turn.request()["messages"].as_array().into_iter().flatten();
    let of_user = messages.filter(|message| message["role"] == "user");
    of_user.map(|message| text_of(&message["content"])).collect()
}

/// The text of a message, which may be in parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
