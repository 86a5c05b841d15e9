//! `rest.md`: the OpenAPI document as a page to read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use posthaste_api::openapi::{self, Call, Subject};
use serde_json::Value;

use super::{check, list, table, text};

/// Types that no call names: what a stream of events sends beside events.
const BESIDE: [&str; 4] = ["ErrorBody", "Reset", "ToolNews", "WritingNews"];

#[test]
fn the_reference_of_rest_is_up_to_date() {
    check("rest.md", &Page::new().written());
}

#[test]
fn every_type_that_the_reference_of_rest_names_is_defined_in_it() {
    let page = Page::new().written();
    let mut links = BTreeSet::new();
    for link in page.split("](#").skip(1) {
        links.insert(link.split(')').next().expect("an anchor").to_owned());
    }
    let headings: Vec<String> = page
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '))
        .map(anchor)
        .collect();
    let open: Vec<_> = links.iter().filter(|link| !headings.contains(link)).collect();
    assert!(open.is_empty(), "{open:?}");
    for name in ["Entry", "To", "MessageRef", "Missing", "Stuck", "AgentStats", "Reset"] {
        assert!(links.contains(&anchor(&heading(name))), "{name} is not there");
    }
}

#[test]
fn the_reference_of_rest_shows_each_call_with_its_request_answer_and_errors() {
    let page = Page::new().written();
    for call in openapi::calls() {
        let title = format!("\n### {} {}\n", call.method, call.path);
        let (_, section) = page.split_once(&title).expect("a section");
        let section = section.split("\n### ").next().expect("its text");
        assert!(section.contains("\n```sh\ncurl"), "{title}: no request");
        assert!(section.contains("\nErrors: "), "{title}: no errors");
    }
}

/// Returns the heading of a type; calls and subjects have other forms.
fn heading(name: &str) -> String {
    format!("Type {name}")
}

/// Returns the anchor that Markdown viewers give to a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

struct Page {
    document: Value,
    text: String,
}

impl Page {
    fn new() -> Self {
        let text = String::from(
            "# REST\n\nMade from the wire types, with the answers of a real hub; a running hub \
             shows the same at `/docs` and as OpenAPI at `/openapi.json`.\n\n",
        );
        Self { document: openapi::document("", true), text }
    }

    fn written(mut self) -> String {
        let introduction = text(&self.document["info"]["description"]);
        self.text.push_str(&introduction);
        self.contents();
        for subject in openapi::subjects() {
            let Subject { name, told, .. } = subject;
            let _ = write!(self.text, "\n## {name}\n\n{told}\n");
            subject.calls().for_each(|call| self.call(call));
        }
        self.types();
        self.text
    }

    fn contents(&mut self) {
        self.text.push_str("\n## All calls\n\n| Call | What for |\n| --- | --- |\n");
        for call in openapi::calls() {
            let name = format!("{} {}", call.method, call.path);
            let _ = writeln!(self.text, "| [{name}](#{}) | {} |", anchor(&name), call.summary);
        }
    }

    fn call(&mut self, call: &Call) {
        let method = call.method.as_str().to_ascii_lowercase();
        let operation = self.document["paths"][call.path][method].clone();
        let whose = operation["description"].as_str().map(|w| format!(" {w}")).unwrap_or_default();
        let (method, path, summary) = (call.method, call.path, call.summary);
        let _ = write!(self.text, "\n### {method} {path}\n\n{summary}.{whose}\n");
        let parameters = list(&operation["parameters"]).map(|p| {
            let mark = if p["required"] == true { "" } else { "?" };
            (format!("{}{mark}", text(&p["name"])), kind(&p["schema"]), text(&p["description"]))
        });
        table(&mut self.text, "Parameter", parameters.collect());
        let body = &operation["requestBody"];
        if body.is_object() {
            let media = &body["content"]["application/json"];
            let optional = if body["required"] == true { "" } else { ", which may be left out" };
            let _ = write!(self.text, "\nBody: {}{optional}\n", kind(&media["schema"]));
        }
        for sample in list(&operation["x-codeSamples"]) {
            let _ = write!(self.text, "\n```sh\n{}\n```\n", text(&sample["source"]));
        }
        for (status, answer) in operation["responses"].as_object().expect("answers") {
            if status.as_str() < "400" {
                self.answer(status, answer);
            }
        }
        let errors = call.errors().into_iter();
        let errors: Vec<_> =
            errors.map(|code| format!("{} `{}`", code.status(), code.as_str())).collect();
        let _ = write!(self.text, "\nErrors: {}\n", errors.join(", "));
    }

    fn answer(&mut self, status: &str, answer: &Value) {
        let media = answer["content"].as_object().and_then(|content| content.iter().next());
        let Some((name, media)) = media else { return };
        let shape = match (kind(&media["schema"]), name.as_str()) {
            (shape, "application/json") => shape,
            (shape, name) => format!("{shape} in `{name}`"),
        };
        let _ = write!(self.text, "\n**{status}** {shape}: {}\n", text(&answer["description"]));
        let example = &media["example"];
        let (language, example) = match (example.as_str(), name.as_str()) {
            (None, _) if example.is_null() => return,
            (None, _) => ("json", serde_json::to_string_pretty(example).expect("JSON")),
            (Some(lines), "application/x-ndjson") => ("json", lines.trim_end().to_owned()),
            (Some(lines), _) => ("text", lines.trim_end().to_owned()),
        };
        let _ = write!(self.text, "\n```{language}\n{example}\n```\n");
    }

    fn types(&mut self) {
        self.text.push_str("\n## Types\n\nA field with a question mark may be absent.\n");
        for name in self.named() {
            let schema = self.document["components"]["schemas"][&name].clone();
            let _ = write!(self.text, "\n### {}\n", heading(&name));
            if let Some(told) = schema["description"].as_str() {
                let _ = write!(self.text, "\n{told}\n");
            }
            shape(&mut self.text, &schema);
        }
    }

    /// Returns every type that a body or an answer contains, directly or within another.
    fn named(&self) -> BTreeSet<String> {
        let mut found: BTreeSet<String> = BESIDE.map(str::to_owned).into();
        let mut open = vec![&self.document["paths"]];
        let schemas = &self.document["components"]["schemas"];
        open.extend(found.iter().map(|name| &schemas[name]));
        while let Some(value) = open.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(name) = name(value)
                        && found.insert(name.to_owned())
                    {
                        open.push(&schemas[name]);
                    }
                    open.extend(fields.values());
                }
                Value::Array(list) => open.extend(list),
                _ => {}
            }
        }
        found
    }
}

/// Writes the fields of a type, or the forms that it may have.
fn shape(page: &mut String, schema: &Value) {
    let fields = fields(schema);
    let has_fields = !fields.is_empty();
    table(page, "Field", fields);
    let forms: Vec<&Value> =
        ["anyOf", "oneOf"].into_iter().flat_map(|key| list(&schema[key])).collect();
    let words: Vec<&str> = forms.iter().flat_map(|form| words(form)).chain(words(schema)).collect();
    if !words.is_empty() {
        let _ = write!(page, "\nOne of `{}`.\n", words.join("`, `"));
        return;
    }
    if forms.is_empty() {
        return;
    }
    let also = if has_fields { "And" } else { "It is" };
    let shapes: Vec<String> = forms
        .iter()
        .map(|form| match &*self::fields(form) {
            [] => kind(form),
            fields => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, kind, _)| format!("`{name}` ({kind})")).collect();
                format!("an object with {}", fields.join(", "))
            }
        })
        .collect();
    let fields_of = if has_fields { " the fields of" } else { "" };
    let _ = write!(page, "\n{also}{fields_of} {}.\n", shapes.join(", or "));
}

/// Returns the words of an enumeration.
fn words(schema: &Value) -> Vec<&str> {
    let one = schema["const"].as_str();
    list(&schema["enum"]).filter_map(Value::as_str).chain(one).collect()
}

/// Returns the name of a type, if a schema names one.
fn name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().and_then(|r| r.rsplit('/').next())
}

/// Returns the type of a value, with a link.
fn kind(schema: &Value) -> String {
    if let Some(name) = name(schema) {
        return format!("[{name}](#{})", anchor(&heading(name)));
    }
    for key in ["anyOf", "oneOf"] {
        if schema[key].is_array() {
            let all: Vec<String> = list(&schema[key]).map(kind).collect();
            return all.join(" or ");
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        several => list(several).filter_map(Value::as_str).collect(),
    };
    let told = types.iter().map(|one| match *one {
        "array" => format!("list of {}", kind(&schema["items"])),
        other => other.to_owned(),
    });
    match types.is_empty() {
        true => "anything".to_owned(),
        false => told.collect::<Vec<_>>().join(" or "),
    }
}

fn fields(schema: &Value) -> Vec<(String, String, String)> {
    let needed: Vec<&str> = list(&schema["required"]).filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields
        .map(|(name, field)| {
            let mark = if needed.contains(&name.as_str()) { "" } else { "?" };
            (format!("{name}{mark}"), kind(field), text(&field["description"]))
        })
        .collect()
}
