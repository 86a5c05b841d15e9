//! Profiles: written, listed and searched.

use posthaste_core::ports::change::Change;
use posthaste_core::profiles::{Profile, Source, Template};
use posthaste_core::registry::AgentKind;

use crate::rig::{Rig, START, minutes_after, name};

fn profile(called: &str) -> Profile {
    Profile {
        template: Template::new(name(called), AgentKind::External),
        source: Source::Api,
        version: 1,
        created_at: START,
        updated_at: START,
    }
}

fn told(called: &str, title: &str, description: &str, tags: &[&str]) -> Profile {
    let mut profile = profile(called);
    profile.template.title = Some(title.to_owned()).filter(|title| !title.is_empty());
    profile.template.description = description.to_owned();
    profile.template.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    profile.template.system_prompt = "a secret".to_owned();
    profile
}

async fn write(rig: &mut Rig, profiles: impl IntoIterator<Item = Profile>) {
    let written = profiles.into_iter().map(|profile| Change::ProfileWritten(profile.into()));
    rig.commit(written.collect()).await;
}

async fn found(rig: &Rig, words: &str, most: u32) -> Vec<String> {
    let found = rig.store.search(words.to_owned(), most).await.expect("an answer");
    assert!(found.iter().all(|profile| profile.template.system_prompt.is_empty()));
    found.iter().map(|profile| profile.template.name.to_string()).collect()
}

pub(crate) async fn a_profile_comes_back_with_every_field(mut rig: Rig) {
    let plain = Profile { source: Source::Join, ..profile("plain") };
    let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    let full = Profile {
        template: Template {
            name: name("full"),
            title: Some("The \"Full\" One".into()),
            description: "it's all\nhere: ü".into(),
            kind: AgentKind::Mechanical,
            driver: Some("claude".into()),
            system_prompt: "You are\n\"full\".".into(),
            tags: vec!["a, b".into(), "ü\"\\".into()],
            tools: list(&["Bash", "Read"]),
            allowed_tools: list(&[]),
            services: list(&["memory"]),
            config: "{\"model\":\"x\"}".into(),
        },
        source: Source::File("/etc/it's.md".into()),
        version: 7,
        created_at: START,
        updated_at: minutes_after(START, 3),
    };
    write(&mut rig, [plain.clone(), full.clone()]).await;
    for _ in 0..2 {
        for written in [&plain, &full] {
            let name = written.template.name.clone();
            let kept = rig.store.profile(name).await.expect("an answer");
            assert_eq!(kept.as_ref(), Some(written));
        }
        assert!(rig.store.profile(name("nobody")).await.expect("an answer").is_none());
        let mut known = rig.reopen().await.loaded.profiles;
        known.sort_by(|(one, _), (other, _)| one.cmp(other));
        let [(first, known_full), (second, known_plain)] = &known[..] else { panic!("{known:?}") };
        assert_eq!((first.as_str(), second.as_str()), ("full", "plain"));
        for (known, written) in [(known_full, &full), (known_plain, &plain)] {
            assert_eq!((known.kind, known.version), (written.template.kind, written.version));
            assert_eq!((&known.source, known.created_at), (&written.source, written.created_at));
        }
    }
}

pub(crate) async fn a_written_profile_replaces_the_one_of_its_name(mut rig: Rig) {
    write(&mut rig, [told("mason", "", "builds walls", &[])]).await;
    let second = Profile {
        version: 2,
        updated_at: minutes_after(START, 1),
        ..told("mason", "", "carves stone", &["art"])
    };
    write(&mut rig, [second.clone()]).await;
    for _ in 0..2 {
        assert_eq!(
            rig.store.profile(name("mason")).await.expect("an answer"),
            Some(second.clone())
        );
        assert_eq!(rig.store.profiles(0, 9).await.expect("a page").total, 1);
        assert_eq!(found(&rig, "walls", 9).await, [] as [&str; 0]);
        assert_eq!(found(&rig, "art", 9).await, ["mason"]);
        rig.reopen().await;
    }
    rig.commit(vec![Change::ProfileRemoved(name("mason")), Change::ProfileRemoved(name("nobody"))])
        .await;
    for _ in 0..2 {
        assert!(rig.store.profile(name("mason")).await.expect("an answer").is_none());
        assert_eq!(found(&rig, "art mason", 9).await, [] as [&str; 0]);
        assert!(rig.reopen().await.loaded.profiles.is_empty());
    }
}

pub(crate) async fn profiles_come_by_name_without_prompts(mut rig: Rig) {
    let names = ["mason", "b-2", "b-10", "carver", "zoe"];
    write(&mut rig, names.map(|name| told(name, "", "an agent", &[]))).await;
    let page = async |skip, most| {
        let page = rig.store.profiles(skip, most).await.expect("a page");
        assert!(page.items.iter().all(|profile| profile.template.system_prompt.is_empty()));
        let names: Vec<_> = page.items.iter().map(|p| p.template.name.to_string()).collect();
        (names.join(" "), page.total)
    };
    assert_eq!(page(0, 9).await, ("b-10 b-2 carver mason zoe".to_owned(), 5));
    assert_eq!(page(1, 2).await, ("b-2 carver".to_owned(), 5));
    assert_eq!(page(4, 2).await, ("zoe".to_owned(), 5));
    assert_eq!(page(5, 2).await, (String::new(), 5));
    assert_eq!(page(1 << 40, 2).await, (String::new(), 5));
    assert_eq!(page(0, 0).await.1, 5);
}

pub(crate) async fn a_search_finds_the_best_first(mut rig: Rig) {
    write(
        &mut rig,
        [
            told("tells", "", "it reviews nothing else than rust, and tells of it", &[]),
            told("rust", "", "nothing", &[]),
            told("tagged", "", "nothing", &["rust"]),
            told("titled", "Rust", "nothing more to say here", &[]),
            told("both", "", "a rust reviewer", &["review", "rust"]),
            told("other", "", "something else", &[]),
            told("unlike", "", "some other thing", &[]),
            told("different", "", "one more thing", &[]),
            told("another", "", "this and that", &[]),
        ],
    )
    .await;
    assert_eq!(found(&rig, "rust", 9).await, ["rust", "tagged", "both", "titled", "tells"]);
    assert_eq!(found(&rig, "rust", 2).await, ["rust", "tagged"]);
    assert_eq!(found(&rig, "rust review", 1).await, ["both"]);
    assert_eq!(found(&rig, "rust", 0).await, [] as [&str; 0]);
    // Equally good: by name, of those that came first.
    let alike = ["zulu", "yankee", "xray"].map(|name| told(name, "", "the same words", &[]));
    write(&mut rig, alike).await;
    assert_eq!(found(&rig, "same", 9).await, ["xray", "yankee", "zulu"]);
    assert_eq!(found(&rig, "same", 2).await, ["yankee", "zulu"]);
}

pub(crate) async fn a_search_folds_case_and_accents_and_completes_the_last_word(mut rig: Rig) {
    write(
        &mut rig,
        [
            told("one", "Zürich Übersicht", "", &[]),
            told("two", "", "Cafe\u{301} Σίσυφος", &["naïve"]),
            told("three", "", "rustic", &[]),
        ],
    )
    .await;
    for (words, expected) in [
        ("zurich", vec!["one"]),
        ("ZÜRICH", vec!["one"]),
        ("über", vec!["one"]),
        ("cafe", vec!["two"]),
        ("CAFÉ", vec!["two"]),
        ("σίσυφοσ", vec!["two"]),
        ("naive", vec!["two"]),
        ("rust", vec!["three"]),
        ("nothing rus", vec!["three"]),
        ("rust nothing", vec![]),
        ("ustic", vec![]),
    ] {
        assert_eq!(found(&rig, words, 9).await, expected, "{words}");
    }
}

pub(crate) async fn any_text_is_a_good_query(mut rig: Rig) {
    write(&mut rig, [told("mason", "The Mason", "a AND b OR c", &["NEAR"])]).await;
    let long = "word ".repeat(10_000);
    for nothing in ["", "  ", "\"", "*", "-- ;", "\u{0}", "()", "'", "{name} :", &long] {
        assert_eq!(found(&rig, nothing, 9).await, [] as [&str; 0], "{nothing:?}");
    }
    for something in ["AND", "b\"", "(b* OR NOT", "near/2", "^mason", "name:mason", "\"mason"] {
        assert_eq!(found(&rig, something, 9).await, ["mason"], "{something:?}");
    }
}
