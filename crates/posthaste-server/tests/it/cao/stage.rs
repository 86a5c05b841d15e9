//! A house in which CAO's terminals can be made, and what they say to the hub.

use std::sync::Arc;

use posthaste_api::Client;
use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_core::ports::Start;
use serde_json::{Value, json};

use crate::house::{House, until, within};
use crate::staff::{self, Staff};

/// A house with a launcher, and calls without a token: the tests run as the hub's user.
pub(super) struct Stage {
    pub(super) house: House,
    pub(super) staff: Arc<Staff>,
}

pub(super) async fn stage() -> Stage {
    let (house, staff) = staff::house().await;
    Stage { house, staff }
}

/// The query of an echo agent.
pub(super) const MOCK: &str = "agent_profile=developer&provider=mock_cli";

impl Stage {
    pub(super) async fn call(&self, call: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.house.call(call, None, &body).await
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call(&format!("GET {path}"), &Value::Null).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Makes a session with an echo agent, and returns its terminal.
    pub(super) async fn session(&self, name: &str, body: Value) -> Value {
        let call = format!("POST /sessions?{MOCK}&session_name={name}");
        let (status, terminal) = self.call(&call, &body).await;
        assert_eq!(status, 201, "{terminal}");
        terminal
    }

    /// Adds an echo agent to a session, made by this terminal.
    pub(super) async fn add(&self, session: &str, caller: &str, body: Value) -> Value {
        let call =
            format!("POST /sessions/{session}/terminals?{MOCK}&caller_id={caller}&defer_init=true");
        let (status, terminal) = self.call(&call, &body).await;
        assert_eq!(status, 201, "{terminal}");
        terminal
    }

    pub(super) async fn becomes(&self, id: &str, status: &str) {
        until(&format!("{id} is {status}"), async || {
            self.get(&format!("/terminals/{id}")).await["status"] == status
        })
        .await;
    }

    /// The worker behind a terminal, once it runs.
    pub(super) async fn works(&self, id: &str) -> (Start, Client) {
        let start = within("the worker starts", self.staff.works(id)).await;
        let client = self.house.client(&start.token.0);
        (start, client)
    }

    /// Lets a worker answer the work that it was given last.
    pub(super) async fn reports(&self, id: &str, text: &str) {
        let (_, worker) = self.works(id).await;
        let open = async || {
            let assignments = self.house.instance(id).await.assignments;
            assignments.into_iter().find(|given| given.status == "open")
        };
        until("there is work", async || open().await.is_some()).await;
        let given = open().await.expect("open");
        let result = SendRequest {
            kind: Some("result".into()),
            in_reply_to: Some(MessageRef::Seq(given.task)),
            ..SendRequest::new(given.by, text)
        };
        worker.send(&result).await.expect("accepted");
    }
}

pub(super) fn id(terminal: &Value) -> String {
    terminal["id"].as_str().expect("an id").to_owned()
}

pub(super) fn message(text: &str) -> Value {
    json!({ "initial_message": text })
}
