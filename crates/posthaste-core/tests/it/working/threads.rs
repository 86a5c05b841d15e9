//! Each worker has a thread of its own.

use std::collections::BTreeSet;

use posthaste_core::messaging::message::ThreadId;

use super::{Yard, wish};

#[tokio::test(start_paused = true)]
async fn no_two_workers_share_a_thread_nor_does_a_worker_with_whoever_gave_it_work() {
    let yard = Yard::new().await;
    let mut threads = BTreeSet::from([ThreadId::OPERATOR]);
    let boss = yard.world.hub.instance(yard.boss.id()).expect("known").instance;
    assert!(threads.insert(boss.thread));
    for n in 0..20 {
        let given = yard.tries(wish(&yard.boss, &n.to_string())).await.expect("assigned");
        assert!(threads.insert(given.instance.thread), "worker {n} has another's thread");
        let task = yard.world.record(given.task).await.expect("kept").message;
        assert_eq!(task.thread, given.instance.thread, "its task is in its thread");
    }
    let worker = yard.puts_to_work(&yard.world.operator(), "by the human").await;
    let own = yard.world.hub.instance(worker.id()).expect("known").instance.thread;
    assert!(threads.insert(own));
    let said = worker.sends("human", "hello").await;
    assert_eq!(said.thread, own, "and what it says is in it, too");
}
