//! One file of a profile: front matter between two lines of `---`, then the prompt.
//!
//! ```text
//! ---
//! name: reviewer
//! description: reads diffs and says what is wrong
//! tags: [rust, review]
//! ---
//! You review code …
//! ```
//!
//! CAO's keys mean the same here: `provider` is run by the driver of that program,
//! `allowedTools` is `allowed_tools`, `permissionMode` is `permission_mode`, `capabilities`
//! are tags. Keys that neither knows are kept under `config`, so that nothing is lost.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use posthaste_api::cao::provider;
use posthaste_api::profiles::one_permission_mode;
use posthaste_core::Limits;
use posthaste_core::address::Name;
use posthaste_core::profiles::Template;
use posthaste_core::registry::{AgentKind, RegistryError};
use serde_json::{Map, Value};

/// A fault of a file, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The name of the profile in the file, if it is known.
    pub(crate) profile: Option<Name>,
    pub(crate) line: Option<usize>,
    pub(crate) why: String,
}

fn fault(line: impl Into<Option<usize>>, why: impl Into<String>) -> Fault {
    Fault { profile: None, line: line.into(), why: why.into() }
}

/// A file that was parsed as a profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) template: Template,
    /// Lines of the front matter, to find a key again.
    head: Vec<String>,
}

impl Parsed {
    /// Returns the line of a field of the profile, under any of its names.
    pub(crate) fn line_of(&self, field: &str) -> Option<usize> {
        let names: &[&str] = match field {
            "driver" => &["driver", "provider"],
            "allowed_tools" => &ALLOWED_TOOLS,
            "permission_mode" => &PERMISSION_MODE,
            "mcp_config" => &["mcp_config", "mcpServers"],
            "allowed_builtin_service_aliases" => &SERVICES,
            "tags" => &["tags", "capabilities"],
            "title" => &["title", "display_name"],
            "system_prompt" => return Some(self.head.len() + 3),
            other => &[other],
        };
        names.iter().find_map(|name| line_of(&self.head, name))
    }

    /// Returns why the registry refuses the profile, and the line of the field.
    pub(crate) fn refused(&self, error: &RegistryError) -> Fault {
        let field = match error {
            RegistryError::Invalid { field, .. } => field,
            _ => "name",
        };
        fault(self.line_of(field), error.to_string())
    }

    /// Returns the limit that the profile exceeds.
    pub(crate) fn beyond(&self, limits: &Limits) -> Option<Fault> {
        self.template.check(limits).err().map(|error| self.refused(&error))
    }

    /// Returns why no agent can be started from the profile, as far as the file alone
    /// tells.
    pub(crate) fn not_startable(&self) -> Option<Fault> {
        let error = posthaste_agents::check_profile(&self.template).err()?;
        let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let why = format!("no agent can be started: {}{hint}", error.why);
        // A key that is not in the front matter itself stands below `config`.
        let places = [error.key.unwrap_or("driver"), "config", "driver"];
        Some(fault(places.iter().find_map(|key| self.line_of(key)), why))
    }
}

/// Two names for one list. A file may have one of them.
const ALLOWED_TOOLS: [&str; 2] = ["allowedTools", "allowed_tools"];
const PERMISSION_MODE: [&str; 2] = ["permission_mode", "permissionMode"];
const SERVICES: [&str; 2] = ["allowed_builtin_service_aliases", "allowed_services"];

/// Reads a file of at most `limit` bytes. A fault names the profile: by the file's
/// `name`, if that can be read, else by the name of the file.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Parsed, Fault> {
    let named = || path.file_stem()?.to_str()?.parse().ok();
    let whose = |fault: Fault| Fault { profile: fault.profile.clone().or_else(named), ..fault };
    read_text(path, limit).and_then(|text| parse(&text)).map_err(whose)
}

pub(crate) fn read_text(path: &Path, limit: usize) -> Result<String, Fault> {
    let unreadable = |e: std::io::Error| fault(None, format!("it cannot be read: {e}"));
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit {
        return Err(fault(
            None,
            format!("it is larger than limits.profile_file_bytes ({limit}) allows"),
        ));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        fault(line, "it is not UTF-8 text")
    })
}

pub(crate) fn parse(text: &str) -> Result<Parsed, Fault> {
    let (head, yaml, body) = split(text)?;
    let template = fields(&yaml).and_then(|fields| template(fields, &head, body));
    match template {
        Ok(template) => Ok(Parsed { template, head }),
        Err(fault) => Err(Fault { profile: name_in(&head), ..fault }),
    }
}

/// Returns the keys of the front matter as they stand there, and the text below it.
pub(crate) fn keys_and_text(text: &str) -> Result<(Map<String, Value>, String), Fault> {
    let (_, yaml, body) = split(text)?;
    Ok((fields(&yaml)?, body))
}

/// Splits a file into the lines of its front matter, the same as one text, and the rest.
fn split(text: &str) -> Result<(Vec<String>, String, String), Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().is_none_or(|first| first.trim_end() != "---") {
        return Err(fault(1, "it does not begin with a line of `---`"));
    }
    let mut head = Vec::new();
    let mut yaml = String::new();
    let body = loop {
        match lines.next() {
            None => return Err(fault(1, "the front matter has no end: a second line of `---`")),
            Some(line) if line.trim_end() == "---" => break lines.collect::<String>(),
            Some(line) => {
                head.push(line.trim_end().to_owned());
                yaml.push_str(line);
            }
        }
    };
    Ok((head, yaml, body))
}

/// Returns the name in the front matter, also if the rest is wrong.
fn name_in(head: &[String]) -> Option<Name> {
    let line = head.get(line_of(head, "name")?.checked_sub(2)?)?;
    let (_, name) = line.split_once(':')?;
    name.trim().trim_matches(['"', '\'']).parse().ok()
}

fn fields(yaml: &str) -> Result<Map<String, Value>, Fault> {
    if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Map::new());
    }
    serde_saphyr::from_str::<Map<String, Value>>(yaml).map_err(|error| {
        // The first line of the file is the dashes.
        let line = error.location().map(|at| usize::try_from(at.line()).unwrap_or(0) + 1);
        let why = error.without_snippet().to_string();
        // The parser's own line number would be one too low.
        let why = why.lines().next().unwrap_or_default();
        let why = why.split(" at line ").next().unwrap_or(why);
        // Removes advice to programmers.
        let why = why.split(", set ").next().unwrap_or(why);
        fault(line, format!("the front matter is not good YAML: {why}"))
    })
}

fn template(
    mut fields: Map<String, Value>,
    head: &[String],
    body: String,
) -> Result<Template, Fault> {
    let at = |key: &str| line_of(head, key);
    let text = |fields: &mut Map<String, Value>, key: &str| match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        Some(_) => Err(fault(at(key), format!("{key}: it is a text"))),
    };
    let name = text(&mut fields, "name")?.ok_or_else(|| fault(1, "name: it is missing"))?;
    let name: Name = name.parse().map_err(|e: posthaste_core::address::AddressError| {
        let meant = e.suggestion.map(|s| format!("; did you mean `{s}`?")).unwrap_or_default();
        let given = e.text.escape_debug();
        fault(at("name"), format!("name: `{given}` is not a name: {}{meant}", e.why))
    })?;
    let mut made = Template::new(name, AgentKind::External);
    if let Some(kind) = text(&mut fields, "kind")? {
        made.kind = kind.parse().map_err(|e: posthaste_core::registry::RegistryError| {
            fault(at("kind"), e.to_string())
        })?;
    }
    for key in ["title", "display_name"] {
        made.title = made.title.or(text(&mut fields, key)?);
    }
    made.driver = text(&mut fields, "driver")?;
    let provider = text(&mut fields, "provider")?;
    made.description = text(&mut fields, "description")?.unwrap_or_default();
    for key in ["tags", "capabilities"] {
        for tag in list(&mut fields, key, head)?.unwrap_or_default() {
            if !made.tags.contains(&tag) {
                made.tags.push(tag);
            }
        }
    }
    made.tools = list(&mut fields, "tools", head)?;
    made.allowed_tools = one_of(&mut fields, ALLOWED_TOOLS, head)?;
    made.services = one_of(&mut fields, SERVICES, head)?;
    let written = text(&mut fields, "system_prompt")?;
    let body = body.trim();
    made.system_prompt = if body.is_empty() { written.unwrap_or_default() } else { body.into() };
    let mut config = match fields.remove("config") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(config)) => config,
        Some(_) => return Err(fault(at("config"), "config: it is a mapping")),
    };
    for (key, value) in fields {
        config.entry(key).or_insert(value);
    }
    one_permission_mode(&mut config)
        .map_err(|why| fault(PERMISSION_MODE.into_iter().rev().find_map(at), why))?;
    if let Some(provider) = provider.filter(|_| made.driver.is_none()) {
        run_by(&mut made, &mut config, provider);
    }
    made.config = Value::Object(config).to_string();
    Ok(made)
}

/// Fills in how CAO's provider is run here, as far as the file does not say it itself. An
/// unknown provider is an unknown driver.
fn run_by(made: &mut Template, config: &mut Map<String, Value>, provider: String) {
    let Some(known) = provider::provider(&provider) else {
        made.driver = Some(provider);
        return;
    };
    made.driver = Some(known.driver.to_owned());
    let command = match known.shell {
        Some(shell) => Some(Value::from(shell)),
        None if known.command.is_empty() => None,
        None => Some(Value::from(known.command.to_vec())),
    };
    for (key, value) in [("command", command), ("stdin", known.stdin.map(Value::from))] {
        if let Some(value) = value {
            config.entry(key).or_insert(value);
        }
    }
    let Some(list) = made.allowed_tools.take() else { return };
    if provider::is_every(&list) {
        if let Some(mode) = provider::mode_for_every_tool(known.driver) {
            config.entry("permission_mode").or_insert(mode.into());
        }
        return;
    }
    made.allowed_tools = Some(provider::tools_for(known.driver, &list).unwrap_or(list));
}

/// Reads a list that has two names.
fn one_of(
    fields: &mut Map<String, Value>,
    names: [&str; 2],
    head: &[String],
) -> Result<Option<Vec<String>>, Fault> {
    let [usual, other] = names;
    let (list, again) = (list(fields, usual, head)?, list(fields, other, head)?);
    match (list, again) {
        (Some(_), Some(_)) => {
            let why = format!("{other}: it means the same as `{usual}`; keep one of them");
            Err(fault(line_of(head, other), why))
        }
        (list, again) => Ok(list.or(again)),
    }
}

/// Reads a list of texts, or one text with commas.
fn list(
    fields: &mut Map<String, Value>,
    key: &str,
    head: &[String],
) -> Result<Option<Vec<String>>, Fault> {
    let wrong = || fault(line_of(head, key), format!("{key}: it is a list of texts"));
    let entry = |value: Value| match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(wrong()),
    };
    match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            Ok(Some(words.map(str::to_owned).collect()))
        }
        Some(Value::Array(entries)) => {
            entries.into_iter().map(entry).collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(wrong()),
    }
}

/// Returns the line of the file on which a key of the front matter stands.
fn line_of(head: &[String], key: &str) -> Option<usize> {
    let stands = |line: &String| {
        let line = line.trim_start_matches(['"', '\'']);
        line.strip_prefix(key)
            .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    head.iter().position(stands).map(|at| at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(text: &str) -> Template {
        parse(text).unwrap_or_else(|fault| panic!("{fault:?}: {text}")).template
    }

    fn bad(text: &str) -> (Option<usize>, String) {
        let fault = parse(text).expect_err(text);
        (fault.line, fault.why)
    }

    #[test]
    fn the_front_matter_describes_and_the_body_is_the_prompt() {
        let made = good(
            "---\nname: Reviewer\ntitle: The Reviewer\ndescription: |\n  reads\n  diffs\n\
             kind: mechanical\ndriver: runner\ntags: [rust, review]\ntools: []\n\
             config:\n  mcp_config: {a: 1}\n---\n\nYou review.\n---\nStill the prompt.\n",
        );
        assert_eq!(made.name.as_str(), "reviewer");
        assert_eq!(made.title.as_deref(), Some("The Reviewer"));
        assert_eq!(made.description, "reads\ndiffs\n");
        assert_eq!(made.kind, AgentKind::Mechanical);
        assert_eq!(made.driver.as_deref(), Some("runner"));
        assert_eq!(made.tags, ["rust", "review"]);
        assert_eq!(made.tools, Some(Vec::new()));
        assert_eq!(made.config, r#"{"mcp_config":{"a":1}}"#);
        assert_eq!(made.system_prompt, "You review.\n---\nStill the prompt.");
    }

    #[test]
    fn a_name_that_is_none_is_quoted_on_one_line_and_not_at_length() {
        let (line, why) = bad("---\nname: \"bob\\n\\e[2Jx\"\n---\n");
        assert_eq!(line, Some(2));
        assert!(why.starts_with(r"name: `bob\n\u{1b}[2Jx` is not a name"), "{why}");
        let (_, why) = bad(&format!("---\nname: {}\n---\n", "x".repeat(10_000)));
        assert!(why.len() < 300, "{} bytes", why.len());
    }

    #[test]
    fn a_profile_of_cao_is_read_in_its_own_words() {
        let made = good(
            "---\nname: code_supervisor\ndescription: Coordinates\nrole: supervisor\n\
             provider: claude_code\nmodel: opus\nallowedTools: [\"@cao-mcp-server\", fs_read]\n\
             capabilities: [planning, review]\ntags: [lead, review]\nmcpServers:\n  \
             cao-mcp-server:\n    type: stdio\n    command: uvx\n    args:\n      - \"x\"\n---\n\
             # SUPERVISOR\nYou lead.\n",
        );
        assert_eq!(made.driver.as_deref(), Some("claude"), "what runs that provider here");
        assert_eq!(made.allowed_tools, Some(vec!["mcp__cao-mcp-server".into(), "Read".into()]));
        assert_eq!((made.tools, made.services), (None, None));
        assert_eq!(made.tags, ["lead", "review", "planning"]);
        let config: Value = serde_json::from_str(&made.config).expect("JSON");
        assert_eq!((&config["role"], &config["model"]), (&"supervisor".into(), &"opus".into()));
        assert_eq!(config["mcpServers"]["cao-mcp-server"]["command"], "uvx");
        assert!(made.system_prompt.starts_with("# SUPERVISOR"));
    }

    #[test]
    fn a_provider_brings_its_program_and_the_file_may_say_otherwise() {
        let acp = good("---\nname: a\nprovider: opencode_cli\n---\n");
        assert_eq!(acp.driver.as_deref(), Some("acp"));
        assert_eq!(acp.config, r#"{"command":["opencode","acp"]}"#);
        let own = good("---\nname: a\nprovider: gemini_cli\ncommand: [g, --acp]\n---\n");
        assert_eq!(own.config, r#"{"command":["g","--acp"]}"#);
        let ours = good("---\nname: a\ndriver: external\nprovider: claude_code\n---\n");
        assert_eq!(ours.driver.as_deref(), Some("external"));
        let unknown = good("---\nname: a\nprovider: ouija\n---\n");
        assert_eq!(unknown.driver.as_deref(), Some("ouija"));
    }

    #[test]
    fn a_permission_mode_has_the_name_of_cao_or_of_ours_and_not_both() {
        for key in ["permissionMode", "permission_mode"] {
            let made = good(&format!("---\nname: a\ndriver: claude\n{key}: plan\n---\n"));
            assert_eq!(made.config, r#"{"permission_mode":"plan"}"#, "{key}");
        }
        let both = "---\nname: a\npermission_mode: plan\npermissionMode: auto\n---\n";
        let (line, why) = bad(both);
        assert_eq!(line, Some(4));
        assert!(why.contains("`permission_mode`") && why.contains("permissionMode"), "{why}");
        bad("---\nname: a\npermissionMode: auto\nconfig: {permission_mode: plan}\n---\n");
        let wrong = "---\nname: a\ndriver: claude\npermissionMode: frob\n---\n";
        let fault = parse(wrong).expect("a profile").not_startable().expect("a fault");
        assert_eq!(fault.line, Some(4), "{fault:?}");
    }

    #[test]
    fn every_tool_of_cao_is_a_mode_in_which_nothing_is_asked() {
        let every = "---\nname: a\nprovider: claude_code\nallowedTools: [\"*\"]\n---\n";
        let parsed = parse(every).expect("a profile");
        assert_eq!(parsed.template.config, r#"{"permission_mode":"bypassPermissions"}"#);
        assert_eq!(parsed.template.allowed_tools, None);
        assert_eq!(parsed.not_startable(), None);
        let own = every.replace("provider: claude_code", "driver: claude");
        let fault = parse(&own).expect("a profile").not_startable().expect("a fault");
        assert!(fault.why.contains("bypassPermissions") && fault.line == Some(4), "{fault:?}");
    }

    #[test]
    fn tools_allowed_tools_and_services_are_three_things() {
        let made = good(
            "---\nname: a\nallowed_builtin_service_aliases: []\nallowedTools: [Read]\n\
             tools: Read, Grep\n---\n",
        );
        assert_eq!(made.tools, Some(vec!["Read".into(), "Grep".into()]));
        assert_eq!(made.allowed_tools, Some(vec!["Read".into()]));
        assert_eq!(made.services, Some(Vec::new()));
        let old = good("---\nname: a\nallowed_services: [files]\nallowed_tools: [Read]\n---\n");
        assert_eq!((old.services, old.tools), (Some(vec!["files".into()]), None));
        assert_eq!(old.allowed_tools, Some(vec!["Read".into()]));
        let twice = "---\nname: a\nallowedTools: [Read]\nallowed_tools: [Write]\n---\n";
        let (line, why) = bad(twice);
        assert_eq!(line, Some(4));
        assert!(why.contains("`allowedTools`"), "none of them wins in silence: {why}");
        let parsed = parse("---\nname: a\ntools: []\nallowedTools: []\n---\n").expect("good");
        assert_eq!((parsed.line_of("tools"), parsed.line_of("allowed_tools")), (Some(3), Some(4)));
    }

    #[test]
    fn a_fault_names_its_line() {
        for (text, line, why) in [
            ("", Some(1), "does not begin"),
            ("# just text\n", Some(1), "does not begin"),
            ("---\nname: a\n", Some(1), "no end"),
            ("---\n---\nbody", Some(1), "name: it is missing"),
            ("---\ndescription: x\n---\n", Some(1), "name: it is missing"),
            ("---\ndescription: x\nname: \"a!\"\n---\n", Some(3), "did you mean `a`?"),
            ("---\nname: human\n---\n", Some(2), "name"),
            ("---\nname: a\n\nkind: robot\n---\n", Some(4), "mechanical"),
            ("---\nname: a\ntags: {a: b}\n---\n", Some(3), "tags: it is a list"),
            ("---\nname: a\ntools: [[a]]\n---\n", Some(3), "tools: it is a list"),
            ("---\nname: a\ndescription: [a]\n---\n", Some(3), "description: it is a text"),
            ("---\nname: a\nconfig: [a]\n---\n", Some(3), "config: it is a mapping"),
            ("---\nname: a\ndescription: \"open\ntags: [x]\n---\n", None, "not good YAML"),
            ("---\nname: a\ntags: [a, b\n---\n", None, "not good YAML"),
            ("---\nname: a\n\tb: c\n---\n", Some(2), "found a tab"),
            ("---\nname: a\nname: b\n---\n", Some(3), "not good YAML"),
            ("---\n- a\n- b\n---\n", Some(2), "not good YAML"),
        ] {
            let told = bad(text);
            assert!(told.1.contains(why), "{text:?}: {told:?}");
            assert!(told.0.is_some(), "{text:?}: {told:?}");
            assert!(line.is_none() || told.0 == line, "{text:?}: {told:?}");
        }
    }

    #[test]
    fn a_profile_that_starts_nobody_names_the_line_of_the_key_that_is_wrong() {
        let head = "---\nname: a\ndriver: command\ncommand: [\"true\"]\n";
        for (rest, line) in [
            ("timeout: soon\n", 5),
            ("model: x\nallowedTools: [Read]\n", 6),
            ("tools: [Read]\n", 5),
            ("config:\n  timeout: soon\n", 5),
        ] {
            let parsed = parse(&format!("{head}{rest}---\n")).expect("a profile");
            let fault = parsed.not_startable().expect("it starts nobody");
            assert_eq!(fault.line, Some(line), "{rest}: {fault:?}");
        }
        let parsed = parse("---\nname: a\nprovider: tmux\n---\n").expect("a profile");
        assert_eq!(parsed.not_startable().expect("no such driver").line, Some(3));
    }

    #[test]
    fn a_file_that_does_not_parse_still_says_whose_profile_it_was_to_be() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        for (file, text, name) in [
            ("one.md", "---\ntags: [a, b\nname: 'reviewer'\n---\n", Some("reviewer")),
            ("reviewer.md", "---\ntags: [a, b\n---\n", Some("reviewer")),
            ("Reviewer.md", "no front matter", Some("reviewer")),
            ("two words.md", "no front matter", None),
        ] {
            let path = scratch.path().join(file);
            std::fs::write(&path, text).expect("written");
            let whose = read(&path, 1_000).expect_err("it is wrong").profile;
            assert_eq!(whose.as_ref().map(Name::as_str), name, "{file}");
        }
    }

    #[test]
    fn other_ways_to_write_the_same_are_read_too() {
        let made = good("\u{feff}---\r\nname: a\r\ntags: x, y\r\nversion: 3\r\n---\r\nHi\r\n");
        assert_eq!((made.tags, made.system_prompt), (vec!["x".into(), "y".into()], "Hi".into()));
        assert_eq!(made.config, r#"{"version":3}"#);
        let parsed = parse("---\nname: a\n\"provider\" : x\n---\n").expect("good");
        assert_eq!((parsed.line_of("driver"), parsed.line_of("name")), (Some(3), Some(2)));
        assert_eq!(good("---\nname: a\nsystem_prompt: be kind\n---\n").system_prompt, "be kind");
    }
}
