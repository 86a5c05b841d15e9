//! The two tools of the loop: an answer while the work goes on, and a question.

use std::sync::Arc;
use std::time::Instant;

use posthaste_core::address::Address;
use posthaste_core::messaging::message::{Kind, Seq};
use posthaste_core::orchestration::Utterance;
use posthaste_runner::protocol::{ToolReply, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Assistant;
use super::dialogue::{listed, referred};
use super::record::{Mail, Record};

/// Number of characters of a question that stand before its answer.
const QUOTED: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopTool {
    Respond,
    Ask,
}

/// Returns the tool of this name, in the words of seed 002 or of the MCP door.
pub(super) fn named(name: &str) -> Option<LoopTool> {
    match name {
        "respondToUser" | "respond_to_user" => Some(LoopTool::Respond),
        "askUser" | "ask_user" => Some(LoopTool::Ask),
        _ => None,
    }
}

pub(super) fn specs() -> Vec<ToolSpec> {
    let spec = |name: &str, description: &str, input_schema| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
    };
    vec![
        spec(
            "respondToUser",
            "Show the user an answer now and go on working. Use it when one of several requests \
             is done. The result says which messages are still open.",
            json!({
                "type": "object",
                "properties": {
                    "message": { "type": "string", "description": "the answer, whole" },
                    "inReplyTo": {
                        "type": "string",
                        "description": "the number of the message that it answers, or a quote of it"
                    }
                },
                "required": ["message"]
            }),
        ),
        spec(
            "askUser",
            "Ask the user. Waits for the answer; with blocking=false you go on at once, and the \
             answer arrives as a message.",
            json!({
                "type": "object",
                "properties": {
                    "question": { "type": "string" },
                    "blocking": { "type": "boolean", "description": "default true" },
                    "options": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "answers to choose from"
                    }
                },
                "required": ["question"]
            }),
        ),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Respond {
    message: String,
    #[serde(default, rename = "inReplyTo", alias = "in_reply_to")]
    in_reply_to: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    question: String,
    #[serde(default)]
    blocking: Option<bool>,
    #[serde(default)]
    options: Vec<String>,
}

impl Assistant {
    pub(super) async fn call_loop_tool(
        self: &Arc<Self>,
        tool: LoopTool,
        key: &str,
        arguments: Map<String, Value>,
    ) -> ToolReply {
        let told = match tool {
            LoopTool::Respond => match serde_json::from_value(Value::Object(arguments)) {
                Ok(args) => self.respond(key, args).await,
                Err(error) => Err(format!("respondToUser: {error}")),
            },
            LoopTool::Ask => match serde_json::from_value(Value::Object(arguments)) {
                Ok(args) => self.ask(key, args).await,
                Err(error) => Err(format!("askUser: {error}")),
            },
        };
        match told {
            Ok(text) => ToolReply::of(text, false),
            Err(why) => ToolReply::of(why, true),
        }
    }

    async fn respond(&self, key: &str, args: Respond) -> Result<String, String> {
        if args.message.trim().is_empty() {
            return Err("respondToUser: the message is empty".to_owned());
        }
        let mut state = self.state.lock().await;
        let reference = args.in_reply_to.map(|value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        });
        let open = state.dialogue.open();
        let answered = reference.as_deref().and_then(|text| referred(&open, text)).cloned();
        let answers: Vec<u64> = answered.iter().map(|mail| mail.seq).collect();
        let mut metadata = json!({ "partial": true, "answers": answers });
        if let (Some(quote), None) = (&reference, &answered) {
            metadata["quote"] = crate::conversation::one_line(quote, 200).into();
        }
        let to = answered.as_ref().map(|mail| mail.seq);
        let said = self.say(key, "answer", &args.message, to, &metadata).await;
        said.map_err(|fault| format!("it was not shown: {}", fault.message))?;
        state.keep(vec![Record::Said { answers, partial: None }]).await;
        let left = state.dialogue.open();
        let mut told = "delivered".to_owned();
        if let Some(mail) = &answered {
            told.push_str(&format!("\nanswered:\n{}", listed(&[mail])));
        }
        if !left.is_empty() {
            told.push_str(&format!("\nstill open:\n{}", listed(&left)));
        }
        Ok(told)
    }

    async fn ask(&self, key: &str, args: Ask) -> Result<String, String> {
        if args.question.trim().is_empty() {
            return Err("askUser: the question is empty".to_owned());
        }
        let blocking = args.blocking != Some(false);
        let mut metadata = json!({ "blocking": blocking });
        if !args.options.is_empty() {
            metadata["options"] = args.options.into();
        }
        let text = crate::conversation::one_line(&args.question, QUOTED);
        // An earlier hub may have asked.
        let known = self.state.lock().await.dialogue.asked_by(key);
        let question = match known {
            Some(question) => question,
            None => {
                let said = Utterance {
                    to: Address::Human,
                    kind: Kind::QUESTION,
                    text: args.question,
                    in_reply_to: None,
                    metadata: metadata.to_string(),
                    key: format!("runner:{}:{key}", self.who),
                };
                let sent = self.hub.utter(self.who, said).await;
                let question = sent.map_err(|error| format!("it was not asked: {error}"))?.seq.0;
                let asked = Record::Asked { question, call: key.to_owned(), blocking, text };
                let mut state = self.state.lock().await;
                state.keep(vec![asked]).await;
                question
            }
        };
        match blocking {
            false => Ok("question sent, continuing".to_owned()),
            true => self.wait_for_answer(Seq(question)).await,
        }
    }

    /// Waits for the answer to a question, and stores it as the result of the call.
    async fn wait_for_answer(&self, question: Seq) -> Result<String, String> {
        // An earlier hub may have taken the answer and been killed.
        let answer = |record: &Record| match record {
            Record::Answered { question: of, text, mail } if *of == question.0 => {
                Some((text.clone(), mail.clone()))
            }
            _ => None,
        };
        let known = self.state.lock().await.dialogue.records().iter().find_map(answer);
        if let Some((text, mail)) = known {
            self.stored(&mail).await;
            return Ok(text);
        }
        let asked_at = Instant::now();
        let batch = self.hub.answer_of_human(self.who, question).await;
        let all: Vec<Mail> = batch.mail.iter().map(Mail::of).collect();
        let mail: Vec<u64> = all.iter().map(|mail| mail.seq).collect();
        let most = self.message_chars();
        let texts: Vec<String> = all.iter().map(|mail| mail.of_human(most)).collect();
        let text = texts.join("\n");
        // The text reaches the model as the result of this call; the record keeps it from
        // being asked for twice.
        let mut state = self.state.lock().await;
        // A person's time is not the assistant's.
        state.began += asked_at.elapsed();
        let answered =
            Record::Answered { question: question.0, text: text.clone(), mail: mail.clone() };
        state.keep(vec![answered]).await;
        drop(state);
        batch.handed.names_nothing();
        batch.handed.written();
        self.stored(&mail).await;
        Ok(text)
    }
}
