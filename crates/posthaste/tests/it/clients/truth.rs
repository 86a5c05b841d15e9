//! The matrix of truthful delivery: each row with each real program, through what
//! `posthaste connect` wrote, judged by what the models were asked.
//!
//! A row is truthful if the sender is told `acked` only of mail that a model was given
//! or finds in its resumed conversation, if everything else comes again, marked, and
//! if nothing is seen twice unmarked.

mod cancelling;
mod failing;
mod killed;
mod machine;
mod own;
mod processes;
mod seen;
mod story;
mod talk;
mod waiting;

use crate::clients::program::Program;
use machine::Machine;

/// One test.
macro_rules! play {
    ($name:ident, $program:ident, $group:ident::$row:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            if let Some(machine) = Machine::set_up(Program::$program).await {
                $group::$row(machine).await;
            }
        }
    };
}

/// The rows that every program can play.
macro_rules! play_all {
    ($($cast:ident: $program:ident;)*) => {
        $(mod $cast {
            use super::*;
            play! { mail_while_it_waits_comes_once, $program,
                waiting::mail_while_it_waits_comes_once }
            play! { mail_after_its_time_out_comes_with_the_next_call, $program,
                waiting::mail_after_its_time_out_comes_with_the_next_call }
            play! { mail_in_flight_at_its_time_out_comes_again, $program,
                waiting::mail_in_flight_at_its_time_out_comes_again }
            play! { a_hub_killed_in_the_wait_loses_nothing, $program,
                waiting::a_hub_killed_in_the_wait_loses_nothing }
            play! { mail_of_a_program_killed_at_the_answer_comes_again, $program,
                killed::mail_of_a_program_killed_at_the_answer_comes_again }
            play! { mail_behind_a_slow_hook_is_not_proved_by_it, $program,
                killed::mail_behind_a_slow_hook_is_not_proved_by_it }
            play! { mail_before_a_slow_call_of_the_same_turn_is_not_lost, $program,
                killed::mail_before_a_slow_call_of_the_same_turn_is_not_lost }
            play! { mail_waits_out_a_tool_that_the_hub_refuses, $program,
                failing::mail_waits_out_a_tool_that_the_hub_refuses }
            play! { mail_in_flight_when_the_user_breaks_in_comes_again, $program,
                cancelling::mail_in_flight_when_the_user_breaks_in_comes_again }
            play! { mail_after_the_user_broke_in_is_seen, $program,
                cancelling::mail_after_the_user_broke_in_is_seen }
            play! { mail_to_its_name_is_never_lost_and_the_trail_is_true, $program,
                story::mail_to_its_name_is_never_lost_and_the_trail_is_true }
        })*
    };
}

play_all! {
    claude: ClaudeCode;
    codex: Codex;
    gemini: Gemini;
    opencode: OpenCode;
    copilot: Copilot;
    qwen: Qwen;
}

/// Qwen Code cannot play it: it runs the calls of a turn one after the other, so behind
/// a slow call nobody reads mail.
mod mail_beside_a_slow_call_of_the_same_turn_is_not_lost {
    use super::*;
    play! { claude, ClaudeCode, killed::mail_beside_a_slow_call_of_the_same_turn_is_not_lost }
    play! { codex, Codex, killed::mail_beside_a_slow_call_of_the_same_turn_is_not_lost }
    play! { gemini, Gemini, killed::mail_beside_a_slow_call_of_the_same_turn_is_not_lost }
    play! { opencode, OpenCode, killed::mail_beside_a_slow_call_of_the_same_turn_is_not_lost }
    play! { copilot, Copilot, killed::mail_beside_a_slow_call_of_the_same_turn_is_not_lost }
}

/// Codex cannot play it: to it a command that ends badly has run well, and no tool of
/// its own fails otherwise.
mod mail_waits_out_a_failing_tool {
    use super::*;
    play! { claude, ClaudeCode, failing::mail_waits_out_a_failing_tool }
    play! { gemini, Gemini, failing::mail_waits_out_a_failing_tool }
    play! { opencode, OpenCode, failing::mail_waits_out_a_failing_tool }
    play! { copilot, Copilot, failing::mail_waits_out_a_failing_tool }
    play! { qwen, Qwen, failing::mail_waits_out_a_failing_tool }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_messages_reach_opencode_once_each() {
    if let Some(machine) = Machine::set_up(Program::OpenCode).await {
        waiting::two_hundred_messages_come_once_each(machine).await;
    }
}
