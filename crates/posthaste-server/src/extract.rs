//! Reads requests: bounded in size and time, with errors that say what is wrong.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use posthaste_api::error::{ApiError, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::App;
use crate::bodies::{Held, Share};
use crate::failure::Failure;

/// A body that was read, and its share of the budget.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    pub(crate) share: Share,
}

/// Reads a whole body, no larger and no slower than allowed. The handler has identified
/// the sender before.
pub(crate) async fn whole_body<B>(body: B, app: &App) -> Result<Whole, Failure>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let most = app.config.request_bytes;
    let mut share = app.bodies.share();
    let announced = match body.size_hint().exact() {
        // A body that is announced too large is refused before it is sent.
        Some(length) => match usize::try_from(length) {
            Ok(length) if length <= most => length,
            _ => return Err(too_large(most)),
        },
        None => 0,
    };
    share.grow(announced)?;
    let reading = read(body, &mut share, announced, most);
    match tokio::time::timeout(app.config.body_timeout, reading).await {
        Ok(read) => {
            let (bytes, most) = (read?, app.config.request_values);
            match has_more_values(&bytes, most) {
                true => Err(too_many(most)),
                false => Ok(Whole { bytes, share }),
            }
        }
        Err(_) => Err(ApiError::new(ErrorCode::RequestTimeout, "the body came too slowly").into()),
    }
}

/// Reads a body. Nearly every body comes in one piece, and is not copied.
async fn read<B>(
    mut body: B,
    share: &mut Share,
    announced: usize,
    most: usize,
) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| unreadable(format!("the body broke off: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let before = length.max(announced);
        length += data.len();
        if length > most {
            return Err(too_large(most));
        }
        share.grow(length.saturating_sub(before))?;
        if length == data.len() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(announced.max(length));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

fn too_large(most: usize) -> Failure {
    let message = format!("the request is larger than {most} bytes");
    let error = ApiError::new(ErrorCode::TooLarge, message)
        .hint("send less, or raise server.request_bytes")
        .details(serde_json::json!({ "limit": most, "key": "server.request_bytes" }));
    Failure(error)
}

/// Returns whether a JSON text has more values than `most`, without reading them: a
/// list of zeros takes twenty times its bytes once it is a list.
fn has_more_values(json: &[u8], most: usize) -> bool {
    // Every value but the first has a byte of its own before it.
    if json.len() <= most {
        return false;
    }
    let (mut values, mut rest) = (1, json);
    while let Some(at) = rest.iter().position(|b| matches!(b, b'"' | b',' | b'[' | b'{')) {
        let is_text = rest[at] == b'"';
        rest = &rest[at + 1..];
        if is_text {
            rest = behind_text(rest);
            continue;
        }
        values += 1;
        if values > most {
            return true;
        }
    }
    false
}

/// Returns the rest behind a text whose first quote has been read.
fn behind_text(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = rest.iter().position(|b| matches!(b, b'"' | b'\\')) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        // An escaped quote does not end the text.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

fn too_many(most: usize) -> Failure {
    let message = format!("the request has more than {most} values");
    let error = ApiError::new(ErrorCode::TooLarge, message)
        .hint("send less, or raise server.request_values")
        .details(serde_json::json!({ "limit": most, "key": "server.request_values" }));
    Failure(error)
}

fn unreadable(why: impl Into<String>) -> Failure {
    Failure(ApiError::new(ErrorCode::BadRequest, why))
}

/// A JSON body, of a request or of an answer.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Failure;

    /// The handler identifies the caller first: extractors run in the order of the
    /// arguments, and this one is the last.
    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let held = request.extensions().get::<Held>().cloned().unwrap_or_default();
        let Whole { bytes, share } = whole_body(request.into_body(), app).await?;
        held.keep(share);
        parse(&bytes).map(Self)
    }
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    // A list would fit, too, field by field; but no call takes one.
    if body.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[') {
        let why = "the request does not fit: it is a list, and should be an object";
        return Err(ApiError::new(ErrorCode::InvalidArgument, why).into());
    }
    // Check UTF-8 once for the whole body, instead of text by text.
    let body = str::from_utf8(body).map_err(|_| unreadable("the body is not valid UTF-8"))?;
    serde_json::from_str(body).map_err(|error| {
        let (code, what) = match error.classify() {
            Category::Data => (ErrorCode::InvalidArgument, "the request does not fit"),
            Category::Syntax | Category::Eof | Category::Io => {
                (ErrorCode::BadRequest, "the body is not valid JSON")
            }
        };
        Failure(ApiError::new(code, format!("{what}: {}", plain(&error.to_string()))))
    })
}

/// Turns serde's message about a misfit into words for people who know none of our types.
pub(crate) fn plain(told: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("invalid float literal", "it is not a number"),
        ("invalid digit found in string", "it is not a whole number that may stand here"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("cannot parse integer from empty string", "a number is missing"),
        ("cannot parse float from empty string", "a number is missing"),
        ("provided string was not `true` or `false`", "it is `true` or `false`"),
    ];
    let told = told.strip_prefix("Failed to deserialize query string: ").unwrap_or(told);
    let (told, place) = match told.rfind(" at line ") {
        Some(at) => told.split_at(at),
        None => (told, ""),
    };
    if let Some((what, _)) = told.split_once("data did not match any variant of untagged enum") {
        return format!("{what}it has none of the forms that it may have{place}");
    }
    if let Some((found, expected)) = told.rsplit_once(", expected ") {
        let found = found.replacen("invalid type: map", "invalid type: object", 1);
        let found = found.replacen("invalid type: sequence", "invalid type: list", 1);
        return format!("{found}, expected {}{place}", kind(expected));
    }
    let known = WORDS.iter().find_map(|(theirs, ours)| Some((told.strip_suffix(theirs)?, ours)));
    match known {
        Some((field, ours)) => format!("{field}{ours}{place}"),
        None => format!("{told}{place}"),
    }
}

/// Returns our word for a type that serde expected.
fn kind(theirs: &str) -> &str {
    match theirs {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        "string or map" => "a string",
        _ if theirs.starts_with("struct ") || theirs.starts_with("enum ") => "an object",
        _ => theirs,
    }
}

/// Query parameters.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        query(&parts.uri).map(Self)
    }
}

/// Reads the query of a URI. Broken UTF-8 is refused, not replaced.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Failure> {
    if !is_utf8(uri.query().unwrap_or_default()) {
        return Err(unreadable("the query is not valid UTF-8"));
    }
    match Query::<T>::try_from_uri(uri) {
        Ok(Query(params)) => Ok(params),
        Err(error) => {
            let message = format!("the query does not fit: {}", plain(&error.body_text()));
            Err(ApiError::new(ErrorCode::InvalidArgument, message).into())
        }
    }
}

/// Returns whether the text is still UTF-8 once each `%xx` is a byte.
fn is_utf8(encoded: &str) -> bool {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, tail @ ..] = rest {
        let byte = match tail {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match byte {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok())
}

/// The one part of the path that a call leaves open.
pub(crate) struct PathPart(pub(crate) String);

impl FromRequestParts<App> for PathPart {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(error) => Err(unreadable(format!("the path does not fit: {}", error.body_text()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_what_stands_in_a_text_is_not() {
        let counted = |json: &str| (0..).find(|most| !has_more_values(json.as_bytes(), *most));
        for (json, most) in [
            ("", 0),
            ("[]", 2),
            ("[0,0,0]", 4),
            (r#"{"a":[0,1],"b":1}"#, 5),
            (r#"{"a,b":"[{,,\",,{","c":2}"#, 3),
            (r#"["\\",0]"#, 3),
            (r#"["#, 1),
            (r#"["unended, unended"#, 2),
            ("[\"ends in half an escape\\", 2),
        ] {
            assert_eq!(counted(json), Some(most), "{json}");
        }
    }

    #[test]
    fn percent_signs_are_read_before_the_text_is_judged() {
        for good in ["", "a=1&b=%C3%A9", "%f0%9f%a6%80", "100%", "%zz", "%", "%4", "%%41"] {
            assert!(is_utf8(good), "{good}");
        }
        for bad in ["%ff", "a=%c3", "%c3&%a9", "%f0%28", "x%80"] {
            assert!(!is_utf8(bad), "{bad}");
        }
    }
}
