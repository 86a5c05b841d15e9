//! Recorded conversations with the real program, played again without it.
//!
//! A recording has one JSON object a line: a line that Claude Code wrote (`heard`), a line
//! that the hub wrote to it (`wrote`), or a call of the session (`do`). Ids, times, paths and
//! long texts are replaced; the rest is to the letter.

mod launching;
mod turns;

use std::path::Path;

use serde_json::Value;

use super::Claude;
use crate::conversation::tests::older_states;
use crate::conversation::{Activity, Conversation, Heard, PromptNo, ToolState, TurnEnd};
use crate::drivers::{Brief, Driver, Launch};
use crate::settings::Settings;
use crate::settings::tests::profile;

/// A recording and its lines.
type Recording = (&'static str, &'static str);

macro_rules! recordings {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("recorded/", $name, ".jsonl")))),*]
    };
}

pub(super) const RECORDINGS: [Recording; 15] = recordings! {
    "command" "cut_and_steered" "failing" "interrupt" "late" "logged_out" "mcp" "permission"
    "plain" "refused" "steer" "stopped_sub_agent" "sub_agent" "tool" "withdrawn"
};

/// One step of a recording, without the lines that the hub wrote.
#[derive(Clone)]
pub(super) enum Step {
    Heard(Vec<u8>),
    Prompt(PromptNo, String),
    Steer(PromptNo, String),
    Interrupt,
    Answer(String, bool),
}

fn launch(config: &str) -> Launch {
    let profile = profile(Some("claude"), config);
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
    Claude.launch(&brief).expect("a good profile").expect("a program")
}

pub(super) fn resume(state: &Value) -> Box<dyn Conversation> {
    Claude.resume(state).expect("a state of this driver")
}

/// Returns a conversation before its first line.
pub(super) fn begin() -> Box<dyn Conversation> {
    resume(&launch("{}").state.expect("a conversation"))
}

pub(super) fn steps(lines: &str) -> Vec<Step> {
    let steps = lines.lines().filter_map(|line| {
        let step: Value = serde_json::from_str(line).expect("a recording");
        if let Some(heard) = step.get("heard") {
            return Some(Step::Heard(heard.to_string().into_bytes()));
        }
        let done = step.get("do")?;
        let text = |of: &Value| of.as_str().expect("a text").to_owned();
        let number = |of: &Value| of[0].as_u64().expect("a number");
        Some(match (done.get("prompt"), done.get("steer"), done.get("answer")) {
            (Some(prompt), _, _) => Step::Prompt(number(prompt), text(&prompt[1])),
            (_, Some(steer), _) => Step::Steer(number(steer), text(&steer[1])),
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

fn lines_of(name: &str) -> &'static str {
    RECORDINGS.iter().find(|(own, _)| *own == name).expect("recorded").1
}

/// Plays a recording; returns all that was heard and written in it.
fn play(name: &str) -> Vec<Heard> {
    let mut talk = begin();
    let mut heard = talk.open();
    heard.extend(steps(lines_of(name)).iter().flat_map(|step| take(&mut talk, step)));
    heard
}

/// Plays a recording; returns its events in few words, without the ids of conversations and
/// the figures.
fn told(name: &str) -> Vec<String> {
    play(name).iter().filter_map(brief).collect()
}

fn brief(heard: &Heard) -> Option<String> {
    Some(match heard {
        Heard::Began(no) => format!("began {no}"),
        Heard::NotTaken(no) => format!("not taken {no}"),
        Heard::TurnEnded(TurnEnd::Answer(text)) => format!("answered: {text}"),
        Heard::TurnEnded(TurnEnd::Interrupted) => "interrupted".to_owned(),
        Heard::TurnEnded(TurnEnd::Failed(why)) => format!("failed: {why}"),
        Heard::Text(text) => format!("said: {text}"),
        Heard::Thought(text) => format!("thought: {text}"),
        Heard::Tool(tool) => match tool.state {
            ToolState::Began => format!("calls {}", tool.name),
            ToolState::Done => format!("done: {}", tool.detail),
            ToolState::Failed => format!("refused: {}", tool.detail),
        },
        Heard::Asks(request) => format!("asks for {}", request.subject),
        Heard::Withdrew(_) => "withdrew".to_owned(),
        Heard::Unknown(line) => format!("unknown: {line}"),
        Heard::Fails(why) => format!("cannot work: {why}"),
        Heard::Screen(_) => "screen".to_owned(),
        Heard::Send(_)
        | Heard::SendWithToken(_)
        | Heard::Calls(_)
        | Heard::Usage(_)
        | Heard::ConversationId(_) => {
            return None;
        }
    })
}

#[test]
fn the_hub_writes_to_the_letter_what_the_real_program_understood() {
    for (name, lines) in RECORDINGS {
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let recorded: Vec<Value> = lines.filter_map(|line| line.get("wrote").cloned()).collect();
        let wrote = play(name).into_iter().filter_map(|heard| match heard {
            Heard::Send(bytes) => Some(String::from_utf8(bytes).expect("text")),
            _ => None,
        });
        let wrote: Vec<Value> = wrote
            .map(|line| {
                assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
                serde_json::from_str(&line).expect("JSON")
            })
            .collect();
        assert_eq!(wrote, recorded, "{name}");
    }
}

#[test]
fn a_hub_that_starts_again_at_any_line_goes_on_as_if_it_had_never_stopped() {
    for (name, lines) in RECORDINGS {
        let steps = steps(lines);
        let mut unbroken = begin();
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
fn after_each_recorded_turn_the_agent_takes_the_next_prompt() {
    for (name, lines) in RECORDINGS.into_iter().filter(|(name, _)| *name != "refused") {
        let mut talk = begin();
        for step in steps(lines) {
            take(&mut talk, &step);
        }
        assert_eq!(talk.activity(), Activity::Idle, "{name}");
        assert!(talk.prompt(99, "hello").is_some(), "{name}");
        assert_eq!(talk.activity(), Activity::Busy, "{name}");
    }
}

#[test]
fn a_hub_of_another_version_takes_up_its_agents_again() {
    for (_, lines) in RECORDINGS {
        let mut talk = begin();
        talk.open();
        for step in steps(lines) {
            take(&mut talk, &step);
            for older in older_states(&talk.state()) {
                resume(&older);
            }
        }
    }
}
