//! The items of a turn, as the hub shows them.

use serde_json::Value;

use crate::conversation::{ToolState, ToolUse, one_line};

/// The items that Codex makes of its model's output. An item of a kind that is not here
/// may come before the model was asked.
const OF_THE_MODEL: [&str; 11] = [
    "agentMessage",
    "collabAgentToolCall",
    "commandExecution",
    "dynamicToolCall",
    "fileChange",
    "imageGeneration",
    "imageView",
    "mcpToolCall",
    "plan",
    "reasoning",
    "webSearch",
];

/// Number of characters of a line about a tool.
const LINE: usize = 200;

pub(super) fn is_of_the_model(item: &Value) -> bool {
    item["type"].as_str().is_some_and(|kind| OF_THE_MODEL.contains(&kind))
}

/// Returns the use of a tool that just began; `None` for other items.
pub(super) fn began(item: &Value) -> Option<ToolUse> {
    let (name, detail) = tool(item)?;
    Some(ToolUse { id: text(&item["id"]), name, detail, state: ToolState::Began })
}

/// Returns the use of a tool that just ended; `None` for other items.
pub(super) fn ended(item: &Value) -> Option<ToolUse> {
    let (name, detail) = tool(item)?;
    let failed = matches!(item["status"].as_str(), Some("failed" | "declined"));
    let result = match item["type"].as_str() {
        Some("commandExecution") => text(&item["aggregatedOutput"]),
        Some("mcpToolCall") if item["error"].is_object() => text(&item["error"]["message"]),
        Some("mcpToolCall") => texts(&item["result"]["content"]),
        _ => String::new(),
    };
    let detail = if result.trim().is_empty() { detail } else { one_line(&result, LINE) };
    let state = if failed { ToolState::Failed } else { ToolState::Done };
    Some(ToolUse { id: text(&item["id"]), name, detail, state })
}

/// Returns the name of a tool and a line about its call.
fn tool(item: &Value) -> Option<(String, String)> {
    let plain = |name: &str, detail: &str| Some((name.to_owned(), one_line(detail, LINE)));
    match item["type"].as_str()? {
        "commandExecution" => plain("Bash", &command(item)),
        "fileChange" => plain("Edit", &changes(item).join(", ")),
        "mcpToolCall" => {
            let name = mcp_name(&text(&item["server"]), &text(&item["tool"]));
            plain(&name, &item["arguments"].to_string())
        }
        "dynamicToolCall" => plain(&text(&item["tool"]), &item["arguments"].to_string()),
        "collabAgentToolCall" => plain(&text(&item["tool"]), &text(&item["prompt"])),
        "webSearch" => plain("WebSearch", &text(&item["query"])),
        "imageView" => plain("ViewImage", &text(&item["path"])),
        _ => None,
    }
}

pub(super) fn mcp_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// Returns the command of an item or a request, without the shell that runs it.
pub(super) fn command(of: &Value) -> String {
    let whole = text(&of["command"]);
    let Some((_, inner)) = whole.split_once(" -lc ").filter(|(shell, _)| is_shell(shell)) else {
        return whole;
    };
    let quoted = inner.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    match quoted {
        Some(quoted) if !quoted.contains('\'') => quoted.to_owned(),
        None if !inner.contains(['\'', '"', '\\']) => inner.to_owned(),
        _ => whole,
    }
}

fn is_shell(word: &str) -> bool {
    matches!(word.rsplit('/').next(), Some("bash" | "zsh" | "sh")) && !word.contains(' ')
}

/// Returns the files that an item changes, each with what becomes of it.
pub(super) fn changes(item: &Value) -> Vec<String> {
    let changes = item["changes"].as_array().into_iter().flatten();
    let each = changes.map(|change| {
        let kind = change["kind"]["type"].as_str().unwrap_or("change");
        let path = text(&change["path"]);
        match change["kind"]["move_path"].as_str() {
            Some(to) => format!("move {path} to {to}"),
            None => format!("{kind} {path}"),
        }
    });
    each.collect()
}

/// Returns the texts of a list of texts, or of a list of blocks with a text.
pub(super) fn texts(list: &Value) -> String {
    let each = list.as_array().into_iter().flatten();
    let each = each.filter_map(|block| block.as_str().or_else(|| block["text"].as_str()));
    each.collect::<Vec<_>>().join("\n")
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
