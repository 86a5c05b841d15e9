//! The promises of the store port: each store keeps all of them.
//!
//! A promise is a function, named by a sentence, that takes a [`rig::Rig`]: an empty store
//! and the way to open it again. `promises_kept_by!` makes a test of each for one store.
//! A new store is one more module with a [`rig::Backend`]; see [`memory`].

mod agree;
mod deliveries;
mod forgetting;
mod groups;
mod looks;
mod messages;
mod needs;
mod people;
mod profiles;
mod random;
mod rig;

/// Tests every promise on the stores that `$open` makes.
macro_rules! promises_kept_by {
    ($open:path) => {
        promises_kept_by! { $open =>
            groups:
                a_new_store_holds_nothing,
                each_opening_has_a_higher_epoch_and_the_same_key_for_ids,
                a_stop_is_clean_only_if_it_was_noted,
                what_was_committed_is_loaded_again_in_order,
                a_group_is_seen_by_the_next_call,
                a_group_with_one_refused_change_leaves_nothing,
                a_change_that_contradicts_what_is_kept_is_refused,
                a_group_from_before_the_last_start_is_refused,
                a_dropped_future_does_not_stop_the_write,
                numbers_are_not_given_again,
                events_agree_with_the_changes,
                a_probe_leaves_nothing;
            messages:
                a_mailbox_has_its_number_until_it_is_freed,
                a_message_comes_back_with_every_field,
                an_accepted_message_is_open_in_each_mailbox,
                a_pruned_message_leaves_nothing_behind,
                a_message_with_an_open_delivery_is_not_pruned,
                a_key_leads_to_the_last_message_that_is_not_too_old;
            deliveries:
                an_acked_delivery_says_how_when_and_by_whom,
                a_dead_delivery_says_why_and_whether_it_may_have_been_seen,
                ids_acked_by_a_weak_proof_are_told_to_the_next_run,
                a_returned_delivery_is_open_and_marked,
                a_requeued_delivery_is_as_new_but_for_its_mark,
                a_marked_delivery_is_marked_after_a_start,
                notes_come_in_the_order_they_were_made,
                the_low_water_mark_goes_down_with_a_requeue;
            people:
                an_instance_comes_back_with_every_field,
                whoever_joins_again_has_a_new_status_secret_and_sign_of_life,
                a_started_instance_has_its_work,
                an_ended_instance_has_no_tokens,
                a_record_is_replaced_and_nothing_else,
                the_later_sign_of_life_counts,
                tokens_come_oldest_first,
                a_team_has_the_leaders_that_were_written_last,
                an_assignment_is_open_until_it_is_settled,
                a_report_that_cannot_be_read_is_named;
            needs:
                a_need_comes_back_with_every_field,
                needs_are_found_by_number_kind_and_state,
                a_need_is_opened_once_and_closed_once,
                closed_permissions_are_told_while_their_asker_lives,
                the_last_verdict_on_a_subject_is_remembered,
                old_closed_needs_are_forgotten_and_open_ones_never,
                a_need_is_told_when_it_opens_and_when_it_closes;
            forgetting:
                old_keys_and_weak_acks_are_forgotten,
                instances_that_ended_long_ago_are_forgotten,
                assignments_that_were_settled_long_ago_are_forgotten,
                old_events_are_forgotten_and_their_numbers_are_not,
                rows_of_the_future_stay_until_the_run_is_long_enough,
                only_messages_that_are_settled_for_long_enough_are_aged,
                a_mailbox_is_unnamed_when_no_kept_delivery_names_it;
            looks:
                messages_are_found_with_and_without_bodies,
                records_come_in_the_order_asked_for,
                records_are_as_many_as_fit,
                history_goes_page_by_page_in_both_directions,
                history_joins_its_sources,
                history_looks_at_listed_messages_that_are_gone,
                a_part_of_history_ends_when_its_bodies_hold_enough,
                replies_come_oldest_first,
                counts_are_of_what_is_kept,
                a_thread_is_counted_without_its_neighbours,
                events_come_page_by_page;
            profiles:
                a_profile_comes_back_with_every_field,
                a_written_profile_replaces_the_one_of_its_name,
                profiles_come_by_name_without_prompts,
                a_search_finds_the_best_first,
                a_search_folds_case_and_accents_and_completes_the_last_word,
                any_text_is_a_good_query;
            agree:
                random_changes_leave_what_they_leave_in_memory;
        }
    };
    ($open:path => $($module:ident: $($promise:ident),+;)+) => {
        $($(
            #[tokio::test]
            async fn $promise() {
                crate::$module::$promise($open().await).await;
            }
        )+)+
    };
}

mod memory;
mod sqlite;
