//! Mail waits while a tool fails: some programs drop what a hook adds to a failure.

use super::machine::{Machine, look};
use super::own::{Call, fails, fails_at_the_hub, works};
use super::seen::entries_of;

/// A tool of the program's own fails.
pub(super) async fn mail_waits_out_a_failing_tool(machine: Machine) {
    let failing = fails(machine.program);
    mail_waits_out(machine, failing).await;
}

/// A tool of the hub refuses.
pub(super) async fn mail_waits_out_a_tool_that_the_hub_refuses(machine: Machine) {
    mail_waits_out(machine, fails_at_the_hub()).await;
}

/// The mail comes with the failure or at the next tool that does not fail, once.
async fn mail_waits_out(mut machine: Machine, (tool, arguments): Call) {
    let mut run = machine.start().await;
    let turn = run.first_turn().await;
    let seq = machine.send("do not go down with it");
    turn.call(tool, arguments);
    let turn = run.turn().await;
    let (tool, arguments) = works(run.program);
    turn.call(tool, arguments);
    let turn = run.turn().await;
    assert!(!entries_of(&turn, seq).is_empty(), "it has not come: {turn:?}");
    look(turn, 1);
    let turn = run.turn().await;
    machine.until(seq, "acked");
    run.ends(turn).await;
    machine.is_truthful();
}
