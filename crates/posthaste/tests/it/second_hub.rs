//! Two hubs on one folder, and folders that a hub cannot use.

use crate::world::World;

#[test]
fn the_second_hub_on_a_folder_says_which_process_has_it() {
    let world = World::new();
    let hub = world.hub();
    let ran = world.run(&["up", "--listen", "127.0.0.1:0"]);
    ran.failed(4, &hub.process.pid().to_string(), "");
    // The first is not disturbed, and still found.
    world.say(&["agents"]);
}

#[test]
fn a_killed_hub_does_not_keep_its_folder() {
    let world = World::new();
    world.hub().kill();
    let hub = world.hub();
    assert_eq!(hub.stop().code, Some(0));
}

#[test]
fn a_broken_database_is_named_and_left_alone() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "bob"]);
    hub.stop();
    let database = std::fs::read_dir(world.data())
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "db" || end == "sqlite"))
        .expect("a database");
    let garbage = b"this is not a database, and it is long enough to be looked at".repeat(100);
    std::fs::write(&database, &garbage).expect("written");

    let ran = world.run(&["up", "--listen", "127.0.0.1:0"]);
    let name = database.file_name().expect("a name").to_string_lossy();
    ran.failed(1, &name, " ");
    assert_eq!(std::fs::read(&database).expect("still there"), garbage);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_advice() {
    let world = World::new();
    let ran = world.run(&["up", "--listen", "127.0.0.1:0", "--data", "/dev/null/data"]);
    ran.failed(1, "/dev/null/data", "--data");
}
