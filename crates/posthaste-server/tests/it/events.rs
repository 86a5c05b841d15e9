//! Following what happens.

use std::time::Duration;

use posthaste_api::client::{Client, Following, Heard};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::events::{EventView, EventsQuery};
use posthaste_api::teams::PutTeam;
use posthaste_core::Limits;
use posthaste_server::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::house::{
    House, OPERATOR, Plan, by_ids, read, receipt_of, refusal, request, send, until, within,
};

fn from_the_start() -> EventsQuery {
    EventsQuery { after: Some(0), ..EventsQuery::default() }
}

pub(crate) async fn follow(by: &Client, query: &EventsQuery) -> Following {
    by.events(query).await.expect("a stream")
}

pub(crate) async fn event(following: &mut Following) -> EventView {
    match within("an event", following.next()).await.expect("a line") {
        Some(Heard::Event(event)) => *event,
        other => panic!("no event: {other:?}"),
    }
}

async fn kinds(following: &mut Following, count: usize) -> Vec<(u64, String)> {
    let mut heard = Vec::new();
    for _ in 0..count {
        let event = event(following).await;
        heard.push((event.no, event.kind));
    }
    heard
}

#[tokio::test]
async fn a_follower_hears_everything_in_order_with_the_whole_message() {
    let house = House::new().await;
    let operator = house.operator();
    let mut following = follow(&operator, &EventsQuery::default()).await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&operator, &bob.instance, "hello").await;
    as_bob.ack(&receipt_of(&read(&as_bob).await)).await.expect("acked");
    let cancelled = send(&operator, &bob.instance, "never mind").await;
    operator.cancel(&cancelled.seq.to_string()).await.expect("cancelled");
    operator.requeue(&cancelled.seq.to_string()).await.expect("queued again");
    read(&as_bob).await;
    as_bob.nack(&by_ids(&[cancelled.seq])).await.expect("refused");
    operator.put_team("avalon", &PutTeam::default()).await.expect("a team");
    operator.leave(&bob.instance).await.expect("ended");

    let joined = event(&mut following).await;
    assert_eq!((joined.no, &*joined.kind), (1, "instance.joined"));
    assert_eq!(joined.instance.expect("who").instance, bob.instance);
    let accepted = event(&mut following).await;
    assert_eq!(
        (accepted.no, &*accepted.kind, accepted.seq),
        (2, "message.accepted", Some(sent.seq))
    );
    let message = accepted.message.expect("the whole record");
    assert_eq!((&*message.message, message.from.as_str()), ("hello", "human"));
    let acked = event(&mut following).await;
    let delivery = acked.delivery.expect("which delivery");
    assert_eq!((acked.no, delivery.proof.as_deref()), (3, Some("receipt")));
    assert_eq!(delivery.by.as_deref(), Some(&*bob.instance));
    let rest: Vec<(u64, String)> = kinds(&mut following, 7).await;
    let expected = [
        "message.accepted",
        "delivery.dead",
        "delivery.requeued",
        "delivery.returned",
        "team.changed",
        "instance.ended",
        "delivery.dead",
    ];
    let expected: Vec<(u64, String)> = (4..).zip(expected.map(str::to_owned)).collect();
    assert_eq!(rest, expected);
}

#[tokio::test]
async fn topics_and_types_choose_what_is_heard() {
    let house = House::new().await;
    let operator = house.operator();
    let (bob, _) = house.agent("bob").await;
    let (eve, as_eve) = house.join("eve", Some("avalon"), "k").await;
    let to_bob = send(&operator, &bob.instance, "to bob").await;
    let to_eve = send(&operator, &eve.instance, "to eve").await;
    let to_team = send(&operator, "@anyone@avalon", "to the team").await;
    let by_eve = send(&as_eve, "human", "from eve").await;
    // Every follower below hears one of these three, and nothing after it.
    let (end, _) = house.join("end", Some("avalon"), "k").await;
    send(&operator, &bob.instance, "the end").await;
    send(&operator, &eve.instance, "the end").await;
    let is_end = |event: &EventView| {
        event.message.as_ref().is_some_and(|message| message.message == "the end")
            || event.instance.as_ref().is_some_and(|who| who.instance == end.instance)
    };
    let of = async |topics: &str, types: &str| -> Vec<Option<u64>> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let query =
            EventsQuery { topics: given(topics), types: given(types), after: Some(0), last: None };
        let mut following = follow(&operator, &query).await;
        let mut seqs = Vec::new();
        loop {
            let event = event(&mut following).await;
            if is_end(&event) {
                return seqs;
            }
            seqs.push(event.seq);
        }
    };
    let agent = |id: &str| format!("agent:{id}");
    assert_eq!(of(&agent(&bob.instance), "message").await, [Some(to_bob.seq)]);
    assert_eq!(
        of(&agent(&eve.instance), "message.accepted").await,
        [Some(to_eve.seq), Some(by_eve.seq)]
    );
    assert_eq!(
        of("team:avalon", "message").await,
        [Some(to_eve.seq), Some(to_team.seq), Some(by_eve.seq)]
    );
    let thread = format!("thread:{}", eve.thread_id);
    assert_eq!(of(&thread, "message").await, [Some(to_eve.seq), Some(by_eve.seq)]);
    assert_eq!(of("team:avalon", "instance").await, [None]);
    assert_eq!(of("", "instance").await, [None, None]);
}

#[tokio::test]
async fn a_follower_that_reconnects_a_hundred_times_under_load_misses_nothing() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let (operator, to) = (house.operator(), bob.instance.clone());
    let load = tokio::spawn(async move {
        for n in 0..400 {
            send(&operator, &to, &n.to_string()).await;
        }
    });
    let follower = house.operator();
    let mut query = from_the_start();
    let mut heard = Vec::new();
    for connection in 0..100 {
        let mut following = follow(&follower, &query).await;
        for _ in 0..1 + connection % 7 {
            heard.push(event(&mut following).await.no);
        }
        query.after = following.last();
    }
    load.await.expect("all are sent");
    let mut following = follow(&follower, &query).await;
    while heard.len() < 401 {
        heard.push(event(&mut following).await.no);
    }
    assert_eq!(heard, (1..=401).collect::<Vec<u64>>(), "each once, in order");
}

#[tokio::test]
async fn an_agent_hears_of_its_own_mail_and_of_nothing_else() {
    let house = House::new().await;
    let operator = house.operator();
    let (bob, as_bob) = house.agent("bob").await;
    let (eve, _) = house.agent("eve").await;
    send(&operator, &eve.instance, "a secret").await;
    operator.put_team("avalon", &PutTeam::default()).await.expect("a team");
    send(&operator, &bob.instance, "for bob").await;
    let mut following = follow(&as_bob, &from_the_start()).await;
    assert_eq!(
        kinds(&mut following, 2).await,
        [(1, "instance.joined".to_owned()), (5, "message.accepted".to_owned())]
    );
}

#[tokio::test]
async fn a_number_that_was_never_given_is_answered_with_a_reset() {
    let house = House::new().await;
    let operator = house.operator();
    let query = EventsQuery { after: Some(4711), ..EventsQuery::default() };
    let mut following = follow(&operator, &query).await;
    let heard = within("a reset", following.next()).await.expect("a line");
    assert!(matches!(heard, Some(Heard::Reset(_))), "{heard:?}");
    let (bob, _) = house.agent("bob").await;
    let joined = event(&mut following).await;
    assert_eq!(joined.instance.expect("who").instance, bob.instance);
}

#[tokio::test]
async fn what_is_not_kept_any_more_is_answered_with_a_reset_and_no_silent_gap() {
    let limits = Limits {
        event_retention: Duration::ZERO,
        prune: Duration::ZERO,
        sweep: Duration::from_millis(20),
        ..Limits::default()
    };
    let house = House::with(limits).await;
    let operator = house.operator();
    let (bob, _) = house.agent("bob").await;
    send(&operator, &bob.instance, "soon forgotten").await;
    let mut resets = 0;
    crate::house::until("the journal is pruned", async || {
        let mut following = follow(&operator, &from_the_start()).await;
        let heard = following.next().await.expect("a line");
        resets += usize::from(matches!(heard, Some(Heard::Reset(_))));
        resets > 0
    })
    .await;
}

#[tokio::test]
async fn a_bad_question_is_422_and_one_follower_too_many_is_429() {
    let house = House::with(Limits { event_readers: 1, ..Limits::default() }).await;
    let operator = house.operator();
    for (topics, types) in
        [("agent:nobody", ""), ("weather", ""), ("", "sunshine"), ("team:A b", "")]
    {
        let query = EventsQuery {
            topics: Some(topics.into()),
            types: Some(types.into()),
            ..EventsQuery::default()
        };
        let told = match operator.events(&query).await {
            Ok(_) => panic!("{topics} {types} was accepted"),
            Err(posthaste_api::client::ClientError::Api(told)) => told,
            Err(other) => panic!("{other}"),
        };
        assert_eq!(told.code.status(), 422, "{told}");
    }
    for bad in ["x", "-1", "99999999999999999999"] {
        let headers = [("Last-Event-ID", bad)];
        let text = request("GET /v1/events", Some(crate::house::OPERATOR), &headers, "");
        assert_eq!(house.raw(text).await.0, 422, "{bad}");
    }
    let _first = follow(&operator, &EventsQuery::default()).await;
    let second = operator.events(&EventsQuery::default()).await.map(|_| ());
    let told = refusal(second);
    assert_eq!(told.code, ErrorCode::RateLimited);
    assert!(told.hint.is_some_and(|hint| hint.contains("limits.event_readers")));
}

#[tokio::test]
async fn a_hub_that_stops_ends_the_stream() {
    let house = House::new().await;
    let mut following = follow(&house.operator(), &EventsQuery::default()).await;
    house.shutdown.cancel();
    let end = within("the end", following.next()).await.expect("a clean end");
    assert_eq!(end, None);
}

#[tokio::test]
async fn a_token_that_has_ended_hears_nothing_more() {
    let house = House::new().await;
    let (bob, first) = house.join("bob", None, "k").await;
    let mut following = follow(&first, &EventsQuery::default()).await;
    house.operator().leave(&bob.instance).await.expect("ended");
    let end = within("the end", following.next()).await.expect("a clean end");
    assert_eq!(end, None);
}

#[tokio::test]
async fn an_agent_crowds_out_neither_the_operator_nor_the_others() {
    let limits = Limits { event_readers: 2, event_readers_each: 1, ..Limits::default() };
    let house = House::with(limits).await;
    let (_, as_bob) = house.agent("bob").await;
    let (_, as_eve) = house.agent("eve").await;
    let (_, as_zoe) = house.agent("zoe").await;
    let key = |told: ApiError| told.details.expect("details")["key"].clone();
    let all = EventsQuery::default();
    let of_bob = follow(&as_bob, &all).await;
    let told = refusal(as_bob.events(&all).await.map(|_| ()));
    assert_eq!(key(told), "limits.event_readers_each");
    let _of_eve = follow(&as_eve, &all).await;
    let told = refusal(as_zoe.events(&all).await.map(|_| ()));
    assert_eq!(key(told), "limits.event_readers");
    follow(&house.operator(), &all).await;
    drop(of_bob);
    until("a place is free", async || as_zoe.events(&all).await.is_ok()).await;
}

#[tokio::test]
async fn a_follower_that_does_not_read_is_cut_and_can_go_on_later() {
    let limits = Limits { event_readers: 1, ..Limits::default() };
    let server =
        ServerConfig { write_timeout: Duration::from_millis(50), ..ServerConfig::default() };
    let house = House::with(Plan { limits, server, ..Plan::default() }).await;
    let operator = house.operator();
    let (bob, _) = house.agent("bob").await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stalled = socket.connect(house.address).await.expect("the door is open");
    let text = request("GET /v1/events?after=0", Some(OPERATOR), &[], "");
    stalled.write_all(text.as_bytes()).await.expect("sent");
    let mut head = [0; 12];
    stalled.read_exact(&mut head).await.expect("the beginning of an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    let large = "x".repeat(1 << 20);
    for _ in 0..8 {
        send(&operator, &bob.instance, &large).await;
    }
    // The only place is free again once the hub has lost its patience.
    until("it is cut", async || operator.events(&from_the_start()).await.is_ok()).await;
    until("there is room", async || {
        let Ok(mut following) = operator.events(&from_the_start()).await else { return false };
        event(&mut following).await.no == 1
    })
    .await;
    drop(stalled);
}

#[tokio::test]
async fn a_follower_may_begin_with_the_last_events_that_fit() {
    let house = House::new().await;
    let operator = house.operator();
    let (bob, as_bob) = house.agent("bob").await;
    for text in ["one", "two", "three"] {
        send(&operator, &bob.instance, text).await;
        as_bob.ack(&receipt_of(&read(&as_bob).await)).await.expect("acked");
    }
    let last = |count, types: &str| EventsQuery {
        last: Some(count),
        types: Some(types.to_owned()),
        ..EventsQuery::default()
    };
    let mut following = follow(&operator, &last(2, "message")).await;
    let heard = kinds(&mut following, 2).await;
    assert_eq!(heard, [(4, "message.accepted".into()), (6, "message.accepted".into())]);
    let mut following = follow(&operator, &last(1, "instance")).await;
    assert_eq!(kinds(&mut following, 1).await, [(1, "instance.joined".into())], "far back");
    let mut following = follow(&operator, &last(100, "message")).await;
    let heard: Vec<u64> = kinds(&mut following, 3).await.into_iter().map(|(no, _)| no).collect();
    assert_eq!(heard, [2, 4, 6], "as many as there are");
    let mut following = follow(&operator, &last(0, "message")).await;
    let sent = send(&operator, &bob.instance, "four").await;
    let first = event(&mut following).await;
    assert_eq!(first.seq, Some(sent.seq), "none of the past");

    for wrong in [last(1001, "message"), EventsQuery { after: Some(1), ..last(1, "message") }] {
        let refused = operator.events(&wrong).await;
        assert_eq!(refusal(refused.map(drop)).code, ErrorCode::InvalidArgument);
    }
}
