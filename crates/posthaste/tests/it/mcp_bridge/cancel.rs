//! A client that gives up a call.

use rustix::process::Signal;
use serde_json::json;

use super::agent::{Agent, BOTH, LONG, is_waiting, read};
use super::ear::{Ear, Reply};
use crate::world::{World, eventually};

#[test]
fn a_cancelled_wait_ends_in_the_hub_too_and_takes_no_mail() {
    for era in BOTH {
        let world = World::new();
        let _hub = world.hub();
        let mut agent = Agent::ready(&world, era, &[]);
        let (address, waiting) = agent.waits(&world);
        agent.cancel(waiting);
        eventually(|| !is_waiting(&world, &address));
        world.say(&["send", &address, "still here"]);
        assert_eq!(agent.inbox(), ["still here"], "{era:?}");
        assert!(!agent.has_answer(waiting), "{era:?}: nobody waits for that answer");
    }
}

#[test]
fn a_cancel_right_behind_its_call_finds_it() {
    for era in BOTH {
        let world = World::new();
        let _hub = world.hub();
        let mut agent = Agent::ready(&world, era, &[]);
        let address = agent.address();
        let waiting = agent.begin("check_inbox", json!({ "timeout": LONG }));
        agent.cancel(waiting);
        // Both are on their way before this one, and it is answered behind them.
        assert_eq!(agent.address(), address, "{era:?}");
        eventually(|| !is_waiting(&world, &address));
        world.say(&["send", &address, "for the next call"]);
        assert_eq!(agent.inbox(), ["for the next call"], "{era:?}");
    }
}

#[test]
fn a_call_that_waits_for_a_hub_can_be_cancelled() {
    for era in BOTH {
        let world = World::new();
        let hub = world.hub();
        let bob = world.joined("bob");
        let mut agent = Agent::ready(&world, era, &[]);
        let address = agent.address();
        assert_eq!(hub.stop().code, Some(0));
        let send = json!({ "to": bob, "message": "too late" });
        let given_up = agent.begin("send_message", send);
        agent.cancel(given_up);
        let asked = agent.begin("whoami", json!({}));
        let _hub = world.hub();
        assert_eq!(read(&agent.answer(asked))["address"], address, "{era:?}");
        assert_eq!(world.json(&["history"])["messages"], json!([]), "{era:?}");
    }
}

#[test]
fn a_late_cancel_changes_nothing() {
    for era in BOTH {
        let world = World::new();
        let _hub = world.hub();
        let mut agent = Agent::ready(&world, era, &[]);
        let id = agent.begin("whoami", json!({}));
        let address = read(&agent.answer(id))["address"].clone();
        agent.cancel(id);
        agent.cancel(4711);
        assert_eq!(agent.address(), address, "{era:?}");
    }
}

#[test]
fn a_cancel_that_meets_its_answer_brings_the_mail_again() {
    for era in BOTH {
        let world = World::new();
        let _hub = world.hub();
        let mut agent = Agent::ready(&world, era, &[]);
        for round in 1..=4 {
            let (address, waiting) = agent.waits(&world);
            // The answer lies in the pipe of a bridge that has no time to read it.
            agent.process.signal(Signal::STOP);
            let text = format!("number {round}");
            world.say(&["send", &address, &text]);
            eventually(|| !is_waiting(&world, &address));
            agent.cancel(waiting);
            agent.process.signal(Signal::CONT);
            // A client does not look at the answer of a call that it has given up, whether
            // or not the bridge had said it already.
            let mut again = None;
            eventually(|| {
                let inbox = agent.call("check_inbox", json!({ "timeout": 0 }));
                let mut mail = inbox["messages"].as_array().expect("a list").iter();
                again = mail.find(|m| m["message"] == text).cloned();
                again.is_some()
            });
            assert_eq!(again.expect("just seen")["redelivered"], true, "{era:?}: {text}");
        }
    }
}

#[test]
fn a_cancel_is_sent_by_the_thread_of_codex_whose_call_it_is_about() {
    let world = World::new();
    let ear = Ear::new(|heard| match heard.body["params"]["name"] == "check_inbox" {
        true => Reply::Never,
        false => Reply::Usual,
    });
    let mut codex = ear.agent(&world, "codex-mcp-client", &[]);
    let waiting = codex.begin_in("t1", "check_inbox");
    ear.next(|heard| heard.is("tools/call"));
    let answered = codex.begin_in("t1", "whoami");
    codex.answer(answered);
    let other = codex.begin_in("t2", "whoami");
    codex.answer(other);
    // One in the middle, and one that comes late.
    for id in [waiting, answered] {
        codex.cancel(id);
        let cancel = ear.next(|heard| heard.is("notifications/cancelled"));
        assert_eq!(cancel.body["params"]["requestId"], id);
        assert_eq!(cancel.bearer(), "of t1");
        assert_eq!(cancel.header("x-posthaste-conversation"), "t1");
    }
}
