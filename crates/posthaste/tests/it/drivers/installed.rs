//! A program as its user has it: installed under its name, and logged in.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{acp, claude, codex};
use crate::clients;
use crate::world::World;

#[derive(Clone, Copy)]
pub(super) struct Installed {
    pub(super) name: &'static str,
    /// Makes the program at this path; `tools` is where the programs are.
    pub(super) link: fn(tools: &Path, path: &Path),
    /// Lets the program find its model.
    pub(super) surround: fn(command: &mut Command, model: &str, home: &Path),
    /// The call of its shell that runs a command.
    pub(super) shell: fn(command: &str) -> (&'static str, Value),
}

pub(super) const CLAUDE: Installed = Installed {
    name: "claude",
    link: |tools, path| to(&clients::claude_binary(tools), path),
    surround: claude::CAST.surround,
    shell: |command| ("Bash", json!({ "command": command, "description": "work" })),
};

pub(super) const CODEX: Installed = Installed {
    name: "codex",
    link: |tools, path| to(&clients::codex_binary(tools), path),
    surround: codex::CAST.surround,
    shell: |command| ("exec_command", json!({ "cmd": command })),
};

pub(super) const OPENCODE: Installed = Installed {
    name: "opencode",
    link: |tools, path| to(&clients::opencode_binary(tools), path),
    surround: acp::OPENCODE.surround,
    shell: |command| ("bash", json!({ "command": command, "description": "work" })),
};

pub(super) const GEMINI: Installed = Installed {
    name: "gemini",
    link: |tools, path| {
        let (node, script) = (acp::node(tools), clients::gemini_script(tools));
        let text = format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", node.display(), script.display());
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
    },
    surround: acp::GEMINI.surround,
    shell: |command| ("run_shell_command", json!({ "command": command, "description": "work" })),
};

impl Installed {
    /// Lets a command find the program, and the program its model.
    pub(super) fn found_by(&self, command: &mut Command, tools: &Path, world: &World, model: &str) {
        let bin = world.scratch().join("bin");
        fs::create_dir(&bin).expect("a folder");
        (self.link)(tools, &bin.join(self.name));
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        (self.surround)(command, model, &clients::home(world));
    }
}

fn to(program: &Path, path: &Path) {
    symlink(program, path).expect("a link");
}
