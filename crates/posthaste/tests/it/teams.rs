//! `teams`: who leads which team, and who is in it.

use serde_json::json;

use crate::world::World;

#[test]
fn a_team_is_made_has_members_and_is_led() {
    let world = World::new();
    let _hub = world.hub();
    assert!(world.say(&["teams"]).contains("posthaste teams create"), "how to make one");

    let made = world.say(&["teams", "create", "avalon"]);
    assert_eq!(made, "avalon has no leaders\n");
    world.run(&["teams", "create", "avalon"]).failed(4, "there is a team avalon", "teams leaders");
    assert!(world.say(&["teams", "members", "avalon"]).contains("nobody is in avalon"));

    let merlin = world.json(&["join", "merlin", "--team", "avalon"]);
    let address = merlin["address"].as_str().expect("an address");
    let led = world.say(&["teams", "leaders", "avalon", "merlin"]);
    assert_eq!(led, format!("avalon is led by {address}\n"));
    assert_eq!(world.say(&["teams", "leaders", "avalon"]), led, "it stays so");
    let team = world.json(&["teams", "leaders", "avalon"]);
    assert_eq!(team["leaders"], json!([merlin["instance"]]), "who joined leads as itself");

    world.say(&["send", "@anyone@avalon", "to arms"]);
    let seen = world.json(&["history", "--team", "avalon", "--as", "merlin@avalon"]);
    assert_eq!(seen["messages"][0]["message"], "to arms", "a leader sees it: {seen}");
    let table = world.say(&["teams"]);
    assert!(table.contains(&format!("avalon  {address}  1")), "{table}");
    assert!(world.say(&["teams", "members", "avalon"]).contains(address));
    assert_eq!(world.say(&["teams", "leaders", "avalon", "--none"]), "avalon has no leaders\n");
    let led = world.run(&["teams", "leaders", "avalon", "morgan"]);
    assert_eq!((led.code, &*led.out), (Some(0), "avalon is led by morgan\n"));
    assert!(led.err.contains("nobody called morgan is in avalon"), "{led:?}");
    for args in [&["teams", "members", "nowhere"][..], &["teams", "leaders", "nowhere", "merlin"]] {
        world.run(args).failed(3, "no team is called `nowhere`", "`posthaste teams` lists them");
    }
}
