//! Agents that the hub starts and steers, with their real programs: a hub, workers whose
//! driver holds a conversation with them, and a model that the test plays.
//!
//! The stories stand once, in `stories.rs`, and are played with every program.

mod acp;
mod cast;
mod claude;
mod codex;
mod demo;
mod examples;
mod installed;
mod keys;
mod kills;
mod odd;
mod stage;
mod stories;
mod terminal;
mod told;
mod window;

use cast::Cast;
use stage::Stage;

use crate::clients::Program;

/// Plays stories with one program.
macro_rules! play {
    ($cast:ident: $program:expr $(, connected: $client:expr)?; $($story:ident)*) => {
        mod $cast {
            use super::*;

            async fn set() -> Option<Stage> {
                let stage = Stage::set($program).await;
                $(let stage = stage.map(|stage| stage.connect($client));)?
                stage
            }
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if let Some(stage) = set().await {
                        stories::$story(stage).await;
                    }
                }
            )*
        }
    };
}

play! { with_claude: claude::CAST;
    an_agent_does_its_task_and_its_answer_is_the_report
    two_agents_work_at_once_and_each_reports_for_itself
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_joins_the_running_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    a_hub_killed_while_a_prompt_is_under_way_delivers_it_once
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    an_agent_that_ends_in_mid_turn_fails_its_assignment
    a_hub_that_stops_ends_its_agents_and_tells_their_givers
    a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
    the_transcript_shows_the_work_live_and_after_the_end
    a_person_who_attaches_sees_the_work_and_talks_to_the_agent
    in_a_pipe_attach_only_shows_and_leaving_it_ends_nobody
}

play! { with_codex: codex::CAST;
    an_agent_does_its_task_and_its_answer_is_the_report
    two_agents_work_at_once_and_each_reports_for_itself
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_joins_the_running_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    a_hub_killed_while_a_prompt_is_under_way_delivers_it_once
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    an_agent_that_ends_in_mid_turn_fails_its_assignment
    a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
    the_transcript_shows_the_work_live_and_after_the_end
    a_person_who_attaches_sees_the_work_and_talks_to_the_agent
    in_a_pipe_attach_only_shows_and_leaving_it_ends_nobody
}

// Its user has set up the hub for himself, and for the agents it is there all the same.
play! { with_a_codex_that_is_connected: codex::CONNECTED;
    an_agent_does_its_task_and_its_answer_is_the_report
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
}

// Hooks of the user's own run for the agents as well.
play! { with_a_claude_that_is_connected: claude::CAST, connected: Program::ClaudeCode;
    an_agent_does_its_task_and_its_answer_is_the_report
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_joins_the_running_turn
}

play! { with_an_opencode_that_is_connected: acp::WITH_PLUGINS, connected: Program::OpenCode;
    an_agent_does_its_task_and_its_answer_is_the_report
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_joins_the_running_turn
}

// Any program that speaks the Agent Client Protocol.
play! { with_claude_over_acp: acp::CLAUDE;
    an_agent_does_its_task_and_its_answer_is_the_report
    two_agents_work_at_once_and_each_reports_for_itself
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_joins_the_running_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    a_hub_killed_while_a_prompt_is_under_way_delivers_it_once
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    an_agent_that_ends_in_mid_turn_fails_its_assignment
    a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
    the_transcript_shows_the_work_live_and_after_the_end
}

play! { with_opencode_over_acp: acp::OPENCODE;
    an_agent_does_its_task_and_its_answer_is_the_report
    two_agents_work_at_once_and_each_reports_for_itself
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_joins_the_running_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    a_hub_killed_while_a_prompt_is_under_way_delivers_it_once
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    an_agent_that_ends_in_mid_turn_fails_its_assignment
    a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
    the_transcript_shows_the_work_live_and_after_the_end
    in_a_pipe_attach_only_shows_and_leaving_it_ends_nobody
}

play! { with_codex_over_acp: acp::CODEX;
    an_agent_does_its_task_and_its_answer_is_the_report
    two_agents_work_at_once_and_each_reports_for_itself
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_cuts_the_running_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    a_hub_killed_while_a_prompt_is_under_way_delivers_it_once
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    an_agent_that_ends_in_mid_turn_fails_its_assignment
    a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
    the_transcript_shows_the_work_live_and_after_the_end
}

play! { with_gemini_over_acp: acp::GEMINI;
    an_agent_does_its_task_and_its_answer_is_the_report
    two_agents_work_at_once_and_each_reports_for_itself
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    mail_for_a_busy_agent_comes_with_its_next_result_and_once
    urgent_mail_cuts_the_running_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    a_hub_killed_while_a_prompt_is_under_way_delivers_it_once
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    an_agent_that_ends_in_mid_turn_fails_its_assignment
    a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
    the_transcript_shows_the_work_live_and_after_the_end
}

// It offers the hub's tools to its model only by a search for them.
play! { with_qwen_over_acp: acp::QWEN;
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
}

// It does not start the servers that a session is opened with, so it has no tools of the hub.
play! { with_copilot_over_acp: acp::COPILOT;
    mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn
    a_hub_killed_in_mid_turn_goes_on_where_it_was
    mail_that_waits_while_the_hub_is_killed_is_prompted_as_one
    urgent_mail_reaches_an_agent_that_waits_for_a_permission
}
