//! The promises of the `Store` port about profiles, one test each. Every backend
//! runs them all:
//!
//! ```ignore
//! posthaste_testkit::profiles_suite!(rig());
//! ```

use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::Ending;
use posthaste_core::profiles::{Expect, Profile, PutProfile, Source, Template};
use posthaste_core::registry::{AgentKind, RegistryError, Status};

use crate::store_suite::Rig;

const HUMAN: Principal = Principal::Operator;

pub fn put(name: &str, description: &str) -> PutProfile {
    let name = name.parse().expect("a good name");
    let template =
        Template { description: description.into(), ..Template::new(name, AgentKind::External) };
    PutProfile { template, by: Source::Api, expect: Expect::Anything }
}

async fn kept(rig: &Rig, name: &str) -> Option<Profile> {
    rig.engine.profile(name.parse().expect("a good name")).await.expect("a look")
}

async fn found(rig: &Rig, words: &str) -> Vec<String> {
    let found = rig.engine.search_profiles(words.into(), 10).await.expect("an answer");
    found.into_iter().map(|p| p.template.name.to_string()).collect()
}

pub async fn a_profile_is_kept_as_it_was_written(rig: Rig) {
    let mut write = put("mason", "lays \"bricks\"");
    write.template = Template {
        title: Some("The Mason".into()),
        kind: AgentKind::Mechanical,
        driver: Some("runner".into()),
        system_prompt: "You lay bricks.".into(),
        tags: vec!["stone".into(), "a, \"b\"".into()],
        tools: Some(vec!["read".into()]),
        allowed_tools: Some(Vec::new()),
        services: Some(vec!["files".into()]),
        config: r#"{"a":1}"#.into(),
        ..write.template
    };
    let written = rig.engine.put_profile(write.clone()).await.expect("written");
    assert!(written.created);
    let mason = kept(&rig, "mason").await.expect("kept");
    assert_eq!(mason, written.profile);
    assert_eq!((&mason.template, mason.version), (&write.template, 1));
    let again = rig.engine.put_profile(write.clone()).await.expect("written");
    assert_eq!((again.created, again.profile.version), (false, 2));
    assert_eq!(again.profile.created_at, mason.created_at);
    let page = rig.engine.profiles(0, 10).await.expect("a page");
    assert_eq!((page.total, page.items[0].template.system_prompt.as_str()), (1, ""));
    assert_eq!(page.items[0].template.tags, write.template.tags);
}

pub async fn of_two_writers_who_saw_one_version_one_is_refused(rig: Rig) {
    rig.engine.put_profile(put("mason", "first")).await.expect("written");
    let seen = |text: &str| PutProfile { expect: Expect::Version(1), ..put("mason", text) };
    // Both writes are under way before one is awaited.
    let (a, b) = (rig.engine.put_profile(seen("a")), rig.engine.put_profile(seen("b")));
    let (a, b) = (a.await, b.await);
    assert!(a.is_ok());
    assert!(matches!(b, Err(RegistryError::Stale { current: 2, .. })), "{b:?}");
    assert_eq!(kept(&rig, "mason").await.expect("kept").template.description, "a");
    let new = PutProfile { expect: Expect::Absent, ..put("mason", "c") };
    let refused = rig.engine.put_profile(new).await;
    assert!(matches!(refused, Err(RegistryError::Exists(_))), "{refused:?}");
    let gone = PutProfile { expect: Expect::Version(1), ..put("nobody", "d") };
    let refused = rig.engine.put_profile(gone).await;
    assert!(matches!(refused, Err(RegistryError::NotFound { .. })), "{refused:?}");
}

pub async fn a_profile_makes_its_name_known_and_its_removal_unknown(rig: Rig) {
    rig.engine.put_profile(put("mason", "")).await.expect("written");
    rig.send(HUMAN, "mason", "waits").await.expect("accepted");
    let mason = rig.agent("mason").await.instance().expect("an instance");
    let name = || "mason".parse().expect("a good name");
    let refused = rig.engine.remove_profile(name(), Source::Api).await;
    assert!(matches!(refused, Err(RegistryError::InUse { active: 1, .. })), "{refused:?}");
    rig.engine.end(mason, Ending::plain(Status::Stopped, Vec::new())).await.expect("ended");

    assert_eq!(rig.engine.remove_profile(name(), Source::Api).await, Ok(1), "its mail stays");

    let refused = rig.send(HUMAN, "mason", "nobody").await;
    assert!(matches!(refused, Err(SendError::NoRecipient { .. })), "{refused:?}");
    let next = rig.agent("mason").await;
    assert_eq!(rig.read(next, 1).await[0].message.body, "waits");
    assert_eq!(kept(&rig, "mason").await.expect("kept").source, Source::Join);
}

pub async fn files_and_the_api_do_not_write_over_each_other(rig: Rig) {
    let by = |file: &str| Source::File(file.into());
    let from = |file: &str, name: &str| PutProfile { by: by(file), ..put(name, file) };
    rig.engine.put_profile(from("/a.md", "mason")).await.expect("written");
    let refused = rig.engine.put_profile(put("mason", "api")).await;
    assert!(matches!(&refused, Err(RegistryError::InFile { file, .. }) if file == "/a.md"));
    let name = || "mason".parse().expect("a good name");
    let refused = rig.engine.remove_profile(name(), Source::Api).await;
    assert!(matches!(refused, Err(RegistryError::InFile { .. })), "{refused:?}");
    rig.engine.put_profile(from("/b.md", "mason")).await.expect("moved to another file");
    assert_eq!(rig.engine.ledger(|l| l.profiles_of_files()), [(name(), "/b.md".into())]);
    rig.engine.put_profile(put("carver", "api")).await.expect("written");
    let refused = rig.engine.put_profile(from("/c.md", "carver")).await;
    assert!(matches!(refused, Err(RegistryError::Exists(_))), "{refused:?}");
    rig.agent("joiner").await;
    rig.engine.put_profile(from("/d.md", "joiner")).await.expect("a mere name is anybody's");
    rig.engine.remove_profile(name(), by("/b.md")).await.expect("removed");
    assert!(kept(&rig, "mason").await.is_none());
}

pub async fn the_search_is_in_step_with_what_is_kept(rig: Rig) {
    for (name, text) in [("mason", "lays bricks"), ("carver", "cuts wood"), ("baker", "bakes")] {
        rig.engine.put_profile(put(name, text)).await.expect("written");
    }
    rig.agent("walnut").await;
    assert_eq!(found(&rig, "bricks AND (\"wood\" -").await.len(), 2);
    assert_eq!(found(&rig, "waln").await, ["walnut"]);
    rig.engine.put_profile(put("mason", "cuts stone")).await.expect("written");
    assert_eq!(found(&rig, "bricks").await, Vec::<String>::new());
    assert_eq!(found(&rig, "stone").await, ["mason"]);
    let name = "mason".parse().expect("a good name");
    rig.engine.remove_profile(name, Source::Api).await.expect("removed");
    assert_eq!(found(&rig, "stone mason").await, Vec::<String>::new());
    assert_eq!(rig.engine.profiles(2, 10).await.expect("a page").items.len(), 1);
    let beyond = rig.engine.profiles(99, 10).await.expect("a page");
    assert_eq!((beyond.items.len(), beyond.total), (0, 3));
}

/// Runs every promise against the store that `$rig` makes (an async expression).
#[macro_export]
macro_rules! profiles_suite {
    ($rig:expr) => {
        $crate::profiles_suite! { $rig;
            a_profile_is_kept_as_it_was_written
            of_two_writers_who_saw_one_version_one_is_refused
            a_profile_makes_its_name_known_and_its_removal_unknown
            files_and_the_api_do_not_write_over_each_other
            the_search_is_in_step_with_what_is_kept
        }
    };
    ($rig:expr; $($promise:ident)*) => {
        $(
            #[tokio::test]
            async fn $promise() {
                $crate::profiles_suite::$promise($rig.await).await;
            }
        )*
    };
}
