//! Rewrites the hub's errors for the command line.
//!
//! The hub's errors are for programs: they name the fields of a request and the calls of
//! REST. A person at the command line has flags and commands instead.

use posthaste_api::{ApiError, ErrorCode};

/// Fields of requests, and their flags.
const FIELDS: [(&str, &str); 29] = [
    ("after", "--after"),
    ("agent", "AGENT"),
    ("allow", "--allow or --deny"),
    ("batch_window", "--batch-window"),
    ("from", "--from"),
    ("idempotency_key", "--key"),
    ("in_reply_to", "--reply-to"),
    ("key", "--key"),
    ("kind", "--kind"),
    ("label", "--label"),
    ("last_n", "--last"),
    ("limit", "--limit"),
    ("message id", "ID"),
    ("message", "the text"),
    ("metadata", "--meta"),
    ("option", "--option"),
    ("remember", "--remember"),
    ("status", "--status"),
    ("team", "--team"),
    ("text", "TEXT"),
    ("thread_id", "--thread"),
    ("timeout", "--timeout"),
    ("to", "TO"),
    ("topics", "--agent, --team, --session or --thread"),
    ("ttl_s", "--ttl"),
    ("type", "--type"),
    ("types", "--type"),
    ("wait_for", "--wait-for"),
    ("working_directory", "--dir"),
];

/// Texts of the hub about its calls, and the replacements about commands.
const CALLS: [(&str, &str); 14] = [
    (ErrorCode::InvalidArgument.advice(), "the command's --help says what it takes"),
    (ErrorCode::BadRequest.advice(), "the command's --help says what it takes"),
    (ErrorCode::Unauthorized.advice(), "name the hub's folder with --data, or give --token"),
    (ErrorCode::MethodNotAllowed.advice(), "is this hub of another version than the command?"),
    ("the calls begin with /v1/", "is this hub of another version than the command?"),
    ("GET /v1/teams lists them", "`posthaste teams` lists them"),
    ("GET /v1/stats/mailboxes lists them", "`posthaste stats` lists them"),
    (
        "take the thread_id of an agent from GET /v1/instances",
        "take an agent's from `posthaste agents --json`",
    ),
    ("PUT /v1/profiles/{name} replaces", "`posthaste profiles load DIR` replaces"),
    (
        "the join token only opens POST /v1/join",
        "the join token opens `posthaste join` and nothing else",
    ),
    ("leave `team` out", "leave --team out"),
    ("this idempotency key was used", "this --key was used"),
    ("wait for retry_after_s seconds", "wait a second"),
    ("the secret that the first join with this key answered with", "the same secret"),
];

/// Returns the same error for a person at the command line. Its code and its details
/// stay.
pub(crate) fn spoken(error: &ApiError) -> ApiError {
    let message = without_calls(&flagged(&error.message));
    let hint = error.hint.as_ref().map(|hint| with_flags(&without_calls(hint)));
    ApiError { message, hint, ..error.clone() }
}

/// Replaces a field's name at the beginning of an error.
fn flagged(message: &str) -> String {
    let Some((field, why)) = message.split_once(": ") else { return message.to_owned() };
    match FIELDS.iter().find(|(known, _)| *known == field) {
        Some((_, flag)) => format!("{flag}: {why}"),
        None => message.to_owned(),
    }
}

fn without_calls(text: &str) -> String {
    CALLS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// Replaces fields within a hint, if no other word looks like them.
fn with_flags(hint: &str) -> String {
    let unlike = ["idempotency_key", "in_reply_to", "thread_id", "ttl_s", "wait_for"];
    let fields = FIELDS.iter().filter(|(field, _)| unlike.contains(field));
    fields.fold(hint.to_owned(), |hint, (field, flag)| hint.replace(field, flag))
}

#[cfg(test)]
mod tests {
    use posthaste_core::address::Mailbox;
    use posthaste_core::history::ReadError;
    use posthaste_core::messaging::message::{DraftError, ThreadId};
    use posthaste_core::messaging::send::SendError;
    use posthaste_core::ports::StoreError;
    use posthaste_core::registry::RegistryError;

    use super::*;

    fn told(error: impl Into<ApiError>) -> String {
        let ApiError { code, message, hint, .. } = error.into();
        let advised = hint.unwrap_or_else(|| code.advice().to_owned());
        let error = spoken(&ApiError::new(code, message).hint(advised));
        format!("{} / {}", error.message, error.hint.unwrap_or_default())
    }

    fn field(field: &'static str) -> String {
        told(DraftError::Invalid { field, why: "it is wrong".into() })
    }

    #[test]
    fn an_error_names_the_flag_that_was_typed_and_not_the_field_that_was_sent() {
        for (name, flag) in [
            ("ttl_s", "--ttl"),
            ("thread_id", "--thread"),
            ("idempotency_key", "--key"),
            ("wait_for", "--wait-for"),
            ("last_n", "--last"),
            ("types", "--type"),
            ("message", "the text"),
        ] {
            assert_eq!(
                field(name),
                format!("{flag}: it is wrong / the command's --help says what it takes")
            );
        }
        // Names of agents are left alone.
        assert!(
            told(SendError::NoRecipient {
                to: "thread_id".into(),
                why: "no agent is called `thread_id`".into(),
                nearest: vec![],
            })
            .contains("no agent is called `thread_id`")
        );
    }

    #[test]
    fn no_error_names_a_call_or_a_field_of_the_wire() {
        let name = || "avalon".parse().expect("a name");
        let thread: ThreadId = "t-00000001".parse().expect("a thread");
        let mut all: Vec<String> =
            ErrorCode::ALL.iter().map(|code| told(ApiError::new(*code, "it failed"))).collect();
        all.extend([
            told(SendError::NoSuchThread(thread)),
            told(SendError::ForeignThread(thread)),
            told(SendError::KeyReused { seq: posthaste_core::messaging::message::Seq(1) }),
            told(StoreError::Busy { limit: 1 }),
            told(StoreError::Unknown("the disk".into())),
            told(RegistryError::Exists("bob".into())),
            told(ReadError::NoSuchTeam { team: name(), nearest: vec![] }),
            told(ReadError::NotALeader(name())),
            told("zzz".parse::<Mailbox>().expect_err("no mailbox")),
            told(ApiError::new(ErrorCode::Forbidden, "the join token only opens POST /v1/join")),
            told(
                ApiError::new(ErrorCode::NotFound, "there is no GET /x")
                    .hint("the calls begin with /v1/"),
            ),
        ]);
        for said in all {
            let wire =
                ["/v1/", "/docs", "openapi", "_id", "_s ", "idempotency", "in_reply", "`team`"];
            assert!(!wire.iter().any(|word| said.contains(word)), "{said}");
        }
    }
}
