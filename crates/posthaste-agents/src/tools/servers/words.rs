//! The result of an MCP server's tool, as a text for the model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

const UNKNOWN: &str = "[content of an unknown kind, which is not shown]";

/// Returns the text of a result, of little more than so many bytes.
pub(super) fn text_of(result: &CallToolResult, most: usize) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut room = most;
    for (at, block) in result.content.iter().enumerate() {
        if room == 0 {
            parts.push(format!("[{} more parts were left out]", result.content.len() - at));
            break;
        }
        let part = block_text(block, room);
        room = room.saturating_sub(part.len());
        parts.push(part);
    }
    match &result.structured_content {
        Some(value) if parts.is_empty() => cut(&value.to_string(), most),
        _ if parts.is_empty() => "(the tool returned nothing)".to_owned(),
        _ => parts.join("\n"),
    }
}

fn block_text(block: &ContentBlock, most: usize) -> String {
    match block {
        ContentBlock::Text(text) => cut(&text.text, most),
        ContentBlock::Image(image) => binary("an image", Some(&image.mime_type), image.data.len()),
        ContentBlock::Audio(audio) => binary("a sound", Some(&audio.mime_type), audio.data.len()),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[the resource {}]\n{}", short(uri), cut(text, most))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let what = format!("the resource {}", short(uri));
                binary(&what, mime_type.as_deref(), blob.len())
            }
            _ => UNKNOWN.to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            format!("[a link to the resource {}: {}]", short(&link.name), short(&link.uri))
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// Describes content that is no text; `encoded` is its length in Base64.
fn binary(what: &str, mime: Option<&str>, encoded: usize) -> String {
    let kind = mime.map(|mime| format!(" ({})", short(mime))).unwrap_or_default();
    format!("[{what}{kind}, about {} bytes, which is not shown]", encoded / 4 * 3)
}

fn short(text: &str) -> String {
    crate::conversation::one_line(text, 300)
}

/// Returns the beginning of a text, with a note of what is missing.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n[{} more bytes were dropped]", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn result(of: Value) -> CallToolResult {
        serde_json::from_value(of).expect("a result")
    }

    #[test]
    fn texts_are_joined_and_everything_else_is_described() {
        let text = text_of(
            &result(json!({ "content": [
                { "type": "text", "text": "one" },
                { "type": "image", "data": "QUJD", "mimeType": "image/png" },
                { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
                { "type": "resource_link", "uri": "file:///b", "name": "b" },
                { "type": "text", "text": "two" },
            ] })),
            1_000,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "one");
        assert!(lines[1].contains("an image (image/png), about 3 bytes"), "{text}");
        assert_eq!(lines[2..4], ["[the resource file:///a]", "inside"]);
        assert!(lines[4].contains("file:///b"), "{text}");
        assert_eq!(lines[5], "two");
    }

    #[test]
    fn a_result_of_any_size_is_bounded_and_says_so() {
        let long = "ä".repeat(1_000);
        let block = json!({ "type": "text", "text": long });
        let text = text_of(&result(json!({ "content": [block, block] })), 101);
        assert!(text.len() < 300 && text.contains("1900 more bytes"), "{text}");
        assert!(text.contains("1 more parts"), "{text}");
    }

    #[test]
    fn a_result_without_blocks_shows_its_structure_or_says_that_it_is_empty() {
        let of = json!({ "content": [], "structuredContent": { "sum": 7 } });
        assert_eq!(text_of(&result(of), 100), r#"{"sum":7}"#);
        assert!(text_of(&result(json!({ "content": [] })), 100).contains("nothing"));
    }
}
