//! The subjects of Claude Code's requests for permission.

use serde_json::Value;

use crate::drivers::subject;

/// Arguments of a command that leave it the same act.
const SAME_ACT: [&str; 4] = ["command", "description", "run_in_background", "timeout"];

/// Returns the subject of a call of a tool: the command, the file or the address, and for
/// any other tool all of its arguments.
pub(super) fn subject(tool: &str, input: &Value, suggestions: &Value) -> String {
    match (tool, act(tool, input)) {
        ("Bash", Some(command)) => subject::of_command(command, beginning(suggestions)),
        (tool, Some(act)) => subject::of(tool, act),
        (tool, None) => subject::of_call(tool, input),
    }
}

/// Returns the argument that says all that matters of a call.
fn act<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    let key = match tool {
        "Bash" => {
            let others = input.as_object()?.keys().filter(|key| !SAME_ACT.contains(&key.as_str()));
            (others.count() == 0).then_some("command")?
        }
        "Edit" | "MultiEdit" | "Read" | "Write" => "file_path",
        "NotebookEdit" | "NotebookRead" => "notebook_path",
        "WebFetch" => "url",
        _ => return None,
    };
    input[key].as_str()
}

/// Returns the beginning of a command in the only rule that Claude Code suggests. Several
/// rules are for the parts of a command.
fn beginning(suggestions: &Value) -> Option<&str> {
    let suggestions = suggestions.as_array().into_iter().flatten();
    let mut rules = suggestions.flat_map(|each| each["rules"].as_array().into_iter().flatten());
    let (rule, more) = (rules.next()?, rules.next());
    let content = rule["ruleContent"].as_str().filter(|_| rule["toolName"] == "Bash")?;
    let words = content.strip_suffix(" *").or_else(|| content.strip_suffix(":*"))?;
    more.is_none().then_some(words)
}
