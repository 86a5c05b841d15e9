//! People who attach to CAO's sessions: each is a session of tmux with the same name.

use super::Stage;
use crate::world::{Started, eventually};

#[test]
fn cao_attaches_its_user_to_the_session_that_it_launched() {
    let Some(stage) = Stage::new() else { return };
    // The user's own terminal, which is one of another tmux server.
    let launch = ["launch", "--agents", "developer", "--provider", "mock_cli", "--auto-approve"];
    let cao = stage.program("cao", &[&launch[..], &["--session-name", "shop"]].concat(), None);
    let words = [cao.get_program()].into_iter().chain(cao.get_args());
    let words: Vec<String> =
        words.map(|word| format!("'{}'", word.to_str().expect("plain"))).collect();
    let line = format!("unset TMUX TMUX_PANE; exec {}", words.join(" "));
    let user = |words: &[&str]| {
        let words = [&["-u", "-L", "user"], words].concat();
        Started::new(stage.program("/usr/bin/tmux", &words, None)).end()
    };
    let opened = user(&["new-session", "-d", "-x", "100", "-y", "30", "-s", "mine", &line]);
    assert_eq!(opened.code, Some(0), "{opened:?}");
    let screen = || user(&["capture-pane", "-p", "-t", "=mine:"]).out;

    eventually(|| screen().contains("[cao-shop]"));
    let said = stage.cao(&["session", "send", "cao-shop", "good morning"], None);
    assert_eq!(said.code, Some(0), "{said:?}");
    eventually(|| screen().contains("> MOCK: good morning"));

    // Whoever detaches leaves the agent at work, and can come back.
    for key in ["C-c", "C-b", "d"] {
        // tmux takes keys that come all at once for text.
        user(&["send-keys", "-t", "=mine:", key]);
    }
    eventually(|| user(&["has-session", "-t", "=mine"]).code != Some(0));
    let shown = stage.tmux(&["capture-pane", "-p", "-t", "=cao-shop:"]);
    assert!(shown.out.contains("> MOCK: good morning"), "{shown:?}");

    let ended = stage.cao(&["shutdown", "--session", "cao-shop"], None);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    eventually(|| stage.tmux(&["has-session", "-t", "=cao-shop"]).code != Some(0));
}
