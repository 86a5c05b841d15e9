//! Fuzzes edits with broken files: an edit is refused with a line number, or it loses
//! nothing, changes nothing when repeated, and can be undone.

use posthaste_testkit::fuzz;

use super::tests::{ours, table};
use super::*;

const JSON: [&str; 8] = [
    "",
    "{}\n",
    "{\"a\": 1, \"mcpServers\": {\"other\": {\"command\": \"x\", \"args\": []}}}",
    "// mine\n{\n\t\"z\": 1, // last\n\t/* b */ \"a\": [1,2,  3],\n\t\"mcpServers\": {\n\t},\n}\n// end\n",
    "\u{feff}{\r\n  \"a\": \"\\u00e9\\\"\",\r\n  \"hooks\": {\"Stop\": [ ]}\r\n}\r\n",
    "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"say done\"}]}, null], \"Other\": []}}",
    "{\"mcpServers\": {\"posthaste\": {\"command\": \"mine\"}}, \"n\": -1.5e-3}",
    "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"/old/p hook stop\"}]}]}}",
];

const TOML: [&str; 7] = [
    "",
    "# mine\nmodel = \"x\" # y\n\n[mcp_servers.other] # theirs\ncommand   =   'x'\n\n# end\n",
    "\u{feff}a = 1\r\n[b]\r\nc = 2\r\n",
    "[mcp_servers]\nx = { command = \"c\", args = [ 'a', ] }\n",
    "[m]\ntext = \"\"\"\nline [x]\n  two\"\"\"\nwhen = 2026-01-01T00:00:00Z\n[[list]]\nn = 0x1F\n",
    "[mcp_servers.posthaste]\ncommand = \"mine\"\n[mcp_servers.posthaste.env]\nA = \"b\"\n",
    "mcp_servers.\"odd name\".command = 'x'\n",
];

const LINES: [&str; 4] = [
    "",
    "prefix=/usr\n# mine\n; too\nregistry = x\n",
    "a\r\nb=\r\n=c\r\n",
    "//h/:_auth=\"x\"\nours=1",
];

/// The mark by which an item of a list is ours.
const MARKED: &str = "hook stop";

/// Returns the characters that carry meaning, in order.
fn said(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_whitespace() && *c != ',')
}

/// Returns whether everything in `old` stands in `new`, in the same order.
fn keeps(old: &str, new: &str) -> bool {
    let mut new = said(new);
    said(old).all(|c| new.any(|own| own == c))
}

/// Checks one edit and its undo; `name` is the name of our key.
fn edit_and_undo(form: Form, text: &str, entries: &[Entry], name: &str) {
    let new = match put(form, text, entries) {
        Ok(new) => new,
        Err(broken) => {
            // The JSON parser also ends a line at a lone `\r`.
            assert!(
                (1..=1 + text.matches(['\n', '\r']).count()).contains(&broken.line),
                "{broken}"
            );
            assert!(!broken.why.is_empty() && !broken.why.contains('\n'), "{broken:?}");
            return;
        }
    };
    assert_eq!(put(form, &new, entries).as_deref(), Ok(&*new), "twice is once");
    assert_eq!(holds(form, &new, entries), Ok(true));
    assert_eq!(new.starts_with(MARK), text.starts_with(MARK));
    let left = take(form, &new, text, entries).expect("what was written can be read");
    let old = value(form, text).expect("what was edited can be read");
    let mentions = |word: &str| old.to_string().contains(word);
    // Items with our mark count as an earlier edit of ours, and are removed.
    if !mentions(MARKED) {
        assert_eq!(value(form, &left), Ok(old.clone()), "undone: {left:?} after {new:?}");
    }
    // JSON without an object comes back with an empty one.
    let is_given = form != Form::Json || json::has_object(text);
    if !mentions(MARKED) && !mentions(name) && is_given {
        assert!(keeps(text, &new), "something is lost in {new:?}");
        assert!(said(&left).eq(said(text)), "undone: {left:?} after {new:?}");
    }
}

#[test]
fn no_file_in_json_loses_anything_by_an_edit() {
    for case in fuzz::cases(6_000, &JSON) {
        edit_and_undo(Form::Json, &case.text(), &ours(), "posthaste");
    }
}

#[test]
fn no_file_in_toml_loses_anything_by_an_edit() {
    for case in fuzz::cases(6_000, &TOML) {
        edit_and_undo(Form::Toml, &case.text(), &table(), "posthaste");
    }
}

#[test]
fn no_file_of_lines_loses_anything_by_an_edit() {
    let entries = [Entry::key(&["ours"], serde_json::json!("yes"))];
    for case in fuzz::cases(3_000, &LINES) {
        edit_and_undo(Form::Lines, &case.text(), &entries, "ours");
    }
}

#[test]
fn a_file_that_nests_a_hundred_thousand_times_is_refused() {
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for text in [
        format!("{{\"a\": {}}}", deep("[", "]")),
        format!("{{\"a\": {}}}", deep("{\"a\":", "}")),
        format!("{{\"a\": {}", "[".repeat(100_000)),
    ] {
        assert!(put(Form::Json, &text, &ours()).is_err(), "{}", &text[..20]);
    }
    for text in [format!("a = {}", deep("[", "]")), format!("a = {}", deep("{a=", "}"))] {
        assert!(put(Form::Toml, &text, &table()).is_err(), "{}", &text[..20]);
    }
}
