//! Random walks, longer and with more calls than can be searched.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::moves::{Fault, Scenario};
use super::peace::Wrong;
use super::world::World;
use super::{CLIENT, CLIENT_AND_DROPS, Rules, is_quick};

fn wanders(scenario: Scenario, cases: u32) {
    let cases = if is_quick() { cases / 10 } else { cases };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let choices = proptest::collection::vec(any::<u16>(), 0..24);
    let walked = TestRunner::new(config).run(&choices, |choices| {
        let mut world = World::new(scenario, Rules::ALL, None);
        let mut trace = Vec::new();
        for choice in choices {
            let moves = world.moves(false);
            if moves.is_empty() {
                break;
            }
            let next = moves[usize::from(choice) % moves.len()];
            trace.push(next.to_string());
            world.goes(next);
        }
        match world.judge() {
            Some(Wrong::Real(why)) => {
                Err(TestCaseError::fail(format!("{why} <- {}", trace.join("; "))))
            }
            Some(Wrong::Residual(_)) | None => Ok(()),
        }
    });
    if let Err(found) = walked {
        panic!("{found}");
    }
}

fn busy(scenario: Scenario) -> Scenario {
    Scenario { busy: true, calls: 4, ..scenario }
}

#[test]
fn client_faults() {
    wanders(busy(Scenario::with(CLIENT)), 2_000);
    wanders(busy(Scenario { faults: 1, ..Scenario::with(CLIENT_AND_DROPS) }), 2_000);
}

#[test]
fn hub_stops_receipts_replies_and_nacks() {
    let kinds = &[
        Fault::Kill,
        Fault::CleanRestart,
        Fault::Receipt,
        Fault::Reply,
        Fault::Nack,
        Fault::Expiry,
        Fault::OperatorCancel,
        Fault::ClientCrash,
    ];
    wanders(busy(Scenario::with(kinds)), 2_000);
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
    wanders(busy(Scenario::with(kinds)), 2_000);
    let kinds = &[Fault::DiskFull, Fault::Receipt, Fault::Reply];
    wanders(busy(Scenario { always_cancels: true, known: false, ..Scenario::with(kinds) }), 1_000);
}

#[test]
fn hooks_and_client_faults() {
    let kinds = &[Fault::ClientCrash, Fault::Escape, Fault::ToolFails, Fault::DiskFull];
    wanders(busy(Scenario { before: true, mails: 2, ..Scenario::hooked(kinds) }), 2_000);
}

#[test]
fn one_of_mail_and_endings() {
    let kinds = &[Fault::Lost, Fault::Nack, Fault::CleanEnd, Fault::UncleanEnd];
    wanders(busy(Scenario { agents: 2, one_of: true, ..Scenario::with(kinds) }), 1_000);
}
