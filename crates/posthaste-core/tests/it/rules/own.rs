//! Whose call proves whose mail, where two processes use one identity.

use posthaste_core::messaging::proof::Hello;

use super::*;

#[test]
fn own_while_an_earlier_stream_is_open_a_later_call_proves_nothing() {
    let mut post = Post::new(1, 2, false, false);
    let stream = post.attaches(0);
    post.begins(0, Scope::Door(Door::Mcp));
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), HELD, "whose call it was is not known");

    post.detaches(0, stream);
    post.opens(0, "3", 3);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), HELD, "the one who had it may be the one who is gone");
    post.receipt(0, 1);
    assert_eq!(post.fate(0), Fate::Acked("receipt"));
}

#[test]
fn own_again_once_the_earlier_stream_has_ended() {
    let mut post = one_message();
    let stream = post.attaches(0);
    post.begins(0, Scope::Door(Door::Mcp));
    let own = post.attaches(0);
    post.detaches(0, stream);
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
    post.detaches(0, own);
}

#[test]
fn own_it_stays_when_it_begins_anew_at_another_door() {
    let mut post = one_message();
    post.begins(0, Scope::Door(Door::Mcp));
    post.attaches(0);
    post.begins(0, Scope::Door(Door::Rest));
    next_answer(&mut post, "1", 1);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
}

#[test]
fn own_mail_is_what_a_call_proves() {
    let mut post = one_message();
    let call = post.opens_from(0, "bridge a", "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.opens_from(0, "bridge b", "1", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), HELD);
    post.opens_from(0, "bridge a", "2", 3);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
}

#[test]
fn once_a_probe_and_the_handshake_after_it_begin_one_reader() {
    let mut post = one_message();
    post.meets(0, Process::default(), Some(Hello::Discover));
    let stream = post.attaches(0);
    post.meets(0, Process::default(), Some(Hello::Initialize));
    next_answer(&mut post, "1", 1);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN, "the stream is its own, not an earlier reader's");

    post.arrives();
    next_answer(&mut post, "3", 3);
    post.meets(0, Process::default(), Some(Hello::Initialize));
    assert_eq!(post.fate(1), BACK, "another handshake is another process");
    post.detaches(0, stream);
}

#[test]
fn once_a_request_without_a_bridge_and_a_first_word_begins_nothing() {
    let mut post = one_message();
    next_answer(&mut post, "1", 1);
    post.meets(0, Process { session: Some("s"), ..Process::default() }, None);
    assert_eq!(post.fate(0), HELD);
}
