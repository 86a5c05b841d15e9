//! What a profile says about the program in its terminal.

use posthaste_core::ports::LaunchError;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::typing;

/// The largest compiled pattern, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// The keys of a profile of this driver. Kept in the conversation's state, so that a
/// profile that changes meanwhile does not change a running conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manners {
    idle: Option<String>,
    busy: Option<String>,
    waiting: Option<String>,
    pasted: Option<String>,
    #[serde(default)]
    failed: Option<String>,
    answer: Option<String>,
    /// The program takes a text of several lines as one prompt.
    pub(super) multiline: bool,
    /// The keys that end a turn.
    pub(super) interrupt: Option<String>,
    allow: Option<String>,
    deny: Option<String>,
}

/// The patterns of a profile, ready to use.
#[derive(Debug, Clone, Default)]
pub(super) struct Patterns {
    /// The program waits for a prompt, and its input is empty.
    pub(super) idle: Option<Regex>,
    /// A turn runs.
    pub(super) busy: Option<Regex>,
    /// The program waits for an answer of a person.
    pub(super) waiting: Option<Regex>,
    /// What the program shows instead of a long text that was pasted.
    pub(super) pasted: Option<Regex>,
    /// The sign, within what came after the prompt, that the turn has failed.
    pub(super) failed: Option<Regex>,
    /// The answer, within what came after the prompt.
    pub(super) answer: Option<Regex>,
}

impl Manners {
    /// Reads the keys from the profile's `config`. The error names the key.
    pub(super) fn read(profile: &str, config: &str) -> Result<Self, LaunchError> {
        let config: Map<String, Value> = serde_json::from_str(config).unwrap_or_default();
        let wrong = |key: &'static str, why: String| LaunchError {
            why: format!("the profile {profile} cannot be used: `{key}` {why}"),
            hint: Some(format!("change it, and see `posthaste profiles show {profile}`")),
            key: Some(key),
        };
        let group = |key: &'static str, known: &[&str]| {
            let empty = Map::new();
            let given = match config.get(key).filter(|value| !value.is_null()) {
                None => return Ok(empty),
                Some(Value::Object(given)) => given.clone(),
                Some(_) => return Err(wrong(key, "is an object of texts".to_owned())),
            };
            match given.keys().find(|name| !known.contains(&name.as_str())) {
                Some(_) => Err(wrong(key, format!("has only these keys: {}", known.join(", ")))),
                None => Ok(given),
            }
        };
        let text = |key: &'static str, value: Option<&Value>| match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            // YAML takes a digit without quotes for a number, and `y` for a yes.
            Some(Value::Number(digit)) if key == "keys" => Ok(Some(digit.to_string())),
            Some(_) => {
                Err(wrong(key, "has something else than a text: put it in quotes".to_owned()))
            }
        };
        let patterns = group("patterns", &["idle", "busy", "waiting", "pasted", "failed"])?;
        let pattern = |name: &str| text("patterns", patterns.get(name));
        let keys = group("keys", &["interrupt", "allow", "deny"])?;
        let pressed = |name: &str| match text("keys", keys.get(name))? {
            Some(pressed) if !typing::are_keys(&pressed) => {
                let why = "has names of keys such as Escape, Enter, C-c or y".to_owned();
                Err(wrong("keys", why))
            }
            pressed => Ok(pressed),
        };
        let manners = Self {
            idle: pattern("idle")?,
            busy: pattern("busy")?,
            waiting: pattern("waiting")?,
            pasted: pattern("pasted")?,
            failed: pattern("failed")?,
            answer: text("answer", config.get("answer"))?,
            multiline: match config.get("multiline").filter(|value| !value.is_null()) {
                None => false,
                Some(Value::Bool(multiline)) => *multiline,
                Some(_) => return Err(wrong("multiline", "is true or false".to_owned())),
            },
            interrupt: pressed("interrupt")?,
            allow: pressed("allow")?,
            deny: pressed("deny")?,
        };
        manners.patterns().map_err(|(key, why)| wrong(key, why))?;
        let has_keys = manners.allow.is_some() && manners.deny.is_some();
        if manners.waiting.is_some() && !has_keys {
            let why = "needs `allow` and `deny`, the keys that answer what `patterns.waiting` asks";
            return Err(wrong("keys", why.to_owned()));
        }
        Ok(manners)
    }

    /// Returns whether the hub can see when the program takes a prompt.
    pub(super) fn takes_prompts(&self) -> bool {
        self.idle.is_some()
    }

    /// Returns the keys that answer a dialogue.
    pub(super) fn answers(&self, allow: bool) -> &str {
        let keys = if allow { &self.allow } else { &self.deny };
        keys.as_deref().unwrap_or_default()
    }

    /// Compiles the patterns. The error names the key of the profile.
    pub(super) fn patterns(&self) -> Result<Patterns, (&'static str, String)> {
        let compile = |key, pattern: &Option<String>| {
            let Some(pattern) = pattern else { return Ok(None) };
            let mut builder = RegexBuilder::new(pattern);
            let regex = builder.multi_line(true).size_limit(PATTERN_BYTES).build();
            match regex {
                Ok(regex) if regex.is_match("") => {
                    Err((key, "has a pattern that fits an empty screen".to_owned()))
                }
                Ok(regex) => Ok(Some(regex)),
                Err(_) => Err((key, "has a pattern that is no regular expression".to_owned())),
            }
        };
        Ok(Patterns {
            idle: compile("patterns", &self.idle)?,
            busy: compile("patterns", &self.busy)?,
            waiting: compile("patterns", &self.waiting)?,
            pasted: compile("patterns", &self.pasted)?,
            failed: compile("patterns", &self.failed)?,
            answer: compile("answer", &self.answer)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_how_its_program_looks() {
        let config = r#"{"patterns": {"idle": "^> *\\z", "busy": "esc to interrupt"},
            "answer": "^= (.*)", "multiline": true, "keys": {"interrupt": "Escape"}, "theirs": 1}"#;
        let manners = Manners::read("counter", config).expect("good");
        assert!(manners.multiline);
        assert_eq!((manners.interrupt.as_deref(), &manners.allow), (Some("Escape"), &None));
        let patterns = manners.patterns().expect("compiled before");
        let idle = patterns.idle.expect("given");
        assert!(idle.is_match("> one\ntwo\n>") && !idle.is_match(">\n> one"));
        assert!(patterns.waiting.is_none());
        let asking = r#"{"patterns": {"waiting": "^Allow"}, "keys": {"allow": 1, "deny": "n"}}"#;
        let asking = Manners::read("counter", asking).expect("YAML takes a digit for a number");
        assert_eq!((asking.answers(true), asking.answers(false)), ("1", "n"));
        let silent = Manners::read("counter", "{}").expect("nothing is needed");
        assert_eq!((silent.interrupt, silent.multiline), (None, false));
    }

    #[test]
    fn a_key_of_the_wrong_form_is_named() {
        for (config, key) in [
            (r#"{"patterns": "^>"}"#, "patterns"),
            (r#"{"patterns": {"idel": "^>"}}"#, "patterns"),
            (r#"{"patterns": {"idle": 3}}"#, "patterns"),
            (r#"{"patterns": {"idle": "("}}"#, "patterns"),
            (r#"{"patterns": {"idle": "$"}}"#, "patterns"),
            (r#"{"patterns": {"busy": "(\\w{500}){500}"}}"#, "patterns"),
            (r#"{"answer": ["x"]}"#, "answer"),
            (r#"{"answer": "["}"#, "answer"),
            (r#"{"multiline": "yes"}"#, "multiline"),
            (r#"{"keys": {"interrupt": "Escpe"}}"#, "keys"),
            (r#"{"keys": {"quit": "q"}}"#, "keys"),
            (r#"{"keys": {"allow": true}}"#, "keys"),
            (r#"{"keys": {"allow": 12}}"#, "keys"),
            (r#"{"patterns": {"waiting": "^Allow"}}"#, "keys"),
            (r#"{"patterns": {"waiting": "^Allow"}, "keys": {"allow": "y"}}"#, "keys"),
        ] {
            let error = Manners::read("counter", config).expect_err(config);
            assert_eq!(error.key, Some(key), "{config}: {error}");
            assert!(error.why.contains("counter") && error.hint.is_some(), "{error}");
        }
    }
}
