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

macro_rules! play {
    ($cast:ident: $program:expr; $($group:ident: $($row:ident)*;)*) => {
        mod $cast {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $row() {
                    if let Some(machine) = Machine::set_up($program).await {
                        $group::$row(machine).await;
                    }
                }
            )*)*
        }
    };
}

macro_rules! play_all {
    ($($cast:ident: $program:expr;)*) => {
        $(play! { $cast: $program;
            waiting:
                mail_while_it_waits_comes_once
                mail_after_its_time_out_comes_with_the_next_call
                mail_in_flight_at_its_time_out_comes_again
                a_hub_killed_in_the_wait_loses_nothing;
            killed:
                mail_of_a_program_killed_at_the_answer_comes_again
                mail_behind_a_slow_hook_is_not_proved_by_it
                mail_before_a_slow_call_of_the_same_turn_is_not_lost
                mail_beside_a_slow_call_of_the_same_turn_is_not_lost;
            failing:
                mail_waits_out_a_failing_tool
                mail_waits_out_a_tool_that_the_hub_refuses;
            cancelling:
                mail_in_flight_when_the_user_breaks_in_comes_again
                mail_after_the_user_broke_in_is_seen;
            story:
                mail_to_its_name_is_never_lost_and_the_trail_is_true;
        })*
    };
}

play_all! {
    claude: Program::ClaudeCode;
    codex: Program::Codex;
    gemini: Program::Gemini;
    opencode: Program::OpenCode;
    copilot: Program::Copilot;
    qwen: Program::Qwen;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_messages_reach_opencode_once_each() {
    if let Some(machine) = Machine::set_up(Program::OpenCode).await {
        waiting::two_hundred_messages_come_once_each(machine).await;
    }
}
