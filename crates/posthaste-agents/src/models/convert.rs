//! Our conversation in genai's words, and its answers in ours.

use std::collections::{HashMap, HashSet};

use genai::chat::{
    ChatMessage as Said, ChatRequest, ContentPart, MessageContent, StreamEnd, Tool,
    ToolCall as Called, ToolResponse,
};
use posthaste_runner::protocol::{ChatMessage, ToolCall};
use serde_json::{Map, Value};

use super::frames::{Frames, Tokens};
use super::{ModelConfig, ModelReply, ModelRequest, ModelUsage, Provider, Thoughts};

/// Stands for arguments that are no JSON object, so that the model can be told.
const UNREADABLE: &str = "_unreadable";
/// Stand for a text without a word, which providers refuse.
const EMPTY_MESSAGE: &str = "(an empty message)";
const EMPTY_RESULT: &str = "(an empty result)";
const MILLION: f64 = 1_000_000.0;

/// Makes the request for genai. Providers want turns to take turns: what the assistant said
/// in several messages is one, and so are the results of its calls.
pub(super) fn request(request: &ModelRequest, model: &ModelConfig) -> ChatRequest {
    let mut mended = Mended::new(request, model.provider);
    // Some providers want the name of the tool beside its result.
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut systems: Vec<&str> = Vec::new();
    let mut turns: Vec<Turn> = Vec::new();
    for message in &request.messages {
        match message {
            ChatMessage::System { content } => {
                systems.extend(Some(content.as_str()).filter(|text| !is_blank(text)));
            }
            ChatMessage::User { content } => {
                turns.push(Turn::User(worded(content, EMPTY_MESSAGE)));
            }
            ChatMessage::Assistant { content, tool_calls } => {
                let text = content.as_deref().filter(|text| !is_blank(text));
                if text.is_none() && tool_calls.is_empty() {
                    continue;
                }
                names.extend(tool_calls.iter().map(|call| (&*call.id, &*call.name)));
                let thoughts = tool_calls.first().and_then(|call| request.thoughts.get(&call.id));
                let thoughts = thoughts.filter(|thoughts| thoughts.is_of(&model.model));
                if !matches!(turns.last(), Some(Turn::Assistant { calls, .. }) if calls.is_empty())
                {
                    turns.push(Turn::Assistant {
                        thoughts: Vec::new(),
                        text: String::new(),
                        calls: Vec::new(),
                    });
                }
                if let Some(Turn::Assistant { thoughts: known, text: all, calls }) =
                    turns.last_mut()
                {
                    known.extend(thoughts.into_iter().flat_map(Thoughts::parts));
                    if let Some(text) = text {
                        if !all.is_empty() {
                            all.push_str("\n\n");
                        }
                        all.push_str(text);
                    }
                    for call in tool_calls {
                        let signed = match thoughts {
                            Some(thoughts) => thoughts.signed(called(call)),
                            None => called(call),
                        };
                        let (call_id, fn_name) = (mended.id(&call.id), mended.name(&call.name));
                        calls.push(Called { call_id, fn_name, ..signed });
                    }
                }
            }
            ChatMessage::Tool { tool_call_id, content } => {
                let content = worded(content, EMPTY_RESULT);
                let mut result = ToolResponse::new(mended.id(tool_call_id), content);
                if let Some(name) = names.get(tool_call_id.as_str()) {
                    result = result.with_fn_name(mended.name(name));
                }
                match turns.last_mut() {
                    // In Ollama's format a message has room for one.
                    Some(Turn::Results(all)) if model.provider != Provider::Ollama => {
                        all.push(result)
                    }
                    _ => turns.push(Turn::Results(vec![result])),
                }
            }
        }
    }
    let tools: Vec<Tool> = request
        .tools
        .iter()
        .map(|tool| {
            Tool::new(tool.name.clone())
                .with_description(tool.description.clone())
                .with_schema(tool.input_schema.clone())
        })
        .collect();
    let mut asked = ChatRequest::new(turns.into_iter().map(Said::from).collect());
    if !systems.is_empty() {
        asked = asked.with_system(systems.join("\n\n"));
    }
    match tools.is_empty() {
        true => asked,
        false => asked.with_tools(tools),
    }
}

/// The ids and names of calls, in a form that every provider takes back. Models call tools
/// that they do not have, by names that nobody takes; some providers make ids that others
/// refuse.
struct Mended<'a> {
    tools: HashSet<&'a str>,
    /// Gemini takes every id back. genai knows those that it made up, and does not send them.
    keeps_ids: bool,
    /// Each id of the conversation, and what stands for it.
    ids: HashMap<&'a str, String>,
    taken: HashSet<String>,
}

/// The longest id and name that every provider takes.
const LONGEST_ID: usize = 40;
const LONGEST_NAME: usize = 64;

impl<'a> Mended<'a> {
    fn new(request: &'a ModelRequest, provider: Provider) -> Self {
        let tools = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let good = request.call_ids().into_iter().filter(|id| is_plain(id, LONGEST_ID));
        let (ids, taken) = (HashMap::new(), good.map(str::to_owned).collect());
        Self { tools, keeps_ids: provider == Provider::Gemini, ids, taken }
    }

    fn id(&mut self, id: &'a str) -> String {
        if self.keeps_ids || is_plain(id, LONGEST_ID) {
            return id.to_owned();
        }
        let Self { ids, taken, .. } = self;
        let mend = || {
            let plain = plain(id, LONGEST_ID - 6);
            let numbered = (0_u32..).map(|n| format!("{plain}_{n}"));
            let mut free = numbered.filter(|id| !taken.contains(id));
            free.next().unwrap_or_else(|| plain.clone())
        };
        let mended = ids.entry(id).or_insert_with(mend).clone();
        taken.insert(mended.clone());
        mended
    }

    fn name(&self, name: &str) -> String {
        match is_plain(name, LONGEST_NAME) || self.tools.contains(name) {
            true => name.to_owned(),
            false => plain(name, LONGEST_NAME),
        }
    }
}

fn is_plain(word: &str, most: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !word.is_empty() && word.len() <= most && word.bytes().all(is_plain)
}

/// Returns a word of at most this many letters, digits, `_` and `-`.
fn plain(word: &str, most: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let word: String = word.chars().take(most).map(plain).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn worded(text: &str, otherwise: &str) -> String {
    if is_blank(text) { otherwise.to_owned() } else { text.to_owned() }
}

/// Several messages that a provider sees as one.
enum Turn {
    User(String),
    Assistant { thoughts: Vec<ContentPart>, text: String, calls: Vec<Called> },
    Results(Vec<ToolResponse>),
}

impl From<Turn> for Said {
    fn from(turn: Turn) -> Self {
        match turn {
            Turn::User(text) => Self::user(text),
            Turn::Assistant { thoughts: mut parts, text, calls } => {
                parts.extend((!text.is_empty()).then_some(ContentPart::Text(text)));
                parts.extend(calls.into_iter().map(ContentPart::ToolCall));
                Self::assistant(MessageContent::from_parts(parts))
            }
            Turn::Results(all) => Self::from(all),
        }
    }
}

fn called(call: &ToolCall) -> Called {
    Called {
        call_id: call.id.clone(),
        fn_name: call.name.clone(),
        fn_arguments: Value::Object(call.arguments.clone()),
        thought_signatures: None,
    }
}

/// Returns what an answer used, and what that costs.
pub(super) fn usage(tokens: Tokens, model: &ModelConfig) -> ModelUsage {
    let Tokens { input, output, .. } = tokens;
    let cached = tokens.cached.min(input);
    let cost_usd = model.price.as_ref().map(|price| {
        let of_cached = price.cached_input.unwrap_or(price.input);
        ((input - cached) as f64 * price.input
            + cached as f64 * of_cached
            + output as f64 * price.output)
            / MILLION
    });
    ModelUsage { input_tokens: input, output_tokens: output, cost_usd }
}

/// Makes our answer of genai's and of what was collected in its place.
pub(super) fn reply(
    end: StreamEnd,
    frames: &Frames,
    model: &ModelConfig,
    known: &HashSet<&str>,
) -> Result<ModelReply, String> {
    let usage = usage(frames.tokens(), model);
    let parts = match frames.reads() {
        true => frames.parts(),
        false => end.captured_content.map(MessageContent::into_parts).unwrap_or_default(),
    };
    let (mut text, mut tool_calls) = (String::new(), Vec::new());
    let (mut thoughts, mut signatures) = (Thoughts::new(&model.model), Vec::new());
    for part in parts {
        match part {
            ContentPart::Text(more) => text.push_str(&more),
            ContentPart::ToolCall(mut call) => {
                signatures.push(call.thought_signatures.take());
                tool_calls.push(read_call(call)?);
            }
            ContentPart::ThoughtSignature(_)
            | ContentPart::ReasoningContent(_)
            | ContentPart::Custom(_) => thoughts.add(&part),
            ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
        }
    }
    // A provider may leave ids out, or give the same one twice, also in another answer.
    for (number, at) in (0..tool_calls.len()).enumerate() {
        let id = tool_calls[at].id.clone();
        if id.is_empty()
            || known.contains(id.as_str())
            || tool_calls[..at].iter().any(|call: &ToolCall| call.id == id)
        {
            tool_calls[at].id = format!("call_{:08x}_{number}", rand::random::<u32>());
        }
    }
    for (call, signatures) in tool_calls.iter().zip(signatures) {
        signatures.into_iter().for_each(|signatures| thoughts.sign(&call.id, signatures));
    }
    let thoughts = thoughts.some().filter(|_| !tool_calls.is_empty());
    let content = Some(text).filter(|text| !text.is_empty());
    Ok(ModelReply { content, tool_calls, thoughts, usage })
}

fn read_call(call: Called) -> Result<ToolCall, String> {
    if call.fn_name.is_empty() {
        return Err("it called a tool without a name".to_owned());
    }
    let arguments = match call.fn_arguments {
        Value::Object(arguments) => arguments,
        Value::Null => Map::new(),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(arguments)) => arguments,
            Ok(Value::Null) => Map::new(),
            _ if text.trim().is_empty() => Map::new(),
            _ => Map::from_iter([(UNREADABLE.to_owned(), Value::String(text))]),
        },
        other => Map::from_iter([(UNREADABLE.to_owned(), Value::String(other.to_string()))]),
    };
    Ok(ToolCall { id: call.call_id, name: call.fn_name, arguments })
}
