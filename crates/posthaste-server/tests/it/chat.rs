//! The operator's conversation with one agent, over REST.

mod live;
mod rule;
mod shown;
mod starting;

use std::fmt::Debug;
use std::sync::Arc;

use posthaste_api::chat::{ChatEntry, ChatQuery, ChatSaid, ChatSay, ChatStart, ChatView};
use posthaste_api::client::ClientError;
use posthaste_api::profiles::ProfileInput;
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::address::{Address, InstanceId};
use posthaste_core::messaging::message::{Kind, Seq};
use posthaste_core::needs::{PermissionAsk, Verdict};
use posthaste_core::orchestration::Utterance;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::house::{House, refusal, until, within};
use crate::staff::{self, Staff};

/// A house with an agent that the operator talks to: the test plays its assistant.
struct Talk {
    house: House,
    staff: Arc<Staff>,
    operator: Client,
    /// The agent.
    who: InstanceId,
    id: String,
    thread: String,
}

impl Talk {
    async fn new() -> Self {
        let (house, staff) = staff::house().await;
        let operator = house.operator();
        operator.create_profile(&helper()).await.expect("a profile");
        let start = ChatStart { agent: "helper".into(), ..ChatStart::default() };
        let started = operator.start_chat(&start).await.expect("started");
        staff.works(&started.instance).await;
        let who = started.instance.parse().expect("an instance");
        Self { house, staff, operator, who, id: started.instance, thread: started.thread_id }
    }

    async fn say(&self, text: &str) -> ChatSaid {
        self.operator.say(&self.id, &words(text)).await.expect("said")
    }

    /// The number of a message that the operator sends.
    async fn sends(&self, text: &str) -> u64 {
        self.say(text).await.receipt.expect("a message").seq
    }

    async fn look(&self) -> ChatView {
        self.operator.chat(&self.id, &ChatQuery::default()).await.expect("a view")
    }

    /// The entry of a message.
    async fn entry(&self, seq: u64) -> ChatEntry {
        let entries = self.look().await.entries;
        entries.into_iter().find(|entry| entry.seq == Some(seq)).expect("an entry")
    }

    async fn until_state(&self, seq: u64, state: &str) {
        let is = async || self.entry(seq).await.state.as_deref() == Some(state);
        until("the message has this state", is).await;
    }

    /// The agent has its mail in its conversation.
    async fn has_read(&self, seqs: &[u64]) {
        let seqs: Vec<Seq> = seqs.iter().map(|seq| Seq(*seq)).collect();
        let told = self.staff.has_told(1).await;
        assert!(!told.is_empty());
        self.house.hub.mail_stored(self.who, seqs).await;
    }

    /// The agent says something to the operator; gives the message's number.
    async fn utters(&self, kind: &str, text: &str, metadata: Value) -> u64 {
        let said = Utterance {
            to: Address::Human,
            kind: Kind::read(kind).expect("a type"),
            text: text.to_owned(),
            in_reply_to: None,
            metadata: metadata.to_string(),
            key: format!("{}:{metadata}", text.chars().take(80).collect::<String>()),
        };
        self.house.hub.utter(self.who, said).await.expect("said").seq.0
    }

    async fn asks(&self, question: &str, blocking: bool) -> u64 {
        self.utters("question", question, json!({ "blocking": blocking })).await
    }

    /// The agent wants to do something.
    async fn wants(&self, what: &str) -> JoinHandle<Verdict> {
        let hub = Arc::clone(&self.house.hub);
        let who = self.who;
        let ask = PermissionAsk {
            request: what.to_owned(),
            subject: format!("Bash({what})"),
            text: format!("Bash: {what}"),
        };
        let known = hub.open_needs();
        let asked = tokio::spawn(async move { hub.permission(who, ask).await });
        until("it asks", async || self.house.hub.open_needs() > known).await;
        asked
    }
}

fn helper() -> ProfileInput {
    let config = json!({ "stdin": "mail" });
    ProfileInput {
        name: Some("helper".into()),
        driver: Some("command".into()),
        description: "helps the human".into(),
        config: config.as_object().cloned().unwrap_or_default(),
        ..ProfileInput::default()
    }
}

/// The error of a call that is refused with this code.
fn refused<T: Debug>(result: Result<T, ClientError>, code: ErrorCode) -> ApiError {
    let error = refusal(result);
    assert_eq!(error.code, code, "{error:?}");
    error
}

fn words(text: &str) -> ChatSay {
    ChatSay { message: text.to_owned(), idempotency_key: None }
}

async fn verdict(asked: JoinHandle<Verdict>) -> Verdict {
    within("a verdict", asked).await.expect("no panic")
}
