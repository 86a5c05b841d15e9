//! The meaning of the recorded lines.

use serde_json::{Value, json};

use super::{RECORDINGS, Step, begin, heard_in, steps, take};
use crate::conversation::{
    Activity, Conversation, Heard, PermissionRequest, ToolState, ToolUse, TurnEnd, Usage,
};

fn usage(requests: u64) -> Heard {
    let (input_tokens, output_tokens) = (11 * requests, 3 * requests);
    Heard::Usage(Usage { input_tokens, output_tokens, cost_usd: None })
}

fn answer(text: &str) -> Heard {
    Heard::TurnEnded(TurnEnd::Answer(text.to_owned()))
}

fn text(text: &str) -> Heard {
    Heard::Text(text.to_owned())
}

fn tool(name: &str, detail: &str, state: ToolState) -> Heard {
    let (name, detail) = (name.to_owned(), detail.to_owned());
    Heard::Tool(ToolUse { id: String::new(), name, detail, state })
}

fn thread() -> Heard {
    Heard::ConversationId("id-1".to_owned())
}

/// Leaves out the ids of tool calls, which the model chose.
fn without_ids(heard: Vec<Heard>) -> Vec<Heard> {
    let strip = |heard| match heard {
        Heard::Tool(tool) => Heard::Tool(ToolUse { id: String::new(), ..tool }),
        other => other,
    };
    heard.into_iter().map(strip).collect()
}

/// Leaves out everything but what became of prompts and turns.
fn outline(name: &str) -> Vec<Heard> {
    let kept =
        |heard: &Heard| matches!(heard, Heard::Began(_) | Heard::NotTaken(_) | Heard::TurnEnded(_));
    heard_in(name).into_iter().filter(kept).collect()
}

/// The lines of a conversation that is idle, for tests that write the next lines.
fn idle() -> Box<dyn Conversation> {
    let (_, config, lines) = RECORDINGS[0];
    let mut talk = begin(config);
    talk.open();
    let steps = steps(lines);
    for step in steps.iter().take_while(|step| matches!(step, Step::Heard(_))) {
        take(&mut talk, step);
    }
    assert_eq!(talk.activity(), Activity::Idle);
    talk
}

fn hear(talk: &mut Box<dyn Conversation>, line: serde_json::Value) -> Vec<Heard> {
    talk.heard(line.to_string().as_bytes())
}

#[test]
fn a_turn_ends_with_the_answer_of_the_model_and_not_with_its_remarks() {
    let expected = [
        thread(),
        Heard::Began(1),
        text("Hello."),
        usage(1),
        answer("Hello."),
        Heard::Began(2),
        Heard::Thought("The user wants it again.".to_owned()),
        text("Wait a moment."),
        text("Hello again."),
        usage(1),
        answer("Hello again."),
    ];
    assert_eq!(heard_in("plain"), expected);
}

#[test]
fn each_tool_is_shown_with_its_arguments_and_its_result() {
    let sent = "mcp__posthaste__send_message";
    let expected = [
        thread(),
        Heard::Began(1),
        text("I will tell them."),
        tool(sent, r#"{"message":"hi"}"#, ToolState::Began),
        tool(sent, "sent", ToolState::Done),
        tool("Bash", "echo one; echo two", ToolState::Began),
        tool("Bash", "one two", ToolState::Done),
        tool("Bash", "exit 3", ToolState::Began),
        tool("Bash", "exit 3", ToolState::Failed),
        tool("Edit", "add /home/me/project/new.txt", ToolState::Began),
        tool("Edit", "add /home/me/project/new.txt", ToolState::Done),
        text("They know."),
        usage(5),
        answer("They know."),
    ];
    assert_eq!(without_ids(heard_in("tool")), expected);
}

#[test]
fn a_steered_text_has_begun_when_the_model_went_on_with_it() {
    let expected = [Heard::Began(1), Heard::Began(2), Heard::Began(3), answer("Both seen.")];
    assert_eq!(outline("steer"), expected);
}

#[test]
fn a_text_for_a_turn_that_just_ended_is_given_back_and_can_be_prompted() {
    let expected = [
        Heard::Began(1),
        Heard::NotTaken(2),
        answer("Hello."),
        Heard::Began(3),
        answer("Now I know."),
    ];
    assert_eq!(outline("late"), expected);
}

#[test]
fn a_text_that_codex_stored_as_its_turn_ended_gets_a_turn_and_is_given_once() {
    let expected = [Heard::Began(1), Heard::Began(2), answer("Now I know.")];
    assert_eq!(outline("stranded"), expected);
}

#[test]
fn a_turn_for_a_stored_text_that_codex_refuses_leaves_the_answer_before_it() {
    let (_, config, lines) = RECORDINGS.into_iter().find(|one| one.0 == "stranded").expect("it");
    let mut talk = begin(config);
    talk.open();
    let steps = steps(lines);
    let ends = |step: &Step| matches!(step, Step::Heard(line) if line.windows(14).any(|w| w == b"turn/completed"));
    let end = steps.iter().position(ends).expect("it ends");
    steps[..=end].iter().for_each(|step| drop(take(&mut talk, step)));
    assert_eq!(talk.activity(), Activity::Busy);
    let heard = hear(&mut talk, json!({ "id": 5, "error": { "code": -1, "message": "no" } }));
    assert_eq!(heard, [usage(1), answer("Hello.")]);
    assert_eq!(talk.activity(), Activity::Idle);
}

#[test]
fn a_cut_turn_proves_nothing_that_its_model_was_not_seen_to_be_given() {
    let cut = || Heard::TurnEnded(TurnEnd::Interrupted);
    let expected = [Heard::Began(1), cut(), cut(), Heard::Began(4), answer("Nothing.")];
    assert_eq!(outline("interrupt"), expected);
}

#[test]
fn permission_is_asked_for_commands_changes_and_tools_of_other_servers() {
    let asked = heard_in("approvals").into_iter().filter_map(|heard| match heard {
        Heard::Asks(PermissionRequest { request, subject, text }) => Some((request, subject, text)),
        _ => None,
    });
    let asked: Vec<_> = asked.collect();
    let asked: Vec<[&str; 3]> =
        asked.iter().map(|(request, subject, text)| [&**request, &**subject, &**text]).collect();
    let place = "in /home/me/project";
    let expected: [[&str; 3]; 8] = [
        ["0", "Bash(git init)", &format!("Bash: git init {place}: May I make a repository?")],
        [
            "1",
            "Bash(git push origin main)",
            &format!("Bash: git push origin main {place}: May I push?"),
        ],
        [
            "2",
            r#"Bash(echo "a b" > new; git push)"#,
            &format!(r#"Bash: echo "a b" > new; git push {place}: May I?"#),
        ],
        ["3", "Edit(add /home/me/project/one.txt)", "Edit: add /home/me/project/one.txt\nhi"],
        ["4", "Edit(add /home/me/project/two.txt)", "Edit: add /home/me/project/two.txt\nhi"],
        [
            "5",
            r#"mcp__other__send_message({"message":"hi"})"#,
            r#"mcp__other__send_message {"message":"hi"}"#,
        ],
        [
            "6",
            r#"mcp__other__send_message({"message":"ho"})"#,
            r#"mcp__other__send_message {"message":"ho"}"#,
        ],
        ["7", "Bash(git push)", &format!("Bash: git push {place}: Now?")],
    ];
    assert_eq!(asked, expected);
}

#[test]
fn a_request_that_a_cut_turn_left_open_is_withdrawn_once() {
    let heard = heard_in("approvals");
    let withdrawn = |heard: &&Heard| matches!(heard, Heard::Withdrew(_));
    let withdrawn: Vec<_> = heard.iter().filter(withdrawn).collect();
    assert_eq!(withdrawn, [&Heard::Withdrew("7".to_owned())]);
    assert_eq!(heard.last(), Some(&Heard::TurnEnded(TurnEnd::Interrupted)));
}

#[test]
fn only_an_open_request_can_be_answered_and_only_once() {
    let (_, config, lines) = RECORDINGS.into_iter().find(|one| one.0 == "approvals").expect("it");
    let mut talk = begin(config);
    talk.open();
    let steps = steps(lines);
    let first = steps.iter().position(|step| matches!(step, Step::Answer(..))).expect("one");
    steps[..first].iter().for_each(|step| drop(take(&mut talk, step)));
    assert_eq!(talk.answer("1", true, ""), None);
    assert!(talk.answer("0", true, "").is_some());
    assert_eq!(talk.answer("0", true, ""), None);
}

#[test]
fn more_rights_are_granted_as_asked_and_for_the_turn_only() {
    let subjects = heard_in("permissions").into_iter().filter_map(|heard| match heard {
        Heard::Asks(asked) => Some(asked.subject),
        _ => None,
    });
    let subjects: Vec<_> = subjects.collect();
    assert_eq!(subjects.len(), 2);
    assert!(subjects.iter().all(|subject| subject.contains("/home/me/there")), "{subjects:?}");
}

#[test]
fn a_sub_agent_asks_for_permission_and_settles_nothing() {
    let heard = heard_in("sub_agent");
    let asks = heard.iter().filter(|heard| matches!(heard, Heard::Asks(_))).count();
    assert_eq!(asks, 1);
    assert_eq!(outline("sub_agent"), [Heard::Began(1), answer("It is four.")]);
    assert!(heard.contains(&usage(5)), "its sub-agent costs too: {heard:?}");
    assert!(!heard.contains(&text("Four.")), "{heard:?}");
}

#[test]
fn a_user_who_has_set_up_the_hub_for_himself_can_run_agents() {
    assert_eq!(outline("connected"), [Heard::Began(1), answer("Hello.")]);
}

#[test]
fn a_codex_that_is_not_logged_in_fails_at_once_and_says_what_to_do() {
    let heard = heard_in("logged_out");
    let [Heard::ConversationId(_), Heard::Fails(why)] = heard.as_slice() else {
        panic!("{heard:?}");
    };
    assert!(why.contains("`codex login`"), "{why}");
}

#[test]
fn a_turn_that_the_model_refused_says_how_to_log_in_and_proves_nothing() {
    let outline = outline("unauthorized");
    let [Heard::TurnEnded(TurnEnd::Failed(why))] = outline.as_slice() else {
        panic!("{outline:?}");
    };
    assert!(why.contains("`codex login`") && why.contains("Incorrect API key"), "{why}");
}

#[test]
fn a_turn_that_failed_says_why_and_proves_nothing() {
    let outline = outline("failing");
    let [Heard::TurnEnded(TurnEnd::Failed(why))] = outline.as_slice() else {
        panic!("{outline:?}");
    };
    assert!(why.contains("high demand") && !why.contains("login"), "{why}");
}

#[test]
fn a_turn_that_codex_does_not_begin_has_failed() {
    let mut talk = idle();
    talk.prompt(1, "hello").expect("idle");
    assert_eq!(talk.activity(), Activity::Busy);
    let heard = hear(&mut talk, json!({ "id": 3, "error": { "code": -1, "message": "no room" } }));
    let [Heard::TurnEnded(TurnEnd::Failed(why))] = heard.as_slice() else {
        panic!("{heard:?}");
    };
    assert!(why.contains("no room"), "{why}");
    assert_eq!(talk.activity(), Activity::Idle);
}

#[test]
fn a_turn_that_refuses_a_text_is_offered_no_other_one() {
    let mut talk = idle();
    talk.prompt(1, "hello").expect("idle");
    assert_eq!((talk.can_steer(), talk.steer(2, "and this")), (false, None), "not begun");
    let turn = |id: &str| json!({ "threadId": "id-1", "turn": { "id": id } });
    hear(&mut talk, json!({ "method": "turn/started", "params": turn("t-1") }));
    assert!(talk.can_steer() && talk.can_interrupt());
    talk.steer(2, "and this").expect("it runs");
    let error = json!({ "code": -32_600, "message": "cannot steer a compact turn" });
    assert_eq!(hear(&mut talk, json!({ "id": 4, "error": error })), [Heard::NotTaken(2)]);
    assert!(!talk.can_steer() && !talk.can_interrupt());
    hear(&mut talk, json!({ "method": "turn/started", "params": turn("t-2") }));
    assert!(talk.can_steer());
}

#[test]
fn a_request_that_the_hub_does_not_know_is_refused_and_shown() {
    let mut talk = idle();
    let line = json!({ "id": "x", "method": "item/tool/call", "params": {} });
    let heard = hear(&mut talk, line.clone());
    let [Heard::Send(bytes), Heard::Unknown(shown)] = heard.as_slice() else {
        panic!("{heard:?}");
    };
    let answer: serde_json::Value = serde_json::from_slice(bytes).expect("JSON");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32_601)));
    assert_eq!(*shown, line.to_string());
}

#[test]
fn a_line_that_means_nothing_is_shown() {
    let mut talk = idle();
    let warning = json!({ "method": "warning", "params": { "message": "old" } });
    let failed = json!({
        "method": "mcpServer/startupStatus/updated",
        "params": { "threadId": "id-1", "name": "posthaste", "status": "failed" },
    });
    for line in [json!({ "method": "new/thing" }), warning, failed, json!([1]), json!({})] {
        assert_eq!(hear(&mut talk, line.clone()), [Heard::Unknown(line.to_string())]);
    }
    assert_eq!(
        talk.heard(b"thread 'main' panicked"),
        [Heard::Unknown("thread 'main' panicked".to_owned())]
    );
}

#[test]
fn an_older_codex_that_does_not_name_messages_proves_them_in_order() {
    let mut talk = idle();
    talk.prompt(1, "hello").expect("idle");
    let of =
        |item| json!({ "method": "item/started", "params": { "threadId": "id-1", "item": item } });
    assert_eq!(hear(&mut talk, of(json!({ "type": "userMessage", "id": "u" }))), []);
    let heard = hear(&mut talk, of(json!({ "type": "agentMessage", "id": "a" })));
    assert_eq!(heard, [Heard::Began(1)]);
}

#[test]
fn a_remembered_verdict_covers_no_act_that_nobody_saw() {
    let command = |command: &str, proposed: &[&str], more: Value| {
        let mut params =
            json!({ "command": command, "itemId": "i", "proposedExecpolicyAmendment": proposed });
        params.as_object_mut().expect("it").extend(more.as_object().cloned().unwrap_or_default());
        let asks = json!({ "id": 7, "method": "item/commandExecution/requestApproval",
            "params": params });
        match idle().heard(asks.to_string().as_bytes()).pop() {
            Some(Heard::Asks(request)) => request.subject,
            other => panic!("{other:?}"),
        }
    };
    let plain = |line: &str, proposed: &[&str]| command(line, proposed, json!({}));
    let seen = plain("git push", &["git", "push"]);
    assert_eq!(seen, "Bash(git push)");
    assert_eq!(plain("git push --force", &["git", "push"]), "Bash(git push *)");
    assert_eq!(plain("git push; rm -rf x", &["git", "push"]), "Bash(git push; rm -rf x)");
    let rights = json!({ "additionalPermissions": { "network": { "enabled": true } } });
    assert_ne!(command("git push", &["git", "push"], rights), seen);
    let input = |item: &str| command("cat", &[], json!({ "kind": "writeStdin", "itemId": item }));
    assert_ne!(input("i1"), input("i2"), "a running command takes other input");

    let edit = |changes: Value| {
        let mut talk = idle();
        let item = json!({ "type": "fileChange", "id": "e", "changes": changes });
        let params = json!({ "threadId": "id-1", "item": item });
        talk.heard(json!({ "method": "item/started", "params": params }).to_string().as_bytes());
        let asks = json!({ "id": 7, "method": "item/fileChange/requestApproval",
            "params": { "threadId": "id-1", "itemId": "e" } });
        match talk.heard(asks.to_string().as_bytes()).pop() {
            Some(Heard::Asks(request)) => request.subject,
            other => panic!("{other:?}"),
        }
    };
    let change = |path: &str, kind: Value| json!({ "path": path, "kind": kind, "diff": "x" });
    let update = edit(json!([change("/a", json!({ "type": "update" }))]));
    assert_eq!(update, "Edit(update /a)");
    for other in [
        json!([change("/a", json!({ "type": "delete" }))]),
        json!([change("/a", json!({ "type": "update", "move_path": "/b" }))]),
        json!([change("/a", json!({ "type": "update" })), change("/b", json!({ "type": "add" }))]),
    ] {
        assert_ne!(edit(other.clone()), update, "{other}");
    }
}

#[test]
fn a_text_that_was_cut_within_a_character_is_shown() {
    let line = br#"{"method":"item/completed","params":{"threadId":"id-1","item":{"type":"agentMessage","id":"m","text":"cut \ud83d here"}}}"#;
    assert_eq!(idle().heard(line), [text("cut \u{fffd} here")]);
}

#[test]
fn a_codex_that_does_not_know_a_request_of_the_hub_is_too_old() {
    for error in [
        json!({ "id": 1, "error": { "code": -32600, "message":
            "Invalid request: unknown variant `thread/start`, expected one of `newConversation`" } }),
        json!({ "error": { "code": -32600, "message": "unknown variant `initialize`" } }),
        json!({ "id": 1, "error": { "code": -32601, "message": "Method not found" } }),
    ] {
        let mut talk = begin("{}");
        talk.open();
        let heard = talk.heard(error.to_string().as_bytes());
        let [Heard::Fails(why)] = heard.as_slice() else { panic!("{heard:?}") };
        assert!(why.contains("too old") && why.contains("0.166"), "{why}");
        assert!(why.contains("npm install -g @openai/codex"), "{why}");
    }
}
