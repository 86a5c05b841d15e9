//! Reading is an answer to a call, and nothing else happens.

use std::time::Duration;

use posthaste_core::messaging::receive::{BatchStatus, WaitFor};
use posthaste_testkit::staff;
use tokio::time::sleep;

use super::Yard;

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

#[tokio::test(start_paused = true)]
async fn reading_results_types_into_no_terminal_and_starts_no_turn() {
    let yard = Yard::new().await;
    // The hub could wake this supervisor, and could write to the stdin of its workers.
    staff::profile(&yard.world.hub, "chief", None, r#"{"wake":["ring"]}"#).await;
    let chief = yard.world.agent("chief").await;
    let one = yard.puts_to_work(&chief, "listen").await;
    let two = yard.puts_to_work(&chief, "listen").await;

    let gather = chief.waits(chief.gather(minutes(60), WaitFor::All, &[])).await;
    yard.boss.sends(&chief, "no report, so it waits in the mailbox").await;
    yard.answers(&one, "first").await;
    sleep(minutes(30)).await;
    assert!(!gather.is_finished(), "the second has not reported");
    yard.answers(&two, "second").await;
    let answer = gather.await.expect("no panic");
    assert_eq!((answer.mail.len(), answer.status), (3, BatchStatus::Complete));
    chief.acks(&answer).await;

    yard.boss.sends(&chief, "by a plain read").await;
    assert_eq!(chief.takes().await.texts(), ["by a plain read"]);
    yard.boss.sends(&chief, "by a tool").await;
    let read = chief.asks(chief.mcp("1")).await;
    assert_eq!(read.texts(), ["by a tool"]);
    chief.acks(&read).await;
    sleep(minutes(60)).await;

    assert_eq!(yard.staff.began(), 2, "nobody else was started");
    assert_eq!(yard.staff.has_told(0).await, [], "nothing was written to anybody's stdin");
    let woken: Vec<_> = yard.staff.woken().iter().map(|request| request.who.id).collect();
    assert_eq!(woken, [], "nobody was woken");
}
