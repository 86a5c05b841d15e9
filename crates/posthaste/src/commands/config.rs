//! `posthaste config`: shows the values in force, and where each comes from.

use posthaste_api::{ApiError, ErrorCode};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::cli::{ConfigArgs, Global};
use crate::config::tell::{self, Setting, written};
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(args: &ConfigArgs, global: &Global, output: &mut Output) -> Result<(), Failure> {
    if args.example {
        return match output.json() {
            true => output.answer(&json!({ "example": tell::example() })),
            false => output.say(tell::example().trim_end()),
        };
    }
    let all = tell::settings(global, &args.up)?;
    match &args.key {
        None => show(&all, output),
        Some(key) => {
            let inside = format!("{key}.");
            let (one, section): (Vec<_>, Vec<_>) = all
                .into_iter()
                .filter(|s| s.key == *key || s.key.starts_with(&inside))
                .partition(|s| s.key == *key);
            match (one.first(), section.is_empty()) {
                (Some(one), _) => show_one(one, output),
                (None, false) => show(&section, output),
                (None, true) if key == "models" => Err(no_model().into()),
                (None, true) => Err(unknown(key).into()),
            }
        }
    }
}

fn no_model() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "no model is configured").hint(
        "a section `[models.NAME]` of the configuration file names one; --config names the file",
    )
}

fn unknown(key: &str) -> ApiError {
    let told = ApiError::new(ErrorCode::NotFound, format!("there is no key `{key}`"));
    match tell::nearest(key) {
        Some(meant) => told.hint(format!("did you mean `{meant}`?")),
        None => told.hint("`posthaste config` lists them all"),
    }
}

fn show(settings: &[Setting], output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        return output.answer(&json!({ "settings": settings }));
    }
    let line = |s: &Setting| format!("{} = {}", s.key, written(&s.value));
    let width = settings.iter().map(|s| line(s).width()).max().unwrap_or(0);
    for setting in settings {
        let line = line(setting);
        let room = " ".repeat(width - line.width());
        output.say(&format!("{line}{room}  # {}", setting.from))?;
    }
    Ok(())
}

/// Shows one value and nothing else, for a script.
fn show_one(setting: &Setting, output: &mut Output) -> Result<(), Failure> {
    match (output.json(), setting.value.as_str()) {
        (true, _) => output.answer(setting),
        (false, Some(text)) => output.say(text),
        (false, None) => output.say(&written(&setting.value)),
    }
}
