//! Assistants whose model and tools the hub calls: a hub, a runner, and a model that the
//! test plays in the wire format of its provider.
//!
//! The stories of the loop stand once and are played with the built-in runner and with the
//! small one in Python. What "the model saw" is read from the requests, roles included.

mod delegation;
mod endings;
mod examples;
mod flows;
mod gaps;
mod kills;
mod lines;
mod odd;
mod providers;
mod stage;
mod stops;

use stage::{Runner, Stage};

/// Plays every story with each runner.
macro_rules! play {
    ($($runner:ident: $kind:expr),+ => $stories:tt) => {
        $(play!(@one $runner $kind, $stories);)+
    };
    (@one $runner:ident $kind:expr, { $($stories:ident::$story:ident)* }) => {
        mod $runner {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if $kind.is_here() {
                        $stories::$story(Stage::set($kind).await).await;
                    }
                }
            )*
        }
    };
}

play! {
    with_the_built_in_runner: Runner::BuiltIn, with_a_runner_in_python: Runner::Python => {
        flows::of_two_independent_requests_the_quick_one_is_answered_first
        flows::an_amendment_changes_the_task_and_gets_one_answer
        flows::a_question_about_one_task_does_not_stop_another
        flows::a_blocking_question_waits_for_its_answer
        flows::mail_of_other_agents_is_data_and_never_the_users
        gaps::a_message_before_the_first_look_is_in_the_first_request
        gaps::messages_during_a_call_of_the_model_come_after_its_tools_each_in_order
        gaps::a_message_during_the_final_answer_makes_it_a_partial_one
        gaps::what_is_left_open_is_reminded_of_once_and_never_twice
        gaps::the_humans_words_end_a_wait_for_mail_and_come_as_the_users
        kills::a_hub_killed_during_a_call_of_the_model_asks_it_again_and_loses_nothing
        kills::a_hub_killed_after_each_step_repeats_no_answer_and_no_tool
        kills::a_hub_killed_during_a_blocking_question_still_gets_the_answer
        kills::mail_that_was_stored_with_a_result_before_a_kill_comes_once
        kills::a_runner_killed_in_mid_request_fails_its_assignment_with_a_reason
        stops::an_assistant_goes_on_after_its_hub_was_stopped_and_repeats_nothing
        stops::a_tool_that_a_stopping_hub_cuts_is_told_to_the_model_and_not_used_again
        stops::the_answer_to_a_question_of_before_the_stop_comes_as_a_message
        stops::an_answer_that_a_stopping_hub_had_stored_reaches_the_model
        stops::a_turn_that_ended_as_its_hub_was_stopped_is_reported_once
        endings::a_broken_call_and_an_unknown_tool_are_told_to_the_model
        endings::a_model_that_refuses_ends_the_turn_with_one_sentence
        endings::a_loop_of_the_same_call_is_advised_to_wait_and_bounded
        endings::a_model_that_says_nothing_is_asked_once_more_and_reported
        endings::a_long_conversation_leaves_out_its_oldest_results_first
    }
}
