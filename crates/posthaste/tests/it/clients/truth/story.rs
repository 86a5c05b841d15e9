//! The story of the issue that every user lives through: connect, write by name, work,
//! break in, kill, start again.

use serde_json::json;

use super::machine::{Machine, look};
use super::own::works_slowly;
use super::processes::pause_program;
use super::seen::{entries, is_marked, is_there_once_and_new};
use super::talk::Talk;
use crate::clients::program::Program;

/// At every step the model has what was sent, and `posthaste trail` says what is true.
pub(super) async fn mail_to_its_name_is_never_lost_and_the_trail_is_true(mut machine: Machine) {
    let first = machine.send("first");
    assert_eq!(machine.trail(first), "queued", "it has never run");

    let address = it_has_its_mail_and_three_more_at_the_next_boundary(&mut machine, first).await;
    let (fifth, sixth) = the_user_breaks_in_and_then_it_dies(&mut machine).await;

    // What it had not seen comes again, marked, to whoever starts in the same folder.
    let mut run = machine.start().await;
    let turn = run.first_turn().await;
    let turn = run.until_seen(&machine, turn, sixth).await;
    is_marked(&turn, sixth);
    look(turn, 1);
    let turn = run.turn().await;
    for seq in [fifth, sixth] {
        machine.until(seq, "acked");
        assert_eq!(machine.trail(seq), "acked");
    }
    // A program that names its conversations is another agent in another conversation.
    if !matches!(machine.program, Program::ClaudeCode | Program::Codex) {
        assert_eq!(run.whoami(turn).await, address, "the folder is the agent");
    } else {
        run.ends(turn).await;
    }
    machine.is_truthful();
}

/// Gives the address of the agent.
async fn it_has_its_mail_and_three_more_at_the_next_boundary(
    machine: &mut Machine,
    first: u64,
) -> String {
    let mut run = machine.start().await;
    let turn = run.first_turn().await;
    is_there_once_and_new(&turn, first);
    assert_eq!(machine.trail(first), "leased", "it was handed over and is not proved");

    look(turn, 1);
    let turn = run.turn().await;
    machine.until(first, "acked");
    assert_eq!(machine.trail(first), "acked");
    assert_eq!(machine.unread(), 0, "it has read all: {:?}", machine.agents());

    let (work, (tool, arguments)) = works_slowly(&run);
    turn.call(tool, arguments);
    work.until_begun();
    let three = ["second", "third", "fourth"].map(|text| machine.send(text));
    assert_eq!(machine.unread(), 3, "they wait: {:?}", machine.agents());
    three.iter().for_each(|seq| assert_eq!(machine.trail(*seq), "queued"));
    work.open();

    let turn = run.turn().await;
    let came = entries(&turn);
    let ids: Vec<u64> = came.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [&[first], three.as_slice()].concat(), "{turn:?}");
    assert!(came.iter().all(|entry| !entry.marked && !entry.cut), "{turn:?}");
    three.iter().for_each(|seq| assert_eq!(machine.trail(*seq), "leased"));

    look(turn, 2);
    let turn = run.turn().await;
    for seq in three {
        machine.until(seq, "acked");
        assert_eq!(machine.trail(seq), "acked");
    }
    let address = run.whoami(turn).await;
    machine.until_away();
    address
}

/// Gives what was sent after the break, and what it died with.
async fn the_user_breaks_in_and_then_it_dies(machine: &mut Machine) -> (u64, u64) {
    let mut talk = Talk::open(machine).await;
    talk.write("Wait for mail.");
    talk.run.first_turn().await.call("check_inbox", json!({ "timeout": 60 }));
    machine.until_it_waits(true);
    talk.interrupt();
    let fifth = machine.send("fifth");
    talk.write("Go on.");
    let turn = talk.run.first_turn().await;
    let turn = talk.run.until_seen(machine, turn, fifth).await;

    turn.call("check_inbox", json!({ "timeout": 55 }));
    machine.until_it_waits(true);
    let paused = pause_program(&machine.home());
    let sixth = machine.send("sixth");
    machine.until(sixth, "leased");
    assert_eq!(machine.trail(sixth), "leased");
    talk.run.kill();
    drop(paused);
    machine.until(sixth, "queued");
    assert_eq!(machine.trail(sixth), "queued", "nobody has it now");
    (fifth, sixth)
}
