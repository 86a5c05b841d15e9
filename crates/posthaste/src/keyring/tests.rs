use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Processes whose names begin with `live` run.
fn runs(process: &str) -> bool {
    process.starts_with("live")
}

fn ring() -> (tempfile::TempDir, Keyring) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let ring = Keyring::new(scratch.path().join("identities"), runs);
    (scratch, ring)
}

fn gemini() -> Owner {
    Owner { hub: String::new(), agent: "gemini".into(), team: "main".into() }
}

fn program(process: &str, folder: &str) -> Program {
    Program { process: process.into(), folder: folder.into(), new: false }
}

#[track_caller]
fn these(ring: &Keyring, program: &Program) -> Credentials {
    match ring.running(&gemini(), program).expect("found") {
        Found::These(one) => one,
        Found::Several(all) => panic!("several: {all:?}"),
    }
}

#[track_caller]
fn running(ring: &Keyring, process: &str, folder: &str) -> Credentials {
    these(ring, &program(process, folder))
}

#[track_caller]
fn keyed(ring: &Keyring, key: &str) -> Credentials {
    ring.keyed(&gemini(), key).expect("found")
}

#[test]
fn a_program_that_starts_again_in_its_folder_has_its_old_credentials() {
    let (_scratch, ring) = ring();
    let first = running(&ring, "dead 1", "/a");
    let again = running(&ring, "live 2", "/a");
    assert_eq!((&first.key, &first.secret), (&again.key, &again.secret));
    assert_ne!(running(&ring, "live 3", "/b").secret, first.secret, "another folder");
}

#[test]
fn a_bridge_and_a_hook_of_one_process_have_the_same_credentials() {
    let (_scratch, ring) = ring();
    let bridge = running(&ring, "live 1", "/a");
    assert_eq!(running(&ring, "live 1", "/a"), bridge);
    assert_eq!(running(&ring, "live 1", "/b"), bridge, "also when it looks into another folder");
}

#[test]
fn two_windows_at_once_are_two_and_whoever_comes_next_is_neither() {
    let (_scratch, ring) = ring();
    let first = running(&ring, "live 1", "/a");
    let second = running(&ring, "live 2", "/a");
    let third = running(&ring, "live 3", "/a");
    let secrets: HashSet<_> = [&first, &second, &third].map(|one| one.secret.reveal()).into();
    assert_eq!(secrets.len(), 3);
}

#[test]
fn of_several_that_went_away_none_is_taken_and_all_are_named() {
    let (_scratch, ring) = ring();
    running(&ring, "dead 1", "/a");
    let new = Program { new: true, ..program("dead 2", "/a") };
    these(&ring, &new);
    let next = program("live 3", "/a");
    let Found::Several(away) = ring.running(&gemini(), &next).expect("found") else {
        panic!("one was taken");
    };
    assert_eq!(away.len(), 2);
    let named = ring.several();
    assert_eq!((named.len(), &named[0]), (1, &(PathBuf::from("/a"), away.clone())));

    let third = ring.another(&gemini(), &next).expect("made");
    assert!(away.iter().all(|one| one.secret != third.secret));
    assert_eq!(these(&ring, &next), third, "its hook finds the same");
    // The hub forgets one of them, so the other is chosen.
    ring.forget(&gemini(), &Which::Running(next), &[away[0].secret.clone()]).expect("forgotten");
    assert_eq!(running(&ring, "live 4", "/a").secret, away[1].secret);
}

#[test]
fn a_program_that_wants_to_be_new_is_new_once() {
    let (_scratch, ring) = ring();
    let first = running(&ring, "dead 1", "/a");
    let new = Program { new: true, ..program("live 2", "/a") };
    let second = these(&ring, &new);
    assert_ne!(second.secret, first.secret);
    assert_eq!(these(&ring, &new), second);
}

#[test]
fn a_key_has_its_own_credentials_whatever_it_holds() {
    let (scratch, ring) = ring();
    let long = "x".repeat(5_000);
    let keys = ["k", "../../k", "a/b", "", "\0\n", "ключ", &long, "alice"];
    let mut secrets = HashSet::new();
    for key in keys {
        let one = keyed(&ring, key);
        assert_eq!(keyed(&ring, key), one, "{key:?}");
        assert!(secrets.insert(one.secret.reveal().to_owned()), "{key:?}");
    }
    for elsewhere in [
        Owner { hub: "http://far:1".into(), ..gemini() },
        Owner { agent: "qwen".into(), ..gemini() },
        Owner { team: "avalon".into(), ..gemini() },
    ] {
        let one = ring.keyed(&elsewhere, "k").expect("found");
        assert!(secrets.insert(one.secret.reveal().to_owned()), "{elsewhere:?}");
    }
    let inside = fs::read_dir(scratch.path()).expect("a folder").flatten();
    assert_eq!(inside.count(), 1, "nothing lies outside of the folder");
}

#[test]
fn what_an_agent_became_is_kept_until_it_has_to_join_again() {
    let (_scratch, ring) = ring();
    let which = Which::Keyed("k".into());
    let one = keyed(&ring, "k");
    let me = Identity {
        instance: "a3f7b2c1".into(),
        address: "gemini.a3f7b2c1@main".into(),
        token: Token::random(),
    };
    ring.joined(&gemini(), &which, &one.secret, me.clone()).expect("kept");
    ring.expire(&gemini(), &which, &Token::random()).expect("another token");
    assert_eq!(keyed(&ring, "k").joined.as_ref(), Some(&me));
    ring.expire(&gemini(), &which, &me.token).expect("its token");
    assert_eq!(keyed(&ring, "k"), one);
}

#[test]
fn a_bridge_finds_what_the_hook_of_its_process_joined_with_and_writes_nothing() {
    let (scratch, ring) = ring();
    let folder = scratch.path().join("identities");
    let which = |key: &str| Which::Keyed(key.into());
    let me = || Identity {
        instance: "a3f7b2c1".into(),
        address: "gemini.a3f7b2c1@main".into(),
        token: Token::random(),
    };
    assert_eq!(ring.joined_by(&gemini(), &which("k"), "live 1"), None);
    assert_eq!(ring.last_joined_by(&gemini(), "live 1", 0), None);
    assert!(!folder.exists() && ring.changed().is_none());

    for key in ["t1", "t2"] {
        let (one, me) = (keyed(&ring, key), me());
        ring.joined(&gemini(), &which(key), &one.secret, me.clone()).expect("kept");
        assert_eq!(ring.joined_by(&gemini(), &which(key), "live 1"), None, "no hook of it");
        let earliest = now();
        ring.used(&gemini(), &which(key), &me.token, ("live 1", true)).expect("kept");
        let found = ring.joined_by(&gemini(), &which(key), "live 1").expect("its own");
        assert_eq!(found.joined, Some(me));
        assert_eq!(ring.joined_by(&gemini(), &which(key), "live 2"), None, "another process");
        let last = ring.last_joined_by(&gemini(), "live 1", earliest);
        assert_eq!(last.map(|one| one.key).as_deref(), Some(key), "the one that began last");
        assert_eq!(ring.last_joined_by(&gemini(), "live 1", u64::MAX), None, "of earlier");
        // The two sessions must differ in their milliseconds.
        let began = now();
        while now() == began {
            std::thread::yield_now();
        }
    }
    let program = program("live 3", "/a");
    let one = these(&ring, &program);
    let which = Which::Running(program);
    assert_eq!(ring.joined_by(&gemini(), &which, "live 3"), None, "it has not joined");
    ring.joined(&gemini(), &which, &one.secret, me()).expect("kept");
    assert!(ring.joined_by(&gemini(), &which, "live 3").is_some());
}

#[test]
fn many_that_begin_at_once_in_one_process_have_one_secret() {
    let (_scratch, ring) = ring();
    let found: Vec<Credentials> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8)
            .map(|n| {
                let ring = &ring;
                scope.spawn(move || match n % 2 {
                    0 => running(ring, "live 1", "/a"),
                    _ => keyed(ring, "k"),
                })
            })
            .collect();
        starts.into_iter().map(|start| start.join().expect("no panic")).collect()
    });
    let secrets: HashSet<_> = found.iter().map(|one| one.secret.reveal()).collect();
    assert_eq!(secrets.len(), 2);
}

#[test]
fn whoever_holds_the_lock_for_ever_keeps_nobody_from_what_is_there() {
    let (_scratch, ring) = ring();
    let first = keyed(&ring, "k");
    let held = ring.lock().expect("free");
    assert_eq!(keyed(&ring, "k"), first);
    let refused = ring.keyed(&gemini(), "new").expect_err("it cannot be written");
    assert!(refused.message.contains("does not let go"), "{}", refused.message);
    drop(held);
    keyed(&ring, "new");
}

#[test]
fn secrets_are_for_their_owner_alone_and_a_damaged_file_is_made_anew() {
    let (scratch, ring) = ring();
    let first = keyed(&ring, "k");
    let folder = scratch.path().join("identities");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let path = folder.join(file_name(&gemini(), &Which::Keyed("k".into())));
    assert_eq!(mode(&path), 0o600);
    fs::write(&path, b"\xff{").expect("written");
    assert_ne!(keyed(&ring, "k").secret, first.secret);
}

#[test]
fn a_key_of_a_folder_is_short_enough_for_the_hub() {
    let key = key_in(Path::new(&format!("/{}/project", "ü".repeat(500))));
    assert_eq!(key.chars().count(), LONGEST_KEY);
    assert!(key.starts_with("folder:") && key.contains("/project#"), "{key}");
}
