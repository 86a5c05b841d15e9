//! Whatever happens to our binary under a program that runs it as a hook: tools and stops
//! work as if there were no hook.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Machine, Program, hooks_of};
use crate::world::BINARY;

/// What may be found in the binary's place.
const FAULTS: [(&str, &str); 5] = [
    ("missing", ""),
    ("killed", "printf '{\"decision\":\"bl'; kill -9 $$"),
    ("chattering", "echo rubbish; echo rubbish >&2"),
    ("failing", "echo rubbish; echo rubbish >&2; exit 2"),
    ("hanging", "exec sleep 1000"),
];

impl Machine {
    /// Another program lies where ours was when its user connected it.
    fn replace_the_binary(&self, name: &str, script: &str) {
        let file = self.world.scratch().join(name);
        if !script.is_empty() {
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
        }
        let hooks: PathBuf = hooks_of(self.program, &self.world);
        let text = fs::read_to_string(&hooks).expect("hooks");
        assert!(text.contains(BINARY), "{text}");
        let text = text.replace(BINARY, file.to_str().expect("a plain path"));
        fs::write(&hooks, text).expect("ours");
    }
}

async fn nobody_notices_a_broken_binary(program: Program) {
    let mut seen = Vec::new();
    for (name, script) in FAULTS {
        let Some(mut machine) = Machine::set_up(program, false).await else { return };
        machine.replace_the_binary(name, script);
        seen.push((name, machine.works_and_says_done().await));
        if name == "missing" {
            fs::remove_file(hooks_of(program, &machine.world)).expect("there are hooks");
            seen.push(("no hook", machine.works_and_says_done().await));
        }
    }
    for (name, asked) in &seen {
        assert_eq!(asked, &seen[0].1, "{name}");
    }
}

macro_rules! broken {
    ($($name:ident: $program:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                nobody_notices_a_broken_binary($program).await;
            }
        )*
    };
}

broken! {
    claude_code_does_not_notice_a_broken_binary: Program::ClaudeCode;
    codex_does_not_notice_a_broken_binary: Program::Codex;
    gemini_cli_does_not_notice_a_broken_binary: Program::Gemini;
    qwen_code_does_not_notice_a_broken_binary: Program::Qwen;
    copilot_cli_does_not_notice_a_broken_binary: Program::Copilot;
    opencode_does_not_notice_a_broken_binary: Program::OpenCode;
}
