//! The delivery rules against every interleaving of a few messages, calls and
//! faults.
//!
//! [`world`] plays clients, models and whatever can go wrong ([`moves`]), and keeps
//! what is true beside what the hub believes; [`post`] is the hub's own rules and
//! ledger. Every state that can be reached is visited, nearest first, and judged
//! ([`peace`]), also by letting everybody go on without faults:
//!
//! * I1: nothing is acked that was neither read nor named under `settled`;
//! * I2: nothing is read twice unmarked;
//! * I3: nothing is taken from its holder by another;
//! * I4: nothing is reported better than it is;
//! * I7: nothing stays for ever;
//! * I8: judged strictly, what is acked is in the model's hands or in the transcript;
//! * I9: a healthy reader reads nothing twice.
//!
//! The scenarios have the names of the specification's. Each says how many states it
//! has, so that none is lost unnoticed, and which rules it needs: without one of them it
//! must fail, in a test of the rule's name. A rule that no scenario needs fails, too. [`wandering`] walks at random through larger worlds.

mod moves;
mod peace;
pub(crate) mod post;
mod wandering;
mod world;

use std::collections::{HashSet, VecDeque};

use posthaste_core::messaging::proof::{Rule, Rules};

use moves::{Connects, Fault, Move, Scenario, Stores};
use peace::Wrong;
use post::Promise;
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

/// What a search found.
struct Found {
    states: usize,
    /// The first real failure, with the shortest way to it.
    real: Option<String>,
    residual: HashSet<String>,
}

/// Visits every state that can be reached, nearest first. States that are wrong are not
/// gone on from. `to_failure`: until the first real failure.
fn explore(start: World, to_failure: bool) -> Found {
    let mut known = HashSet::from([start.key()]);
    let mut ways: Vec<(usize, Option<Move>)> = vec![(0, None)];
    let mut todo = VecDeque::from([(0, start)]);
    let mut found = Found { states: 0, real: None, residual: HashSet::new() };
    while let Some((at, world)) = todo.pop_front() {
        match world.judge() {
            Some(Wrong::Real(why)) => {
                found.real.get_or_insert_with(|| format!("{why} <- {}", way(&ways, at)));
                if to_failure {
                    break;
                }
                continue;
            }
            Some(Wrong::Residual(why)) => {
                found.residual.insert(why);
                continue;
            }
            None => {}
        }
        for next in world.moves(false) {
            let mut then = world.clone();
            then.goes(next);
            if known.insert(then.key()) {
                ways.push((at, Some(next)));
                todo.push_back((ways.len() - 1, then));
            }
        }
    }
    found.states = known.len();
    found
}

fn way(ways: &[(usize, Option<Move>)], mut at: usize) -> String {
    let mut moves = Vec::new();
    while let (before, Some(next)) = ways[at] {
        moves.push(next.to_string());
        at = before;
    }
    moves.reverse();
    moves.join("; ")
}

/// With all rules the scenario holds, in so many states.
fn holds(scenario: Scenario, states: usize) {
    let found = explore(World::new(scenario, Rules::ALL, None), false);
    assert_eq!(found.real, None, "{} states", found.states);
    assert_eq!(
        found.states, states,
        "the number of states has changed; residual: {:?}",
        found.residual
    );
}

/// Without the rule it does not.
fn needs(scenario: Scenario, rule: Rule) {
    let found = explore(World::new(scenario, Rules::ALL.without(rule), None), true);
    assert!(found.real.is_some(), "{rule:?} is not needed here: {} states", found.states);
}

fn needs_promise(scenario: Scenario, promise: Promise) {
    let found = explore(World::new(scenario, Rules::ALL, Some(promise)), true);
    assert!(found.real.is_some(), "{promise:?} is not needed here: {} states", found.states);
}

/// One scenario: a test that it holds, and for each rule or promise that it needs a test
/// of that name, which fails if the scenario holds without it.
macro_rules! scenarios {
    ($($name:ident: $scenario:expr, $states:expr; $($rule:ident)*; $($promise:ident)*;)*) => {
        $(mod $name {
            use super::*;

            const SCENARIO: Scenario = $scenario;

            #[test]
            fn holds() {
                super::holds(SCENARIO, $states);
            }

            mod needs {
                $(#[test]
                #[expect(non_snake_case, reason = "the test has the name of the rule")]
                fn $rule() {
                    crate::model::needs(super::SCENARIO, crate::model::Rule::$rule);
                })*

                $(#[test]
                #[expect(non_snake_case, reason = "the test has the name of the promise")]
                fn $promise() {
                    crate::model::needs_promise(super::SCENARIO, crate::model::Promise::$promise);
                })*
            }
        })*

        /// The rules and promises that some scenario needs.
        const NEEDED: &[Rule] = &[$($(Rule::$rule,)*)*];
        const KEPT: &[Promise] = &[$($(Promise::$promise,)*)*];
    };
}

#[test]
fn each_rule_and_each_promise_is_needed_by_a_scenario() {
    for rule in Rule::ALL {
        assert!(NEEDED.contains(rule), "no scenario fails without {rule:?}");
    }
    for promise in Promise::ALL {
        assert!(KEPT.contains(&promise), "no scenario fails without {promise:?}");
    }
}

scenarios! {
    client_faults_two_at_most: Scenario::with(CLIENT), 21_714; Return Again Driver Cut; ;
    one_client_fault: Scenario { faults: 1, ..Scenario::with(CLIENT_AND_DROPS) }, 2_755; Settled; ;
    hub_stops_receipts_nacks_and_the_operator: Scenario::with(&[
        Fault::Kill,
        Fault::CleanRestart,
        Fault::Receipt,
        Fault::Nack,
        Fault::Expiry,
        Fault::OperatorCancel,
        Fault::ClientCrash,
    ]), 14_276; ; Clean Commit Maybe;
    the_agent_ends: Scenario::with(&[
        Fault::CleanEnd,
        Fault::UncleanEnd,
        Fault::TimeoutAndCancel,
        Fault::ExtraBeginning,
        Fault::Expiry,
    ]), 6_874; End; ;
    a_one_of_mailbox_with_two_readers: Scenario { agents: 2, one_of: true, ..Scenario::with(&[
        Fault::Lost,
        Fault::Nack,
        Fault::CleanEnd,
        Fault::UncleanEnd,
    ])}, 23_952; ; Fence;
    two_messages: Scenario { mails: 2, faults: 1, ..Scenario::with(&[
        Fault::TimeoutAndCancel,
        Fault::ClientCrash,
        Fault::Kill,
        Fault::Nack,
    ])}, 2_554; ; ;
    time_outs_judged_strictly: Scenario { unsent: true, strict: true, ..Scenario::with(&[
        Fault::TimeoutAndCancel,
    ])}, 2_873; Grace; ;
    answers_at_the_edge_of_patience: Scenario { gives_up: true, strict: true, ..Scenario::with(&[
        Fault::AtTheEdge,
        Fault::JustInTime,
    ])}, 866; Late; ;
    two_processes_of_one_identity: Scenario {
        agents: 2, twins: true, connects: Connects::ByBridge, side: 1, faults: 1, strict: true,
        ..Scenario::with(&[Fault::ClientCrash])
    }, 5_358; Own; ;
    healthy_with_two_bridges_of_one_conversation: Scenario {
        agents: 2, twins: true, connects: Connects::InConversation, ..Scenario::with(&[])
    }, 3_253; Same; ;
    a_client_over_http_probes_before_its_handshake: Scenario {
        connects: Connects::OverHttp, faults: 1, ..Scenario::with(&[Fault::ClientCrash])
    }, 939; Once; ;
    healthy_without_hooks: Scenario { calls: 4, ..Scenario::with(&[]) }, 406; ; ;
    healthy_one_of_mailbox_with_two_readers:
        Scenario { agents: 2, one_of: true, ..Scenario::with(&[]) }, 1_519; ; ;
    healthy_with_hooks_single_calls_and_batches:
        Scenario { calls: 4, ..Scenario::hooked(&[]) }, 9_854; Stop; ;
    healthy_with_hooks_from_its_start: Scenario {
        calls: 4, unstarted: true, ..Scenario::hooked(&[])
    }, 9_823; Start; ;
    a_client_cancels_every_finished_call: Scenario {
        faults: 1, always_cancels: true, ..Scenario::with(&[Fault::ClientCrash])
    }, 2_397; Habit; ;
    a_client_cancels_every_finished_call_and_the_hub_does_not_know: Scenario {
        faults: 1, always_cancels: true, known: false, ..Scenario::with(&[Fault::ClientCrash])
    }, 3_210; Doubt; ;
    hooks_and_a_kill_single_calls: Scenario {
        side: 1, ..Scenario::hooked(&[Fault::ClientCrash])
    }, 21_994; Began; ;
    hooks_and_a_kill_batches: Scenario {
        faults: 1, ..Scenario::hooked(&[Fault::ClientCrash])
    }, 14_503; Began; ;
    hooks_and_a_failed_tool:
        Scenario::hooked(&[Fault::ToolFails, Fault::ClientCrash]), 58_278; Failed; ;
    hooks_and_an_interrupt_without_a_cancel: Scenario {
        tools: false, ..Scenario::hooked(&[Fault::Escape, Fault::PromptInTurn])
    }, 14_969; Turn; ;
    killed_for_good_with_one_of_mail: Scenario {
        faults: 1, calls: 2, agents: 2, one_of: true, restarts: false, tools: false,
        ..Scenario::hooked(&[Fault::ClientCrash])
    }, 14_435; Gone; ;
    hooks_announced_tools_and_any_one_client_fault: Scenario {
        faults: 1, before: true, ..Scenario::hooked(&[
            Fault::TimeoutAndCancel,
            Fault::Interrupt,
            Fault::Repeat,
            Fault::ClosedBeforeWritten,
            Fault::ClientCrash,
            Fault::ExtraBeginning,
            Fault::SilentDrop,
            Fault::Escape,
            Fault::ToolFails,
            Fault::CallFails,
        ])
    }, 41_877; Failed Hooked; ;
    hooks_two_kills_once_without_a_beginning: Scenario {
        calls: 2, tools: false, ..Scenario::hooked(&[
            Fault::ClientCrash,
            Fault::StartWithoutBeginning,
        ])
    }, 2_305; ; ;
    hooks_results_stored_in_the_order_of_the_calls: Scenario {
        faults: 1, before: true, late: true, side: 3, stores: Stores::InOrder,
        ..Scenario::hooked(&[Fault::ClientCrash])
    }, 12_312; Alone; ;
    hooks_results_stored_when_the_whole_batch_has_ended: Scenario {
        faults: 1, before: true, late: true, side: 3, stores: Stores::Whole,
        ..Scenario::hooked(&[Fault::ClientCrash])
    }, 12_780; Alone; ;
}
