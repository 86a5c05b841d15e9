//! What follows from the records of a conversation.

use posthaste_runner::protocol::{ChatMessage, TokenUsage, ToolCall};
use serde_json::{Map, json};

use super::super::record::{Mail, Record};
use super::{Dialogue, listed, referred};

fn mail(seq: u64, text: &str) -> Mail {
    Mail {
        seq,
        from: "human".to_owned(),
        kind: "text".to_owned(),
        text: text.to_owned(),
        human: true,
        task: false,
        label: None,
        in_reply_to: None,
        urgent: false,
        question: None,
    }
}

fn of_agent(seq: u64, text: &str) -> Mail {
    Mail { from: "bob.00000001@main".to_owned(), human: false, ..mail(seq, text) }
}

fn model(call: &str, content: Option<&str>, calls: &[&str]) -> Record {
    let tool_call = |id: &&str| ToolCall {
        id: (*id).to_owned(),
        name: "look".to_owned(),
        arguments: Map::new(),
    };
    Record::Model {
        call: call.to_owned(),
        content: content.map(str::to_owned),
        tool_calls: calls.iter().map(tool_call).collect(),
        thoughts: None,
        usage: TokenUsage { input_tokens: 10, output_tokens: 2 },
        cost_usd: 0.25,
    }
}

fn tool(call: &str, id: &str, text: &str) -> Record {
    Record::Tool {
        call: call.to_owned(),
        tool_call_id: id.to_owned(),
        name: "look".to_owned(),
        arguments: Map::new(),
        text: text.to_owned(),
        is_error: false,
        mail: Vec::new(),
    }
}

fn given(call: &str) -> Record {
    Record::Given { call: call.to_owned() }
}

fn said(answers: &[u64]) -> Record {
    Record::Said { answers: answers.to_vec(), partial: None }
}

fn finish(call: &str) -> Record {
    Record::Finish { call: call.to_owned(), result: Some("done".to_owned()), failed: None }
}

fn open(dialogue: &Dialogue) -> Vec<u64> {
    dialogue.open().iter().map(|mail| mail.seq).collect()
}

/// Returns the role and the text of each message.
fn outline(dialogue: &Dialogue) -> Vec<String> {
    let told = |message: ChatMessage| match message {
        ChatMessage::System { content } => format!("system: {content}"),
        ChatMessage::User { content } => format!("user: {content}"),
        ChatMessage::Assistant { content, tool_calls } => {
            let ids: Vec<_> = tool_calls.into_iter().map(|call| call.id).collect();
            format!("assistant: {} {ids:?}", content.unwrap_or_default())
        }
        ChatMessage::Tool { tool_call_id, content } => format!("tool {tool_call_id}: {content}"),
    };
    dialogue.messages(1_000).into_iter().map(told).collect()
}

#[test]
fn each_message_of_the_human_is_open_until_an_answer_names_it_or_the_turn_ends() {
    let mut dialogue = Dialogue::of(vec![
        Record::Mail(mail(1, "fix the login bug")),
        Record::Mail(of_agent(2, "a result")),
        Record::Start,
        Record::Mail(mail(3, "what is the weather?")),
        Record::Mail(mail(4, "Thanks!")),
    ]);
    assert_eq!(open(&dialogue), [1, 3], "agents' mail and small talk want no answer");
    dialogue.extend([said(&[])]);
    assert_eq!(open(&dialogue), [1, 3], "words that name no message answer none");
    dialogue.extend([said(&[3])]);
    assert_eq!(open(&dialogue), [1]);
    assert!(dialogue.is_turn_open());
    dialogue.extend([finish("1:9")]);
    assert!(open(&dialogue).is_empty() && !dialogue.is_turn_open());
    dialogue.extend([Record::Mail(mail(5, "and now?"))]);
    assert_eq!(open(&dialogue), [5]);
    assert!(dialogue.is_turn_open() && dialogue.is_for_human());
}

#[test]
fn a_question_of_an_earlier_runner_waits_for_its_answer_as_a_message() {
    let asks = ToolCall { id: "q".into(), name: "askUser".into(), arguments: Map::new() };
    let asking = Record::Model {
        call: "1:2".into(),
        content: None,
        tool_calls: vec![asks],
        thoughts: None,
        usage: TokenUsage::default(),
        cost_usd: 0.0,
    };
    let asked =
        Record::Asked { question: 7, call: "1:3".into(), blocking: true, text: String::new() };
    let mut dialogue =
        Dialogue::of(vec![Record::Start, Record::Mail(mail(1, "set up auth")), asking, asked]);
    assert!(dialogue.is_turn_open(), "its runner waits");
    dialogue.extend([Record::Start]);
    assert!(!dialogue.is_turn_open(), "there is nothing to do before the answer");
    dialogue.extend([Record::Mail(mail(5, "hurry")), Record::Mail(of_agent(8, "I failed"))]);
    dialogue.extend([Record::Mail(Mail { in_reply_to: Some(3), ..mail(9, "blue") })]);
    assert!(dialogue.waits_for_answer() && !dialogue.is_turn_open(), "it is not answered");
    let mut unlinked = Dialogue::of(dialogue.records.clone());
    unlinked.extend([Record::Mail(mail(10, "JWT"))]);
    assert!(unlinked.is_turn_open(), "a plain message answers it");
    dialogue.extend([Record::Mail(Mail { in_reply_to: Some(7), ..mail(10, "JWT") })]);
    assert!(dialogue.is_turn_open());
    let outline = outline(&dialogue);
    assert!(outline[2].contains("the answer comes as a message"), "{outline:?}");
    assert_eq!(outline.last().map(String::as_str), Some("user: JWT"));
    assert_eq!(open(&dialogue), [1, 5, 9], "the answer is no request of its own");
}

#[test]
fn an_answer_that_mail_overtook_and_nobody_was_shown_is_found() {
    let answer = || model("1:2", Some("Fixed."), &[]);
    let of = |later: Vec<Record>| {
        let mut all = vec![Record::Mail(mail(1, "fix it")), answer()];
        all.extend(later);
        Dialogue::of(all).overtaken()
    };
    let found = Some(("1:2".to_owned(), "Fixed.".to_owned()));
    let news = || Record::Mail(mail(3, "and the weather?"));
    assert_eq!(of(vec![news()]), found);
    assert_eq!(of(vec![news(), given("1:3"), Record::Start]), found);
    assert_eq!(of(vec![]), None, "it is the last answer");
    assert_eq!(of(vec![said(&[1]), news()]), None, "it was shown");
    assert_eq!(of(vec![news(), model("1:4", Some("Sunny."), &[])]), None, "the turn went on");
    let call = Record::Mail(mail(1, "fix it"));
    let asks = Dialogue::of(vec![call, model("1:2", Some("I look."), &["a"]), news()]);
    assert_eq!(asks.overtaken(), None, "its tools were at work");
}

#[test]
fn an_answer_is_for_the_messages_that_the_model_had_seen() {
    let seen = |dialogue: &Dialogue| -> Vec<u64> {
        dialogue.open_and_seen().iter().map(|mail| mail.seq).collect()
    };
    let mut dialogue = Dialogue::of(vec![Record::Mail(mail(1, "fix the login bug"))]);
    assert!(seen(&dialogue).is_empty());
    dialogue.extend([model("1:2", Some("fixed"), &[]), Record::Mail(mail(2, "the weather?"))]);
    assert_eq!((seen(&dialogue), open(&dialogue)), (vec![1], vec![1, 2]));
    dialogue.extend([given("1:3"), said(&[1]), model("1:4", Some("sunny"), &[])]);
    assert_eq!(seen(&dialogue), [2]);
}

#[test]
fn mail_in_the_result_of_a_call_stands_in_the_conversation() {
    let mut dialogue = Dialogue::of(vec![Record::Mail(mail(1, "go"))]);
    let Record::Tool { call, tool_call_id, name, arguments, text, is_error, .. } =
        tool("1:2", "a", "of bob")
    else {
        unreachable!("it is one")
    };
    let mail = vec![4, 5];
    dialogue.extend([
        Record::Tool { call, tool_call_id, name, arguments, text, is_error, mail },
        Record::Answered { question: 6, text: "yes".to_owned(), mail: vec![7] },
    ]);
    let has: Vec<u64> = (1..9).filter(|seq| dialogue.has_mail(*seq)).collect();
    assert_eq!(has, [1, 4, 5, 7]);
}

#[test]
fn a_question_is_known_by_the_call_that_asked_it() {
    let asked =
        Record::Asked { question: 7, call: "1:4".to_owned(), blocking: true, text: String::new() };
    let dialogue = Dialogue::of(vec![Record::Mail(mail(1, "set up auth")), asked]);
    assert_eq!((dialogue.asked_by("1:4"), dialogue.asked_by("1:5")), (Some(7), None));
}

#[test]
fn a_reply_to_a_question_is_no_request_of_its_own() {
    let reply = Mail { in_reply_to: Some(7), ..mail(8, "JWT") };
    let dialogue = Dialogue::of(vec![
        Record::Mail(mail(1, "set up auth")),
        Record::Asked { question: 7, call: "1:4".to_owned(), blocking: true, text: String::new() },
        Record::Mail(reply),
        Record::Mail(Mail { in_reply_to: Some(6), ..mail(9, "of something else") }),
    ]);
    assert_eq!(open(&dialogue), [1, 9]);
}

#[test]
fn the_conversation_comes_back_with_every_call_answered_behind_it() {
    let dialogue = Dialogue::of(vec![
        Record::Mail(mail(1, "go")),
        Record::Start,
        model("1:2", None, &["a", "b"]),
        tool("1:3", "b", "yes"),
        tool("1:4", "of nothing", "no"),
        Record::Mail(mail(2, "  as it is \n")),
        given("1:5"),
        model("1:6", Some("on it"), &["c"]),
        Record::Start,
        tool("2:1", "c", "late"),
        Record::Notice { call: "2:2".to_owned(), text: "remember".to_owned() },
        model("2:3", Some("done"), &[]),
        finish("2:4"),
    ]);
    let lost = "(this call was interrupted, and its outcome is unknown)";
    assert_eq!(
        outline(&dialogue),
        [
            "user: go".to_owned(),
            r#"assistant:  ["a", "b"]"#.to_owned(),
            "tool b: yes".to_owned(),
            format!("tool a: {lost}"),
            "user:   as it is \n".to_owned(),
            r#"assistant: on it ["c"]"#.to_owned(),
            format!("tool c: {lost}"),
            "user: [posthaste] remember".to_owned(),
            "assistant: done []".to_owned(),
        ]
    );
}

#[test]
fn mail_of_agents_is_the_result_of_a_call_and_the_conversation_begins_with_a_user() {
    let labelled = Mail { label: Some("the wall".to_owned()), ..of_agent(2, "\"laid\"") };
    let dialogue = Dialogue::of(vec![Record::Mail(labelled)]);
    let all = dialogue.messages(1_000);
    let [ChatMessage::User { content }, ChatMessage::Assistant { tool_calls, .. }, result] =
        all.as_slice()
    else {
        panic!("{all:?}")
    };
    assert!(content.starts_with("[posthaste] "), "{content}");
    assert_eq!(tool_calls[0].name, "check_inbox");
    let ChatMessage::Tool { tool_call_id, content } = result else { panic!("{result:?}") };
    assert_eq!(*tool_call_id, tool_calls[0].id);
    let read: serde_json::Value = serde_json::from_str(content).expect("JSON");
    let message = &read["messages"][0];
    assert_eq!((&message["id"], &message["message"]), (&json!(2), &json!("\"laid\"")));
    assert_eq!(
        (&message["from"], &message["label"]),
        (&json!("bob.00000001@main"), &json!("the wall"))
    );
}

#[test]
fn a_runner_is_given_each_message_once_and_the_same_again_for_the_same_call() {
    let mut dialogue = Dialogue::of(vec![Record::Mail(mail(1, "task")), Record::Start]);
    let new = |dialogue: &Dialogue, call: &str| {
        dialogue.not_given(call).iter().map(|mail| mail.seq).collect::<Vec<_>>()
    };
    assert!(new(&dialogue, "1:1").is_empty(), "`start` has brought it");
    dialogue.extend([Record::Mail(mail(2, "two")), Record::Mail(mail(3, "three"))]);
    assert_eq!(new(&dialogue, "1:1"), [2, 3]);
    dialogue.extend([given("1:1"), Record::Mail(mail(4, "four"))]);
    assert_eq!(new(&dialogue, "1:2"), [4]);
    assert_eq!(new(&dialogue, "1:1"), [2, 3], "a hub that was killed answers as before");
    assert_eq!(dialogue.answer_to("1:1"), Some(&given("1:1")));
    assert_eq!(dialogue.answer_to("1:2"), None);
}

#[test]
fn a_turn_counts_its_own_costs_and_the_assistant_all_of_them() {
    let dialogue = Dialogue::of(vec![
        Record::Mail(mail(1, "one")),
        model("1:1", Some("done"), &[]),
        finish("1:2"),
        Record::Mail(mail(2, "two")),
        model("1:3", None, &["a"]),
        tool("1:4", "a", "x"),
        model("1:5", Some("done"), &[]),
    ]);
    let (turn, all) = (dialogue.spent_in_turn(), dialogue.spent());
    assert_eq!((turn.calls, turn.usage.input_tokens, turn.cost_usd), (2, 20, 0.5));
    assert_eq!((all.calls, all.usage.output_tokens, all.cost_usd), (3, 6, 0.75));
}

#[test]
fn what_was_paid_for_no_answer_counts_and_is_no_answer() {
    let usage = TokenUsage { input_tokens: 10, output_tokens: 5 };
    let dialogue = Dialogue::of(vec![
        Record::Mail(mail(1, "one")),
        Record::Paid { usage, cost_usd: 0.5 },
        Record::Start,
    ]);
    assert_eq!((dialogue.spent().cost_usd, dialogue.spent().usage.output_tokens), (0.5, 5));
    let one = ChatMessage::User { content: "one".to_owned() };
    assert_eq!(dialogue.messages(1_000), [one]);
    assert!(dialogue.open_and_seen().is_empty(), "no model has seen the message");
}

#[test]
fn only_the_same_call_with_the_same_result_is_a_repetition() {
    let mut dialogue = Dialogue::of(vec![
        Record::Mail(mail(1, "poll")),
        tool("1:1", "a", "other"),
        tool("1:2", "b", "same"),
        tool("1:3", "c", "same\n[posthaste] advice"),
    ]);
    assert_eq!(dialogue.repeats("look", &Map::new(), "same"), 2);
    assert_eq!(dialogue.repeats("look", &Map::new(), "new"), 0);
    assert_eq!(dialogue.repeats("stare", &Map::new(), "same"), 0);
    let with = Map::from_iter([("at".to_owned(), json!(1))]);
    assert_eq!(dialogue.repeats("look", &with, "same"), 0);
    dialogue.extend([finish("1:4")]);
    assert_eq!(dialogue.repeats("look", &Map::new(), "same"), 0, "each turn begins anew");
}

#[test]
fn a_reference_is_a_number_or_a_quote_that_fits_one_message() {
    let (login, weather) = (mail(12, "Fix the login bug"), mail(15, "What is the weather?"));
    let open = [&login, &weather];
    let seq = |reference: &str| referred(&open, reference).map(|mail| mail.seq);
    for (reference, found) in [
        ("12", Some(12)),
        (" #15 ", Some(15)),
        ("13", None),
        ("\"the WEATHER\"", Some(15)),
        ("the", None),
        ("", None),
        ("\"\"", None),
        ("the moon", None),
    ] {
        assert_eq!(seq(reference), found, "{reference}");
    }
    let long = mail(20, &"word ".repeat(100));
    assert!(listed(&[&login, &long]).lines().all(|line| line.chars().count() < 100));
}
