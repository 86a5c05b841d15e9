//! Recorded conversations with the real programs, played again without them.
//!
//! A recording has one JSON object a line: a line that the program wrote (`heard`), a line
//! that the hub wrote to it (`wrote`), or a call of the session (`do`). Paths are replaced
//! and long lists shortened; the rest is to the letter. The model was played on loopback.

mod odd;
mod opening;
mod turns;

use std::path::Path;

use posthaste_core::ports::LaunchError;
use serde_json::{Value, json};

use super::Acp;
use crate::conversation::tests::older_states;
use crate::conversation::{Conversation, Heard, PromptNo, TOKEN};
use crate::drivers::{Brief, Driver, Launch};
use crate::settings::Settings;
use crate::settings::tests::profile;

/// A recording, the `config` of its profile beside the command, and its lines.
type Recording = (&'static str, &'static str, &'static str);

macro_rules! recordings {
    ($($name:literal $config:literal)*) => {
        &[$(($name, $config, include_str!(concat!("recorded/", $name, ".jsonl")))),*]
    };
}

pub(super) const RECORDINGS: &[Recording] = recordings! {
    "claude-plain" r#"{"model": "haiku", "permission_mode": "acceptEdits"}"#
    "claude-tool" "{}"
    "claude-allow" "{}"
    "claude-deny" "{}"
    "claude-steer" "{}"
    "claude-late" "{}"
    "claude-cancel" "{}"
    "claude-cancel_ask" "{}"
    "claude-cancel_both" "{}"
    "claude-failing" "{}"
    "claude-logged_out" "{}"
    "codex-plain" r#"{"model": "scripted", "permission_mode": "workspace-write"}"#
    "codex-tool" r#"{"permission_mode": "workspace-write"}"#
    "codex-allow" r#"{"permission_mode": "workspace-write"}"#
    "codex-deny" r#"{"permission_mode": "workspace-write"}"#
    "codex-cancel" r#"{"permission_mode": "workspace-write"}"#
    "codex-cancel_ask" r#"{"permission_mode": "workspace-write"}"#
    "codex-failing" r#"{"permission_mode": "workspace-write"}"#
    "codex-logged_out" "{}"
    "gemini-plain" r#"{"model": "gemini-2.5-pro", "permission_mode": "autoEdit"}"#
    "gemini-tool" "{}"
    "gemini-allow" "{}"
    "gemini-deny" "{}"
    "gemini-cancel" "{}"
    "gemini-cancel_ask" "{}"
    "gemini-failing" "{}"
    "gemini-logged_out" "{}"
    "opencode-plain" r#"{"model": "scripted/n", "permission_mode": "build"}"#
    "opencode-tool" "{}"
    "opencode-allow" "{}"
    "opencode-deny" "{}"
    "opencode-steer" "{}"
    "opencode-late" "{}"
    "opencode-cancel" "{}"
    "opencode-cancel_ask" "{}"
    "opencode-cancel_both" "{}"
    "opencode-failing" "{}"
};

/// A second prompt in mid-turn, which the driver would not write to these programs.
const ABORTED: &str = include_str!("recorded/gemini-second.jsonl");
const PUT_OFF: &str = include_str!("recorded/codex-second.jsonl");

/// One step of a recording, without the lines that the hub wrote.
#[derive(Clone)]
pub(super) enum Step {
    Heard(Vec<u8>),
    Prompt(PromptNo, String),
    Steer(PromptNo, String),
    Interrupt,
    Answer(String, bool),
}

fn try_launch(config: &str) -> Result<Launch, LaunchError> {
    let profile = profile(Some("acp"), config);
    let settings = Settings::read(&profile, None).expect("a good profile");
    let brief = Brief {
        template: &profile.template,
        settings: &settings,
        directory: Path::new("/home/me/project"),
        home: Path::new("/home/me/posthaste"),
        hub: "http://127.0.0.1:9889",
        binary: Path::new("/usr/bin/posthaste"),
        instructions: "You are bob.",
        thread: "t-0000000a",
    };
    Acp.launch(&brief).map(|launch| launch.expect("a program"))
}

pub(super) fn resume(state: &Value) -> Box<dyn Conversation> {
    Acp.resume(state).expect("a state of this driver")
}

/// Returns the conversation of a recording before its first line.
pub(super) fn begin(config: &str) -> Box<dyn Conversation> {
    let mut config: Value = serde_json::from_str(config).expect("JSON");
    config["command"] = json!(["agent", "acp"]);
    let launch = try_launch(&config.to_string()).expect("a good profile");
    resume(&launch.state.expect("a conversation"))
}

pub(super) fn steps(lines: &str) -> Vec<Step> {
    let steps = lines.lines().filter_map(|line| {
        let step: Value = serde_json::from_str(line).expect("a recording");
        if let Some(heard) = step.get("heard") {
            return Some(Step::Heard(heard.to_string().into_bytes()));
        }
        let done = step.get("do")?;
        let text = |of: &Value| of.as_str().expect("a text").to_owned();
        let numbered = |of: &Value| (of[0].as_u64().expect("a number"), text(&of[1]));
        Some(match (done.get("prompt"), done.get("steer"), done.get("answer")) {
            (Some(prompt), _, _) => {
                let (no, text) = numbered(prompt);
                Step::Prompt(no, text)
            }
            (_, Some(steer), _) => {
                let (no, text) = numbered(steer);
                Step::Steer(no, text)
            }
            (_, _, Some(answer)) => Step::Answer(text(&answer[0]), answer[1] == true),
            _ => Step::Interrupt,
        })
    });
    steps.collect()
}

pub(super) fn take(talk: &mut Box<dyn Conversation>, step: &Step) -> Vec<Heard> {
    let written = match step {
        Step::Heard(line) => return talk.heard(line),
        Step::Prompt(no, text) => talk.prompt(*no, text),
        Step::Steer(no, text) => talk.steer(*no, text),
        Step::Interrupt => talk.interrupt(),
        Step::Answer(request, allow) => talk.answer(request, *allow, "because"),
    };
    vec![Heard::Send(written.expect("it was possible then"))]
}

fn recording(name: &str) -> Recording {
    *RECORDINGS.iter().find(|(own, ..)| *own == name).expect("recorded")
}

/// Plays a recording; returns what was heard in it.
fn play((_, config, lines): Recording) -> Vec<Heard> {
    let mut talk = begin(config);
    let mut heard = talk.open();
    heard.extend(steps(lines).iter().flat_map(|step| take(&mut talk, step)));
    heard
}

/// Plays the recording of this name; leaves out what was written and what meant nothing.
fn heard_in(name: &str) -> Vec<Heard> {
    let told = |heard: &Heard| {
        !matches!(heard, Heard::Send(_) | Heard::SendWithToken(_) | Heard::Unknown(_))
    };
    play(recording(name)).into_iter().filter(told).collect()
}

/// Returns the lines that were written, as in a recording.
fn written(heard: Heard) -> Vec<Value> {
    let lines = match heard {
        Heard::Send(bytes) => String::from_utf8(bytes).expect("text"),
        Heard::SendWithToken(line) => line.replace(TOKEN, "TOKEN"),
        _ => return Vec::new(),
    };
    assert!(lines.ends_with('\n'), "whole lines: {lines:?}");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_hub_writes_to_the_letter_what_the_real_programs_understood() {
    for recording in RECORDINGS {
        let (name, _, lines) = *recording;
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let mut recorded: Vec<Value> =
            lines.filter_map(|line| line.get("wrote").cloned()).collect();
        recorded[0]["params"]["clientInfo"]["version"] = json!(env!("CARGO_PKG_VERSION"));
        let wrote: Vec<Value> = play(*recording).into_iter().flat_map(written).collect();
        for (wrote, recorded) in wrote.iter().zip(&recorded) {
            assert_eq!(wrote, recorded, "{name}");
        }
        assert_eq!(wrote.len(), recorded.len(), "{name}");
    }
}

#[test]
fn a_hub_that_starts_again_at_any_line_goes_on_as_if_it_had_never_stopped() {
    for (name, config, lines) in RECORDINGS {
        let steps = steps(lines);
        let mut unbroken = begin(config);
        unbroken.open();
        let (mut kept, mut heard) = (vec![unbroken.state().to_string()], Vec::new());
        for step in &steps {
            heard.push((take(&mut unbroken, step), unbroken.activity()));
            kept.push(unbroken.state().to_string());
        }
        for (cut, kept) in kept.iter().enumerate() {
            let mut resumed = resume(&serde_json::from_str(kept).expect("JSON"));
            for (step, unbroken) in steps[cut..].iter().zip(&heard[cut..]) {
                let again = (take(&mut resumed, step), resumed.activity());
                assert_eq!(&again, unbroken, "{name}, cut at {cut}");
            }
            assert_eq!(resumed.state(), unbroken.state(), "{name}, cut at {cut}");
        }
    }
}

#[test]
fn a_hub_of_another_version_takes_up_its_agents_again() {
    for (_, config, lines) in RECORDINGS {
        let mut talk = begin(config);
        talk.open();
        for step in steps(lines) {
            take(&mut talk, &step);
            for older in older_states(&talk.state()) {
                resume(&older);
            }
        }
    }
}
