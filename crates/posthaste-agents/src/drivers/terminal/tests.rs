//! The conversation, with screens that a test draws. Each test answers the commands of
//! the conversation in the words of tmux, as `tmux/recorded` has them.

use posthaste_testkit::fuzz;
use serde_json::json;

use super::conversation::{CALM, ECHO_TICKS, ENTER_TICKS, Terminal};
use super::dialogue::{ANSWER_TICKS, STILL};
use super::manners::Manners;
use crate::conversation::{Activity, Conversation, Heard, PermissionRequest, TurnEnd};

const ECHO: &str = r#"{"patterns": {"idle": "^> *\\z"}}"#;
const DRAWN: &str = r#"{"patterns": {"idle": "^\\| > +\\|$", "busy": "esc to interrupt",
    "waiting": "^Allow\\?", "pasted": "\\[Pasted text #\\d+"}, "answer": "^\\* (.+)$",
    "keys": {"interrupt": "Escape", "allow": "y", "deny": "n"}, "multiline": true}"#;

/// A pane with a screen of 10 rows, and the conversation that looks at it.
struct Stage {
    talk: Terminal,
    lines: Vec<String>,
    cursor: usize,
    number: u32,
    /// Commands that type, without looks.
    typed: Vec<String>,
    heard: Vec<Heard>,
    /// Screens that were told.
    screens: Vec<String>,
}

impl Stage {
    fn new(config: &str) -> Self {
        let manners = Manners::read("counter", config).expect("a good profile");
        let talk = Terminal::resume(&Terminal::first(manners)).expect("its own state");
        let mut stage = Self {
            talk,
            lines: Vec::new(),
            cursor: 0,
            number: 0,
            typed: Vec::new(),
            heard: Vec::new(),
            screens: Vec::new(),
        };
        stage.attach();
        stage
    }

    /// A turn in which the program asks a person this.
    fn asked(dialogue: &str) -> (Self, PermissionRequest) {
        let mut stage = Self::new(DRAWN);
        stage.calm("| > |");
        stage.prompt(1, "remove it");
        stage.draw("| > remove it |");
        stage.draw("> remove it\nesc to interrupt");
        assert_eq!(stage.heard(), [Heard::Began(1)]);
        stage.typed();
        let asks = stage.asks(dialogue);
        (stage, asks)
    }

    /// The program asks a person this, and the conversation asks the operator.
    fn asks(&mut self, dialogue: &str) -> PermissionRequest {
        self.draw(dialogue);
        self.ticks(STILL);
        let mut heard = self.heard();
        match heard.pop() {
            Some(Heard::Asks(asks)) if heard.is_empty() => asks,
            other => panic!("{heard:?} {other:?}"),
        }
    }

    /// The operator answers; returns whether the request was open.
    fn answer(&mut self, asks: &PermissionRequest, allow: bool) -> bool {
        let Some(bytes) = self.talk.answer(&asks.request, allow, "") else { return false };
        self.obey(&String::from_utf8(bytes).expect("text"));
        true
    }

    fn attach(&mut self) {
        self.line("\u{1}attached %3 4711");
    }

    fn line(&mut self, line: &str) {
        let heard = self.talk.heard(line.as_bytes());
        self.follow(heard);
    }

    fn follow(&mut self, heard: Vec<Heard>) {
        for one in heard {
            match one {
                Heard::Send(bytes) => self.obey(&String::from_utf8(bytes).expect("text")),
                Heard::Screen(screen) => self.screens.push(screen),
                other => self.heard.push(other),
            }
        }
    }

    /// Answers commands.
    fn obey(&mut self, commands: &str) {
        for command in commands.lines() {
            let history = self.lines.len().saturating_sub(10);
            let answer = match command.split(' ').next().expect("a word") {
                "display-message" => format!("{} 4711", self.cursor - history),
                "capture-pane" if command.contains("-J") => self.lines.join("\n"),
                "capture-pane" => self.lines[history..].join("\n"),
                _ => {
                    self.typed.push(command.to_owned());
                    String::new()
                }
            };
            self.number += 1;
            let number = self.number;
            self.line(&format!("%begin 17 {number} 1"));
            answer.lines().for_each(|line| self.line(line));
            self.line(&format!("%end 17 {number} 1"));
        }
    }

    /// The program draws; the cursor stands at the end.
    fn draw(&mut self, text: &str) {
        self.lines = text.split('\n').map(str::to_owned).collect();
        self.cursor = self.lines.len() - 1;
        self.line("%output %3 \\033[H");
        self.ticks(1);
    }

    fn ticks(&mut self, number: u32) {
        (0..number).for_each(|_| self.line("\u{1}tick"));
    }

    fn calm(&mut self, text: &str) {
        self.draw(text);
        self.ticks(CALM + 1);
    }

    fn prompt(&mut self, number: u64, text: &str) {
        let bytes = self.talk.prompt(number, text).expect("it is idle");
        self.obey(&String::from_utf8(bytes).expect("text"));
    }

    fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    fn typed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.typed)
    }

    /// Another hub goes on with the state that was kept.
    fn restart(&mut self) {
        self.talk = Terminal::resume(&self.talk.state()).expect("its own state");
        self.attach();
    }
}

fn answered(text: &str) -> Heard {
    Heard::TurnEnded(TurnEnd::Answer(text.to_owned()))
}

#[test]
fn a_line_is_typed_entered_and_answered() {
    let mut stage = Stage::new(ECHO);
    assert_eq!(stage.talk.activity(), Activity::Starting);
    stage.calm("welcome\n> ");
    assert_eq!(stage.talk.activity(), Activity::Idle);
    stage.prompt(1, "hello");
    assert_eq!(stage.talk.activity(), Activity::Busy);
    let pasted = stage.typed();
    assert!(
        pasted[0].ends_with("\"hello\"") && pasted[1].starts_with("paste-buffer"),
        "{pasted:?}"
    );
    stage.ticks(3);
    assert_eq!((stage.typed(), stage.heard()), (vec![], vec![]));
    stage.draw("welcome\n> hello");
    assert_eq!(stage.typed(), ["send-keys -t %3 -- 'Enter'"]);
    assert_eq!(stage.heard(), []);
    stage.draw("welcome\n> hello\n> MOCK: hello\n> ");
    stage.ticks(CALM + 1);
    assert_eq!(stage.heard(), [Heard::Began(1), answered("> MOCK: hello")]);
    assert_eq!(stage.talk.activity(), Activity::Idle);
    // The same once more: the echo is not mistaken for the earlier one.
    stage.prompt(2, "hello");
    stage.draw("welcome\n> hello\n> MOCK: hello\n> hello");
    stage.draw("welcome\n> hello\n> MOCK: hello\n> hello\n> MOCK: again\n> ");
    stage.ticks(CALM + 1);
    assert_eq!(stage.heard(), [Heard::Began(2), answered("> MOCK: again")]);
}

#[test]
fn a_silent_program_has_begun_when_it_says_its_first_word() {
    let mut stage = Stage::new(ECHO);
    stage.calm("> ");
    stage.prompt(1, "count to ten");
    stage.draw("> count to ten");
    // The line end is the terminal's own echo: nobody need have read the line.
    stage.draw("> count to ten\n");
    stage.ticks(ENTER_TICKS * 2);
    assert_eq!(stage.heard(), []);
    stage.draw("> count to ten\none");
    assert_eq!(stage.heard(), [Heard::Began(1)]);
    stage.calm("> count to ten\none\ntwo\n\n> ");
    assert_eq!(stage.heard(), [answered("one\ntwo")]);
}

#[test]
fn an_answer_longer_than_the_screen_is_whole() {
    let mut stage = Stage::new(ECHO);
    stage.calm("> ");
    stage.prompt(1, "count");
    stage.draw("> count");
    let lines: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
    let lines = lines.join("\n");
    stage.draw(&format!("> count\n{lines}\n> "));
    stage.ticks(CALM + 1);
    assert_eq!(stage.heard(), [Heard::Began(1), answered(&lines)]);
}

#[test]
fn a_text_that_does_not_appear_is_never_entered() {
    let mut stage = Stage::new(ECHO);
    stage.calm("> ");
    stage.prompt(1, "hello");
    stage.typed();
    stage.ticks(ECHO_TICKS + 1);
    assert_eq!((stage.typed(), stage.heard()), (vec![], vec![Heard::NotTaken(1)]));
    // It comes late: nothing is typed over it.
    stage.calm("> hello");
    assert_eq!(stage.talk.activity(), Activity::Busy);
    assert_eq!(stage.talk.prompt(2, "again"), None);
}

#[test]
fn a_task_longer_than_a_line_fails_and_mail_is_clipped() {
    let mut stage = Stage::new(ECHO);
    stage.calm("> ");
    stage.prompt(1, &"word ".repeat(2_000));
    stage.ticks(1);
    assert!(stage.typed().is_empty());
    let heard = stage.heard();
    assert!(matches!(&heard[..], [Heard::Fails(why)] if why.contains("9999 bytes")), "{heard:?}");
    stage.prompt(2, &"word ".repeat(2_000));
    let typed = stage.typed();
    assert!(typed[0].len() < 4_100 && typed[0].contains("read_messages"), "{typed:?}");
}

#[test]
fn an_enter_that_changes_nothing_is_not_pressed_again() {
    let mut stage = Stage::new(DRAWN);
    stage.calm("| > |");
    stage.prompt(1, "hello");
    stage.draw("| > hello |");
    assert_eq!(stage.typed().last().map(String::as_str), Some("send-keys -t %3 -- 'Enter'"));
    stage.ticks(ENTER_TICKS + 2);
    assert_eq!((stage.typed(), stage.heard()), (vec![], vec![Heard::NotTaken(1)]));
}

#[test]
fn a_program_that_shows_its_work_has_begun_when_it_works() {
    let mut stage = Stage::new(DRAWN);
    stage.calm("hi\n| > |\n? for help");
    stage.prompt(1, "do it\nwell");
    let pasted = stage.typed();
    assert!(pasted[0].ends_with("\"do it\\nwell\""), "{pasted:?}");
    stage.draw("hi\n| > do it |\n|   well |\n? for help");
    stage.draw("hi\n> do it\n  well\n| > |\n* Thinking (esc to interrupt)");
    assert_eq!(stage.heard(), [Heard::Began(1)]);
    // For a moment it looks idle, between two drawings.
    stage.draw("hi\n> do it\n  well\n| > |");
    stage.draw("hi\n> do it\n  well\n* step 1\n| > |\n* esc to interrupt");
    assert_eq!(stage.heard(), []);
    stage.calm("hi\n> do it\n  well\n* step 1\n\n* done\n| > |\n? for help");
    assert_eq!(stage.heard(), [answered("done")]);
}

#[test]
fn a_long_text_may_be_shown_as_the_sign_of_a_paste() {
    let mut stage = Stage::new(DRAWN);
    stage.calm("| > |");
    stage.prompt(1, &"a long story\n".repeat(100));
    stage.draw("| > [Pasted text #1 +99 lines] |");
    assert_eq!(stage.typed().len(), 3);
    stage.draw("> [Pasted text #1 +99 lines]\n* esc to interrupt\n| > |");
    stage.calm("> [Pasted text #1 +99 lines]\n* nice\n| > |");
    assert_eq!(stage.heard(), [Heard::Began(1), answered("nice")]);
}

const YES: &str = "send-keys -t %3 -- 'y'";

#[test]
fn a_question_to_a_person_is_told_and_answered() {
    let (mut stage, asks) = Stage::asked("> remove it\nAllow? rm x");
    assert!(asks.text.contains("Allow? rm x"));
    assert_eq!(asks.subject, "", "no verdict on it can be remembered");
    assert_eq!(stage.talk.activity(), Activity::Busy);
    assert_eq!(stage.talk.answer("screen-9", true, ""), None);
    assert!(stage.answer(&asks, true));
    assert_eq!(stage.typed(), [YES]);
    assert!(!stage.answer(&asks, true), "it is answered once");
    stage.draw("> remove it\nesc to interrupt");
    stage.ticks(CALM + STILL);
    assert_eq!((stage.typed(), stage.heard()), (vec![], vec![]));
}

#[test]
fn a_question_that_a_person_answered_is_withdrawn() {
    let (mut stage, asks) = Stage::asked("Allow? rm x");
    // For a moment the screen is half drawn.
    stage.draw("All");
    stage.draw("Allow? rm x");
    assert_eq!(stage.heard(), []);
    stage.draw("esc to interrupt");
    stage.ticks(CALM);
    assert_eq!(stage.heard(), [Heard::Withdrew(asks.request.clone())]);
    assert!(!stage.answer(&asks, true));

    // Also before the end of its turn.
    let (mut stage, asks) = Stage::asked("> remove it\nAllow? rm x");
    stage.lines = vec!["> remove it".to_owned(), "* ok".to_owned(), "| > |".to_owned()];
    stage.cursor = 2;
    (0..=CALM).for_each(|_| {
        stage.line("%output %3 x");
        stage.line("\u{1}tick");
    });
    stage.ticks(1);
    assert_eq!(stage.heard(), [Heard::Withdrew(asks.request), answered("ok")]);
}

#[test]
fn a_yes_to_one_question_is_not_pressed_in_another() {
    let (mut stage, one) = Stage::asked("Allow? touch x");
    stage.lines = vec!["Allow? rm -rf /".to_owned()];
    // No tick has passed, and the conversation has not looked.
    stage.cursor = 0;
    assert!(stage.answer(&one, true));
    stage.ticks(CALM + STILL);
    assert_eq!(stage.typed(), Vec::<String>::new());
    let heard = stage.heard();
    let [Heard::Asks(two)] = &heard[..] else { panic!("{heard:?}") };
    assert!(two.request != one.request && two.text.contains("rm -rf /"), "{two:?}");

    // The same when the conversation has seen the other question before the answer.
    let (mut stage, one) = Stage::asked("Allow? touch x");
    stage.draw("Allow? rm -rf /");
    stage.ticks(STILL);
    let heard = stage.heard();
    let [Heard::Withdrew(gone), Heard::Asks(two)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(*gone, one.request);
    assert!(!stage.answer(&one, true));
    assert_eq!(stage.typed(), Vec::<String>::new());
    assert!(stage.answer(two, false));
    assert_eq!(stage.typed(), ["send-keys -t %3 -- 'n'"]);
}

#[test]
fn the_second_of_two_questions_in_a_row_is_asked() {
    let (mut stage, one) = Stage::asked("Allow? rm 1");
    assert!(stage.answer(&one, true));
    let two = stage.asks("Allow? rm 2");
    assert!(two.text.contains("rm 2"));
    assert!(stage.answer(&two, true));
    let three = stage.asks("Allow? rm 3");
    assert!(three.text.contains("rm 3"), "a number that changes is no clock");
    assert_eq!(stage.typed(), [YES, YES]);
}

#[test]
fn a_clock_beside_a_question_does_not_ask_again() {
    let (mut stage, _) = Stage::asked("Allow? rm x");
    stage.calm("esc to interrupt");
    stage.heard();
    for second in 0..20 {
        stage.draw(&format!("Allow? rm x\n12:00:{second:02}"));
        stage.ticks(3);
    }
    let heard = stage.heard();
    let [Heard::Asks(asks)] = &heard[..] else { panic!("{heard:?}") };
    assert!(stage.answer(asks, true));
    assert_eq!(stage.typed(), [YES]);
}

#[test]
fn a_key_that_answers_nothing_is_told_and_not_pressed_again() {
    let (mut stage, asks) = Stage::asked("Allow? rm x\n> No\n  Yes");
    assert!(stage.answer(&asks, true));
    assert_eq!(stage.typed(), [YES]);
    stage.ticks(ANSWER_TICKS * 3);
    let heard = stage.heard();
    let [Heard::Asks(again)] = &heard[..] else { panic!("{heard:?}") };
    assert!(again.text.contains("(`y`) did not answer") && again.text.contains("posthaste attach"));
    assert!(again.text.contains("Allow? rm x"), "{}", again.text);
    assert_eq!(stage.typed(), Vec::<String>::new());
    // A person answers it.
    stage.draw("esc to interrupt");
    stage.ticks(CALM);
    assert_eq!(stage.heard(), [Heard::Withdrew(again.request.clone())]);
}

#[test]
fn a_hub_killed_while_a_question_is_open_asks_it_once() {
    let (mut stage, asks) = Stage::asked("Allow? rm x");
    stage.restart();
    stage.ticks(CALM + STILL);
    assert_eq!(stage.heard(), []);
    assert!(stage.answer(&asks, true));
    assert_eq!(stage.typed(), [YES]);

    // Killed after the answer: it is pressed once.
    for restart_at in 0..2 {
        let (mut stage, asks) = Stage::asked("Allow? rm x");
        let look = stage.talk.answer(&asks.request, true, "").expect("it is open");
        if restart_at == 1 {
            stage.obey(&String::from_utf8(look).expect("text"));
        }
        stage.restart();
        stage.ticks(CALM);
        assert_eq!(stage.typed(), [YES], "{restart_at}");
        assert_eq!(stage.heard(), []);
    }

    // A person answered it while no hub was there.
    let (mut stage, asks) = Stage::asked("Allow? rm x");
    stage.lines = vec!["esc to interrupt".to_owned()];
    stage.restart();
    stage.ticks(CALM);
    assert_eq!(stage.heard(), [Heard::Withdrew(asks.request)]);
}

#[test]
fn a_state_of_an_earlier_version_is_read() {
    let mut state = Stage::new(ECHO).talk.state();
    let kept = state.as_object_mut().expect("an object");
    assert!(kept.remove("request").is_some());
    assert!(kept["manners"].as_object_mut().expect("one").remove("failed").is_some());
    assert!(Terminal::resume(&state).is_some());
}

#[test]
fn a_turn_whose_screen_shows_a_failure_fails() {
    let config = r#"{"patterns": {"idle": "^> *\\z", "failed": "^! (Not logged in.*)$"}}"#;
    let mut stage = Stage::new(config);
    stage.calm("> ");
    stage.prompt(1, "hello");
    stage.draw("> hello");
    stage.calm("> hello\n! Not logged in \u{b7} run /login\n> ");
    let why = "Not logged in \u{b7} run /login".to_owned();
    assert_eq!(stage.heard(), [Heard::Began(1), Heard::TurnEnded(TurnEnd::Failed(why))]);
    // The failure of an earlier turn is not that of the next one.
    stage.prompt(2, "again");
    stage.draw("> hello\n! Not logged in \u{b7} run /login\n> again");
    stage.calm("> hello\n! Not logged in \u{b7} run /login\n> again\nyes\n> ");
    assert_eq!(stage.heard(), [Heard::Began(2), answered("yes")]);
}

#[test]
fn the_frames_of_a_spinner_are_not_all_told() {
    let mut stage = Stage::new(DRAWN);
    stage.calm("| > |");
    stage.prompt(1, "think");
    stage.draw("| > think |");
    stage.screens.clear();
    for second in 0..40 {
        stage.draw(&format!("> think\nesc to interrupt {second}"));
    }
    assert_eq!(stage.screens.len(), 1, "{:?}", stage.screens);
    stage.calm("> think\n* done\n| > |");
    stage.ticks(STILL);
    assert_eq!(stage.screens.len(), 2, "{:?}", stage.screens);
    assert_eq!(stage.screens[1], "> think\n* done\n| > |");
    // A screen that is never calm is told now and then.
    for frame in 0..500 {
        stage.draw(&format!("| > |\n{frame}"));
    }
    assert!((3..=5).contains(&stage.screens.len()), "{:?}", stage.screens);
}

#[test]
fn an_interrupted_turn_answers_nothing() {
    let mut stage = Stage::new(DRAWN);
    stage.calm("| > |");
    assert_eq!(stage.talk.interrupt(), None);
    stage.prompt(1, "sleep");
    stage.draw("| > sleep |");
    stage.draw("> sleep\nesc to interrupt");
    let keys = stage.talk.interrupt().expect("a turn runs");
    stage.typed();
    stage.obey(&String::from_utf8(keys).expect("text"));
    assert_eq!(stage.typed(), ["send-keys -t %3 -- 'Escape'"]);
    stage.calm("> sleep\n| > |");
    assert_eq!(stage.heard(), [Heard::Began(1), Heard::TurnEnded(TurnEnd::Interrupted)]);
}

#[test]
fn a_hub_that_comes_back_goes_on_in_every_phase() {
    for restart_at in 0..5 {
        let mut stage = Stage::new(ECHO);
        stage.calm("> ");
        let step = |stage: &mut Stage, number| {
            if restart_at == number {
                stage.restart();
                stage.ticks(CALM + 1);
            }
        };
        step(&mut stage, 0);
        stage.prompt(1, "hello");
        step(&mut stage, 1);
        stage.draw("> hello");
        step(&mut stage, 2);
        stage.draw("> hello\nwell");
        step(&mut stage, 3);
        stage.draw("> hello\nwell\nhello\n> ");
        step(&mut stage, 4);
        stage.ticks(CALM + 1);
        let enters = stage.typed().iter().filter(|line| line.contains("Enter")).count();
        assert_eq!(enters, 1, "restarted at {restart_at}");
        assert_eq!(stage.heard(), [Heard::Began(1), answered("well\nhello")], "{restart_at}");
        assert_eq!(stage.talk.activity(), Activity::Idle);
    }
}

#[test]
fn a_pane_that_runs_another_program_is_left_alone() {
    let mut stage = Stage::new(ECHO);
    stage.line("\u{1}attached %3 99");
    assert!(matches!(stage.heard()[..], [Heard::Fails(_)]));
    stage.ticks(5);
    assert_eq!(stage.talk.prompt(1, "hello"), None);
}

#[test]
fn without_a_pattern_for_idle_nothing_is_typed() {
    let mut stage = Stage::new("{}");
    stage.calm("> ");
    assert_eq!(stage.talk.activity(), Activity::Starting);
    assert_eq!(stage.talk.prompt(1, "hello"), None);
}

#[test]
fn no_state_and_no_line_breaks_a_conversation() {
    let mut stage = Stage::new(DRAWN);
    stage.calm("| > |");
    stage.prompt(1, "hello");
    let state = stage.talk.state();
    let lines = "\u{1}attached %3 4711\n%begin 1 1 1\n1 4711\n%end 1 1 1\n%begin 1 2 1\n| > |\n\
                 > hello\n%end 1 2 1\n%output %3 x\n\u{1}tick\n\u{1}tick\n%begin 1 3 1\n%end 1 3 1";
    for mut case in fuzz::cases(2_000, &[lines]) {
        let bytes = case.bytes.clone();
        let state = case.odd_json(&state);
        let Some(mut talk) = Terminal::resume(&state) else { continue };
        for line in bytes.split(|byte| *byte == b'\n') {
            talk.heard(line);
        }
        let _ = (talk.prompt(7, "x"), talk.interrupt(), talk.answer("screen-1", true, ""));
        assert!(Terminal::resume(&talk.state()).is_some());
    }
    assert!(Terminal::resume(&json!(null)).is_none());
}
