//! The whole interface as one OpenAPI document, made from the types.
//!
//! A [`Call`] stands beside its wire types, and [`subjects`] is the table of all: the
//! server has no route that is not in it. Shapes and explanations come from the types, what a
//! person reads first from `introduction.md`, and the examples from `examples.json`,
//! which a test of the server records from a real hub.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use self::call::Shape;
use crate::error::ErrorBody;
use crate::events::{Reset, ToolNews, WritingNews};

mod call;
mod calls;
mod examples;
mod introduction;

pub use call::{Call, Method, Who};
pub(crate) use call::{Target, call_table, delete, get, json, of, patch, pieces, post, put, text};
pub use calls::{Subject, calls, subjects};
pub use examples::{Example, Token};

/// Two generators: a field of a request is needed if nothing stands in for it, a field of
/// an answer is always there unless it may be left out.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            answers: settings.for_serialize().into_generator(),
        }
    }

    /// All types by name. None has two shapes: a test looks.
    fn take(mut self) -> Map<String, Value> {
        let mut schemas = self.requests.take_definitions(true);
        schemas.extend(self.answers.take_definitions(true));
        schemas.values_mut().for_each(tidy);
        schemas
    }
}

/// The document, OpenAPI 3.1; with the routes of CAO where the hub has them.
pub fn document(version: &str, cao: bool) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let subjects = || subjects().iter().filter(|subject| cao || subject.name != calls::CAO);
    for subject in subjects() {
        for call in subject.calls() {
            let mut operation = operation(call, &mut schemas);
            operation["tags"] = json!([subject.name]);
            let path = paths.entry(call.path).or_insert_with(|| json!({}));
            path[call.method.as_str().to_ascii_lowercase()] = operation;
        }
    }
    // What a stream of events can hold beside events.
    schemas.answers.subschema_for::<Reset>();
    schemas.answers.subschema_for::<ToolNews>();
    schemas.answers.subschema_for::<WritingNews>();
    schemas.answers.subschema_for::<ErrorBody>();
    let tags: Vec<Value> = subjects()
        .map(|subject| json!({ "name": subject.name, "description": subject.told }))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Posthaste",
            "version": version,
            "summary": "The post office for AI agents: addresses, durable mailboxes, and proof of delivery.",
            "description": introduction::text(),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.take(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An agent's token from POST /v1/join or POST /v1/instances, or the operator's from the file operator.token in the data folder.",
                },
            },
        },
    })
}

fn operation(call: &Call, schemas: &mut Schemas) -> Value {
    let examples: Vec<&Example> = examples::of(call).collect();
    let mut parameters: Vec<Value> = Vec::new();
    if let (Some(told), Some(name)) = (call.part, call.part_name()) {
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "description": told,
            "schema": { "type": "string" },
        }));
    }
    if let Some(query) = call.query {
        parameters.extend(query_parameters(query, &mut schemas.requests));
    }
    for parameter in &mut parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        let given = examples.iter().find_map(|example| match parameter["in"].as_str() {
            Some("path") => example.part.clone().map(Value::from),
            _ => example.query.get(name).cloned(),
        });
        if let Some(given) = given {
            parameter["example"] = given;
        }
    }
    let mut operation = json!({
        "operationId": call.id(),
        "summary": call.summary,
        "responses": responses(call, &examples, &mut schemas.answers),
    });
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = call.body {
        let schema = (body.shape)(&mut schemas.requests);
        let mut media = json!({ "schema": schema });
        if let Some(example) = examples.iter().find_map(|example| example.body.as_ref()) {
            media["example"] = example.clone();
        }
        operation["requestBody"] =
            json!({ "required": body.required, "content": { "application/json": media } });
    }
    if let Some(whose) = call.who.told() {
        operation["description"] = whose.into();
        operation["security"] = json!([{ "token": [] }]);
    }
    let samples: Vec<Value> = examples
        .iter()
        .map(|example| json!({ "lang": "Shell", "label": "curl", "source": example.curl() }))
        .collect();
    if !samples.is_empty() {
        operation["x-codeSamples"] = samples.into();
    }
    operation
}

fn responses(
    call: &Call,
    examples: &[&Example],
    generator: &mut SchemaGenerator,
) -> Map<String, Value> {
    let mut responses = Map::new();
    for success in call.successes {
        let mut response = json!({ "description": success.what });
        if !success.media.is_empty() {
            let schema = match success.shape {
                Some(shape) => shape(generator).to_value(),
                None => json!({ "type": "string" }),
            };
            let mut media = json!({ "schema": schema });
            let example = examples.iter().find(|example| example.status == success.status);
            if let Some(example) = example.and_then(|example| example.answer.as_ref()) {
                media["example"] = example.clone();
            }
            response["content"] = json!({ success.media: media });
        }
        responses.insert(success.status.to_string(), response);
    }
    let errors = call.errors();
    for status in errors.iter().map(|code| code.status()) {
        let codes = || errors.iter().filter(|code| code.status() == status);
        let told: Vec<String> =
            codes().map(|code| format!("`{}`: {}", code.as_str(), code.meaning())).collect();
        let words: Vec<&str> = codes().map(|code| code.as_str()).collect();
        let mut schema = generator.subschema_for::<ErrorBody>().to_value();
        schema["properties"] = json!({ "error": { "properties": { "code": { "enum": words } } } });
        let content = json!({ "application/json": { "schema": schema } });
        let response = json!({ "description": told.join(" "), "content": content });
        responses.insert(status.to_string(), response);
    }
    responses
}

/// Each field of a query is a parameter.
fn query_parameters(query: Shape, generator: &mut SchemaGenerator) -> Vec<Value> {
    let schema = query(generator);
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next());
    let schema = match name.and_then(|name| generator.definitions().get(name)) {
        Some(found) => found.clone(),
        None => schema.to_value(),
    };
    let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    fields
        .into_iter()
        .map(|(name, mut schema)| {
            tidy(&mut schema);
            let told = schema.as_object_mut().and_then(|fields| fields.remove("description"));
            let mut parameter = json!({ "name": name, "in": "query", "schema": schema });
            if let Some(told) = told {
                parameter["description"] = told;
            }
            parameter
        })
        .collect()
}

/// An absent field is absent, and null only where it says so; a text may be longer
/// than a line.
fn tidy(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("default");
    let nullable = fields.remove("x-nullable").is_some();
    if !nullable && let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(any)) = fields.get_mut("anyOf") {
        any.retain(|s| s.get("type").is_none_or(|t| t != "null"));
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    fields.values_mut().for_each(|value| match value {
        Value::Object(_) => tidy(value),
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_has_one_shape_in_requests_and_another_in_answers() {
        let mut schemas = Schemas::new();
        for call in calls() {
            operation(call, &mut schemas);
        }
        let (requests, answers) = (schemas.requests.definitions(), schemas.answers.definitions());
        for (name, request) in requests {
            assert!(answers.get(name).is_none_or(|answer| answer == request), "{name}");
        }
    }

    #[test]
    fn every_field_and_every_parameter_is_explained() {
        let document = document("", true);
        let mut unexplained = Vec::new();
        let explains =
            |schema: &Value| schema["description"].as_str().is_some_and(|t| !t.is_empty());
        for (name, schema) in document["components"]["schemas"].as_object().expect("types") {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let silent = fields.filter(|(_, field)| !explains(field));
            unexplained.extend(silent.map(|(field, _)| format!("{name}.{field}")));
        }
        for (path, calls) in document["paths"].as_object().expect("paths") {
            for call in calls.as_object().expect("calls").values() {
                let given = call["parameters"].as_array().into_iter().flatten();
                let silent = given.filter(|parameter| !explains(parameter));
                unexplained.extend(silent.map(|p| format!("{path}: {}", p["name"])));
            }
        }
        assert!(unexplained.is_empty(), "{unexplained:#?}");
    }
}
