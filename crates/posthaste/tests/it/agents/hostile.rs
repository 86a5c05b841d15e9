//! Workers that behave as badly as they can cost only themselves.

use std::fs;

use posthaste_core::messaging::message::Principal;
use posthaste_core::registry::Status;
use serde_json::json;

use super::{Office, quick, until};

/// They would go on for ever.
const ENDLESS: [&str; 6] = [
    "yes",
    "yes >&2 & exec yes",
    "trap '' TERM INT HUP; while :; do sleep 1; done",
    "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9; do (trap '' TERM; sleep 1000) & done; wait",
    "while :; do setsid sleep 1000 & sleep 0.02; done",
    "kill -STOP $$; exec sleep 1000",
];

/// They end, one way or another.
const SHORT: [(&str, Status); 5] = [
    ("head -c 300000 /dev/urandom", Status::Finished),
    ("exec <&- >&- 2>&-; exit 0", Status::Finished),
    ("kill -9 0", Status::Failed),
    ("setsid sleep 1000 & kill -9 $PPID; exec sleep 1000", Status::Failed),
    ("rm -rf ../*", Status::Finished),
];

/// Whoever still carries the mark of one of these instances.
pub(super) fn left(ids: &[String]) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("Linux has it").flatten();
    let is_one = |folder: &fs::DirEntry| {
        let text = fs::read(folder.path().join("environ")).unwrap_or_default();
        let mut words = text.split(|byte| *byte == 0);
        words.any(|word| {
            let id = word.strip_prefix(b"POSTHASTE_INSTANCE=");
            id.is_some_and(|id| ids.iter().any(|known| known.as_bytes() == id))
        })
    };
    all.filter(is_one).map(|folder| folder.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn a_worker_that_behaves_badly_costs_only_itself() {
    let office = Office::open(quick()).await;
    let mut endless = Vec::new();
    for (n, script) in ENDLESS.iter().enumerate() {
        let name = format!("endless{n}");
        office.profile(&name, json!({"command": script})).await;
        endless.push(office.assign(&name, "x").await.expect("assigned"));
    }
    for one in &endless {
        office.started(one).await;
    }
    for (n, (script, status)) in SHORT.iter().enumerate() {
        let name = format!("short{n}");
        office.profile(&name, json!({"command": script})).await;
        let one = office.assign(&name, "x").await.expect("assigned");
        office.report(&one).await;
        assert_eq!(office.status(&one), *status, "{script}");
        let id = [one.instance.id.to_string()];
        until(|| left(&id).is_empty()).await;
    }
    office.profile("good", json!({"command": "cat"})).await;
    let good = office.assign("good", "still here").await.expect("assigned");
    assert_eq!(office.told(&good).await.1, "still here");
    for one in &endless {
        assert_eq!(office.status(one), Status::Running);
        office.hub.stop(Principal::Operator, one.instance.id).await.expect("it runs");
    }
    for one in &endless {
        office.report(one).await;
        assert_eq!(office.status(one), Status::Stopped);
    }
    let ids: Vec<String> = endless.iter().map(|one| one.instance.id.to_string()).collect();
    assert_eq!(left(&ids), Vec::<String>::new());
    office.close().await;
}
