//! Programs that write much, or rubbish.

use std::fs;

use posthaste_core::ports::TranscriptKind;

use super::{Office, quick, with_output};

fn result(text: &str) -> (String, String) {
    ("result".to_owned(), text.to_owned())
}

#[tokio::test]
async fn rubbish_among_its_lines_is_shown_and_nothing_is_lost_for_it() {
    let office = Office::open(quick()).await;
    let script = r#"next; say 'Warning: no such thing'; printf '\377\000\033[2J\n\n   \n'; takes
        say '[]'; say '{"type":7}'; say '{"type":"assistant"}'; say '{"type":"result'
        say '{"type":"user","isReplay":true,"uuid":"706f7374-6861-4374-8065-00000000ffff"}'
        speaks working; say null; ends done; exec sleep 1000"#;
    let done = office.talks(script).await;
    assert_eq!(office.told(&done).await, result("done"));
    assert!(office.shows(&done, TranscriptKind::Unknown, "Warning: no such thing").await);
    office.close().await;
}

#[tokio::test]
async fn a_line_without_end_is_left_out_and_the_next_ones_are_heard() {
    let office = Office::open(quick()).await;
    let script = "next; begins; head -c 10000000 /dev/zero | tr '\\0' x; echo; ends done; next";
    let done = office.talks(script).await;
    assert_eq!(office.told(&done).await, result("done"));
    assert!(office.shows(&done, TranscriptKind::Note, "was left out").await);
    office.close().await;
}

/// The most memory that a process ever had, in KiB.
#[cfg(target_os = "linux")]
fn most_memory(pid: i64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_flood_of_lines_is_heard_to_its_end_in_bounded_memory_and_room() {
    let bound = 1 << 20;
    let office = Office::open(with_output(bound)).await;
    let lines = if crate::world::quick() { 10_000 } else { 100_000 };
    let script =
        format!("next; begins; yes \"$(printf '%01000d' 7)\" | head -n {lines}; ends done; next");
    let done = office.talks(&script).await;
    assert_eq!(office.told(&done).await, result("done"));
    let keeper = office.started(&done).await["keeper"].as_i64().expect("a pid");
    let used = most_memory(keeper);
    assert!(used < 60 << 10, "the keeper once had {used} KiB");
    let folder = office.folder(&done);
    let size = |name| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
    let kept = size("transcript") + size("transcript.old");
    assert!(kept > bound / 3 && kept <= bound, "{kept}");
    assert!(size("session.json") < 10_000, "{}", size("session.json"));
    office.close().await;
}

#[tokio::test]
async fn a_line_that_is_longer_than_the_keepers_bound_holds_nobody_up() {
    let office = Office::open(with_output(100_000)).await;
    let script = "next; begins; head -c 3000000 /dev/zero | tr '\\0' x; echo; ends done; next";
    let done = office.talks(script).await;
    assert_eq!(office.told(&done).await, result("done"));
    office.close().await;
}

#[tokio::test]
async fn a_last_line_without_an_end_is_heard_as_well() {
    let office = Office::open(quick()).await;
    let done = office.talks("next; begins; printf '%s' \"$(ends done)\"").await;
    assert_eq!(office.told(&done).await, result("done"));
    office.close().await;
}
