//! What belongs to the program or its user and not to the hub: its tools, its user's
//! own hooks and settings.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::machine::{Machine, Run, eventually_or};
use crate::clients::program::Program;

/// A tool and what a model calls it with.
pub(super) type Call = (&'static str, Value);

/// The program's own shell.
fn shell(program: Program, line: &str) -> Call {
    match program {
        Program::ClaudeCode => ("Bash", json!({ "command": line, "description": "work" })),
        Program::Codex => ("exec_command", json!({ "cmd": line, "yield_time_ms": 30_000 })),
        Program::Gemini => ("run_shell_command", json!({ "command": line })),
        Program::OpenCode | Program::Copilot => {
            ("bash", json!({ "command": line, "description": "work" }))
        }
        Program::Qwen => (
            "run_shell_command",
            json!({ "command": line, "description": "work", "is_background": false }),
        ),
    }
}

/// Something else to do.
pub(super) fn works(program: Program) -> Call {
    shell(program, "echo at work")
}

/// Something that goes wrong, as the program sees it.
pub(super) fn fails(program: Program) -> Call {
    let file = "/nowhere/to/be/found";
    match program {
        Program::ClaudeCode => shell(program, "exit 3"),
        Program::Codex => panic!("to Codex a command that ends badly has run well"),
        Program::Gemini | Program::Qwen => ("read_file", json!({ "file_path": file })),
        Program::OpenCode => ("read", json!({ "filePath": file })),
        Program::Copilot => ("view", json!({ "path": file })),
    }
}

/// A tool of the hub that refuses what it is asked for.
pub(super) fn fails_at_the_hub() -> Call {
    ("read_messages", json!({ "id": 999_999 }))
}

/// A file in the program's home by which the test holds something up.
pub(super) struct Hold {
    hold: PathBuf,
    begun: PathBuf,
}

impl Hold {
    fn new(home: &Path, name: &str) -> Self {
        Self { hold: home.join(format!("{name}.hold")), begun: home.join(format!("{name}.begun")) }
    }

    /// A line of a shell that says that it has begun and ends when it may. It also ends
    /// with the folder.
    fn line(&self) -> String {
        let (hold, begun) = (self.hold.display(), self.begun.display());
        format!("[ ! -e '{hold}' ] || touch '{begun}'; while [ -e '{hold}' ]; do sleep 0.1; done")
    }

    /// From now on it is held up.
    pub(super) fn close(&self) {
        fs::write(&self.hold, "").expect("written");
    }

    pub(super) fn open(&self) {
        fs::remove_file(&self.hold).expect("it was closed");
    }

    #[track_caller]
    pub(super) fn until_begun(&self) {
        eventually_or(|| self.begun.exists(), || "it has not begun".to_owned());
    }
}

/// A tool of the program's own that takes as long as the test wants.
pub(super) fn works_slowly(run: &Run) -> (Hold, Call) {
    let hold = Hold::new(&run.home, "work");
    hold.close();
    let call = shell(run.program, &hold.line());
    (hold, call)
}

/// A call that takes long and lets later calls of its turn run beside it. Claude Code
/// runs its shell alone, so there it waits for an agent that never writes.
pub(super) fn takes_long_beside_others(run: &Run) -> Call {
    match run.program {
        Program::ClaudeCode => ("check_inbox", json!({ "timeout": 60, "from": ["alice"] })),
        Program::Qwen => panic!("Qwen Code runs one call after the other"),
        _ => works_slowly(run).1,
    }
}

impl Machine {
    /// The user has a hook of their own after every tool, beside ours.
    pub(super) fn add_a_slow_hook(&self) -> Hold {
        let home = self.home();
        let hold = Hold::new(&home, "hook");
        let command = format!("cat > /dev/null; {}", hold.line());
        let hook = |patience: u64| json!({ "hooks": [{ "type": "command", "command": command, "timeout": patience }] });
        match self.program {
            Program::ClaudeCode => {
                add(&home.join(".claude/settings.json"), "/hooks/PostToolUse", hook(60));
            }
            Program::Codex => add(&home.join("codex/hooks.json"), "/hooks/PostToolUse", hook(60)),
            Program::Gemini => {
                add(&home.join(".gemini/settings.json"), "/hooks/AfterTool", hook(60_000));
            }
            Program::Qwen => {
                add(&home.join(".qwen/settings.json"), "/hooks/PostToolUse", hook(60_000));
            }
            Program::Copilot => {
                let hook = json!({ "type": "command", "bash": command, "timeoutSec": 60 });
                let hooks = json!({ "version": 1, "hooks": { "postToolUse": [hook] } });
                write(&home.join(".copilot/hooks/own.json"), &hooks.to_string());
            }
            Program::OpenCode => {
                let config = home.join(".config/opencode");
                write(&config.join("plugins/own.js"), &plugin_that_waits(&hold));
                bring_what_plugins_need(&self.tools, &config);
            }
        }
        hold
    }

    /// The user lets the program give up a tool call after so many seconds.
    pub(super) fn set_patience(&self, seconds: u64) {
        let home = self.home();
        let (file, list) = match self.program {
            Program::Codex => {
                let file = home.join("codex/config.toml");
                let text = fs::read_to_string(&file).expect("connect wrote it");
                let head = "[mcp_servers.posthaste]\n";
                assert!(text.contains(head), "{text}");
                let text = text.replace(head, &format!("{head}tool_timeout_sec = {seconds}\n"));
                return write(&file, &text);
            }
            Program::ClaudeCode => (".claude.json", "mcpServers"),
            Program::Gemini => (".gemini/settings.json", "mcpServers"),
            Program::OpenCode => (".config/opencode/opencode.json", "mcp"),
            Program::Copilot => (".copilot/mcp-config.json", "mcpServers"),
            Program::Qwen => (".qwen/settings.json", "mcpServers"),
        };
        let file = home.join(file);
        let mut settings = read(&file);
        let ours = &mut settings[list]["posthaste"];
        assert!(ours.is_object(), "connect wrote it: {settings}");
        ours["timeout"] = json!(seconds * 1000);
        write(&file, &settings.to_string());
    }
}

fn plugin_that_waits(hold: &Hold) -> String {
    format!(
        r#"import fs from "node:fs";
export const Own = async () => ({{
  "tool.execute.after": async () => {{
    if (fs.existsSync({hold:?})) fs.writeFileSync({begun:?}, "");
    while (fs.existsSync({hold:?})) await new Promise((later) => setTimeout(later, 100));
  }},
}});
"#,
        hold = hold.hold,
        begun = hold.begun,
    )
}

/// OpenCode fetches a package for whoever has plugins, once, before it starts. Their
/// user has had it for long.
fn bring_what_plugins_need(tools: &Path, config: &Path) {
    let lock = config.join("package-lock.json");
    if lock.exists() {
        return;
    }
    let version = read(&tools.join("opencode-linux-x64/package.json"))["version"].clone();
    let needs = json!({ "@opencode-ai/plugin": version });
    let package = json!({ "name": "@opencode-ai/plugin", "version": version, "main": "index.js" });
    let locked = json!({
        "lockfileVersion": 3,
        "requires": true,
        "packages": {
            "": { "dependencies": needs },
            "node_modules/@opencode-ai/plugin": { "version": version },
        },
    });
    let module = config.join("node_modules/@opencode-ai/plugin");
    write(&module.join("package.json"), &package.to_string());
    write(&module.join("index.js"), "");
    write(&config.join("package.json"), &json!({ "dependencies": needs }).to_string());
    write(&lock, &locked.to_string());
}

/// Adds to a list in a file of JSON, which may not be there yet.
fn add(file: &Path, list: &str, item: Value) {
    let mut settings = if file.exists() { read(file) } else { json!({}) };
    let mut place = &mut settings;
    for key in list.split('/').skip(1) {
        place = &mut place[key];
    }
    match place {
        Value::Array(items) => items.push(item),
        none => *none = json!([item]),
    }
    write(file, &settings.to_string());
}

fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).expect("it is there");
    serde_json::from_str(&text).expect("plain JSON")
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(file, text).expect("written");
}
