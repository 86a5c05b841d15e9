//! Schemas of arguments: derived from the types that read them, then made slim, because
//! every model pays for each word.

use schemars::JsonSchema;
use serde_json::{Map, Value};

/// Keywords that say nothing to a model.
const IDLE: [&str; 5] = ["$schema", "title", "format", "additionalProperties", "minimum"];

pub(crate) fn of<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = schemars::schema_for!(T).to_value();
    slim(&mut schema);
    match schema {
        Value::Object(mut object) => {
            // The tool's own description says what the arguments are for.
            object.remove("description");
            object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
            object
        }
        _ => Map::new(),
    }
}

fn slim(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for idle in IDLE {
                // A property may have such a name; a keyword is never an object there.
                if object.get(idle).is_some_and(|v| !v.is_object()) {
                    object.remove(idle);
                }
            }
            let says_nothing = |v: &Value| *v == Value::Null || *v == Value::Array(Vec::new());
            if object.get("default").is_some_and(says_nothing) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|t| t != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    object.insert("type".into(), one);
                }
            }
            object.values_mut().for_each(slim);
        }
        Value::Array(list) => list.iter_mut().for_each(slim),
        _ => {}
    }
}
