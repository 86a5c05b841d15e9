//! The delivery rules against every interleaving of a few messages, calls and
//! faults.
//!
//! [`world`] plays clients, models and whatever can go wrong ([`moves`]), and keeps
//! what is true beside what the hub believes; [`post`] is the hub's own rules and
//! table. After every walk nothing fails any more and everybody goes on
//! ([`peace`]), and then:
//!
//! * I1: nothing is acked that was neither read nor named under `settled`;
//! * I2: nothing is read twice unmarked;
//! * I3: nothing is taken from its holder by another;
//! * I4: nothing is reported better than it is;
//! * I7: nothing stays for ever.
//!
//! Each scenario is walked breadth-first within small bounds, and at random
//! beyond them.

mod moves;
mod peace;
pub(crate) mod post;
mod world;

use std::collections::{HashSet, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use moves::{Fault, Move, Scenario};
use world::World;

/// Faults of clients and of what lies between them and the hub.
const CLIENT: &[Fault] = &[
    Fault::TimeoutAndCancel,
    Fault::Interrupt,
    Fault::Repeat,
    Fault::ClosedBeforeWritten,
    Fault::ClientCrash,
    Fault::ExtraBeginning,
];

const CLIENT_AND_DROPS: &[Fault] = &[
    Fault::TimeoutAndCancel,
    Fault::Interrupt,
    Fault::Repeat,
    Fault::ClosedBeforeWritten,
    Fault::ClientCrash,
    Fault::ExtraBeginning,
    Fault::SilentDrop,
];

#[expect(clippy::disallowed_methods, reason = "how long to walk is the caller's choice")]
pub(crate) fn is_quick() -> bool {
    std::env::var("POSTHASTE_QUICK").is_ok_and(|value| value == "1")
}

/// Walks at random, longer and with more calls than the breadth-first search.
fn wanders(scenario: Scenario, cases: u32) {
    let cases = if is_quick() { cases / 10 } else { cases };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let choices = proptest::collection::vec(any::<u16>(), 0..24);
    let walked = TestRunner::new(config).run(&choices, |choices| {
        let mut world = World::new(scenario);
        for choice in choices {
            let moves = world.moves(false);
            if moves.is_empty() {
                break;
            }
            world.goes(moves[usize::from(choice) % moves.len()]);
        }
        world.ends_well().map_err(TestCaseError::fail)
    });
    if let Err(found) = walked {
        panic!("{found}");
    }
}

/// Visits every state that can be reached, nearest first, until `limit`.
fn explores(scenario: Scenario, limit: usize) -> usize {
    let limit = if is_quick() { limit / 10 } else { limit };
    let mut known = HashSet::from([World::new(scenario).key()]);
    let mut todo: VecDeque<Vec<Move>> = VecDeque::from([Vec::new()]);
    while let Some(path) = todo.pop_front() {
        let world = replay(scenario, &path);
        let moves = world.moves(false);
        world.ends_well().unwrap_or_else(|wrong| panic!("{wrong}"));
        for next in moves {
            let mut longer = path.clone();
            longer.push(next);
            if known.len() < limit && known.insert(replay(scenario, &longer).key()) {
                todo.push_back(longer);
            }
        }
    }
    known.len()
}

fn replay(scenario: Scenario, path: &[Move]) -> World {
    let mut world = World::new(scenario);
    path.iter().for_each(|next| world.goes(*next));
    world
}

#[test]
fn client_faults_two_at_most() {
    let scenario = Scenario::with(CLIENT);
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}

#[test]
fn one_client_fault_with_hooks() {
    let scenario = Scenario { faults: 1, hooks: 1, ..Scenario::with(CLIENT_AND_DROPS) };
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}

#[test]
fn two_time_outs_and_a_hook() {
    let scenario = Scenario { hooks: 1, ..Scenario::with(&[Fault::TimeoutAndCancel]) };
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}

#[test]
fn hub_stops_receipts_nacks_and_the_operator() {
    let scenario = Scenario::with(&[
        Fault::Kill,
        Fault::CleanRestart,
        Fault::Receipt,
        Fault::Reply,
        Fault::Nack,
        Fault::Expiry,
        Fault::OperatorCancel,
        Fault::ClientCrash,
    ]);
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}

#[test]
fn the_disk_is_full_for_a_while() {
    let kinds = &[
        Fault::DiskFull,
        Fault::TimeoutAndCancel,
        Fault::ExtraBeginning,
        Fault::Receipt,
        Fault::Reply,
    ];
    wanders(Scenario { busy: true, hooks: 1, ..Scenario::with(kinds) }, 2_000);
    let kinds = &[Fault::DiskFull, Fault::Receipt, Fault::Reply];
    wanders(Scenario { busy: true, always_cancels: true, ..Scenario::with(kinds) }, 1_000);
}

#[test]
fn the_agent_ends() {
    let scenario = Scenario::with(&[
        Fault::CleanEnd,
        Fault::UncleanEnd,
        Fault::TimeoutAndCancel,
        Fault::ExtraBeginning,
        Fault::Expiry,
    ]);
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}

#[test]
fn a_one_of_mailbox_with_two_readers() {
    let kinds = &[Fault::Lost, Fault::Nack, Fault::CleanEnd, Fault::UncleanEnd];
    let scenario = Scenario { agents: 2, one_of: true, ..Scenario::with(kinds) };
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}

#[test]
fn two_messages() {
    let kinds = &[Fault::TimeoutAndCancel, Fault::ClientCrash, Fault::Kill, Fault::Nack];
    let scenario = Scenario { mails: 2, faults: 1, ..Scenario::with(kinds) };
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}

#[test]
fn a_client_that_cancels_every_finished_call() {
    let scenario =
        Scenario { faults: 1, always_cancels: true, ..Scenario::with(&[Fault::ClientCrash]) };
    explores(Scenario { calls: 2, ..scenario }, 3_000);
    wanders(scenario, 1_000);
    wanders(Scenario { busy: true, ..scenario }, 1_000);
}
