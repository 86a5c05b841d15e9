//! CAO's profiles, as files of our own.
//!
//! A copy has the same keys and the same prompt. Its front matter is written anew, one key
//! a line, with the driver that runs its provider here, and with tools in the words of the
//! program where they are known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use directories::BaseDirs;
use posthaste_api::cao::provider;
use posthaste_core::Limits;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::config;
use crate::failure::{Failure, invalid, machine};
use crate::output::Output;
use crate::paint::{Text, Tone};
use crate::private;
use crate::profiles::file::{self, Parsed};
use crate::profiles::markdown_files;

/// CAO's folders of profiles, in the order in which CAO looks into them.
const FOLDERS: [&str; 2] = ["agent-store", "agent-context"];

/// Keys that mean something here. Others stay in the file, and nothing reads them.
const READ: [&str; 22] = [
    "allowed_tools",
    "capabilities",
    "command",
    "description",
    "driver",
    "env",
    "kind",
    "mcpServers",
    "mcp_config",
    "model",
    "name",
    "patterns",
    "permission_mode",
    "role",
    "session",
    "stdin",
    "system_prompt",
    "tags",
    "timeout",
    "wake",
    "working_directory",
    "worktree",
];
/// What this import itself keeps under another name, and has noted.
const KEPT: &str = "cao_";

/// What becomes of one file.
#[derive(Debug, Serialize)]
struct Found {
    file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// `taken`, `skipped` or `failed`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    /// Why it was skipped or failed, and what of it is not as it was with CAO.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Imported {
    into: PathBuf,
    dry_run: bool,
    files: Vec<Found>,
}

pub(super) fn run(
    from: Option<PathBuf>,
    dry_run: bool,
    into: &Path,
    output: &mut Output,
) -> Result<(), Failure> {
    let from = match from.or_else(home) {
        Some(from) => from,
        None => {
            return Err(invalid("there is no home folder: name CAO's folder with --from").into());
        }
    };
    let sources = sources(&from)?;
    let mut known = names_in(into);
    let mut files = Vec::new();
    for file in sources {
        files.push(take(file, into, dry_run, &mut known)?);
    }
    let imported = Imported { into: into.to_owned(), dry_run, files };
    match output.json() {
        true => output.answer(&imported),
        false => tell(&imported, output),
    }
}

/// Returns the folder that CAO uses: `CAO_HOME_DIR`, or the usual one.
fn home() -> Option<PathBuf> {
    let chosen = config::of_others("CAO_HOME_DIR").map(PathBuf::from);
    chosen.or_else(|| Some(BaseDirs::new()?.home_dir().join(".aws/cli-agent-orchestrator")))
}

/// Returns the files of CAO's folders, or of the folder itself if it has none of them.
fn sources(from: &Path) -> Result<Vec<PathBuf>, Failure> {
    let inside: Vec<PathBuf> =
        FOLDERS.iter().map(|name| from.join(name)).filter(|path| path.is_dir()).collect();
    let folders = if inside.is_empty() { vec![from.to_owned()] } else { inside };
    let mut files = Vec::new();
    for folder in folders {
        files.extend(markdown_files(&folder).map_err(|e| machine("read", &folder, e))?);
    }
    Ok(files)
}

/// Returns the names of the profiles that are in the folder already.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let limit = Limits::default().profile_file_bytes;
    let files = markdown_files(folder).unwrap_or_default();
    let name = |path: &PathBuf| match file::read(path, limit) {
        Ok(parsed) => Some(parsed.template.name.to_string()),
        Err(fault) => fault.profile.map(|name| name.to_string()),
    };
    files.iter().filter_map(name).collect()
}

/// Takes one file over, or says why not.
fn take(
    file: PathBuf,
    into: &Path,
    dry_run: bool,
    known: &mut BTreeSet<String>,
) -> Result<Found, Failure> {
    let limit = Limits::default().profile_file_bytes;
    let converted = file::read_text(&file, limit).and_then(|text| convert(&text));
    let Copy { parsed, text, mut notes } = match converted {
        Ok(copy) => copy,
        Err(fault) => {
            let profile = fault.profile.map(|name| name.to_string());
            let why = match fault.line {
                Some(line) => format!("line {line}: {}", fault.why),
                None => fault.why,
            };
            return Ok(Found { file, profile, outcome: "failed", driver: None, notes: vec![why] });
        }
    };
    let name = parsed.template.name.to_string();
    let target = into.join(format!("{name}.md"));
    let driver = parsed.template.driver.clone();
    let profile = Some(name.clone());
    if target.exists() || !known.insert(name) {
        let notes = vec!["a profile of this name is there already".to_owned()];
        return Ok(Found { file, profile, outcome: "skipped", driver, notes });
    }
    if let Some(fault) = parsed.not_startable() {
        notes.push(fault.why);
    }
    if !dry_run {
        private::folder(into).map_err(|e| machine("make", into, e))?;
        private::create(&target, text.as_bytes()).map_err(|e| machine("write", &target, e))?;
    }
    Ok(Found { file, profile, outcome: "taken", driver, notes })
}

/// A profile of CAO's as a file of ours.
#[derive(Debug)]
struct Copy {
    parsed: Parsed,
    text: String,
    notes: Vec<String>,
}

fn convert(text: &str) -> Result<Copy, file::Fault> {
    // Names its faults by the lines of CAO's own file.
    file::parse(text)?;
    let (mut keys, body) = file::keys_and_text(text)?;
    let mut notes = Vec::new();
    let taken = |keys: &mut Map<String, Value>, key: &str| match keys.remove(key) {
        Some(Value::String(word)) => Some(word),
        _ => None,
    };
    let named = taken(&mut keys, "provider");
    let known = named.as_deref().and_then(provider::provider);
    match (&named, known) {
        (Some(name), None) => notes.push(format!("no driver here runs its provider {name}")),
        (None, _) => notes.push("it names no provider: the caller's provider runs it".to_owned()),
        (Some(_), Some(known)) => {
            let driver = Value::from(known.driver);
            keys.entry("driver").or_insert(driver);
            if let Some(shell) = known.shell {
                keys.entry("command").or_insert(shell.into());
            } else if !known.command.is_empty() {
                keys.entry("command").or_insert(known.command.to_vec().into());
            }
            if let Some(stdin) = known.stdin {
                keys.entry("stdin").or_insert(stdin.into());
            }
        }
    }
    let driver = keys.get("driver").and_then(Value::as_str).unwrap_or_default().to_owned();
    limit_tools(&mut keys, &driver, &mut notes);
    translate_mode(&mut keys, &driver, &mut notes);
    if let Some(tools) = keys.remove("tools") {
        notes.push("its `tools` are words of CAO's, which no program here takes".to_owned());
        keys.insert("cao_tools".into(), tools);
    }
    let unread = |key: &&str| !READ.contains(key) && !key.starts_with(KEPT);
    let unread: Vec<&str> = keys.keys().map(String::as_str).filter(unread).collect();
    if !unread.is_empty() {
        notes.push(format!("nothing here reads {}", unread.join(", ")));
    }
    let text = written(keys, &body);
    let parsed = file::parse(&text)?;
    Ok(Copy { parsed, text, notes })
}

/// Puts the tools of the profile, or of its role, into the words of its program. A list
/// that the driver cannot keep its agents to would keep them from starting: it stays in
/// the file under another name.
fn limit_tools(keys: &mut Map<String, Value>, driver: &str, notes: &mut Vec<String>) {
    let list = keys.remove("allowedTools");
    let given: Option<Vec<String>> = list.and_then(|list| serde_json::from_value(list).ok());
    let role = keys.get("role").and_then(Value::as_str);
    let of_role = role.and_then(provider::tools_of_role);
    let tools = given.or_else(|| Some(of_role?.iter().map(|&tool| tool.to_owned()).collect()));
    let Some(tools) = tools else { return };
    if provider::is_every(&tools) {
        match provider::mode_for_every_tool(driver) {
            Some(_) if keys.contains_key("permissionMode") => {}
            Some(mode) => drop(keys.entry("permission_mode").or_insert(mode.into())),
            None => notes.push("it may use every tool, and its program may ask first".to_owned()),
        }
        return;
    }
    match provider::tools_for(driver, &tools) {
        Some(words) => drop(keys.insert("allowed_tools".into(), words.into())),
        None => {
            notes.push(format!("nothing here keeps it to its tools ({})", tools.join(", ")));
            keys.insert("cao_allowed_tools".into(), tools.into());
        }
    }
}

/// Puts CAO's permission mode, a word of Claude Code, under our name for it. No other
/// program knows it: there it stays in the file under another name, as CAO ignores it.
fn translate_mode(keys: &mut Map<String, Value>, driver: &str, notes: &mut Vec<String>) {
    let Some(mode) = keys.remove("permissionMode") else { return };
    match driver {
        "claude" | "" => drop(keys.insert("permission_mode".into(), mode)),
        _ => {
            notes.push(format!("its program has no permission mode {mode}"));
            keys.insert("cao_permission_mode".into(), mode);
        }
    }
}

/// Writes a file: one key a line, as JSON, which is YAML, too.
fn written(mut keys: Map<String, Value>, body: &str) -> String {
    let mut text = "---\n".to_owned();
    let first = [
        "name",
        "description",
        "driver",
        "command",
        "stdin",
        "model",
        "permission_mode",
        "allowed_tools",
    ];
    for key in first {
        if let Some(value) = keys.remove(key) {
            text.push_str(&format!("{key}: {value}\n"));
        }
    }
    for (key, value) in keys {
        text.push_str(&format!("{}: {value}\n", Value::from(key)));
    }
    text.push_str("---\n");
    text.push_str(body.trim_start_matches('\n'));
    text
}

fn tell(imported: &Imported, output: &mut Output) -> Result<(), Failure> {
    let Imported { into, dry_run, files } = imported;
    for found in files {
        let who = match &found.profile {
            Some(name) => name.clone(),
            None => found.file.display().to_string(),
        };
        let (tone, verb) = match (found.outcome, dry_run) {
            ("taken", true) => (Tone::Good, "would be taken over"),
            ("taken", false) => (Tone::Good, "taken over"),
            ("skipped", _) => (Tone::Faint, "skipped"),
            _ => (Tone::Bad, "not taken over"),
        };
        let how = match (&found.driver, found.outcome) {
            (Some(driver), "taken") => format!(" (driver {driver})"),
            _ => String::new(),
        };
        let line = Text::new().add(Tone::Strong, &who).plain(": ").add(tone, verb).plain(&how);
        output.paint(&line)?;
        for note in &found.notes {
            output.say(&format!("  {note}"))?;
        }
    }
    let taken = files.iter().filter(|found| found.outcome == "taken").count();
    output.say(&match (taken, dry_run) {
        (0, _) => "nothing to take over".to_owned(),
        (n, true) => format!("{n} of {} would go into {}", files.len(), into.display()),
        (n, false) => format!("{n} of {} are in {} now", files.len(), into.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVIEWER: &str = "---\nname: reviewer\ndescription: \"reads: diffs\"\nprovider: claude_code\nrole: reviewer\nskills: [a]\nmcpServers:\n  cao-mcp-server:\n    command: cao-mcp-server\n---\n\n# You review\n";

    #[test]
    fn a_profile_gets_the_driver_of_its_provider_and_the_words_of_its_program() {
        let copy = convert(REVIEWER).expect("a good profile");
        let template = &copy.parsed.template;
        assert_eq!(template.driver.as_deref(), Some("claude"));
        assert_eq!(template.description, "reads: diffs");
        assert_eq!(template.system_prompt, "# You review");
        let tools = template.allowed_tools.as_deref().expect("those of its role");
        assert_eq!(tools, ["Read", "Glob", "Grep", "mcp__cao-mcp-server"]);
        assert!(template.config.contains("mcpServers"), "{}", template.config);
        assert_eq!(copy.notes, ["nothing here reads skills"]);
        let more = "skills: [a]\ntools: [fs_read]\nresources: [x]\nhermesProfile: y";
        let copy = convert(&REVIEWER.replace("skills: [a]", more)).expect("a good profile");
        assert_eq!(copy.parsed.template.tools, None, "{}", copy.text);
        assert!(copy.notes[0].contains("`tools`"), "{:?}", copy.notes);
        assert_eq!(copy.notes[1], "nothing here reads skills, resources, hermesProfile");
    }

    #[test]
    fn limits_that_nobody_keeps_are_named_and_stay_in_the_file() {
        let kiro = REVIEWER.replace("claude_code", "kiro_cli");
        let copy = convert(&kiro).expect("a good profile");
        assert_eq!(copy.parsed.template.driver.as_deref(), Some("acp"));
        assert_eq!(copy.parsed.template.allowed_tools, None);
        assert!(copy.notes[0].contains("fs_read"), "{:?}", copy.notes);
        assert!(copy.text.contains("cao_allowed_tools"), "{}", copy.text);
    }

    #[test]
    fn the_permission_mode_is_that_of_claude_and_of_no_other_program() {
        let planner = REVIEWER.replace("role: reviewer\n", "permissionMode: plan\n");
        let copy = convert(&planner).expect("a good profile");
        assert!(copy.text.contains("\npermission_mode: \"plan\"\n"), "{}", copy.text);
        assert_eq!(copy.parsed.not_startable(), None);
        let other = convert(&planner.replace("claude_code", "codex")).expect("a good profile");
        assert!(other.text.contains("cao_permission_mode"), "{}", other.text);
        assert!(other.notes.iter().any(|note| note.contains("plan")), "{:?}", other.notes);
        let both = planner.replace("permissionMode:", "permission_mode: auto\npermissionMode:");
        assert!(convert(&both).is_err());
    }

    #[test]
    fn every_tool_is_a_mode_in_which_nothing_is_asked() {
        let every = REVIEWER.replace("role: reviewer\n", "allowedTools: [\"*\"]\n");
        let copy = convert(&every).expect("a good profile");
        assert_eq!(copy.parsed.template.allowed_tools, None);
        assert!(copy.text.contains("permission_mode: \"bypassPermissions\""), "{}", copy.text);
        let codex = convert(&every.replace("claude_code", "codex")).expect("a good profile");
        assert_eq!(codex.parsed.not_startable(), None);
    }

    #[test]
    fn a_provider_that_is_unknown_or_missing_is_named() {
        let unknown = convert(&REVIEWER.replace("claude_code", "ouija")).expect("a profile");
        assert_eq!(unknown.parsed.template.driver, None);
        assert!(unknown.notes[0].contains("ouija"), "{:?}", unknown.notes);
        let none = convert(&REVIEWER.replace("provider: claude_code\n", "")).expect("a profile");
        assert!(none.notes[0].contains("no provider"), "{:?}", none.notes);
        assert!(convert("# no front matter\n").is_err());
    }
}
