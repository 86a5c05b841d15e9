//! The records of a stored conversation.

use posthaste_core::messaging::message::{Priority, SenderKind};
use posthaste_core::messaging::receive::Entry;
use posthaste_runner::protocol::{ChatMessage, MAIL, TokenUsage, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::models::Thoughts;

/// The tool whose result carries the mail of other agents.
const MAIL_TOOL: &str = "check_inbox";

/// One step of a conversation. The file of a conversation has one a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Record {
    /// A runner was started; the calls of each have numbers of their own.
    Start,
    /// A message for the assistant: its task, or mail.
    Mail(Mail),
    /// The runner was given all mail above by this call.
    Given { call: String },
    /// The model answered.
    Model {
        call: String,
        #[serde(default)]
        content: Option<String>,
        #[serde(default)]
        tool_calls: Vec<ToolCall>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thoughts: Option<Thoughts>,
        #[serde(default)]
        usage: TokenUsage,
        #[serde(default)]
        cost_usd: f64,
    },
    /// What the model used for no answer.
    Paid { usage: TokenUsage, cost_usd: f64 },
    /// A tool answered.
    Tool {
        call: String,
        tool_call_id: String,
        name: String,
        #[serde(default)]
        arguments: Map<String, Value>,
        text: String,
        #[serde(default)]
        is_error: bool,
        /// The mail in the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mail: Vec<u64>,
    },
    /// The human was shown an answer, which closes these messages.
    Said {
        #[serde(default)]
        answers: Vec<u64>,
        /// The key of a result that was shown as a partial answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    /// The assistant asked the human, by this call.
    Asked {
        question: u64,
        #[serde(default)]
        call: String,
        /// The call waits for the answer.
        #[serde(default)]
        blocking: bool,
        /// The beginning of the question.
        #[serde(default)]
        text: String,
    },
    /// The human answered a question on which the assistant waited. The text is the result
    /// of that call.
    Answered {
        question: u64,
        text: String,
        /// The messages of the answer.
        #[serde(default)]
        mail: Vec<u64>,
    },
    /// The last words of the turn for the human, which are about to be sent.
    Saying(Saying),
    /// The hub reminded the assistant.
    Notice { call: String, text: String },
    /// A turn ended.
    Finish {
        call: String,
        #[serde(default)]
        result: Option<String>,
        #[serde(default)]
        failed: Option<String>,
    },
}

/// Words for the human.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saying {
    pub(crate) text: String,
    /// The message that they answer, if it is one.
    #[serde(default)]
    pub(crate) in_reply_to: Option<u64>,
    #[serde(default)]
    pub(crate) metadata: Value,
}

/// A message for the assistant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) seq: u64,
    pub(crate) from: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) text: String,
    /// The human wrote it.
    #[serde(default)]
    pub(crate) human: bool,
    /// It is the task with which the assistant was started.
    #[serde(default)]
    pub(crate) task: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_reply_to: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) urgent: bool,
    /// The question that it answers, which the assistant has asked and not waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
}

/// The part of a message that the model is not shown at once.
struct Rest {
    total_chars: usize,
    next_offset: usize,
}

impl Record {
    /// Returns the messages that stand in this record.
    pub(crate) fn mail(&self) -> &[u64] {
        match self {
            Self::Mail(mail) => std::slice::from_ref(&mail.seq),
            Self::Tool { mail, .. } | Self::Answered { mail, .. } => mail,
            _ => &[],
        }
    }
}

impl Mail {
    pub(crate) fn of(entry: &Entry) -> Self {
        let message = &entry.leased.message;
        Self {
            seq: message.seq.0,
            from: message.from.address.to_string(),
            kind: message.kind.as_str().to_owned(),
            text: entry.text().to_owned(),
            human: message.from.kind == SenderKind::Human,
            task: false,
            label: message.label.clone(),
            in_reply_to: message.in_reply_to.map(|seq| seq.0),
            urgent: message.priority == Priority::Urgent,
            question: None,
        }
    }

    /// Returns so many characters of the text, with the place of the rest.
    fn shown(&self, most: usize) -> (&str, Option<Rest>) {
        match self.text.char_indices().nth(most) {
            None => (&self.text, None),
            Some((end, _)) => {
                let total_chars = most + self.text[end..].chars().count();
                (&self.text[..end], Some(Rest { total_chars, next_offset: most }))
            }
        }
    }

    /// Returns so many characters of the human's text, with a note if there are more.
    pub(crate) fn of_human(&self, most: usize) -> String {
        match self.shown(most) {
            (text, None) => text.to_owned(),
            (text, Some(Rest { total_chars, next_offset })) => format!(
                "{text}\n[posthaste] This message has {total_chars} characters. Read on with \
                 read_messages(id={}, offset={next_offset}).",
                self.seq
            ),
        }
    }

    /// Returns the message as the model sees it, with so many characters of its text: the
    /// human's as it is, an agent's as the result of a tool, which is data.
    pub(crate) fn messages(&self, most: usize) -> Vec<ChatMessage> {
        if self.human {
            let link = self.question.as_ref().map(|question| {
                notice(&format!("The next message of the user answers your question: {question}"))
            });
            let content = self.of_human(most);
            return link.into_iter().chain([ChatMessage::User { content }]).collect();
        }
        let id = format!("{MAIL}{}", self.seq);
        let mut fields = Map::new();
        fields.insert("id".into(), self.seq.into());
        fields.insert("from".into(), self.from.clone().into());
        fields.insert("type".into(), self.kind.clone().into());
        if let Some(label) = &self.label {
            fields.insert("label".into(), label.clone().into());
        }
        if let Some(seq) = self.in_reply_to {
            fields.insert("in_reply_to".into(), seq.into());
        }
        if self.urgent {
            fields.insert("priority".into(), "urgent".into());
        }
        let (text, rest) = self.shown(most);
        fields.insert("message".into(), text.into());
        if let Some(Rest { total_chars, next_offset }) = rest {
            fields.insert("truncated".into(), true.into());
            fields.insert("total_chars".into(), total_chars.into());
            fields.insert("next_offset".into(), next_offset.into());
        }
        let call = ToolCall { id: id.clone(), name: MAIL_TOOL.to_owned(), arguments: Map::new() };
        let content = json!({ "messages": [fields] }).to_string();
        let mut all = vec![
            ChatMessage::Assistant { content: None, tool_calls: vec![call] },
            ChatMessage::Tool { tool_call_id: id, content },
        ];
        if self.task {
            let notice = format!(
                "[posthaste] {} gives you a task. It stands in your inbox, below. Do it; your \
                 final answer is sent to {0} as the result.",
                self.from
            );
            all.insert(0, ChatMessage::User { content: notice });
        }
        all
    }
}

/// Returns a notice of the hub as the model sees it.
pub(crate) fn notice(text: &str) -> ChatMessage {
    ChatMessage::User { content: format!("[posthaste] {text}") }
}
