//! The promises about queries: what a store shows to whom, and that a query takes nothing.

use std::time::Duration;

use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::messaging::delivery::{AnswerId, Proof, Reason};
use posthaste_core::messaging::message::{Details, MessageRef, Principal, Seq, ThreadChoice};
use posthaste_core::ports::{HistoryPage, HistoryQuery, Noted, Record, RecordState, What};
use posthaste_core::registry::{Leader, NewInstance, Origin, Team};

use super::{HUMAN, Rig, address};

fn said(records: &[Record]) -> Vec<&str> {
    records.iter().map(|r| r.message.body.as_str()).collect()
}

fn last(n: usize) -> HistoryQuery {
    HistoryQuery { last: n, ..HistoryQuery::default() }
}

fn id(who: Principal) -> InstanceId {
    who.instance().expect("an instance")
}

impl Rig {
    async fn page(&self, query: HistoryQuery) -> HistoryPage {
        self.engine.history(query).await.expect("history")
    }

    async fn child(&self, name: &str, of: Principal) -> Principal {
        let new = NewInstance {
            agent: name.parse().expect("a good name"),
            team: None,
            label: None,
            parent: of.instance(),
            kind: None,
            key: None,
            origin: Origin::Operator,
            token: rand::random(),
        };
        Principal::Instance(self.engine.join(new).await.expect("joined").instance.id)
    }

    async fn record(&self, seq: Seq) -> Record {
        let found = self.engine.message(MessageRef::Seq(seq)).await.expect("a look");
        found.expect("a kept message")
    }

    fn thread_of(&self, who: Principal) -> posthaste_core::messaging::message::ThreadId {
        self.engine.ledger(|l| l.instance(id(who))).expect("known").instance.thread
    }
}

pub async fn history_finds_what_is_open_by_whom_it_concerns(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    for (from, to, body) in [
        (HUMAN, bob, "settled"),
        (HUMAN, bob, "held"),
        (alice, bob, "queued"),
        (bob, alice, "for alice"),
    ] {
        rig.send(from, &address(to), body).await.expect("accepted");
    }
    let mail = rig.read_some(bob, 1, 2).await;
    let settled = What::Deliveries(vec![mail[0].delivery]);
    rig.engine.ack(bob, settled, Proof::Receipt).await.expect("acked");

    let is = |status| HistoryQuery { status: Some(status), ..last(9) };
    assert_eq!(said(&rig.page(is("queued")).await.records), ["queued", "for alice"]);
    assert_eq!(said(&rig.page(is("leased")).await.records), ["held"]);
    assert_eq!(said(&rig.page(is("acked")).await.records), ["settled"]);
    let of_alice = HistoryQuery { of: alice.instance(), ..is("queued") };
    assert_eq!(said(&rig.page(of_alice.clone()).await.records), ["queued", "for alice"]);
    let held = HistoryQuery { status: Some("leased"), ..of_alice };
    assert!(rig.page(held).await.records.is_empty(), "it is not hers");
    let at_bob = HistoryQuery { mailbox: Some(Mailbox::Instance(id(bob))), ..is("queued") };
    assert_eq!(said(&rig.page(at_bob).await.records), ["queued"]);
    let newest = rig.page(HistoryQuery { last: 1, ..is("queued") }).await;
    assert_eq!(said(&newest.records), ["for alice"]);
    let older = HistoryQuery { before: newest.next, ..is("queued") };
    assert_eq!(said(&rig.page(older).await.records), ["queued"]);
}

pub async fn history_goes_forward_from_a_number_and_ends(rig: Rig) {
    let bob = rig.agent("bob").await;
    for n in 0..5 {
        rig.send(HUMAN, &address(bob), &n.to_string()).await.expect("accepted");
    }
    let mut after = Some(Seq(0));
    let mut pages = Vec::new();
    while let Some(seq) = after {
        let page = rig.page(HistoryQuery { after: Some(seq), ..last(2) }).await;
        pages.push(said(&page.records).concat());
        after = page.next;
        assert!(pages.len() < 9, "pages end");
    }
    assert_eq!(pages, ["01", "23", "4"]);
    let between = HistoryQuery { after: Some(Seq(1)), before: Some(Seq(4)), ..last(9) };
    assert_eq!(said(&rig.page(between).await.records), ["1", "2"]);
}

pub async fn history_shows_what_all_its_filters_name(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let labelled = |label: &str, kind: &str| Details {
        label: Some(label.into()),
        kind: kind.parse().expect("a type"),
        ..Details::default()
    };
    for (from, body, details) in [
        (alice, "a", labelled("build", "result")),
        (alice, "b", labelled("test", "result")),
        (HUMAN, "c", labelled("build", "result")),
        (alice, "d", labelled("build", "question")),
        (alice, "e", Details::default()),
    ] {
        rig.send_with(from, &address(bob), body, details).await.expect("accepted");
    }
    let some = |text: &str| Some(text.to_owned());
    let cases = [
        (HistoryQuery { from: some("alice"), ..last(9) }, "abde"),
        (HistoryQuery { from: some(&address(alice)), ..last(9) }, "abde"),
        (HistoryQuery { from: some("human"), ..last(9) }, "c"),
        (HistoryQuery { from: some("build"), ..last(9) }, ""),
        (HistoryQuery { label: some("build"), ..last(9) }, "acd"),
        (HistoryQuery { kind: some("result"), ..last(9) }, "abc"),
        (HistoryQuery { kind: some("result"), label: some("build"), ..last(9) }, "ac"),
        (
            HistoryQuery {
                from: some("alice"),
                kind: some("result"),
                label: some("build"),
                ..last(9)
            },
            "a",
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(said(&rig.page(query.clone()).await.records).concat(), expected, "{query:?}");
    }
}

pub async fn a_page_ends_where_the_answer_is_full_and_says_where_to_go_on(rig: Rig) {
    let bob = rig.agent("bob").await;
    for n in 0..4 {
        rig.send(HUMAN, &address(bob), &n.to_string().repeat(10)).await.expect("accepted");
    }
    let room = |query| HistoryQuery { bytes: Some(25), ..query };
    let page = rig.page(room(last(9))).await;
    assert_eq!(said(&page.records), ["2222222222", "3333333333"]);
    let page = rig.page(room(HistoryQuery { before: page.next, ..last(9) })).await;
    assert_eq!(said(&page.records), ["0000000000", "1111111111"]);

    let page = rig.page(room(HistoryQuery { after: Some(Seq(0)), ..last(9) })).await;
    assert_eq!(said(&page.records), ["0000000000", "1111111111"]);
    let page = rig.page(room(HistoryQuery { after: page.next, ..last(9) })).await;
    assert_eq!(said(&page.records), ["2222222222", "3333333333"]);
    assert_eq!(page.next, None);
    let tiny = HistoryQuery { bytes: Some(1), ..last(9) };
    assert_eq!(rig.page(tiny).await.records.len(), 1, "one always fits");
}

pub async fn leaders_see_what_is_addressed_to_their_team_and_take_nothing(rig: Rig) {
    let arthur = Principal::Instance(rig.joins("arthur", "camelot").await);
    let mason = Principal::Instance(rig.joins("mason", "avalon").await);
    let eve = rig.agent("eve").await;
    let avalon: posthaste_core::address::Name = "avalon".parse().expect("a name");
    for to in [&*address(mason), "mason@avalon", "@anyone@avalon", "@everyone@avalon"] {
        rig.send(HUMAN, to, to).await.expect("accepted");
    }
    for to in ["mason", "@anyone", &address(eve)] {
        rig.send(HUMAN, to, "not for the team").await.expect("accepted");
    }
    let team =
        |of: Principal| HistoryQuery { team: Some(avalon.clone()), of: of.instance(), ..last(9) };
    assert!(
        !rig.engine.ledger(|l| l.leads(arthur, &avalon))
            && rig.engine.ledger(|l| l.leads(HUMAN, &avalon))
    );
    assert!(
        rig.page(HistoryQuery { of: arthur.instance(), ..team(arthur) }).await.records.is_empty()
    );

    // The leader is named after the mail came, and sees it all the same.
    let leaders = vec![Leader::Instance(id(arthur))];
    rig.engine.put_team(Team { name: avalon.clone(), leaders }).await.expect("kept");
    assert!(rig.engine.ledger(|l| l.leads(arthur, &avalon)));
    let page = rig.page(team(arthur)).await;
    let expected = [&*address(mason), "mason@avalon", "@anyone@avalon", "@everyone@avalon"];
    assert_eq!(said(&page.records), expected);
    assert!(page.records.iter().all(|r| rig.engine.ledger(|l| l.may_see(arthur, r))));
    assert_eq!(rig.page(team(HUMAN)).await.records.len(), 4);
    let states = page.records.iter().flat_map(|r| &r.deliveries).map(|d| d.state);
    assert!(states.eq([RecordState::Queued; 4]), "seeing takes nothing");
    assert_eq!(rig.read(mason, 1).await.len(), 6, "and leaves everything to its readers");
}

pub async fn a_thread_is_seen_by_the_family_of_its_owner(rig: Rig) {
    let parent = rig.agent("boss").await;
    let owner = rig.child("owner", parent).await;
    let sibling = rig.child("sibling", parent).await;
    let child = rig.child("child", owner).await;
    let (stranger, peer) = (rig.agent("stranger").await, rig.agent("peer").await);
    let thread = rig.thread_of(owner);
    let said = rig.send(owner, &address(peer), "in my thread").await.expect("accepted");
    let record = rig.record(said.seq).await;
    for (who, sees) in [
        (parent, true),
        (sibling, true),
        (child, true),
        (owner, true),
        (peer, true),
        (HUMAN, true),
        (stranger, false),
    ] {
        assert_eq!(rig.engine.ledger(|l| l.may_see(who, &record)), sees, "{who}");
        let query = HistoryQuery { thread: Some(thread), of: who.instance(), ..last(9) };
        assert_eq!(rig.page(query).await.records.len(), usize::from(sees), "{who}");
    }
    let leaders = vec![Leader::Instance(id(stranger))];
    let name = "main".parse().expect("a name");
    rig.engine.put_team(Team { name, leaders }).await.expect("kept");
    assert!(rig.engine.ledger(|l| l.may_see(stranger, &record)), "the leaders of the owner's team");
}

pub async fn a_marking_read_settles_what_it_shows_and_only_the_readers_own(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let _other = rig.agent("bob").await;
    let thread = rig.thread_of(alice);
    for (to, body) in [
        (address(bob), "old"),
        (address(bob), "held"),
        ("human".into(), "another's"),
        ("bob".into(), "any bob's"),
        (address(bob), "new"),
    ] {
        rig.send(alice, &to, body).await.expect("accepted");
        rig.clock.advance(Duration::from_secs(1));
    }
    let held = rig.read_some(bob, 1, 2).await;
    rig.engine.give_back(bob, &[held[0].delivery], AnswerId(1), false);

    let query = |n| HistoryQuery { thread: Some(thread), of: bob.instance(), ..last(n) };
    let marked = rig.engine.mark_read(bob, query(3)).await.expect("read");
    assert_eq!(said(&marked.page.records), ["held", "any bob's", "new"]);
    assert_eq!(marked.marked, [Seq(2), Seq(5)], "oldest first, its own, and what is shown");
    let read: Vec<bool> = marked.page.records.iter().map(|r| r.read_at(bob).is_some()).collect();
    assert_eq!(read, [true, false, true], "after the mark");
    assert_eq!(rig.states(Seq(2)).await, [RecordState::Acked(Proof::Auto)]);
    assert_eq!(rig.states(Seq(4)).await, [RecordState::Queued], "one-of mail nobody holds");

    let unread = HistoryQuery { unread_by: Some(bob), ..query(9) };
    let marked = rig.engine.mark_read(bob, unread.clone()).await.expect("read");
    assert_eq!(said(&marked.page.records), ["old"]);
    let marked = rig.engine.mark_read(bob, unread).await.expect("read");
    assert!(marked.page.records.is_empty() && marked.marked.is_empty());
    assert_eq!(rig.states(Seq(3)).await, [RecordState::Queued], "another's mail");
    assert_eq!(super::bodies(&rig.read(bob, 2).await), ["any bob's"]);
}

pub async fn two_marking_reads_never_give_the_same_unread_message(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    for n in 0..20 {
        rig.send(alice, &address(bob), &n.to_string()).await.expect("accepted");
    }
    let query = HistoryQuery {
        thread: Some(rig.thread_of(alice)),
        unread_by: Some(bob),
        of: bob.instance(),
        ..last(12)
    };
    let (one, two, three) = tokio::join!(
        rig.engine.mark_read(bob, query.clone()),
        rig.engine.mark_read(bob, query.clone()),
        rig.engine.mark_read(bob, query.clone()),
    );
    let mut all = Vec::new();
    for read in [one, two, three] {
        let read = read.expect("read");
        let shown: Vec<Seq> = read.page.records.iter().map(|r| r.message.seq).collect();
        assert_eq!(shown, read.marked);
        all.extend(shown);
    }
    all.sort_unstable();
    assert_eq!(all, (1..=20).map(Seq).collect::<Vec<_>>());
}

pub async fn replies_are_found_by_what_they_answer(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let asked = rig.send(alice, &address(bob), "question").await.expect("accepted").seq;
    for body in ["first", "second"] {
        let details = Details { in_reply_to: Some(asked), ..Details::default() };
        rig.send_with(bob, &address(alice), body, details).await.expect("accepted");
    }
    rig.send(bob, &address(alice), "by the way").await.expect("accepted");
    let replies = rig.engine.replies(asked, 9).await.expect("a look");
    assert_eq!(said(&replies), ["first", "second"]);
    assert_eq!(rig.engine.replies(asked, 1).await.expect("a look").len(), 1);
    assert!(rig.engine.replies(Seq(99), 9).await.expect("a look").is_empty());
}

pub async fn what_is_open_and_what_is_kept_is_counted(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let began = posthaste_core::ports::Clock::now(&*rig.clock);
    // More messages than the window holds, so that the oldest is also found on disk.
    let many = rig.limits.window_messages + 3;
    for n in 0..many {
        rig.send(alice, &address(bob), &n.to_string()).await.expect("accepted");
        rig.clock.advance(Duration::from_secs(1));
    }
    let mail = rig.read_some(bob, 1, rig.limits.window_messages + 1).await;
    let first = What::Deliveries(mail[..2].iter().map(|l| l.delivery).collect());
    rig.engine.ack(bob, first, Proof::Receipt).await.expect("acked");

    let own = Mailbox::Instance(id(bob));
    let open = rig.engine.open_mail(Some([own.clone()].into())).await.expect("counts");
    let [open] = &open[..] else { panic!("one mailbox: {open:?}") };
    assert_eq!((open.unread, open.queued), (many - 2, 2));
    assert_eq!(
        (rig.engine.ledger(|l| l.active(&own, HUMAN)), rig.engine.ledger(|l| l.active(&own, bob))),
        (1, 0)
    );
    assert_eq!(open.team.as_ref().map(|t| t.as_str()), Some("main"));
    let oldest = open.oldest.expect("something is unread");
    assert_eq!((oldest.seq, oldest.at), (Seq(3), Some(began + Duration::from_secs(2))));
    let queued = open.oldest_queued.expect("something waits");
    let sent = Duration::from_secs(rig.limits.window_messages as u64 + 1);
    assert_eq!(queued.at, Some(began + sent), "from disk");
    assert_eq!((open.held.len(), open.held[0].by), (1, bob));
    assert_eq!(open.held[0].count, rig.limits.window_messages - 1);

    let kept = rig.engine.kept(None).await.expect("counts");
    assert_eq!(kept.received.get(&own), Some(&(many as u64)));
    assert_eq!(kept.sent.get(&id(alice)), Some(&(many as u64)));
    assert_eq!(kept.since, Some(began));
    let some =
        rig.engine.kept(Some(rig.engine.ledger(|l| l.keys_of(alice)))).await.expect("counts");
    assert_eq!((some.sent.get(&id(alice)), some.received.get(&own)), (Some(&(many as u64)), None));
}

pub async fn refusals_and_requeues_are_noted_with_their_time(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let sent = rig.send(alice, &address(bob), "no").await.expect("accepted").seq;
    let began = posthaste_core::ports::Clock::now(&*rig.clock);
    for answer in 0..u64::from(rig.limits.attempts) {
        rig.clock.advance(Duration::from_secs(1));
        rig.read(bob, answer).await;
        rig.engine.nack(bob, What::Messages(vec![sent])).await.expect("refused");
    }
    rig.clock.advance(Duration::from_secs(1));
    rig.engine.requeue(sent).await.expect("queued again");

    let notes = rig.engine.notes(&rig.record(sent).await).await.expect("a look");
    let seconds = |n: u64| began + Duration::from_secs(n);
    let told: Vec<_> = notes.iter().map(|n| (n.at, n.noted.clone())).collect();
    let last = u64::from(rig.limits.attempts) + 1;
    // The last refusal made the delivery dead.
    let mut expected: Vec<_> =
        (1..last - 1).map(|n| (seconds(n), Noted::Refused(Some(bob)))).collect();
    expected.push((seconds(last), Noted::Requeued(Some(Reason::Refused))));
    assert_eq!(told, expected);
}

pub async fn a_thread_is_counted_for_whoever_asks(rig: Rig) {
    let (bob, carol) = (rig.agent("bob").await, rig.agent("carol").await);
    let thread = rig.thread_of(bob);
    let empty = rig.engine.thread_summary(thread, bob).await.expect("counted");
    assert_eq!((empty.total, empty.unread, empty.last_at), (0, 0, None));
    let within = || Details { thread: ThreadChoice::named(thread), ..Details::default() };
    rig.send_with(HUMAN, &address(bob), "to bob", within()).await.expect("accepted");
    rig.send_with(HUMAN, &address(bob), "to bob again", within()).await.expect("accepted");
    let last = rig.send_with(bob, &address(carol), "to carol", within()).await.expect("accepted");
    rig.send(HUMAN, &address(carol), "elsewhere").await.expect("accepted");

    let of_bob = rig.engine.thread_summary(thread, bob).await.expect("counted");
    let of_carol = rig.engine.thread_summary(thread, carol).await.expect("counted");

    assert_eq!((of_bob.total, of_bob.unread), (3, 2));
    assert_eq!((of_carol.total, of_carol.unread), (3, 1));
    let newest = rig.record(last.seq).await.message.created_at;
    assert_eq!(of_bob.last_at, Some(newest));
}
