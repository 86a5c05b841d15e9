//! What is kept of workers, and for how long.

use std::fs;
use std::os::unix::fs::symlink;

use posthaste_core::ports::Launcher;

use super::{Office, quick};

#[tokio::test]
async fn the_folder_of_a_forgotten_worker_goes_and_nothing_else_does() {
    let office = Office::open(quick()).await;
    let (old, kept) = (office.script("echo old").await, office.script("echo kept").await);
    office.report(&old).await;
    office.report(&kept).await;
    let agents = office.agents();
    let outside = office.scratch.path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("precious"), "x").expect("written");
    symlink(&outside, agents.join("0badcafe")).expect("linked");
    symlink(&outside, office.folder(&old).join("work/link")).expect("linked");
    for name in ["notes", "0BADCAFF", "inst-0badcafd", "0badcaf"] {
        fs::create_dir(agents.join(name)).expect("made");
    }
    fs::write(agents.join("0badcaf0"), "a file").expect("written");

    office.launcher.forget_all_but(&[kept.instance.id]).await;
    assert!(!office.folder(&old).exists());
    assert!(office.folder(&kept).join("out").exists());
    assert!(outside.join("precious").exists(), "a link's target is not ours");
    for name in ["notes", "0BADCAFF", "inst-0badcafd", "0badcaf", "0badcafe", "0badcaf0"] {
        assert!(agents.join(name).exists(), "{name}");
    }
    office.close().await;
}

#[tokio::test]
async fn whoever_runs_is_not_forgotten_and_nobodys_worker_is_ended() {
    let office = Office::open(quick()).await;
    let done = office.script("exec sleep 1000").await;
    office.started(&done).await;
    office.launcher.forget_all_but(&[]).await;
    assert!(office.folder(&done).join("task").exists());
    assert_eq!(office.status(&done), posthaste_core::registry::Status::Running);
    office.close().await;
}
