//! The turns of the real programs.

use serde_json::Value;

use super::{ABORTED, PUT_OFF, begin, heard_in, play, recording, steps, take};
use crate::conversation::{
    Activity, Heard, PermissionRequest, PromptNo, ToolState, ToolUse, TurnEnd,
};

const ALL: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

fn answer(text: &str) -> Heard {
    Heard::TurnEnded(TurnEnd::Answer(text.to_owned()))
}

/// Returns which prompts began and which were given up, and how the turns ended.
fn turns(name: &str) -> Vec<Heard> {
    let is_about_turns =
        |heard: &Heard| matches!(heard, Heard::Began(_) | Heard::NotTaken(_) | Heard::TurnEnded(_));
    heard_in(name).into_iter().filter(is_about_turns).collect()
}

/// Returns the position of the line that made this prompt begin, and that of the line with
/// these words of the model, both among the steps.
fn places(name: &str, prompt: PromptNo, words: &str) -> (usize, usize) {
    let (_, config, lines) = recording(name);
    let mut talk = begin(config);
    talk.open();
    let (mut began, mut said) = (None, None);
    for (at, step) in steps(lines).iter().enumerate() {
        let heard = take(&mut talk, step);
        if heard.contains(&Heard::Began(prompt)) {
            began = Some(at);
        }
        let speaks = |heard: &Heard| matches!(heard, Heard::Text(text) if text == words);
        if said.is_none() && heard.iter().any(speaks) {
            said = Some(at);
        }
    }
    (began.expect("it began"), said.expect("it was said"))
}

#[test]
fn each_prompt_is_a_turn_and_its_last_words_are_the_answer() {
    for program in ALL {
        let expected =
            [Heard::Began(1), answer("Hello there."), Heard::Began(2), answer("Hello again.")];
        assert_eq!(turns(&format!("{program}-plain")), expected, "{program}");
        let expected = [Heard::Began(1), answer("It is open.")];
        assert_eq!(turns(&format!("{program}-tool")), expected, "{program}");
    }
}

#[test]
fn a_warning_of_the_adapter_is_no_proof_and_no_part_of_the_answer() {
    let heard = heard_in("codex-plain");
    let warns = |heard: &Heard| matches!(heard, Heard::Text(text) if text.starts_with("Warning"));
    let warned = heard.iter().position(warns).expect("codex-acp warns before it asks its model");
    let began = heard.iter().position(|heard| *heard == Heard::Began(1)).expect("it began");
    assert!(warned < began, "{heard:?}");
}

#[test]
fn words_without_the_id_of_a_message_prove_nothing_until_the_turn_is_over() {
    let (began, said) = places("gemini-plain", 1, "Hello there.");
    assert_eq!(began, said, "both with the answer to the prompt");
    let (began, said) = places("opencode-plain", 1, "Hello there.");
    assert!(began < said, "the first words of the model are enough");
    // With the first call of a tool.
    let (began, said) = places("gemini-tool", 1, "It is open.");
    assert!(began < said);
}

#[test]
fn a_tool_is_shown_with_its_name_its_arguments_and_its_result() {
    for (program, name) in [
        ("claude", "mcp__posthaste__check_inbox"),
        ("codex", "mcp.posthaste.check_inbox"),
        ("gemini", "check_inbox (posthaste MCP Server)"),
        ("opencode", "posthaste_check_inbox"),
    ] {
        let uses: Vec<ToolUse> = heard_in(&format!("{program}-tool"))
            .into_iter()
            .filter_map(|heard| match heard {
                Heard::Tool(tool) => Some(tool),
                _ => None,
            })
            .collect();
        let [began, done] = uses.as_slice() else { panic!("{program}: {uses:?}") };
        assert_eq!((began.name.as_str(), began.state), (name, ToolState::Began), "{program}");
        assert_eq!((done.name.as_str(), done.state), (name, ToolState::Done), "{program}");
        assert_eq!(began.id, done.id, "{program}");
        assert!(done.detail.contains("the gate is open"), "{program}: {done:?}");
    }
}

#[test]
fn the_hub_allows_its_own_tools_without_asking_anybody() {
    for program in ALL {
        let heard = heard_in(&format!("{program}-tool"));
        assert!(!heard.iter().any(|heard| matches!(heard, Heard::Asks(_))), "{program}");
    }
    // These asked, and were answered.
    for program in ["codex", "gemini"] {
        let wrote = play(recording(&format!("{program}-tool")));
        let wrote = wrote.into_iter().flat_map(super::written);
        let answers = wrote.filter(|line| line["result"]["outcome"]["outcome"] == "selected");
        assert_eq!(answers.count(), 1, "{program}");
    }
}

#[test]
fn a_permission_is_asked_with_the_command_as_its_subject() {
    for program in ALL {
        let heard = heard_in(&format!("{program}-allow"));
        let asked = heard.iter().find_map(|heard| match heard {
            Heard::Asks(request) => Some(request.clone()),
            _ => None,
        });
        let PermissionRequest { request, subject, text } = asked.expect("it asks");
        assert_eq!(request, "0", "{program}");
        assert_eq!(subject, "Bash(touch made-by-bash)", "{program}");
        assert!(text.starts_with("Bash: touch made-by-bash"), "{program}: {text}");
        let expected = [Heard::Began(1), answer("It is made.")];
        assert_eq!(turns(&format!("{program}-allow")), expected, "{program}");
    }
}

/// OpenCode and codex-acp end the turn at a denial; the recordings show that the hub then
/// tells their models, in the same turn.
#[test]
fn the_model_of_every_program_goes_on_after_a_denial() {
    for program in ALL {
        let expected = [Heard::Began(1), answer("I may not.")];
        assert_eq!(turns(&format!("{program}-deny")), expected, "{program}");
    }
}

#[test]
fn a_second_prompt_joins_the_turn_and_the_turn_ends_once() {
    for program in ["claude", "opencode"] {
        let expected = [Heard::Began(1), Heard::Began(2), answer("Both are done.")];
        assert_eq!(turns(&format!("{program}-steer")), expected, "{program}");
        // The second came too late for the first answer, which is not lost.
        let both = answer("Hello there.\n\nThe second is done.");
        let expected = [Heard::Began(1), Heard::Began(2), both];
        assert_eq!(turns(&format!("{program}-late")), expected, "{program}");
    }
}

#[test]
fn a_prompt_that_came_too_late_for_the_running_message_has_not_begun_with_it() {
    for program in ["claude", "opencode"] {
        let (began, said) = places(&format!("{program}-late"), 2, "Hello there.");
        assert!(began > said, "{program}: the words are of the message before");
    }
}

/// What the programs do that get no second prompt in mid-turn.
#[test]
fn programs_that_do_not_fold_a_second_prompt_in_get_none() {
    let answers = |lines: &str| -> Vec<String> {
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let reasons = lines.map(|line| line["heard"]["result"]["stopReason"].clone());
        reasons.filter_map(|reason| reason.as_str().map(str::to_owned)).collect()
    };
    assert_eq!(answers(ABORTED), ["cancelled", "end_turn"], "the first is aborted");
    assert_eq!(answers(PUT_OFF), ["end_turn", "end_turn"], "the second is a turn of its own");
    for (name, steers) in [
        ("gemini-tool", false),
        ("codex-tool", false),
        ("claude-tool", true),
        ("opencode-tool", true),
    ] {
        let (_, config, lines) = recording(name);
        let mut talk = begin(config);
        talk.open();
        for step in steps(lines) {
            if talk.activity() == Activity::Busy {
                break;
            }
            take(&mut talk, &step);
        }
        assert_eq!(talk.can_steer(), steers, "{name}");
        assert_eq!(talk.steer(2, "and this").is_some(), steers, "{name}");
    }
}

#[test]
fn an_interrupted_turn_settles_nothing_and_the_next_prompt_is_a_turn() {
    for program in ALL {
        let expected = [
            Heard::Began(1),
            Heard::TurnEnded(TurnEnd::Interrupted),
            Heard::Began(2),
            answer("Hello there."),
        ];
        assert_eq!(turns(&format!("{program}-cancel")), expected, "{program}");
        assert_eq!(turns(&format!("{program}-cancel_ask")), expected, "{program}");
        let heard = heard_in(&format!("{program}-cancel_ask"));
        assert!(heard.contains(&Heard::Withdrew("0".to_owned())), "{program}: {heard:?}");
    }
}

/// claude-agent-acp asks its model about the second prompt all the same, after both were
/// cancelled: its words prove nothing about the third.
#[test]
fn a_prompt_that_was_cancelled_before_it_began_is_never_said_to_have_begun() {
    let expected = [
        Heard::Began(1),
        Heard::NotTaken(2),
        Heard::TurnEnded(TurnEnd::Interrupted),
        Heard::Began(3),
        answer("Hello there."),
    ];
    assert_eq!(turns("claude-cancel_both"), expected);
    assert!(
        heard_in("claude-cancel_both")
            .iter()
            .any(|heard| matches!(heard, Heard::Text(text) if text.starts_with("Nobody")),)
    );
    let (began, said) = places("claude-cancel_both", 3, "Hello there.");
    assert_eq!(began, said, "not before the answer to the prompt");
    let expected = [
        Heard::Began(1),
        Heard::TurnEnded(TurnEnd::Interrupted),
        Heard::Began(3),
        answer("Hello there."),
    ];
    assert_eq!(turns("opencode-cancel_both"), expected);
}

#[test]
fn a_model_that_fails_fails_the_turn_and_its_words_are_no_answer() {
    for (program, why) in [
        (
            "claude",
            "Claude Agent failed: Internal error: API Error: 400 the scripted model refuses",
        ),
        ("codex", "Codex failed: the scripted model refuses"),
        ("gemini", "Gemini CLI failed: the scripted model refuses"),
        ("opencode", "OpenCode failed: Internal error: the scripted model refuses"),
    ] {
        let turns = turns(&format!("{program}-failing"));
        let failed = Heard::TurnEnded(TurnEnd::Failed(why.to_owned()));
        assert!(turns.contains(&failed), "{program}: {turns:?}");
    }
    assert!(!turns("codex-failing").contains(&Heard::Began(1)), "it was told in its own words");
}
