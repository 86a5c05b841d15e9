//! The whole interface as one OpenAPI document, made from the types.
//!
//! [`calls`] is the table: a call that is not in it is not documented, and a test
//! of the server finds it. Shapes and explanations come from the wire types.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::error::{ErrorBody, ErrorCode};

mod calls;

pub use calls::calls;

type Shape = fn(&mut SchemaGenerator) -> Schema;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Whose token a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Nobody,
    Joiner,
    Anybody,
    Operator,
}

/// One call of the interface.
#[derive(Clone, Copy)]
pub struct Call {
    pub method: &'static str,
    pub path: &'static str,
    pub summary: &'static str,
    pub who: Who,
    query: Option<Shape>,
    body: Option<Shape>,
    answers: &'static [Answer],
}

#[derive(Clone, Copy)]
struct Answer {
    status: u16,
    what: &'static str,
    media: &'static str,
    shape: Option<Shape>,
}

/// The document, OpenAPI 3.1.
pub fn document(version: &str) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for call in calls() {
        let operation = operation(call, &mut generator);
        let path = paths.entry(call.path).or_insert_with(|| json!({}));
        path[call.method.to_ascii_lowercase()] = operation;
    }
    let error = generator.subschema_for::<ErrorBody>();
    let mut schemas = generator.take_definitions(true);
    schemas.values_mut().for_each(tidy);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Posthaste",
            "version": version,
            "description": "The post office for AI agents: addresses, durable mailboxes, and proof of delivery. A message that was accepted is delivered, and \"delivered\" is never claimed before it is true.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An agent's token from POST /v1/join or POST /v1/instances, or the operator's from the file operator.token in the data folder.",
                },
            },
            "responses": {
                "Error": {
                    "description": "What went wrong, in the one form of all errors.",
                    "content": { "application/json": { "schema": error } },
                },
            },
        },
    })
}

fn operation(call: &Call, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = call
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    if let Some(query) = call.query {
        parameters.extend(query_parameters(query, generator));
    }
    let mut responses = Map::new();
    for answer in call.answers {
        let mut response = json!({ "description": answer.what });
        if let Some(shape) = answer.shape {
            let schema = shape(generator);
            response["content"] = json!({ answer.media: { "schema": schema } });
        } else if !answer.media.is_empty() {
            response["content"] = json!({ answer.media: { "schema": { "type": "string" } } });
        }
        responses.insert(answer.status.to_string(), response);
    }
    for status in ErrorCode::ALL.map(ErrorCode::status) {
        let error = json!({ "$ref": "#/components/responses/Error" });
        responses.entry(status.to_string()).or_insert(error);
    }
    let mut operation = json!({
        "operationId": operation_id(call),
        "summary": call.summary,
        "tags": [tag(call)],
        "responses": responses,
    });
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = call.body {
        let schema = body(generator);
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    let whose = match call.who {
        Who::Nobody => None,
        Who::Joiner => Some("Needs the join token or the operator's."),
        Who::Anybody => Some("Needs a token: an agent's or the operator's."),
        Who::Operator => Some("Needs the operator's token."),
    };
    if let Some(whose) = whose {
        operation["description"] = whose.into();
        operation["security"] = json!([{ "token": [] }]);
    }
    operation
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

/// The first word of the path after `/v1`.
fn tag(call: &Call) -> &'static str {
    let rest = call.path.strip_prefix("/v1/").unwrap_or("hub");
    rest.split('/').next().unwrap_or("hub")
}

fn operation_id(call: &Call) -> String {
    let words = call.path.split(['/', '{', '}', '.']).filter(|w| !matches!(*w, "" | "v1"));
    let mut id = call.method.to_ascii_lowercase();
    for word in words {
        id.push('_');
        id.push_str(word);
    }
    id
}
