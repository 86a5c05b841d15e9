//! One call of the interface: its route, its documentation and its errors.
//!
//! A call stands beside its wire types, in the file of its subject. The document, the
//! routes of the server and the methods of the client all take it from there.

use std::fmt;

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use crate::error::ErrorCode;

/// Makes the schema of a type.
pub(crate) type Shape = fn(&mut SchemaGenerator) -> Schema;

pub(crate) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What a request does with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whose token a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Nobody,
    Joiner,
    Anybody,
    /// A token, or a caller of the hub's own system user (CAO's routes).
    Neighbour,
    Operator,
}

impl Who {
    pub(super) fn told(self) -> Option<&'static str> {
        match self {
            Self::Nobody => None,
            Self::Joiner => Some("Needs the join token or the operator's."),
            Self::Anybody => Some("Needs a token: an agent's or the operator's."),
            Self::Neighbour => Some(
                "Needs a token: an agent's or the operator's. For terminals that these calls made, \
                 a program of the hub's own system user on the same machine needs none.",
            ),
            Self::Operator => Some("Needs the operator's token."),
        }
    }
}

/// One call of the interface.
#[derive(Clone, Copy)]
pub struct Call {
    pub method: Method,
    /// With at most one variable part, like `{id}`.
    pub path: &'static str,
    pub summary: &'static str,
    pub who: Who,
    /// What the variable part of the path names.
    pub(super) part: Option<&'static str>,
    pub(super) query: Option<Shape>,
    pub(super) body: Option<RequestBody>,
    pub(super) successes: &'static [Success],
    /// Errors that do not follow from the rest of the row.
    errors: &'static [ErrorCode],
}

#[derive(Clone, Copy)]
pub(super) struct RequestBody {
    pub(super) shape: Shape,
    pub(super) required: bool,
}

/// What a call answers when it succeeds.
#[derive(Clone, Copy)]
pub(crate) struct Success {
    pub(super) status: u16,
    pub(super) what: &'static str,
    pub(super) media: &'static str,
    pub(super) shape: Option<Shape>,
}

const fn call(
    method: Method,
    path: &'static str,
    summary: &'static str,
    who: Who,
    successes: &'static [Success],
) -> Call {
    let (part, query, body) = (None, None, None);
    Call { method, path, summary, who, part, query, body, successes, errors: &[] }
}

/// Makes the row of a `GET`; its siblings make those of the other methods.
pub(crate) const fn get(
    path: &'static str,
    summary: &'static str,
    who: Who,
    successes: &'static [Success],
) -> Call {
    call(Method::Get, path, summary, who, successes)
}

pub(crate) const fn post(
    path: &'static str,
    summary: &'static str,
    who: Who,
    successes: &'static [Success],
) -> Call {
    call(Method::Post, path, summary, who, successes)
}

pub(crate) const fn put(
    path: &'static str,
    summary: &'static str,
    who: Who,
    successes: &'static [Success],
) -> Call {
    call(Method::Put, path, summary, who, successes)
}

pub(crate) const fn patch(
    path: &'static str,
    summary: &'static str,
    who: Who,
    successes: &'static [Success],
) -> Call {
    call(Method::Patch, path, summary, who, successes)
}

pub(crate) const fn delete(
    path: &'static str,
    summary: &'static str,
    who: Who,
    successes: &'static [Success],
) -> Call {
    call(Method::Delete, path, summary, who, successes)
}

/// An answer that is JSON of this shape.
pub(crate) const fn json(status: u16, what: &'static str, shape: Shape) -> Success {
    Success { status, what, media: "application/json", shape: Some(shape) }
}

/// An answer that is another text, each piece of which has this shape.
pub(crate) const fn pieces(what: &'static str, media: &'static str, shape: Shape) -> Success {
    Success { status: 200, what, media, shape: Some(shape) }
}

/// An answer that is another text.
pub(crate) const fn text(status: u16, what: &'static str, media: &'static str) -> Success {
    Success { status, what, media, shape: None }
}

impl Call {
    /// Says what the variable part of the path names.
    pub(crate) const fn part(mut self, told: &'static str) -> Self {
        self.part = Some(told);
        self
    }

    pub(crate) const fn query(mut self, shape: Shape) -> Self {
        self.query = Some(shape);
        self
    }

    pub(crate) const fn body(mut self, shape: Shape) -> Self {
        self.body = Some(RequestBody { shape, required: true });
        self
    }

    pub(crate) const fn optional_body(mut self, shape: Shape) -> Self {
        self.body = Some(RequestBody { shape, required: false });
        self
    }

    /// Adds errors to those that every call of this form can answer with.
    pub(crate) const fn fails(mut self, errors: &'static [ErrorCode]) -> Self {
        self.errors = errors;
        self
    }

    /// Every error that this call can answer with, in the order of the table of errors.
    pub fn errors(&self) -> Vec<ErrorCode> {
        ErrorCode::ALL.into_iter().filter(|code| self.can_answer(*code)).collect()
    }

    fn can_answer(&self, code: ErrorCode) -> bool {
        let (query, body) = (self.query.is_some(), self.body.is_some());
        self.errors.contains(&code)
            || match code {
                // A foreign `Host` or `Origin` is refused, and so is everybody while all
                // connections are in use.
                ErrorCode::Forbidden | ErrorCode::Unavailable => true,
                ErrorCode::Unauthorized => self.who != Who::Nobody,
                ErrorCode::BadRequest => query || body || self.part.is_some(),
                ErrorCode::InvalidArgument => query || body,
                ErrorCode::RequestTimeout | ErrorCode::TooLarge => body,
                _ => false,
            }
    }

    /// The name of the call in the document, and its anchor on the page.
    pub fn id(&self) -> String {
        let words = self.path.split(['/', '{', '}', '.']).filter(|w| !matches!(*w, "" | "v1"));
        let mut id = self.method.as_str().to_ascii_lowercase();
        for word in words {
            id.push('_');
            id.push_str(word);
        }
        id
    }

    /// The name of the variable part of the path.
    pub(super) fn part_name(&self) -> Option<&'static str> {
        self.path.split('/').find_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The call with the variable part of its path.
    pub(crate) fn of<'a>(&'a self, part: &'a str) -> Target<'a> {
        Target { call: self, part }
    }
}

/// A call with the variable part of its path, if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) call: &'a Call,
    part: &'a str,
}

impl<'a> From<&'a Call> for Target<'a> {
    fn from(call: &'a Call) -> Self {
        call.of("")
    }
}

impl<'a> Target<'a> {
    /// The parts of the path.
    pub(crate) fn parts(self) -> impl Iterator<Item = &'a str> + Clone {
        let parts = self.call.path.split('/').skip(1);
        parts.map(move |part| if part.starts_with('{') { self.part } else { part })
    }
}

/// Makes the calls of a file: a constant for each, and `CALLS` for all, in this order.
macro_rules! call_table {
    [$($name:ident = $call:expr),* $(,)?] => {
        $(pub const $name: $crate::openapi::Call = $call;)*

        /// All calls of this file, in the order of the document.
        pub(crate) const CALLS: &[$crate::openapi::Call] = &[$($name,)*];
    };
}

pub(crate) use call_table;
