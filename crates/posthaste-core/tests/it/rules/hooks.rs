//! The rules for clients with hooks, and for those whose connection closes.

use posthaste_core::messaging::clients::UNKNOWN;
use posthaste_core::messaging::proof::{Hook, Process};

use super::*;

pub(super) const CHECK_INBOX: &str = "mcp__hub__check_inbox";
const BASH: &str = "Bash";
const BY_STOP: Fate = Fate::Acked("hook");

fn hook(moment: Moment, tool: &'static str) -> Hook<'static> {
    Hook { tool, ..Hook::new(moment, &UNKNOWN) }
}

pub(super) fn after(tool: &'static str) -> Hook<'static> {
    hook(Moment::AfterTool, tool)
}

fn before(tool: &'static str) -> Hook<'static> {
    hook(Moment::BeforeTool, tool)
}

/// A reader with hooks, and one message.
fn hooked() -> Post {
    let mut post = one_message();
    post.hooks(0, Moment::SessionStart);
    post
}

/// The answer of a `check_inbox`, written.
fn checks(post: &mut Post, name: &str, receipt: u64) -> Given {
    let through = Call::through(Door::Mcp);
    let call = Call { call_id: Some(name), tool: "check_inbox", ..through };
    let running = post.opens_call(0, &call, receipt);
    let given = post.answers(0, &running);
    post.written(&running);
    given
}

fn waits_out_the_grace_of_hooks(post: &mut Post) {
    let until = post.now() + Limits::default().hook_grace + Duration::from_millis(1);
    post.pass(until);
}

#[test]
fn hooked_an_answer_whose_own_hook_never_came_is_not_proved() {
    let mut post = hooked();
    assert_eq!(checks(&mut post, "1", 1), first());
    post.hook(0, &before(BASH));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), HELD, "nobody knows whether the client has stored it");
    post.hooks(0, Moment::Stop);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn hooked_mail_that_a_hook_carried_is_proved_by_the_next_call() {
    let mut post = hooked();
    post.hook(0, &before(BASH));
    assert!(post.hook(0, &after(BASH)), "it may carry mail");
    assert_eq!(post.carries(0, 1).1, first());
    post.hook(0, &before(BASH));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), BY_STOP);
}

#[test]
fn began_the_hook_of_the_call_that_brought_the_mail_proves_nothing() {
    let mut post = hooked();
    checks(&mut post, "1", 1);
    assert!(!post.hook(0, &after(CHECK_INBOX)), "it brings no mail itself");
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), HELD);
    post.hook(0, &before(BASH));
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), HELD, "the client may still lose it");
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), BY_STOP);
}

#[test]
fn alone_a_call_that_begins_beside_another_proves_nothing() {
    let mut post = hooked();
    post.hook(0, &before(BASH));
    checks(&mut post, "1", 1);
    post.hook(0, &after(CHECK_INBOX));
    post.hook(0, &before("Read"));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), HELD, "results are stored in order, and the first still runs");
    post.hook(0, &after("Read"));
    post.hook(0, &after(BASH));
    post.hook(0, &before(BASH));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), BY_STOP);
}

#[test]
fn alone_a_call_that_turns_out_to_have_company_proves_nothing() {
    let mut post = hooked();
    checks(&mut post, "1", 1);
    post.hook(0, &after(CHECK_INBOX));
    // Of a batch of three, the hook before the slow one comes last.
    post.hook(0, &before("Read"));
    post.hook(0, &before(BASH));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), HELD);
}

#[test]
fn alone_a_call_that_the_hub_refused_is_over() {
    let mut post = hooked();
    let through = Call::through(Door::Mcp);
    let call = Call { call_id: Some("9"), tool: "send_message", ..through };
    let refused = post.opens_call(0, &call, 9);
    post.errs(&refused);
    post.written(&refused);
    post.hook(0, &before(BASH));
    post.hook(0, &after(BASH));
    assert_eq!(post.carries(0, 1).1, first());
    post.hook(0, &before(BASH));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), BY_STOP, "it runs no longer, though no hook said so");
}

#[test]
fn stop_proves_what_is_hooked_at_once() {
    let mut post = hooked();
    checks(&mut post, "1", 1);
    post.hook(0, &after(CHECK_INBOX));
    post.hooks(0, Moment::Stop);
    assert_eq!(post.fate(0), BY_STOP);
}

#[test]
fn stop_names_what_it_proved_to_the_reader() {
    let mut post = hooked();
    checks(&mut post, "1", 1);
    post.hook(0, &after(CHECK_INBOX));
    post.hooks(0, Moment::Stop);
    assert_eq!(checks(&mut post, "2", 2).settled, [0]);
}

#[test]
fn turn_a_prompt_ends_open_calls_and_returns_what_was_not_proved() {
    let mut post = Post::new(1, 1, false, false);
    post.hooks(0, Moment::SessionStart);
    checks(&mut post, "1", 1);
    post.hook(0, &after(CHECK_INBOX));
    let ghost = post.opens(0, "2", 2);

    post.hooks(0, Moment::Prompt);

    assert_eq!(post.fate(0), BACK, "an interrupted client may have dropped it");
    assert!(ghost.cut.is_cancelled());
    assert_eq!(post.answers(0, &ghost), Given::default());
}

#[test]
fn start_the_first_prompt_keeps_what_the_session_start_brought() {
    let mut post = one_message();
    assert!(post.hooks(0, Moment::SessionStart));
    assert_eq!(post.carries(0, 1).1, first());
    post.hooks(0, Moment::Prompt);
    assert_eq!(post.fate(0), HELD, "both stand in the first request of the turn");
    post.hooks(0, Moment::Prompt);
    assert_eq!(post.fate(0), BACK, "that turn was cut");
}

#[test]
fn failed_the_hook_of_a_failed_tool_carries_no_mail() {
    let mut post = hooked();
    post.hook(0, &before(BASH));
    assert!(!post.hook(0, &Hook { failed: true, ..after(BASH) }));
    assert_eq!(post.fate(0), AS_IT_WAS);
}

#[test]
fn failed_a_call_of_the_hub_that_failed_at_the_client_gives_its_mail_back() {
    let mut post = hooked();
    checks(&mut post, "1", 1);
    post.hook(0, &Hook { failed: true, ..after(CHECK_INBOX) });
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn hooked_is_known_by_the_calls_id_where_there_is_one() {
    let mut post = Post::new(1, 0, false, false);
    post.hooks(0, Moment::SessionStart);
    for (name, receipt) in [("toolu_1", 1), ("toolu_2", 2)] {
        post.arrives();
        assert_eq!(checks(&mut post, name, receipt).mail.len(), 1);
    }
    post.hook(0, &Hook { call: "toolu_2", ..after(CHECK_INBOX) });
    post.hooks(0, Moment::Stop);
    assert_eq!((post.fate(0), post.fate(1)), (BACK, BY_STOP));
}

#[test]
fn hooked_two_calls_of_one_tool_without_ids_are_told_apart_by_nothing_until_both_hooks_came() {
    let two = || {
        let mut post = Post::new(1, 1, false, false);
        post.hooks(0, Moment::SessionStart);
        checks(&mut post, "1", 1);
        assert_eq!(checks(&mut post, "2", 2).mail, []);
        post.hook(0, &after(CHECK_INBOX));
        post
    };
    let mut one_hook = two();
    one_hook.hooks(0, Moment::Stop);
    assert_eq!(one_hook.fate(0), BACK, "it may have been the hook of the other call");

    let mut both = two();
    both.hook(0, &after(CHECK_INBOX));
    both.hooks(0, Moment::Stop);
    assert_eq!(both.fate(0), BY_STOP);
}

#[test]
fn a_sub_agent_that_is_not_marked_gets_no_mail_until_its_tool_is_over() {
    let gemini = Client::called("gemini-cli");
    let of = |moment, tool| Hook { tool, ..Hook::new(moment, gemini) };
    let mut post = hooked();
    post.hook(0, &of(Moment::BeforeTool, "invoke_agent"));
    post.hook(0, &of(Moment::BeforeTool, BASH));
    assert!(!post.hook(0, &of(Moment::AfterTool, BASH)), "only the sub-agent would see it");
    assert!(post.hook(0, &of(Moment::AfterTool, "invoke_agent")));
    assert!(!post.hook(0, &Hook { quiet: true, ..after(BASH) }), "nobody would see it");
}

#[test]
fn habit_a_client_that_cancels_every_finished_call_reads_nothing_twice() {
    let mut post = one_message();
    let through = Call::through(Door::Mcp);
    let client = Client::called("opencode");
    let call = post.opens_call(0, &Call { client, call_id: Some("1"), ..through }, 1);
    post.answers(0, &call);
    post.written(&call);
    post.cancelled(0, "1");
    assert_eq!(post.fate(0), HELD);
    post.opens_call(0, &Call { client, call_id: Some("2"), ..through }, 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
}

#[test]
fn gone_one_of_mail_goes_back_when_the_last_stream_of_its_reader_closes() {
    let mut post = Post::new(2, 1, true, false);
    let (first, second) = (post.attaches(0), post.attaches(0));
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.detaches(0, first);
    assert_eq!(post.fate(0), HELD, "one stream is still open");
    post.detaches(0, second);
    assert_eq!(post.fate(0), BACK);

    let mut exact = one_message();
    let stream = exact.attaches(0);
    next_answer(&mut exact, "1", 1);
    exact.detaches(0, stream);
    assert_eq!(exact.fate(0), HELD, "nobody else could read it");
}

/// A bridge that serves a conversation.
fn bridge_of(name: &'static str, conversation: &'static str) -> Process<'static> {
    Process { bridge: Some(name), session: None, conversation: Some(conversation) }
}

#[test]
fn same_two_bridges_of_one_conversation_are_one_reader() {
    let bridge = bridge_of;
    let mut post = one_message();
    post.meets(0, bridge("a", "s1"), None);
    let stream = post.attaches(0);
    next_answer(&mut post, "1", 1);
    post.meets(0, bridge("b", "s1"), None);
    assert_eq!(post.fate(0), HELD, "no beginning");
    next_answer(&mut post, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN, "and no shared identity");

    post.arrives();
    next_answer(&mut post, "3", 3);
    post.meets(0, bridge("c", "s2"), None);
    assert_eq!(post.fate(1), BACK, "another conversation is another reader");
    post.detaches(0, stream);
}

#[test]
fn cut_a_conversation_that_is_resumed_by_a_new_process_begins_anew() {
    let bridge = |name| bridge_of(name, "s1");
    let mut post = one_message();
    post.meets(0, bridge("a"), None);
    let stream = post.attaches(0);
    next_answer(&mut post, "1", 1);
    post.detaches(0, stream);
    post.meets(0, bridge("b"), None);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn own_a_session_that_starts_in_the_same_process_keeps_its_connection() {
    let bridge = bridge_of("a", "p1");
    let start = |conversation| Hook {
        source: "startup",
        conversation,
        ..Hook::new(Moment::SessionStart, &UNKNOWN)
    };
    for (conversation, fate) in [("p1", BY_STOP), ("p2", HELD)] {
        let mut post = Post::new(1, 0, false, false);
        post.meets(0, bridge, None);
        let stream = post.attaches(0);
        checks(&mut post, "1", 1);
        post.hook(0, &start(conversation));
        post.arrives();
        assert_eq!(checks(&mut post, "2", 2).mail.len(), 1);
        post.hook(0, &after(CHECK_INBOX));
        post.hooks(0, Moment::Stop);
        assert_eq!(post.fate(0), fate, "{conversation}");
        post.detaches(0, stream);
    }
}

#[test]
fn hooked_what_a_sub_agent_may_have_read_is_not_proved_by_the_agents_stop() {
    let gemini = Client::called("gemini-cli");
    let of = |moment, tool| Hook { tool, ..Hook::new(moment, gemini) };
    let mut post = hooked();
    post.hook(0, &of(Moment::BeforeTool, "invoke_agent"));
    assert_eq!(checks(&mut post, "1", 1), first());
    post.hook(0, &of(Moment::AfterTool, CHECK_INBOX));
    post.hook(0, &of(Moment::AfterTool, "invoke_agent"));
    post.hooks(0, Moment::Stop);
    assert_eq!(post.fate(0), BACK, "the agent itself never saw it");
}

#[test]
fn hooked_is_asked_of_nobody_whose_hooks_have_gone() {
    let mut gone = hooked();
    let stream = gone.attaches(0);
    gone.detaches(0, stream);
    checks(&mut gone, "1", 1);
    checks(&mut gone, "2", 2);
    waits_out_the_grace(&mut gone);
    assert_eq!(gone.fate(0), TAKEN, "the next process has shown none");

    let mut removed = hooked();
    checks(&mut removed, "1", 1);
    let later = removed.now() + Duration::from_secs(60);
    removed.pass(later);
    for name in ["2", "3", "4", "5", "6"] {
        checks(&mut removed, name, 9);
    }
    waits_out_the_grace(&mut removed);
    assert_eq!(removed.fate(0), TAKEN, "calls without any hook for a minute");
}

#[test]
fn cut_an_open_call_at_another_door_does_not_make_a_new_process_the_same_one() {
    let bridge = |name| bridge_of(name, "s1");
    let mut post = one_message();
    post.meets(0, bridge("a"), None);
    next_answer(&mut post, "1", 1);
    post.opens_call(0, &Call::through(Door::Rest), 7);
    post.meets(0, bridge("b"), None);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn alone_a_batch_does_not_take_back_what_an_earlier_call_has_proved() {
    let mut post = hooked();
    checks(&mut post, "1", 1);
    post.hook(0, &after(CHECK_INBOX));
    post.hook(0, &before(BASH));
    post.hook(0, &after(BASH));
    post.hook(0, &before("Read"));
    post.hook(0, &before("Grep"));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), BY_STOP, "the first one ran alone");
}

#[test]
fn alone_of_two_calls_of_one_tool_the_refused_one_is_over() {
    let mut post = hooked();
    let through = Call::through(Door::Mcp);
    let call = |id| Call { call_id: Some(id), tool: "check_inbox", ..through };
    post.opens_call(0, &call("1"), 1);
    let refused = post.opens_call(0, &call("2"), 2);
    post.errs(&refused);
    post.written(&refused);
    post.hook(0, &before(BASH));
    post.hook(0, &after(BASH));
    assert_eq!(post.carries(0, 3).1, first());
    post.hook(0, &before(BASH));
    waits_out_the_grace_of_hooks(&mut post);
    assert_eq!(post.fate(0), HELD, "the first one still waits");
}

#[test]
fn hooked_a_tool_of_another_server_with_the_same_name_hooks_nothing() {
    const THEIRS: &str = "mcp_slack_check_inbox";
    let mut post = hooked();
    checks(&mut post, "1", 1);
    post.hook(0, &before(THEIRS));
    assert!(post.hook(0, &after(THEIRS)), "it may bring mail like any tool");
    post.hooks(0, Moment::Stop);
    assert_eq!(post.fate(0), BACK, "the hook of our own call never came");
}

#[test]
fn hooked_a_hook_that_was_lost_does_not_confuse_the_calls_after_it() {
    let mut post = Post::new(1, 0, false, false);
    post.hooks(0, Moment::SessionStart);
    checks(&mut post, "1", 1);
    post.hook(0, &before(BASH));
    post.hook(0, &after(BASH));
    post.hooks(0, Moment::Stop);
    post.hooks(0, Moment::Prompt);
    checks(&mut post, "2", 2);
    post.arrives();
    assert_eq!(checks(&mut post, "3", 3).mail.len(), 1);
    post.hook(0, &after(CHECK_INBOX));
    post.hook(0, &after(CHECK_INBOX));
    post.hooks(0, Moment::Stop);
    assert_eq!(post.fate(0), BY_STOP);
}

/// The hook of an idle client is answered with the mail.
fn wakes(post: &mut Post, receipt: u64) -> Given {
    assert!(post.hooks(0, Moment::Idle), "it may carry mail");
    let running = post.opens_call(0, &Call::through(Door::Idle), receipt);
    let given = post.answers(0, &running);
    post.written(&running);
    given
}

#[test]
fn mail_that_woke_an_idle_client_is_proved_by_its_receipt() {
    let mut post = hooked();
    assert_eq!(wakes(&mut post, 1), first());
    post.receipt(0, 1);
    assert_eq!(post.fate(0), Fate::Acked("receipt"));
}

#[test]
fn mail_that_was_to_wake_a_client_is_proved_by_nothing_that_the_client_does() {
    for boundary in [Moment::Stop, Moment::Prompt] {
        let mut post = hooked();
        assert_eq!(wakes(&mut post, 1), first());
        post.hook(0, &before(BASH));
        post.hook(0, &after(BASH));
        checks(&mut post, "1", 2);
        waits_out_the_grace_of_hooks(&mut post);
        assert_eq!(post.fate(0), HELD, "these may belong to another turn");
        // A new wait says nothing about the mail of the last one.
        post.hooks(0, Moment::Idle);
        assert_eq!(post.fate(0), HELD);
        post.hooks(0, boundary);
        assert_eq!(post.fate(0), BACK);
    }
}

#[test]
fn a_prompt_ends_the_wait_of_an_idle_client() {
    let mut post = hooked();
    assert!(post.hooks(0, Moment::Idle));
    let running = post.opens_call(0, &Call::through(Door::Idle), 1);
    post.hooks(0, Moment::Prompt);
    assert!(running.cut.is_cancelled());
    let through_the_prompt = post.carries(0, 2).1;
    assert_eq!(through_the_prompt, first(), "as it was");
}

#[test]
fn a_session_that_begins_while_its_program_waits_for_mail_is_no_second_process() {
    let mut post = hooked();
    assert!(post.hooks(0, Moment::Idle));
    let running = post.opens_call(0, &Call::through(Door::Idle), 1);
    post.hooks(0, Moment::SessionStart);
    assert!(running.cut.is_cancelled());
    assert_eq!(post.carries(0, 2).1, first());
    post.hooks(0, Moment::Stop);
    assert_eq!(post.fate(0), BY_STOP, "it is one reader");
}

/// The driver of a worker holds the message, and has called again for more.
fn driven(post: &mut Post) -> Running {
    let driver = Call::through(Door::Driver);
    let prompt = post.opens_call(0, &driver, 1);
    assert_eq!(post.answers(0, &prompt), first());
    post.written(&prompt);
    post.opens_call(0, &driver, 2)
}

#[test]
fn driver_a_worker_whose_session_starts_is_not_given_its_task_twice() {
    for source in ["startup", "resume", "clear"] {
        let mut post = one_message();
        let waiting = driven(&mut post);
        post.hook(0, &Hook { source, ..hook(Moment::SessionStart, "") });
        assert_eq!(post.carries(0, 3).1, Given::default(), "{source}: its driver gives it");
        assert_eq!(post.fate(0), HELD, "{source}");
        assert!(!waiting.cut.is_cancelled(), "{source}: the driver waits on");
        post.receipt(0, 1);
        assert_eq!(post.fate(0), Fate::Acked("receipt"), "{source}: the driver can prove it");
    }
}

#[test]
fn driver_a_worker_whose_session_starts_gets_back_what_it_read_by_itself() {
    let mut post = one_message();
    assert_eq!(checks(&mut post, "1", 1), first());
    post.arrives();
    let prompt = post.opens_call(0, &Call::through(Door::Driver), 2);
    assert_eq!(post.answers(0, &prompt).mail, [(1, false)]);
    post.written(&prompt);
    post.hooks(0, Moment::SessionStart);
    assert_eq!(post.carries(0, 3).1.mail, [(0, true)]);
}

#[test]
fn driver_a_driver_that_starts_gets_back_what_the_one_before_it_held() {
    let mut post = one_message();
    let waiting = driven(&mut post);
    post.begins(0, Scope::All);
    assert!(waiting.cut.is_cancelled());
    assert_eq!(post.fate(0), BACK);
}
