//! Explains an error in a setting: the key, its place, its value and what it should be,
//! in words for people who know none of our types.

use figment::error::{Actual, Kind};
use posthaste_api::ApiError;

use super::tell;
use crate::cli::ADDRESS;
use crate::failure::invalid;

/// The longest list of keys in an error; beyond it the error names the example file.
const MANY: usize = 16;
const EXAMPLE: &str = "`posthaste config --example` shows every key with its default";

pub(super) fn explain(error: &figment::Error) -> ApiError {
    let place = error.metadata.as_ref().map(|from| match &from.source {
        Some(source) => format!(" in {source}"),
        None => format!(" in {}", from.name),
    });
    let place = place.unwrap_or_default();
    // Some types are read by a helper key of figment, which is not a key of ours.
    let mut path = error.path.clone();
    path.retain(|part| !part.starts_with("___figment"));
    let key = path.join(".");
    let subject = match key.is_empty() {
        true => format!("the configuration{place}"),
        false => format!("`{key}`{place}"),
    };
    let wrong = |told: String| invalid(told).hint(about(&key));
    match &error.kind {
        Kind::UnknownField(field, known) => {
            // The path leads to the section, and in some cases to the key.
            if path.last() != Some(field) {
                path.push(field.clone());
            }
            let key = path.join(".");
            match path.first().is_some_and(|section| section == tell::MODELS) {
                true => unknown_of_model(&key, field, &place, known),
                false => unknown(&key, &place, known),
            }
        }
        Kind::InvalidType(is, expected) | Kind::InvalidValue(is, expected) => {
            wrong(format!("{subject} is {}, and should be {}", value(is), kind(expected, &key)))
        }
        Kind::UnknownVariant(is, known) => {
            wrong(format!("{subject} is {is:?}, and should be {}", choice(known)))
        }
        Kind::Message(why) if why == "invalid socket address syntax" => {
            wrong(format!("{subject} should be {ADDRESS}"))
        }
        Kind::Message(why) if key.is_empty() => {
            invalid(format!("{subject} is wrong: {}", why.trim_end()))
        }
        other => wrong(format!("{subject}: {}", other.to_string().trim_end())),
    }
}

fn unknown(key: &str, place: &str, known: &[&str]) -> ApiError {
    let known = match known.len() > MANY {
        true => EXAMPLE.to_owned(),
        false => format!("known here: {}", known.join(", ")),
    };
    let hint = match tell::nearest(key) {
        Some(meant) => format!("did you mean `{meant}`? {known}"),
        None => known,
    };
    invalid(format!("unknown key `{key}`{place}")).hint(hint)
}

/// The same for the section of a model.
fn unknown_of_model(key: &str, field: &str, place: &str, known: &[&str]) -> ApiError {
    if field == "api_key" {
        return invalid(format!("`{key}`{place}: a key does not stand in this file")).hint(
            "name the variable that holds it, api_key_env = \"NAME\", or a file, \
             api_key_file = \"PATH\"",
        );
    }
    let section = key.strip_suffix(field).unwrap_or_default();
    let known_here = format!("known here: {}", known.join(", "));
    let hint = match tell::most_alike(field, known) {
        Some(meant) => format!("did you mean `{section}{meant}`? {known_here}"),
        None => known_here,
    };
    invalid(format!("unknown key `{key}`{place}")).hint(hint)
}

/// Returns the description of the key.
fn about(key: &str) -> String {
    match tell::about(key) {
        Some(about) => format!("{key}: {about} {EXAMPLE}"),
        None => EXAMPLE.to_owned(),
    }
}

fn value(is: &Actual) -> String {
    match is {
        Actual::Bool(is) => is.to_string(),
        Actual::Unsigned(is) => is.to_string(),
        Actual::Signed(is) => is.to_string(),
        Actual::Float(is) => is.to_string(),
        Actual::Char(is) => format!("{is:?}"),
        Actual::Str(is) => format!("{is:?}"),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "a section".to_owned(),
        Actual::Unit | Actual::Option => "nothing".to_owned(),
        other => other.to_string(),
    }
}

/// Returns what was expected, which serde names by its types.
fn kind(expected: &str, key: &str) -> String {
    let told = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "u128" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a duration" => "a time like \"30s\" or \"10m\"",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list like [\"one\", \"two\"]",
        "path string" | "a path" => "a path",
        "socket address" => ADDRESS,
        _ if expected.starts_with("struct ") || expected == "a map" => {
            return format!("a section: [{key}] and its keys below");
        }
        _ if expected.starts_with("enum ") => "one of the words that it knows",
        other => other,
    };
    told.to_owned()
}

/// Formats `open, team or family`.
fn choice(known: &[&str]) -> String {
    match known {
        [] => "something else".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
