//! The user breaks into a wait for mail, and goes on.

use serde_json::json;

use super::machine::Machine;
use super::processes::pause_bridges;
use super::seen::entries_of;
use super::talk::Talk;

/// The hub has answered, and the user breaks in before the program has the answer.
pub(super) async fn mail_in_flight_when_the_user_breaks_in_comes_again(mut machine: Machine) {
    let mut talk = Talk::open(&machine).await;
    talk.write("Wait for mail.");
    talk.run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    let paused = pause_bridges(&machine.home());
    let seq = machine.send("on its way");
    machine.until(seq, "leased");
    talk.interrupt();
    drop(paused);
    it_goes_on_and_sees(machine, talk, seq).await;
}

/// The user breaks in first. A program that forgets to cancel its call leaves one open
/// that nobody reads.
pub(super) async fn mail_after_the_user_broke_in_is_seen(mut machine: Machine) {
    let mut talk = Talk::open(&machine).await;
    talk.write("Wait for mail.");
    talk.run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    talk.interrupt();
    let seq = machine.send("after the break");
    it_goes_on_and_sees(machine, talk, seq).await;
}

async fn it_goes_on_and_sees(machine: Machine, mut talk: Talk, seq: u64) {
    talk.write("Go on.");
    let turn = talk.run.first_turn().await;
    let turn = talk.run.until_seen(&machine, turn, seq).await;
    assert!(!entries_of(&turn, seq).is_empty());
    turn.say("I am done.");
    talk.until_the_turn_has_ended();
    machine.is_truthful();
    talk.run.kill();
    machine.is_truthful();
}
