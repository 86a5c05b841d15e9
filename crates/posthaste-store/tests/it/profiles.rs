//! Profiles on disk: after a restart, and after an older version.

use posthaste_core::messaging::message::Principal;
use posthaste_core::profiles::{Expect, PutProfile, Source};
use posthaste_core::registry::RegistryError;
use posthaste_testkit::profiles_suite::put;
use rusqlite::Connection;

use crate::rig;

#[tokio::test]
async fn a_restart_knows_names_versions_and_files() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    rig.engine.put_profile(put("mason", "first")).await.expect("written");
    rig.engine.put_profile(put("mason", "second")).await.expect("written");
    let of_file = PutProfile { by: Source::File("/x.md".into()), ..put("carver", "") };
    rig.engine.put_profile(of_file).await.expect("written");
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");

    rig.send(Principal::Operator, "mason", "still an address").await.expect("accepted");
    let stale = PutProfile { expect: Expect::Version(1), ..put("mason", "third") };
    let refused = rig.engine.put_profile(stale).await;
    assert!(matches!(refused, Err(RegistryError::Stale { current: 2, .. })), "{refused:?}");
    assert_eq!(rig.engine.ledger(|l| l.profiles_of_files()).len(), 1);
    assert_eq!(rig.engine.search_profiles("second".into(), 9).await.expect("found").len(), 1);
}

#[tokio::test]
async fn the_index_of_words_is_sound_after_many_changes() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    for round in 0..5_u8 {
        for n in 0..40_u8 {
            let mut write = put(&format!("p{}", n % 13), &format!("{round} \"{n}\" \u{0} words"));
            write.template.title = (n % 2 == 0).then(|| format!("title {n}"));
            write.template.tags = vec![format!("tag-{round}"), "\\\"".into()];
            rig.engine.put_profile(write).await.expect("written");
        }
        let name = format!("p{round}").parse().expect("a name");
        rig.engine.remove_profile(name, Source::Api).await.expect("removed");
    }
    rig.engine.close().await.expect("closed");
    drop(rig);

    let db = Connection::open(folder.path().join("hub.db")).expect("opened");
    let check = "INSERT INTO profile_words (profile_words, rank) VALUES ('integrity-check', 1)";
    db.execute(check, []).expect("the index says what the table says");
}

#[tokio::test]
async fn names_of_an_older_version_become_profiles_that_can_be_found() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let db = Connection::open(folder.path().join("hub.db")).expect("a file");
    for step in [
        include_str!("../../migrations/sqlite/0001_backbone.sql"),
        include_str!("../../migrations/sqlite/0002_senders.sql"),
        include_str!("../../migrations/sqlite/0003_key_lists.sql"),
        "INSERT INTO profiles VALUES ('old-mason', 'mechanical', 7);
         PRAGMA application_id = 1346917204; PRAGMA user_version = 3;",
    ] {
        db.execute_batch(step).expect("applied");
    }
    drop(db);

    let rig = rig::at(folder.path()).expect("taken over");

    let found = rig.engine.search_profiles("mason".into(), 9).await.expect("found");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].version, &found[0].source), (1, &Source::Join));
    assert_eq!(found[0].template.kind.as_str(), "mechanical");
    rig.engine.put_profile(put("old-mason", "new words")).await.expect("written");
    assert_eq!(rig.engine.search_profiles("words".into(), 9).await.expect("found").len(), 1);
}

#[tokio::test]
async fn the_one_list_of_an_older_version_is_the_list_of_services() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let db = Connection::open(folder.path().join("hub.db")).expect("a file");
    for step in [
        include_str!("../../migrations/sqlite/0001_backbone.sql"),
        include_str!("../../migrations/sqlite/0002_senders.sql"),
        include_str!("../../migrations/sqlite/0003_key_lists.sql"),
        include_str!("../../migrations/sqlite/0004_profiles.sql"),
        include_str!("../../migrations/sqlite/0005_history.sql"),
        include_str!("../../migrations/sqlite/0006_events.sql"),
        include_str!("../../migrations/sqlite/0007_hops.sql"),
        include_str!("../../migrations/sqlite/0008_work.sql"),
        include_str!("../../migrations/sqlite/0009_room.sql"),
        include_str!("../../migrations/sqlite/0010_secrets.sql"),
        include_str!("../../migrations/sqlite/0011_origins.sql"),
        include_str!("../../migrations/sqlite/0012_free_mailboxes.sql"),
        "INSERT INTO profiles (name, description, kind, system_prompt, tags, tools, config, source,
            version, created_at, updated_at)
            VALUES ('mason', '', 'external', '', '[]', '[\"files\"]', '{}', 'api', 1, 7, 7),
            ('carver', '', 'external', '', '[]', NULL, '{}', 'api', 1, 7, 7);
         PRAGMA application_id = 1346917204; PRAGMA user_version = 12;",
    ] {
        db.execute_batch(step).expect("applied");
    }
    drop(db);

    let rig = rig::at(folder.path()).expect("taken over");

    let template = async |name: &str| {
        let found = rig.engine.profile(name.parse().expect("a name")).await.expect("read");
        found.expect("kept").template
    };
    let mason = template("mason").await;
    assert_eq!((mason.tools, mason.services), (None, Some(vec!["files".to_owned()])));
    assert_eq!(template("carver").await.services, None);
}
