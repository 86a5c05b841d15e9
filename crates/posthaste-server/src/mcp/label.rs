//! Session ids: labels, not state.
//!
//! A label names the caller and the client that it was made for, so the hub remembers
//! nothing: after a restart the label is as good as before. Labels of another make are
//! taken as they are. A label proves nothing.

use compact_str::{CompactString, format_compact};
use posthaste_core::messaging::message::Principal;

use crate::auth::forbidden;
use crate::failure::Failure;

pub(crate) const HEADER: &str = "mcp-session-id";
/// Prefix of labels that a hub made, in the first form.
const OURS: &str = "ph1-";
/// The owner in the label of a client that had only the join token.
const NOBODY: &str = "join";

pub(crate) fn make(who: Option<Principal>, client: Option<&str>) -> CompactString {
    let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let client: CompactString = client.unwrap_or("").chars().filter(plain).take(32).collect();
    let client = client.to_ascii_lowercase();
    let random: u64 = rand::random();
    format_compact!("{OURS}{}-{client}-{random:016x}", name(who))
}

fn name(who: Option<Principal>) -> CompactString {
    match who {
        None => NOBODY.into(),
        Some(Principal::Operator) => "human".into(),
        Some(Principal::Instance(id)) => format_compact!("{id}"),
    }
}

/// Returns the client that the label was made for; an error if it names another caller.
pub(crate) fn client(
    label: &str,
    who: Option<Principal>,
) -> Result<Option<CompactString>, Failure> {
    let Some(rest) = label.strip_prefix(OURS) else { return Ok(None) };
    let mut parts = rest.split('-');
    let owner = parts.next().unwrap_or_default();
    if owner != NOBODY && who.is_some() && owner != name(who) {
        return Err(forbidden("this session belongs to another agent"));
    }
    Ok(parts.next().filter(|client| !client.is_empty()).map(CompactString::from))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use posthaste_api::error::ErrorCode;
    use posthaste_core::address::InstanceId;

    use super::*;

    #[test]
    fn a_label_tells_its_client_and_is_for_its_owner_alone() {
        let bob = Some(Principal::Instance(InstanceId(7)));
        let eve = Some(Principal::Instance(InstanceId(8)));
        let label = make(bob, Some("Claude-Code <x>"));
        assert!(HeaderValue::from_str(&label).is_ok(), "{label}");
        assert_eq!(client(&label, bob).expect("bob's").as_deref(), Some("claudecodex"));
        let foreign = client(&label, eve).expect_err("not eve's");
        assert_eq!(foreign.0.code, ErrorCode::Forbidden);
    }

    #[test]
    fn a_label_made_before_its_owner_was_known_serves_everybody() {
        let label = make(None, Some("codex"));
        let eve = Some(Principal::Instance(InstanceId(8)));
        assert_eq!(client(&label, eve).expect("anybody's").as_deref(), Some("codex"));
    }

    #[test]
    fn labels_of_another_make_are_taken_as_they_are() {
        let eve = Some(Principal::Instance(InstanceId(8)));
        for foreign in ["", "x", "0b5c", "ph2-a-b-c"] {
            assert_eq!(client(foreign, eve).expect("taken"), None);
        }
    }
}
