//! A question of the program to a person, as the screen shows it.
//!
//! A key that is pressed answers whatever stands on the screen, and a person at the pane
//! may have answered the question that the operator was asked about. The screen of a
//! request is therefore kept, row by row, and the operator's answer is pressed only while
//! the screen shows the same.
//!
//! A clock or a spinner beside the question goes on. A row in which nothing but digits and
//! signs changes, and more than once before the question was asked, is such a row.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Number of ticks for which a dialogue must stay the same before it is asked about. Longer
/// than a second, so that the row of a clock is known by then.
pub(super) const STILL: u32 = 5;

/// Number of ticks after which a key has not answered a dialogue that is still there.
pub(super) const ANSWER_TICKS: u32 = 12;

/// The screen with a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dialogue {
    rows: Vec<String>,
    /// The rows with a clock or a spinner.
    restless: BTreeSet<usize>,
}

/// A request for permission about a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) dialogue: Dialogue,
    pub(super) state: State,
    /// Ticks since the key was pressed.
    #[serde(skip)]
    pub(super) age: u32,
    /// Ticks since the screen showed the dialogue.
    #[serde(skip)]
    pub(super) gone: u32,
}

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    /// The operator has not answered.
    Open,
    /// The operator has answered, and the key is not pressed yet.
    Answered { allow: bool },
    /// The key was pressed.
    Pressed { allow: bool },
}

/// Watches a dialogue until it is still.
#[derive(Debug, Default)]
pub(super) struct Watch {
    rows: Vec<String>,
    /// How often each row has changed in nothing but digits and signs.
    changes: BTreeMap<usize, u32>,
    /// Ticks since the dialogue has changed.
    still: u32,
}

impl Request {
    pub(super) fn new(id: String, dialogue: Dialogue) -> Self {
        Self { id, dialogue, state: State::Open, age: 0, gone: 0 }
    }
}

impl Dialogue {
    /// Returns whether the screen shows this dialogue.
    pub(super) fn is_on(&self, screen: &str) -> bool {
        let rows: Vec<&str> = screen.lines().collect();
        let is_same = |(row, (shown, own)): (usize, (&&str, &String))| {
            shown == own || (self.restless.contains(&row) && is_tick(own, shown))
        };
        rows.len() == self.rows.len() && rows.iter().zip(&self.rows).enumerate().all(is_same)
    }
}

impl Watch {
    pub(super) fn tick(&mut self) {
        self.still = self.still.saturating_add(1);
    }

    /// Takes the screen of another look.
    pub(super) fn see(&mut self, screen: &str) {
        let rows: Vec<String> = screen.lines().map(str::to_owned).collect();
        let pairs = rows.iter().zip(&self.rows).enumerate();
        let changed: Vec<usize> =
            pairs.filter(|(_, (new, old))| new != old).map(|(row, _)| row).collect();
        let ticks = |row: &usize| is_tick(&self.rows[*row], &rows[*row]);
        if rows.len() != self.rows.len() || !changed.iter().all(ticks) {
            *self = Self { rows, ..Self::default() };
            return;
        }
        for row in changed {
            let changes = self.changes.entry(row).or_default();
            *changes += 1;
            if *changes == 1 {
                self.still = 0;
            }
        }
        self.rows = rows;
    }

    /// Returns the dialogue, once it is still.
    pub(super) fn dialogue(&self) -> Option<Dialogue> {
        let restless = self.changes.iter().filter(|(_, changes)| **changes > 1);
        (self.still >= STILL).then(|| Dialogue {
            rows: self.rows.clone(),
            restless: restless.map(|(row, _)| *row).collect(),
        })
    }
}

/// Returns whether two rows differ in digits and signs alone.
fn is_tick(one: &str, other: &str) -> bool {
    let letters = |row: &str| row.chars().filter(|c| c.is_alphabetic()).collect::<String>();
    letters(one) == letters(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch that saw these screens, one a tick, and then the last of them for long.
    fn watched(screens: &[&str]) -> Dialogue {
        let mut watch = Watch::default();
        for screen in screens {
            watch.see(screen);
            watch.tick();
        }
        (0..STILL).for_each(|_| watch.tick());
        watch.dialogue().expect("it is still")
    }

    #[test]
    fn a_dialogue_is_itself_and_no_other() {
        let dialogue = watched(&["Allow?\nrm ./*"]);
        assert!(dialogue.is_on("Allow?\nrm ./*"));
        for other in ["Allow?\nrm /*", "Allow?\nrm ./ *", "Allow?", "Allow?\nrm ./*\nreally", ""] {
            assert!(!dialogue.is_on(other), "{other}");
        }
    }

    #[test]
    fn a_clock_beside_a_dialogue_goes_on() {
        let dialogue = watched(&["Allow?\nrm 1\n(3s)", "Allow?\nrm 1\n(4s)", "Allow?\nrm 1\n(5s)"]);
        assert!(dialogue.is_on("Allow?\nrm 1\n(59s)"));
        assert!(!dialogue.is_on("Allow?\nrm 2\n(6s)"));
        assert!(!dialogue.is_on("Allow?\nrm 1\n(1m 0s)"));
        // One change is another dialogue.
        assert!(!watched(&["Allow?\nrm 1", "Allow?\nrm 2"]).is_on("Allow?\nrm 3"));
    }

    #[test]
    fn a_dialogue_that_changes_is_not_still() {
        let mut watch = Watch::default();
        for screen in ["Allow?\nrm a", "Allow?\nrm b", "Allow?\nrm 1", "Allow?\nrm 2", "x"] {
            (0..STILL).for_each(|_| watch.tick());
            watch.see(screen);
            assert_eq!(watch.dialogue(), None, "{screen}");
        }
        (0..STILL).for_each(|_| watch.tick());
        assert!(watch.dialogue().is_some());
    }
}
