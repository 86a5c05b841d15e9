//! How a refusal speaks, whatever was wrong.

use serde_json::Value;

use crate::house::{House, OPERATOR};

/// Every call of the document with whatever its body and its query do not take.
fn misfits(document: &Value) -> Vec<(String, String)> {
    let at = |reference: &Value| {
        let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        name.map_or(reference.clone(), |name| document["components"]["schemas"][name].clone())
    };
    let mut misfits = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let place =
            path.replace("{id}", "4711").replace("{name}", "main").replace("{event}", "stop");
        for (method, call) in methods.as_object().expect("methods") {
            let call_of = |query: &str| format!("{} {place}{query}", method.to_uppercase());
            for parameter in call["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().expect("a name");
                for value in ["", "x", "-1", "1.5", "99999999999999999999", "true", "[]"] {
                    let now =
                        if path == "/v1/inbox" && name != "timeout" { "&timeout=0" } else { "" };
                    misfits.push((call_of(&format!("?{name}={value}{now}")), String::new()));
                }
            }
            let body = at(&call["requestBody"]["content"]["application/json"]["schema"]);
            if body.is_null() {
                continue;
            }
            let known = body["properties"].as_object().cloned().unwrap_or_default();
            for value in ["7", "-1", "1.5", "1e99", "true", "null", "\"x\"", "[]", "[[]]", "{}"] {
                misfits.push((call_of(""), value.to_owned()));
                let fields = known.keys().map(String::as_str).chain(["unknown"]);
                misfits
                    .extend(fields.map(|name| (call_of(""), format!("{{\"{name}\": {value}}}"))));
            }
        }
    }
    misfits
}

#[tokio::test]
async fn no_refusal_speaks_of_the_hubs_own_types_and_each_says_what_to_do() {
    let house = House::new().await;
    let document = house.call("GET /openapi.json", None, "").await.1;
    let ours = ["struct", "enum", "variant", "deserialize", "u8", "u16", "u32", "u64", "usize"];
    let ours = [&ours[..], &["i32", "i64", "f32", "f64", "bool", "untagged", "literal"]].concat();
    let mut refused = 0;
    for (call, body) in misfits(&document) {
        let (status, answer) = house.call(&call, Some(OPERATOR), &body).await;
        if status < 400 {
            continue;
        }
        refused += 1;
        let error = &answer["error"];
        let message =
            error["message"].as_str().unwrap_or_else(|| panic!("{call} {body}: {answer}"));
        let mut words = message.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let leaked = words.find(|word| ours.contains(word));
        assert_eq!(leaked, None, "{call} {body}: {message}");
        assert!(!message.contains("target type"), "{call} {body}: {message}");
        assert!(error["hint"].is_string(), "{call} {body}: {answer}");
    }
    assert!(refused > 100, "{refused}");
}
