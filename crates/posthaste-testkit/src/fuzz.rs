//! Fuzzing: valid examples are broken at random and given to a parser.
//!
//! ```no_run
//! # use posthaste_testkit::fuzz;
//! for case in fuzz::cases(1_000, &["mason@avalon", "@everyone"]) {
//!     let _ = case.text().parse::<posthaste_core::address::Address>();
//! }
//! ```
//!
//! A run has the number of cases that its test asks for, the same in every run, and under
//! `POSTHASTE_QUICK` a tenth of them. `POSTHASTE_FUZZ=SECONDS` makes every such test
//! search for new cases that long instead. Such a search is not part of the checks of a
//! change: its finds are fixed by the person who ran it. When a test fails it prints the
//! input and its seed; `POSTHASTE_FUZZ_SEED=SEED` runs that one case again. Each find
//! becomes a named test beside the code that failed.
//!
//! A panic on any thread fails the test: a server would catch the panic of a task, and
//! only close the connection.

mod json;
mod mutate;

use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes of a failing input that are printed.
const SHOWN: usize = 1_000;

/// The first seed of a run that does not search for new cases.
const FIRST_SEED: u64 = 1;

/// Random choices that a seed can repeat.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// Returns a number below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.0.random_range(0..n) }
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// One broken input. A case is printed when its test panics.
#[derive(Debug)]
pub struct Case {
    seed: u64,
    /// Dice for further choices of the test.
    pub dice: Dice,
    /// The example after mutation. A test that makes its input in another way stores the
    /// input here, so that it is printed.
    pub bytes: Vec<u8>,
}

impl Case {
    /// Returns the input as text; broken UTF-8 becomes replacement characters.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns the document with one to three odd values in it, and stores it as the input
    /// to print.
    pub fn odd_json(&mut self, example: &serde_json::Value) -> serde_json::Value {
        let mut value = example.clone();
        for _ in 0..=self.dice.below(3) {
            json::make_odd(&mut self.dice, &mut value);
        }
        self.bytes = value.to_string().into_bytes();
        value
    }
}

impl Drop for Case {
    #[expect(clippy::print_stderr, reason = "tells how to repeat a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shown = self.bytes[..self.bytes.len().min(SHOWN)].escape_ascii();
            eprintln!("the input ({} bytes): b\"{shown}\"", self.bytes.len());
            eprintln!("to run it again: POSTHASTE_FUZZ_SEED={}", self.seed);
        }
    }
}

/// An iterator of broken inputs, made from the examples.
#[derive(Debug)]
pub struct Cases<'a> {
    examples: Vec<&'a [u8]>,
    end: End,
    seed: u64,
    /// Number of panics before the first case.
    panics: usize,
}

/// Number of panics of this process, on any thread.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn panics() -> usize {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            print(info);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}

#[derive(Debug)]
enum End {
    After(usize),
    At(Instant),
}

/// Returns `count` broken inputs, or as many as fit into the time of `POSTHASTE_FUZZ`.
pub fn cases<E: AsRef<[u8]>>(count: usize, examples: &[E]) -> Cases<'_> {
    let examples = examples.iter().map(AsRef::as_ref).collect();
    let panics = panics();
    if let Some(seed) = variable("POSTHASTE_FUZZ_SEED") {
        return Cases { examples, end: End::After(1), seed, panics };
    }
    if let Some(seconds) = variable("POSTHASTE_FUZZ") {
        let end = End::At(Instant::now() + Duration::from_secs(seconds));
        return Cases { examples, end, seed: rand::random(), panics };
    }
    let quick = variable("POSTHASTE_QUICK") == Some(1);
    let count = if quick { count.div_ceil(10) } else { count };
    Cases { examples, end: End::After(count), seed: FIRST_SEED, panics }
}

#[expect(clippy::disallowed_methods, reason = "how long to run is the caller's choice")]
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

impl Iterator for Cases<'_> {
    type Item = Case;

    fn next(&mut self) -> Option<Case> {
        assert_eq!(
            panics(),
            self.panics,
            "a task panicked, the last case was POSTHASTE_FUZZ_SEED={}; or another test failed",
            self.seed.wrapping_sub(1)
        );
        match &mut self.end {
            End::After(0) => return None,
            End::After(left) => *left -= 1,
            End::At(end) if *end <= Instant::now() => return None,
            End::At(_) => {}
        }
        let seed = self.seed;
        self.seed = seed.wrapping_add(1);
        let mut dice = Dice(StdRng::seed_from_u64(seed));
        let bytes = mutate::broken(&mut dice, &self.examples);
        Some(Case { seed, dice, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_input_and_others_differ() {
        let examples = ["{\"to\": \"bob\", \"n\": 17}", "a: 1\r\n"];
        let made = |seed| {
            let examples = examples.iter().map(|e| e.as_bytes()).collect();
            Cases { examples, end: End::After(50), seed, panics: panics() }.map(|c| c.bytes.clone())
        };
        assert!(made(7).eq(made(7)));
        assert!(!made(7).eq(made(700)));
        assert!(made(7).any(|bytes| examples.iter().all(|e| e.as_bytes() != bytes)));
        assert!(made(7).all(|bytes| bytes.len() <= mutate::LONGEST));
    }
}
