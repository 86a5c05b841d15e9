//! Mail that comes while the program waits for it, or has just stopped to wait.

use serde_json::json;

use super::machine::{Machine, look};
use super::processes::pause_bridges;
use super::seen::{entries, entries_of, is_marked, is_there_once_and_new};

/// Seconds after which an impatient program gives a call up. The rows need less for
/// what they do meanwhile.
const IMPATIENT_S: u64 = 5;

/// It waits, has the mail in the same turn, and never again.
pub(super) async fn mail_while_it_waits_comes_once(mut machine: Machine) {
    let mut run = machine.start().await;
    run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    let seq = machine.send("the build is red");
    let turn = run.turn().await;
    is_there_once_and_new(&turn, seq);
    assert_eq!(machine.trail(seq), "leased", "nothing has proved it yet");

    // It goes on, which proves it, and sees it no second time.
    look(turn, 1);
    let turn = run.turn().await;
    machine.until(seq, "acked");
    assert_eq!(machine.trail(seq), "acked");
    look(turn, 2);
    let turn = run.turn().await;
    assert_eq!(entries_of(&turn, seq).len(), 1, "{turn:?}");
    run.ends(turn).await;
    machine.is_truthful();
}

/// A flood reaches the model whole, each message once.
pub(super) async fn two_hundred_messages_come_once_each(mut machine: Machine) {
    let mut run = machine.start().await;
    run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    let texts: Vec<String> =
        (0..200).map(|n| format!("{n}: {}", "all work and no play ".repeat(5))).collect();
    let sent = machine.send_all(&texts);

    let mut turn = run.turn().await;
    for n in 1.. {
        let seen = entries(&turn);
        if sent.iter().all(|seq| seen.iter().any(|entry| entry.id == *seq)) {
            break;
        }
        assert!(n < 60, "after {n} looks only {} have come", seen.len());
        turn.call("check_inbox", json!({ "timeout": 5.0 + f64::from(n) / 100.0 }));
        turn = run.turn().await;
    }
    let seen = entries(&turn);
    let ids: Vec<u64> = seen.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, sent, "each once and in order");
    assert!(seen.iter().all(|entry| !entry.marked && !entry.cut), "whole and unmarked");
    look(turn, 1);
    let turn = run.turn().await;
    sent.iter().for_each(|seq| machine.until(*seq, "acked"));
    assert_eq!(entries(&turn).len(), sent.len(), "and none again");
    run.ends(turn).await;
    machine.is_truthful();
}

/// The program has given up, and the mail waits for its next call.
pub(super) async fn mail_after_its_time_out_comes_with_the_next_call(mut machine: Machine) {
    machine.set_patience(IMPATIENT_S);
    let mut run = machine.start().await;
    run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    let turn = run.turn().await;
    machine.until_it_waits(false);
    let seq = machine.send("too late for the first call");
    assert_eq!(machine.trail(seq), "queued");

    turn.call("check_inbox", json!({ "timeout": 2 }));
    let turn = run.turn().await;
    is_there_once_and_new(&turn, seq);
    run.ends(turn).await;
    machine.is_truthful();
}

/// The hub has answered, the answer is on its way, and the program gives up: what it
/// never read is not proved, and comes again with the mark.
pub(super) async fn mail_in_flight_at_its_time_out_comes_again(mut machine: Machine) {
    machine.set_patience(IMPATIENT_S);
    let mut run = machine.start().await;
    run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    let paused = pause_bridges(&machine.home());
    let seq = machine.send("on its way");
    machine.until(seq, "leased");
    let turn = run.turn().await;
    drop(paused);

    let turn = run.until_seen(&machine, turn, seq).await;
    is_marked(&turn, seq);
    run.ends(turn).await;
    machine.is_truthful();
}

/// The hub dies while the program waits. The call goes on with the next hub, or the
/// next call does.
pub(super) async fn a_hub_killed_in_the_wait_loses_nothing(mut machine: Machine) {
    let mut run = machine.start().await;
    run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    let before = machine.send("survive this");
    machine.kill_the_hub_and_start_it_again();
    let after = machine.send("after the storm");

    let turn = run.turn().await;
    let turn = run.until_seen(&machine, turn, before).await;
    let turn = run.until_seen(&machine, turn, after).await;
    look(turn, 100);
    let turn = run.turn().await;
    machine.until(before, "acked");
    machine.until(after, "acked");
    run.ends(turn).await;
    machine.is_truthful();
}
