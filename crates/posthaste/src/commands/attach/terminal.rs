//! A worker in a terminal of tmux: shows it, and lets a person type into it.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::Command;

use posthaste_api::terminal::TerminalView;
use posthaste_api::{ApiError, ErrorCode};
use serde_json::json;

use crate::failure::{Failure, internal};
use crate::output::Output;
use crate::terminal::quoted;

/// The variable by which tmux tells its panes where they are.
const TMUX: &str = "TMUX";

pub(super) fn attach(
    terminal: TerminalView,
    read_only: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let words = words(&terminal, read_only, &variable(TMUX).unwrap_or_default());
    if output.json() {
        let TerminalView { socket, session, pane } = terminal;
        let view = json!({ "socket": socket, "session": session, "pane": pane, "command": words });
        return output.answer(&view);
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        return output.say(&words.join(" "));
    }
    let path = variable("PATH");
    let program = posthaste_agents::find_program("tmux", path.as_deref());
    let program = program.map_err(|missing| {
        let told = ApiError::new(ErrorCode::CannotStart, missing.why);
        told.hint(missing.hint.unwrap_or_default())
    })?;
    // This process becomes tmux, which has the person's terminal for itself.
    let error = command(&program).args(&words[1..]).env_remove(TMUX).exec();
    Err(internal(format!("cannot run {}: {error}", program.display())).into())
}

/// Returns the words of tmux that show the terminal. Inside the same tmux, which does not
/// show itself, the person's own client changes to it.
fn words(terminal: &TerminalView, read_only: bool, inside: &OsString) -> Vec<String> {
    let same = inside.to_string_lossy().starts_with(&format!("{},", terminal.socket));
    let verb = if same { "switch-client" } else { "attach-session" };
    let mut words = vec!["tmux", "-S", &terminal.socket, verb];
    if read_only {
        words.push("-r");
    }
    words.extend(["-t", &terminal.pane]);
    words.into_iter().map(str::to_owned).collect()
}

#[expect(clippy::disallowed_methods, reason = "this process becomes that program")]
fn command(program: &std::path::Path) -> Command {
    Command::new(program)
}

#[expect(clippy::disallowed_methods, reason = "where the person stands")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_inside_the_same_tmux_changes_to_the_terminal() {
        let terminal = TerminalView {
            socket: "/tmp/tmux-0/default".to_owned(),
            session: "$1".to_owned(),
            pane: "%3".to_owned(),
        };
        let said = |read_only, inside: &str| words(&terminal, read_only, &inside.into()).join(" ");
        assert_eq!(said(false, ""), "tmux -S /tmp/tmux-0/default attach-session -t %3");
        assert_eq!(
            said(true, "/tmp/tmux-0/other,7,0"),
            "tmux -S /tmp/tmux-0/default attach-session -r -t %3"
        );
        assert_eq!(
            said(false, "/tmp/tmux-0/default,7,0"),
            "tmux -S /tmp/tmux-0/default switch-client -t %3"
        );
    }
}
