use proptest::prelude::*;

use super::*;
use crate::conversation::tests::{assert_well_formed, calls, result, says, user};
use crate::conversation::{LOST, mend};

fn system() -> ChatMessage {
    ChatMessage::System { content: "be brief".to_owned() }
}

fn total(messages: &[ChatMessage]) -> usize {
    messages.iter().map(length).sum()
}

fn note(length: usize) -> String {
    format!("[posthaste] a result of {length} characters was left out")
}

/// A conversation of two rounds with long results, and a message that has just come.
fn long() -> Vec<ChatMessage> {
    let text = "x".repeat(500);
    vec![
        system(),
        user("mend it"),
        calls(&["a"]),
        result("a", &text),
        user("and the weather?"),
        calls(&["b"]),
        result("b", &text),
        calls(&["c"]),
        result("c", &text),
        user("hurry"),
    ]
}

const LAST_ROUND: usize = 7;

#[test]
fn a_conversation_that_fits_is_unchanged() {
    let messages = long();
    assert_eq!(fit(&messages, total(&messages), LAST_ROUND), messages);
}

#[test]
fn the_oldest_results_go_first_and_no_more_than_needed() {
    let messages = long();
    let mut one = messages.clone();
    one[3] = result("a", &note(500));
    assert_eq!(fit(&messages, total(&messages) - 1, LAST_ROUND), one);
    assert_eq!(fit(&messages, total(&one), LAST_ROUND), one);
    let mut two = one.clone();
    two[6] = result("b", &note(500));
    assert_eq!(fit(&messages, total(&one) - 1, LAST_ROUND), two);
}

#[test]
fn then_whole_rounds_go_and_a_notice_says_so() {
    let text = "x".repeat(500);
    let rest = [
        system(),
        user(NOTICE),
        user("mend it"),
        user("and the weather?"),
        calls(&["c"]),
        result("c", &text),
        user("hurry"),
    ];
    assert_eq!(fit(&long(), total(&rest), LAST_ROUND), rest);
}

#[test]
fn then_messages_of_the_user_go_but_never_the_last_nor_the_last_round() {
    let text = "x".repeat(500);
    let least = [system(), user(NOTICE), calls(&["c"]), result("c", &text), user("hurry")];
    assert_eq!(fit(&long(), total(&least), LAST_ROUND), least);
    assert_eq!(fit(&long(), 0, LAST_ROUND), least);
}

#[test]
fn the_first_message_of_the_user_goes_last() {
    let long = "x".repeat(500);
    let messages = [system(), user("mend it"), user(&long), user(&long), user("c")];
    let rest = [system(), user(NOTICE), user("mend it"), user("c")];
    assert_eq!(fit(&messages, total(&rest), messages.len()), rest);
}

#[test]
fn what_the_model_has_not_seen_yet_stays_also_if_it_is_too_long() {
    let text = "x".repeat(500);
    let messages =
        [system(), user("mend it"), calls(&["a"]), result("a", ""), user(&text), user("hurry")];
    assert_eq!(
        fit(&messages, 100, 2),
        messages[..1]
            .iter()
            .cloned()
            .chain([user(NOTICE)])
            .chain(messages[2..].iter().cloned())
            .collect::<Vec<_>>()
    );
}

#[test]
fn requests_go_with_their_answers_and_no_answered_one_stays_alone() {
    let long = |text: &str| format!("{text} {}", "x".repeat(500));
    let messages = [
        system(),
        user(&long("one")),
        says(&long("the answer to one")),
        user(&long("two")),
        says(&long("the answer to two")),
        user("three"),
        says("the answer to three"),
        user("four"),
    ];
    let rest = [&[system(), user(NOTICE)], &messages[5..]].concat();
    assert_eq!(fit(&messages, total(&rest), 6), rest);
}

#[test]
fn many_long_results_that_the_model_has_not_seen_are_cut_alike() {
    let text = "x".repeat(16_000);
    let ids: Vec<String> = (0..40).map(|n| format!("call{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut messages = vec![system(), user("mend it"), calls(&ids)];
    messages.extend(ids.iter().map(|id| result(id, &text)));
    messages.push(result("short", "one"));
    let fitted = fit(&messages, 100_000, 2);
    assert!(total(&fitted) <= 100_000, "{}", total(&fitted));
    assert_eq!(fitted.last(), Some(&result("short", "one")));
    let ChatMessage::Tool { content, .. } = &fitted[fitted.len() - 2] else { panic!("a result") };
    assert!(content.contains("more characters were left out"), "{content}");
    assert!(content.starts_with(&"x".repeat(2_000)));
}

/// A task of another agent, as the hub shows it, and a round of work on it.
fn task() -> Vec<ChatMessage> {
    let text = "x".repeat(500);
    vec![
        system(),
        user("[posthaste] alice gives you a task."),
        calls(&["mail_7"]),
        result("mail_7", &text),
        calls(&["a"]),
        result("a", &text),
        calls(&["mail_9"]),
        result("mail_9", &text),
        calls(&["b"]),
        result("b", &text),
    ]
}

#[test]
fn the_task_of_another_agent_stays_whole_and_other_mail_goes_as_rounds_do() {
    let messages = task();
    let mut one = messages.clone();
    one[5] = result("a", &note(500));
    assert_eq!(fit(&messages, total(&messages) - 1, 8), one);
    let least: Vec<ChatMessage> = messages[..1]
        .iter()
        .chain([&user(NOTICE)])
        .chain(&messages[1..4])
        .chain(&messages[8..])
        .cloned()
        .collect();
    assert_eq!(fit(&messages, 0, 8), least);
}

#[test]
fn an_answer_in_words_is_a_round_too() {
    let long = "x".repeat(500);
    let messages = [system(), user("hi"), says(&long), user("what?")];
    let rest = [system(), user(NOTICE), user("what?")];
    assert_eq!(fit(&messages, 300, messages.len()), rest);
}

#[test]
fn nothing_is_said_to_be_left_out_where_nothing_can_be() {
    let messages = [system(), user(&"x".repeat(500))];
    assert_eq!(fit(&messages, 10, messages.len()), messages);
    assert_eq!(fit(&[], 0, 0), []);
}

#[test]
fn characters_are_counted_and_not_bytes() {
    let messages = [system(), user("ä"), calls(&["a"]), result("a", &"ö".repeat(100)), user("ü")];
    assert_eq!(fit(&messages, total(&messages), messages.len()), messages);
}

fn message() -> impl Strategy<Value = ChatMessage> {
    prop_oneof![
        "[aä]{0,90}".prop_map(|text| user(&text)),
        "[bö]{0,90}".prop_map(|text| says(&text)),
        proptest::sample::subsequence(vec!["1", "2", "3"], 1..=3).prop_map(|ids| calls(&ids)),
        ("[1-3]", "[cü]{0,200}").prop_map(|(id, text)| result(&id, &text)),
    ]
}

proptest! {
    #[test]
    fn what_is_left_is_well_formed_in_order_and_fits_if_it_can(
        torn in proptest::collection::vec(message(), 0..30),
        limit in 0_usize..3_000,
        part in 0_usize..=100,
    ) {
        let mut messages = vec![system()];
        messages.extend(mend(torn, LOST));
        // A round is whole on either side.
        let mut last_round = 1 + (messages.len() - 1) * part / 100;
        while matches!(messages.get(last_round), Some(ChatMessage::Tool { .. })) {
            last_round += 1;
        }

        let fitted = fit(&messages, limit, last_round);

        assert_well_formed(&fitted);
        prop_assert_eq!(&fitted[0], &system());
        // The last message of the user stays, and so does everything from the last round on.
        let users = |m: &&ChatMessage| matches!(m, ChatMessage::User { .. }) && **m != user(NOTICE);
        prop_assert_eq!(fitted.iter().rfind(users), messages.iter().rfind(users));
        prop_assert!(fitted.ends_with(&messages[last_round..]));
        // What stays is in its order, but for the notice and the notes.
        let mut rest = messages.iter();
        for message in fitted.iter().filter(|m| **m != user(NOTICE)) {
            let same = |other: &&ChatMessage| match (message, other) {
                (
                    ChatMessage::Tool { tool_call_id: id, content },
                    ChatMessage::Tool { tool_call_id: of, content: was },
                ) => id == of && (content == was || *content == note(was.chars().count())),
                (message, other) => message == *other,
            };
            prop_assert!(rest.any(|other| same(&other)), "{message:?}");
        }
        // It is short enough, or nothing more could go.
        if total(&fitted) > limit {
            let older = &fitted[1..fitted.len() - (messages.len() - last_round)];
            let mut left = older.iter().filter(|m| **m != user(NOTICE));
            let last_user = messages.iter().rfind(users);
            prop_assert!(left.all(|m| Some(m) == last_user), "{older:?}");
        }
    }
}
