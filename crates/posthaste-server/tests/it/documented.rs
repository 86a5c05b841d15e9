//! Compares what a hub answers with what its OpenAPI document says.

use std::sync::LazyLock;

use serde_json::Value;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| posthaste_api::openapi::document("", true));

/// What is served and is no call of the document: the parts of its page, and MCP.
const OTHERS: [&str; 4] = ["/docs/", "/docs/page.js", "/docs/page.css", "/mcp"];

/// What the document says of a path, if it has it: the methods.
fn methods(path: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    let theirs: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let ours: Vec<&str> = template.split('/').collect();
        // The router takes nothing for a variable part, too, unless it is the last.
        let is_last_and_empty = theirs.last().is_some_and(|part| part.is_empty());
        let same = |(our, their): (&&str, &&str)| our == their || our.starts_with('{');
        ours.len() == theirs.len() && !is_last_and_empty && ours.iter().zip(&theirs).all(same)
    };
    // A path that stands there in so many words comes before one with a variable part.
    paths.get(path).or_else(|| {
        let mut found = paths.iter().filter(|(template, _)| fits(template));
        found.next().map(|(_, methods)| methods)
    })
}

/// Fails unless the document says that this call can answer so.
pub(crate) fn assert_documented(call: &str, status: u16, body: &Value) {
    let (method, target) = call.split_once(' ').expect("a method and a target");
    let path = target.split('?').next().expect("a path");
    if OTHERS.contains(&path) {
        return;
    }
    // HEAD is GET without the body.
    let method = if method == "HEAD" { "GET" } else { method };
    let Some(methods) = methods(path) else {
        // No such path; or a page of another origin, which is not told.
        assert!([403, 404, 503].contains(&status), "{call}: {status} {body}");
        return;
    };
    let operation = &methods[method.to_ascii_lowercase()];
    if operation.is_null() {
        assert!([403, 405, 503].contains(&status), "{call}: {status} {body}");
        return;
    }
    let response = &operation["responses"][status.to_string()];
    assert!(response.is_object(), "{call}: the document has no {status}: {body}");
    if status >= 400 {
        let schema = &response["content"]["application/json"]["schema"];
        let codes = schema["properties"]["error"]["properties"]["code"]["enum"].as_array();
        let codes = codes.expect("the codes of an error");
        let code = &body["error"]["code"];
        assert!(codes.contains(code), "{call}: the document has no {status} {code}: {body}");
    }
}
