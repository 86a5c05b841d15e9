//! Fuzzes the files that a worker can write to, and the settings of profiles: content
//! that cannot be read counts as absent, and no note misdirects a signal.

use posthaste_testkit::fuzz;

use crate::folder::{Exit, Folder, Started};
use crate::keeper::Keep;
use crate::settings::Settings;
use crate::settings::tests::profile;
use crate::supervisor::keepers::keeper_of;

const NOTES: [&str; 3] = [
    r#"{"run":"0123456789abcdef","keeper":4194305,"keeper_began":7,"worker":4194306,"worker_began":8}"#,
    r#"{"run":"0123456789abcdef","keeper":4194305,"keeper_began":null,"worker":null,"worker_began":null}"#,
    r#"{"code":0,"signal":null,"error":"x","asked":true,"overdue":false,"strays":1,"out_dropped":0,"err_dropped":0,"heard":17,"started_at":1,"ended_at":2}"#,
];

#[test]
fn no_note_of_a_worker_breaks_the_hub_or_names_everybody() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = Folder::new(scratch.path().to_owned());
    let lock = folder.hold().expect("a file").expect("free");
    for case in fuzz::cases(2_000, &NOTES) {
        for name in ["started", "exit.json"] {
            std::fs::write(scratch.path().join(name), &case.bytes).expect("written");
        }
        let _: Option<Option<Started>> = folder.started();
        let exit: Option<Exit> = folder.exit();
        let _ = exit.is_some_and(|exit| folder.was_heard(&exit));
        if let Some(keeper) = keeper_of(&folder) {
            assert!(keeper.as_raw_nonzero().get() > 1, "a signal would go to many");
        }
    }
    drop(lock);
}

#[test]
fn every_setting_of_a_profile_is_read_or_named() {
    let config = serde_json::json!({
        "command": ["wc", "-w", 3], "env": { "LANG": "C", "PORT": 80, "ON": true },
        "working_directory": "~/code", "model": "small", "worktree": true, "stdin": "mail",
        "mcp_config": { "mcpServers": {} }, "mcpServers": {}, "wake": "echo mail", "theirs": [1],
    });
    for mut case in fuzz::cases::<&str>(4_000, &[]) {
        let config = case.odd_json(&config).to_string();
        match Settings::read(&profile(None, &config), None) {
            Ok(settings) => {
                let words = settings.command.map(|line| line.words()).unwrap_or_default();
                assert!(words.iter().all(|word| !word.contains('\0')), "{words:?}");
                let bad = |text: &str| text.contains('\0');
                assert!(!settings.env.iter().any(|(key, value)| bad(key) || bad(value)));
                assert!(!settings.env.iter().any(|(key, _)| key.is_empty() || key.contains('=')));
            }
            Err(error) => {
                assert!(error.why.contains("counter") && error.hint.is_some(), "{error:?}");
                assert!(error.why.chars().count() < 1_000, "{} bytes", error.why.len());
            }
        }
    }
}

#[test]
fn no_words_break_a_keeper() {
    let words = "1048576\n5000\n60000\n022\n-\nmail\n-\n/bin/sh\n-c\ntrue";
    for case in fuzz::cases(4_000, &[words]) {
        let words = case.text();
        if let Ok(keep) = Keep::read(words.split('\n').map(Into::into)) {
            assert_eq!(Keep::read(keep.words()), Ok(keep));
        }
    }
}
