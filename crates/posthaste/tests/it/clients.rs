//! Real agent programs against a real hub, with a model whose part the test plays.
//!
//! What they are is pinned in `scripts/agents`, and `scripts/test` installs it.

mod at_the_answer;
mod calling_again;
mod claude;
mod codex;
mod connecting;
mod copilot;
mod gemini;
mod hooks;
mod joining;
mod manners;
mod official;
mod opencode;
mod program;
mod qwen;
mod running;
mod stage;
mod stories;
mod trust;
mod truth;
mod user;

use posthaste_testkit::model_server::ModelServer;

use crate::world::World;
pub(crate) use claude::binary as claude_binary;
pub(crate) use codex::binary as codex_binary;
pub(crate) use gemini::script as gemini_script;
pub(crate) use opencode::binary as opencode_binary;
use program::{Line, Task};
pub(crate) use program::{Program, home, shut_in, tools};
use stage::Stage;
pub(crate) use user::connects;

/// Plays every story with one program over one transport.
macro_rules! play {
    ($cast:ident: $program:expr, $line:expr; $($story:ident)*) => {
        mod $cast {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if let Some(stage) = Stage::set($program, $line).await {
                        stories::$story(stage).await;
                    }
                }
            )*
        }
    };
}

macro_rules! play_all {
    ($($cast:ident: $program:expr, $line:expr;)*) => {
        $(play! { $cast: $program, $line;
            the_model_is_offered_the_tools_and_told_the_etiquette
            mail_sent_while_it_waits_arrives_in_the_same_turn
            a_model_that_never_checks_gets_its_mail_with_another_result
            the_models_answer_reaches_the_sender_and_is_the_proof
            a_long_message_reaches_the_model_in_whole_parts
            a_wrong_argument_is_explained_and_takes_no_mail
            two_checks_in_one_turn_never_get_the_same_mail
            mail_after_its_own_time_out_waits_for_the_next_check
            a_hub_killed_in_mid_wait_gives_the_mail_again_marked
            a_wait_that_the_hub_broke_off_loses_nothing_that_comes_later
            mail_of_an_agent_killed_after_the_answer_comes_again_marked
            mail_for_an_agent_killed_while_it_waited_is_new_to_the_next
            an_agent_killed_at_any_moment_misses_nothing
            a_supervisor_gathers_all_its_workers_in_the_same_turn
            a_handoff_brings_the_answer_as_its_own_result
        })*
    };
}

play_all! {
    claude_over_http: Program::ClaudeCode, Line::Http;
    claude_over_stdio: Program::ClaudeCode, Line::Stdio;
    codex_over_http: Program::Codex, Line::Http;
    codex_over_stdio: Program::Codex, Line::Stdio;
}

/// The programs talk to the model server as they talk to their provider.
async fn it_says_what_its_model_says(program: Program) {
    let Some(tools) = program::tools() else { return };
    let world = World::new();
    let mut model = ModelServer::start().await;
    let task = Task { model: model.url(), prompt: Some("Say hello."), ..Task::default() };
    let agent = program.start(&tools, &world, &task);

    let turn = model.asked().await;
    turn.assert_saw("Say hello.");
    turn.say("hello from the script");

    let ran = agent.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("hello from the script"), "{ran:?}");
    assert!(model.is_idle(), "one turn, no more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_says_what_its_model_says() {
    it_says_what_its_model_says(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_says_what_its_model_says() {
    it_says_what_its_model_says(Program::Codex).await;
}
