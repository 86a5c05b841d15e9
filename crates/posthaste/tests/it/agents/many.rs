//! Many at once.

use std::fs;

use posthaste_core::registry::Status;
use serde_json::json;
use tokio::task::JoinSet;

use super::{Office, quick, wish};

#[tokio::test]
async fn of_a_hundred_workers_at_once_eight_run_at_a_time_and_all_report() {
    let office = Office::open(quick()).await;
    let yard = office.scratch.path().join("yard");
    fs::create_dir(&yard).expect("made");
    // The first eight wait for each other, so they run at the same time or for ever.
    let script = "mkdir $POSTHASTE_INSTANCE; \
                  until [ -e ../all ]; do [ $(ls | wc -l) -lt 8 ] || >../all; sleep 0.02; done; \
                  ls | wc -l; rmdir $POSTHASTE_INSTANCE";
    office.profile("counter", json!({"command": script, "working_directory": yard})).await;
    let mut assigns = JoinSet::new();
    for n in 0..100 {
        let hub = office.hub.clone();
        assigns.spawn(async move { hub.assign(wish("counter", &n.to_string())).await });
    }
    let given: Vec<_> =
        assigns.join_all().await.into_iter().map(|one| one.expect("assigned")).collect();
    let mut most = 0;
    for one in &given {
        let (kind, text) = office.told(one).await;
        assert_eq!(kind, "result", "{text}");
        most = most.max(text.trim().parse::<usize>().expect("a number"));
        assert_eq!(office.status(one), Status::Finished);
    }
    assert_eq!(most, 8, "so many ran at the same time");
    office.close().await;
}
