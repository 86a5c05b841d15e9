//! More sends at once than the disk can take.

use futures_util::future::join_all;
use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{StoreError, What};
use posthaste_store::{Place, StoreConfig};

use crate::rig;

const HUMAN: Principal = Principal::Operator;
const ROOM: usize = 5;

#[tokio::test]
async fn sends_beyond_the_line_are_refused_and_what_was_accepted_is_there() {
    let config = StoreConfig { waiting: ROOM, ..rig::config() };
    let rig = rig::open(&Place::Memory, config, rig::limits()).expect("a store");
    let bob = rig.agent("bob").await;
    let to = bob.to_string();
    rig.send(HUMAN, &to, "before").await.expect("accepted");
    let first = rig.read(bob, 1).await;

    let texts: Vec<String> = (0..4 * ROOM).map(|n| n.to_string()).collect();
    let sends = join_all(texts.iter().map(|text| rig.send(HUMAN, &to, text)));
    let proved = What::Deliveries(vec![first[0].delivery]);
    let (sent, acked) = tokio::join!(sends, rig.engine.ack(bob, proved, Proof::Receipt));
    assert_eq!(acked.expect("proof is never refused").acked, 1);

    let accepted: Vec<&String> =
        texts.iter().zip(&sent).filter(|(_, sent)| sent.is_ok()).map(|(text, _)| text).collect();
    // The proof came first and has a place in the line, too.
    assert_eq!(accepted.len() + 1, ROOM);
    for refused in sent.iter().filter_map(|sent| sent.as_ref().err()) {
        assert!(matches!(refused, SendError::Store(StoreError::Busy { limit: ROOM })), "{refused}");
    }
    let mail = rig.read(bob, 2).await;
    let came: Vec<&str> = mail.iter().map(|leased| leased.message.body.as_str()).collect();
    assert_eq!(came, accepted);
    rig.send(HUMAN, &to, "after").await.expect("there is room again");
}
