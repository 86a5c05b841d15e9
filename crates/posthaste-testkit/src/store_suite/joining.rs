//! The promises about joining: which instance owns a join key.

use std::time::Duration;

use posthaste_core::messaging::message::Principal;
use posthaste_core::ports::Ending;
use posthaste_core::registry::{JoinKey, NewInstance, Origin, RegistryError, Status, joined_hash};

use super::{HUMAN, Rig, address, bodies};

const OWN: u8 = 7;
const FOREIGN: u8 = 8;

fn key(key: &str, secret: u8) -> JoinKey {
    JoinKey { key: key.into(), secret: [secret; 32] }
}

fn claude(key: JoinKey, token: u8) -> NewInstance {
    NewInstance {
        agent: "claude".parse().expect("a good name"),
        team: None,
        label: None,
        parent: None,
        kind: None,
        key: Some(key),
        origin: Origin::Join,
        token: [token; 32],
    }
}

pub async fn a_key_and_its_secret_bring_the_same_instance_back(rig: Rig) {
    let join = |window: &str, token| rig.engine.join(claude(key(window, OWN), token));
    let first = join("window-1", 1).await.expect("joined");
    let again = join("window-1", 2).await.expect("joined");
    let other = join("window-2", 3).await.expect("joined");
    assert_eq!(first.instance.id, again.instance.id);
    assert_ne!(first.instance.id, other.instance.id);
    assert_eq!((first.resumed, again.resumed), (false, true));
    assert_eq!((first.secret_kept, again.secret_kept), (true, false));
    let name = |word: &str| word.parse().expect("a name");
    let keyed = |key: JoinKey| {
        rig.engine.ledger(|l| l.keyed(&first.instance.agent, &first.instance.team, &key))
    };
    assert_eq!(keyed(key("window-1", OWN)), Some(first.instance.id));
    assert_eq!(keyed(key("window-1", FOREIGN)), None);
    assert_eq!(keyed(key("window-3", OWN)), None);
    let elsewhere = key("window-1", OWN);
    assert_eq!(
        rig.engine.ledger(|l| l.keyed(&name("other"), &first.instance.team, &elsewhere)),
        None
    );
    let me = Some(Principal::Instance(first.instance.id));
    let caller = |seed| rig.engine.caller(&joined_hash(&[seed; 32], first.instance.id));
    assert_eq!((caller(1), caller(2)), (me, me));
    rig.clock.advance(rig.limits.lost_after + Duration::from_secs(1));
    assert_eq!(caller(1), me);
    assert_eq!(rig.engine.sweep().await.expect("swept").lost, 1, "who showed its token lives");
    rig.engine
        .end(first.instance.id, Ending::plain(Status::Stopped, Vec::new()))
        .await
        .expect("ended");
    assert_eq!(caller(1), None, "the ended have no token");
    assert_eq!(keyed(key("window-1", OWN)), None, "the ended have no key");
    let anew = join("window-1", 1).await.expect("joined");
    assert_ne!(anew.instance.id, first.instance.id);
    assert_eq!(caller(1), None, "its token is not the next one's");
}

pub async fn a_key_without_its_secret_is_refused_while_its_owner_lives(rig: Rig) {
    let owner = rig.engine.join(claude(key("k", OWN), 1)).await.expect("joined").instance.id;
    rig.clock.advance(rig.limits.away_after - Duration::from_secs(1));
    let thief = rig.engine.join(claude(key("k", FOREIGN), 2)).await;
    assert_eq!(thief.expect_err("refused"), RegistryError::Taken("claude".into()));
    assert_eq!(rig.engine.caller(&joined_hash(&[2; 32], owner)), None);
    rig.clock.advance(Duration::from_secs(2));
    let next = rig.engine.join(claude(key("k", FOREIGN), 3)).await.expect("the key is free");
    assert_ne!(next.instance.id, owner);
    assert_eq!((next.resumed, next.secret_kept), (false, true));
}

pub async fn an_owner_finds_its_instance_although_a_stranger_took_its_key(rig: Rig) {
    let owner = rig.engine.join(claude(key("k", OWN), 1)).await.expect("joined").instance.id;
    rig.send(HUMAN, &owner.to_string(), "yours").await.expect("accepted");
    rig.clock.advance(rig.limits.away_after);
    let thief = rig.engine.join(claude(key("k", FOREIGN), 2)).await.expect("joined").instance.id;
    // The owner gets its instance back also while the stranger lives.
    let again = rig.engine.join(claude(key("k", OWN), 3)).await.expect("joined");
    assert_eq!((again.instance.id, again.resumed), (owner, true));
    assert!(rig.read(Principal::Instance(thief), 1).await.is_empty());
    let mail = rig.read(Principal::Instance(owner), 2).await;
    assert_eq!(bodies(&mail), ["yours"], "{}", address(Principal::Instance(owner)));
}

pub async fn who_shows_the_wrong_secret_changes_nothing_of_the_owner(rig: Rig) {
    let owner = rig.engine.join(claude(key("k", OWN), 1)).await.expect("joined").instance.id;
    let me = Some(Principal::Instance(owner));
    for round in 0..20 {
        let secret = FOREIGN + round;
        let _ = rig.engine.join(claude(key("k", secret), 100 + round)).await;
        rig.clock.advance(rig.limits.away_after / 10);
        assert_ne!(rig.engine.caller(&joined_hash(&[100 + round; 32], owner)), me);
    }
    let token = joined_hash(&[1; 32], owner);
    assert_eq!(rig.engine.caller(&token), me, "its token was not pushed out");
}
