//! Recorded conversations with the real program, played again without it.
//!
//! A recording has one JSON object a line: a line that Codex wrote (`heard`), a line that
//! the hub wrote to it (`wrote`), or a call of the session (`do`). Paths, ids and times are
//! replaced; the rest is to the letter.

mod launching;
mod turns;

use std::path::Path;

use serde_json::{Value, json};

use super::Codex;
use crate::conversation::tests::older_states;
use crate::conversation::{Conversation, Heard, PromptNo, TOKEN};
use crate::drivers::{Brief, Driver, Launch};
use crate::settings::Settings;
use crate::settings::tests::profile;

/// A recording, the `config` of its profile, and its lines.
type Recording = (&'static str, &'static str, &'static str);

const ASKING: &str = r#"{"permission_mode": "read-only on-request"}"#;

pub(super) const RECORDINGS: [Recording; 13] = [
    ("plain", "{}", include_str!("recorded/plain.jsonl")),
    (
        "tool",
        r#"{"permission_mode": "workspace-write never"}"#,
        include_str!("recorded/tool.jsonl"),
    ),
    ("steer", "{}", include_str!("recorded/steer.jsonl")),
    ("late", "{}", include_str!("recorded/late.jsonl")),
    ("stranded", "{}", include_str!("recorded/stranded.jsonl")),
    ("interrupt", "{}", include_str!("recorded/interrupt.jsonl")),
    (
        "approvals",
        r#"{"permission_mode": "on-request, read-only",
            "mcpServers": {"other": {"type": "http", "url": "http://127.0.0.1:9889/mcp"}}}"#,
        include_str!("recorded/approvals.jsonl"),
    ),
    ("permissions", ASKING, include_str!("recorded/permissions.jsonl")),
    ("sub_agent", ASKING, include_str!("recorded/sub_agent.jsonl")),
    ("connected", "{}", include_str!("recorded/connected.jsonl")),
    ("logged_out", "{}", include_str!("recorded/logged_out.jsonl")),
    ("unauthorized", "{}", include_str!("recorded/unauthorized.jsonl")),
    ("failing", "{}", include_str!("recorded/failing.jsonl")),
];

/// One step of a recording, without the lines that the hub wrote.
#[derive(Clone)]
pub(super) enum Step {
    Heard(Vec<u8>),
    Prompt(PromptNo, String),
    Steer(PromptNo, String),
    Interrupt,
    Answer(String, bool),
}

pub(super) fn launch(config: &str) -> Launch {
    let profile = profile(Some("codex"), config);
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
    Codex.launch(&brief).expect("a good profile").expect("a program")
}

pub(super) fn resume(state: &Value) -> Box<dyn Conversation> {
    Codex.resume(state).expect("a state of this driver")
}

/// Returns the conversation of a recording before its first line.
pub(super) fn begin(config: &str) -> Box<dyn Conversation> {
    resume(&launch(config).state.expect("a conversation"))
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

/// Plays a recording; returns what was heard in it.
fn play((_, config, lines): Recording) -> Vec<Heard> {
    let mut talk = begin(config);
    let mut heard = talk.open();
    heard.extend(steps(lines).iter().flat_map(|step| take(&mut talk, step)));
    heard
}

/// Plays the recording of this name; leaves out what was written and what meant nothing.
fn heard_in(name: &str) -> Vec<Heard> {
    let recording = *RECORDINGS.iter().find(|(own, ..)| *own == name).expect("recorded");
    let told = |heard: &Heard| {
        !matches!(heard, Heard::Send(_) | Heard::SendWithToken(_) | Heard::Unknown(_))
    };
    play(recording).into_iter().filter(told).collect()
}

/// Returns a line that was written, as in a recording.
fn written(heard: Heard) -> Option<Value> {
    let line = match heard {
        Heard::Send(bytes) => String::from_utf8(bytes).expect("text"),
        Heard::SendWithToken(line) => line.replace(TOKEN, "TOKEN"),
        _ => return None,
    };
    assert!(line.ends_with('\n') && !line.trim_end().contains('\n'), "one line: {line:?}");
    Some(serde_json::from_str(&line).expect("JSON"))
}

#[test]
fn the_hub_writes_to_the_letter_what_the_real_program_understood() {
    for recording in RECORDINGS {
        let (name, _, lines) = recording;
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let mut recorded: Vec<Value> =
            lines.filter_map(|line| line.get("wrote").cloned()).collect();
        recorded[0]["params"]["clientInfo"]["version"] = json!(env!("CARGO_PKG_VERSION"));
        let wrote: Vec<Value> = play(recording).into_iter().filter_map(written).collect();
        assert_eq!(wrote.len(), recorded.len(), "{name}");
        for (wrote, recorded) in wrote.iter().zip(&recorded) {
            assert_eq!(wrote, recorded, "{name}");
        }
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
