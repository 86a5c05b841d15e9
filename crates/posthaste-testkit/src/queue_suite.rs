//! The promises of the `Queue` port, one test each. Every backend runs them all.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{Kind, Message, MessageId, Principal, Sender, Seq, Via};
use posthaste_core::ports::{Bell, Filter, Queue, Ticket};
use posthaste_core::time::Timestamp;

const BOB: Principal = Principal::Instance(InstanceId(0xb0b));
const EVE: Principal = Principal::Instance(InstanceId(0xe5e));

fn bobs() -> Mailbox {
    Mailbox::Instance(InstanceId(0xb0b))
}

fn anyones() -> Mailbox {
    Mailbox::Anyone
}

fn message(from: Principal, label: Option<&str>) -> Arc<Message> {
    let sender = from.instance().map_or_else(Sender::human, |id| {
        Sender::read(&format!("agent.{id}@main"), Some(id), &Kind::default())
    });
    Arc::new(Message {
        label: label.map(str::to_owned),
        ..Message::new(Seq(1), MessageId(1), sender, "x", "x", Timestamp(0), Via::Rest)
    })
}

fn ticket(n: u64, mailbox: Mailbox, from: Principal) -> Ticket {
    Ticket { delivery: DeliveryNo(n), mailbox, message: Some(message(from, None)) }
}

async fn rings(bell: &mut dyn Bell) -> bool {
    tokio::time::timeout(Duration::from_millis(20), bell.rung()).await.is_ok()
}

pub async fn a_ticket_rings_whoever_listens(queue: Arc<dyn Queue>) {
    let mut bob = queue.listen(BOB, [bobs()].into(), Filter::default());
    let mut eve = queue.listen(EVE, [Mailbox::Human].into(), Filter::default());
    queue.put(ticket(1, bobs(), EVE));
    assert!(rings(&mut *bob).await);
    assert!(!rings(&mut *eve).await);
}

pub async fn a_ring_between_two_looks_is_not_lost(queue: Arc<dyn Queue>) {
    let mut bob = queue.listen(BOB, [bobs()].into(), Filter::default());
    queue.put(ticket(1, bobs(), EVE));
    tokio::task::yield_now().await;
    assert!(rings(&mut *bob).await, "it rang before anybody waited for it");
    assert!(!rings(&mut *bob).await, "once");
}

pub async fn exact_mail_rings_every_call_of_its_reader(queue: Arc<dyn Queue>) {
    let mut first = queue.listen(BOB, [bobs()].into(), Filter::default());
    let mut second = queue.listen(BOB, [bobs()].into(), Filter::default());
    queue.put(ticket(1, bobs(), EVE));
    assert!(rings(&mut *first).await && rings(&mut *second).await);
}

pub async fn one_of_mail_rings_one_reader(queue: Arc<dyn Queue>) {
    let mut first = queue.listen(BOB, [anyones()].into(), Filter::default());
    let mut second = queue.listen(EVE, [anyones()].into(), Filter::default());
    queue.put(ticket(1, anyones(), Principal::Operator));
    assert!(rings(&mut *first).await);
    assert!(!rings(&mut *second).await);
}

pub async fn one_of_mail_never_rings_its_sender(queue: Arc<dyn Queue>) {
    let mut sender = queue.listen(BOB, [anyones()].into(), Filter::default());
    let mut other = queue.listen(EVE, [anyones()].into(), Filter::default());
    queue.put(ticket(1, anyones(), BOB));
    assert!(!rings(&mut *sender).await);
    assert!(rings(&mut *other).await);
}

pub async fn two_one_of_tickets_ring_two_readers(queue: Arc<dyn Queue>) {
    let mut first = queue.listen(BOB, [anyones()].into(), Filter::default());
    let mut second = queue.listen(EVE, [anyones()].into(), Filter::default());
    queue.put(ticket(1, anyones(), Principal::Operator));
    queue.put(ticket(2, anyones(), Principal::Operator));
    assert!(rings(&mut *first).await && rings(&mut *second).await);
}

pub async fn one_of_mail_rings_a_reader_before_a_driver_and_a_driver_before_a_gather(
    queue: Arc<dyn Queue>,
) {
    let quiet = Filter { quiet: true, ..Filter::default() };
    let gathers = Filter { or_ends_wait: true, ..Filter::default() };
    let mut gather = queue.listen(BOB, [anyones()].into(), gathers);
    let mut driver = queue.listen(EVE, [anyones()].into(), quiet);
    let mut reader = queue.listen(EVE, [anyones()].into(), Filter::default());
    queue.put(ticket(1, anyones(), Principal::Operator));
    assert!(rings(&mut *reader).await && !rings(&mut *driver).await);
    queue.put(ticket(2, anyones(), Principal::Operator));
    assert!(rings(&mut *driver).await && !rings(&mut *gather).await);
    queue.put(ticket(3, anyones(), Principal::Operator));
    assert!(rings(&mut *gather).await);
}

pub async fn a_reader_that_goes_away_passes_its_ticket_on(queue: Arc<dyn Queue>) {
    let first = queue.listen(BOB, [anyones()].into(), Filter::default());
    let mut second = queue.listen(EVE, [anyones()].into(), Filter::default());
    queue.put(ticket(1, anyones(), Principal::Operator));
    drop(first);
    assert!(rings(&mut *second).await);
}

pub async fn what_an_answer_did_not_take_is_passed_on(queue: Arc<dyn Queue>) {
    let mut first = queue.listen(BOB, [anyones()].into(), Filter::default());
    queue.put(ticket(1, anyones(), Principal::Operator));
    queue.put(ticket(2, anyones(), Principal::Operator));
    let mut second = queue.listen(EVE, [anyones()].into(), Filter::default());
    first.answered(&[DeliveryNo(1)]);
    assert!(rings(&mut *second).await, "the second ticket is for somebody else");
}

pub async fn a_filter_keeps_the_bell_still(queue: Arc<dyn Queue>) {
    let filter = Filter { label: Some("wanted".into()), ..Filter::default() };
    let mut bob = queue.listen(BOB, [bobs()].into(), filter);
    queue.put(ticket(1, bobs(), EVE));
    assert!(!rings(&mut *bob).await);
    let wanted = Ticket {
        delivery: DeliveryNo(2),
        mailbox: bobs(),
        message: Some(message(EVE, Some("wanted"))),
    };
    queue.put(wanted);
    assert!(rings(&mut *bob).await);
}

pub async fn it_tells_how_many_wait(queue: Arc<dyn Queue>) {
    assert_eq!(queue.waiting(&anyones(), Principal::Operator), 0);
    let bob = queue.listen(BOB, [anyones(), bobs()].into(), Filter::default());
    let mut eve = queue.listen(EVE, [anyones()].into(), Filter::default());
    assert_eq!(queue.waiting(&anyones(), Principal::Operator), 2);
    assert_eq!(queue.waiting(&anyones(), EVE), 1, "apart from the sender");
    eve.answered(&[]);
    drop(bob);
    assert_eq!(queue.waiting(&anyones(), Principal::Operator), 0);
}

pub async fn a_cleaned_up_mailbox_has_no_listeners(queue: Arc<dyn Queue>) {
    let mut bob = queue.listen(BOB, [bobs()].into(), Filter::default());
    queue.cleanup(&bobs());
    queue.put(ticket(1, bobs(), EVE));
    assert_eq!(queue.waiting(&bobs(), EVE), 0);
    assert!(!rings(&mut *bob).await);
}

/// Runs every promise against the queue that `$queue` makes.
#[macro_export]
macro_rules! queue_suite {
    ($queue:expr) => {
        $crate::queue_suite! { $queue;
            a_ticket_rings_whoever_listens
            a_ring_between_two_looks_is_not_lost
            exact_mail_rings_every_call_of_its_reader
            one_of_mail_rings_one_reader
            one_of_mail_never_rings_its_sender
            two_one_of_tickets_ring_two_readers
            one_of_mail_rings_a_reader_before_a_driver_and_a_driver_before_a_gather
            a_reader_that_goes_away_passes_its_ticket_on
            what_an_answer_did_not_take_is_passed_on
            a_filter_keeps_the_bell_still
            it_tells_how_many_wait
            a_cleaned_up_mailbox_has_no_listeners
        }
    };
    ($queue:expr; $($promise:ident)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $promise() {
                $crate::queue_suite::$promise($queue).await;
            }
        )*
    };
}
