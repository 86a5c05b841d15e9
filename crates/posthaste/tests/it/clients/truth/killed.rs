//! The program is killed between the hub's answer and its model.

use std::time::{Duration, Instant};

use serde_json::json;

use super::machine::{Machine, Run, TASK};
use super::own::{takes_long_beside_others, works, works_slowly};
use super::processes::pause_program;
use super::seen::{entries_of, is_marked};

/// Longer than any proof needs to count: what would be taken wrongly is taken by then.
const RIPE: Duration = Duration::from_secs(6);

/// The moment at which a wrong proof is worst: as soon as the sender is told `acked`,
/// and before the program has stored anything more.
async fn until_taken_as_read(machine: &Machine, seq: u64) {
    let end = Instant::now() + RIPE;
    while Instant::now() < end && machine.state(seq) != "acked" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// It dies with the answer on its doorstep. Whoever starts next in the folder has it.
pub(super) async fn mail_of_a_program_killed_at_the_answer_comes_again(mut machine: Machine) {
    let mut run = machine.start().await;
    run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    let paused = pause_program(&machine.home());
    let seq = machine.send("on the doorstep");
    machine.until(seq, "leased");
    run.kill();
    drop(paused);

    let mut run = machine.start().await;
    let turn = run.first_turn().await;
    let turn = run.until_seen(&machine, turn, seq).await;
    is_marked(&turn, seq);
    run.ends(turn).await;
    machine.is_truthful();
}

/// A hook of the user's own holds the result up, and then the program is killed: the
/// resumed conversation has the mail, or it comes again.
pub(super) async fn mail_behind_a_slow_hook_is_not_proved_by_it(mut machine: Machine) {
    let hook = machine.add_a_slow_hook();
    let mut run = machine.start().await;
    run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    hook.close();
    let seq = machine.send("behind the hook");
    hook.until_begun();
    until_taken_as_read(&machine, seq).await;
    run.kill();
    hook.open();
    comes_with_the_resumed_conversation(&machine, seq).await;
}

/// The turn has another call after the one that read the mail, and that one takes long.
pub(super) async fn mail_before_a_slow_call_of_the_same_turn_is_not_lost(mut machine: Machine) {
    let mut run = machine.start().await;
    let turn = run.first_turn().await;
    let seq = machine.send("one of several");
    let (work, slow) = works_slowly(&run);
    let check = ("check_inbox", json!({ "timeout": 1 }));
    turn.call_all(&[check, works(run.program), slow]);
    work.until_begun();
    machine.until(seq, "leased");
    killed_in_the_middle(&machine, run, seq).await;
}

/// The slow call comes first, and the others run beside it.
pub(super) async fn mail_beside_a_slow_call_of_the_same_turn_is_not_lost(mut machine: Machine) {
    machine.world.say(&["join", "alice"]);
    let mut run = machine.start().await;
    let slow = takes_long_beside_others(&run);
    let turn = run.first_turn().await;
    let seq = machine.send("one of several");
    let check = ("check_inbox", json!({ "timeout": 1 }));
    turn.call_all(&[slow, check, works(run.program)]);
    machine.until(seq, "leased");
    killed_in_the_middle(&machine, run, seq).await;
}

async fn killed_in_the_middle(machine: &Machine, run: Run, seq: u64) {
    until_taken_as_read(machine, seq).await;
    run.kill();
    comes_with_the_resumed_conversation(machine, seq).await;
}

/// The model finds it in its conversation, or it comes again, marked.
async fn comes_with_the_resumed_conversation(machine: &Machine, seq: u64) {
    let mut run = machine.go_on().await;
    let turn = run.first_turn().await;
    assert!(turn.saw(TASK), "it is the same conversation");
    let kept = !entries_of(&turn, seq).is_empty();
    let turn = run.until_seen(machine, turn, seq).await;
    if !kept {
        is_marked(&turn, seq);
    }
    run.ends(turn).await;
    machine.is_truthful();
}
