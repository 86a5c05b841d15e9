//! Places that a hub cannot use: each says what is wrong, loses nothing, and is used again
//! when the cause is gone.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use posthaste_api::client::ClientError;
use posthaste_api::messages::SendRequest;
use posthaste_api::{Client, ErrorCode};
use rustix::process::{Pid, Resource, Rlimit, geteuid, getrlimit, prlimit};

use crate::disk::can_mount;
use crate::world::{BINARY, Hub, Ran, Started, World, lacks};

/// Mail for bob in its folder, and no hub.
fn with_mail(world: World) -> World {
    let hub = world.hub();
    world.joined("bob");
    world.say(&["send", "bob", "still here"]);
    assert_eq!(hub.stop().code, Some(0));
    world
}

/// The folder is used again, and nothing of it is lost.
#[track_caller]
fn is_used_again(world: &World) {
    let _hub: Hub = world.hub();
    let mail = world.json(&["inbox", "--as", "bob", "--timeout", "0"]);
    assert_eq!(mail["messages"][0]["message"], "still here", "{mail}");
}

/// Starts a hub by way of a shell.
fn start_by(world: &World, program: &str, args: &[&str]) -> Ran {
    let mut command = world.program(program, args);
    command.env("PATH", "/usr/bin:/bin").env("DATA", world.data());
    Started::new(command).end()
}

#[test]
fn a_data_folder_that_is_a_file_is_an_error_with_advice() {
    let world = World::new();
    std::fs::write(world.data(), "notes of somebody").expect("written");
    let ran = world.run(&["up", "--listen", "127.0.0.1:0"]);
    ran.failed(1, &world.data().display().to_string(), "--data");
    let kept = std::fs::read_to_string(world.data()).expect("still there");
    assert_eq!(kept, "notes of somebody");
    std::fs::remove_file(world.data()).expect("removed");
    assert_eq!(world.hub().stop().code, Some(0));
}

#[test]
fn a_database_file_that_is_read_only_stops_the_start_and_loses_nothing() {
    let world = with_mail(World::new());
    if !can_mount(&world) {
        return;
    }
    // A mode does not stop root; a mount stops everybody.
    let script = "mount --bind \"$DATA/hub.db\" \"$DATA/hub.db\"\n\
                  mount -o remount,ro,bind \"$DATA/hub.db\"\n\
                  exec \"$0\" up --listen 127.0.0.1:0";
    let ran = start_by(&world, "/usr/bin/unshare", &["-rm", "/bin/sh", "-ec", script, BINARY]);
    ran.failed(1, "hub.db", "writable");
    is_used_again(&world);
}

#[test]
fn a_folder_without_permission_stops_the_start_and_loses_nothing() {
    let world = with_mail(World::open_to_all());
    let close = |mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(world.data(), mode).expect("our own folder");
    };
    let up = ["up", "--listen", "127.0.0.1:0"];
    let ran = match geteuid().is_root() {
        // No mode stops root, so a hub of another user tries.
        true => {
            let copy = world.scratch().join("posthaste");
            std::fs::copy(BINARY, &copy).expect("a program that all may run");
            let copy = copy.to_str().expect("a plain path");
            let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", copy];
            let mut probe =
                world.program("/usr/bin/setpriv", &[&nobody[..], &["--version"]].concat());
            let can = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
            if !can.is_ok_and(|status| status.success()) {
                lacks("has no setpriv (Debian: the package `util-linux`)");
                return;
            }
            start_by(&world, "/usr/bin/setpriv", &[&nobody[..], &up].concat())
        }
        false => {
            close(0o000);
            world.run(&up)
        }
    };
    ran.failed(1, &world.data().display().to_string(), "yours");
    close(0o700);
    is_used_again(&world);
}

/// As a quota does it: the write fails although the disk has room.
#[tokio::test]
async fn a_file_that_may_not_grow_refuses_mail_and_recovers() {
    let world = World::new();
    let script = "ulimit -S -f 2000; exec \"$0\" up --json --listen 127.0.0.1:0";
    let mut command = world.program("/bin/sh", &["-ec", script, BINARY]);
    command.env("POSTHASTE_STORE__WAL_BYTES", "0");
    let mut hub = Started::new(command);
    let line = hub.line().expect("the hub starts");
    let greeting: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    let operator = Client::new(greeting["url"].as_str().expect("an address"));
    let operator = operator.expect("a good address").with_token(token.trim());
    world.joined("bob");

    let mail = SendRequest::new("bob", "x".repeat(100_000));
    let mut accepted = 0;
    let told = loop {
        match operator.send(&mail).await {
            Ok(_) => accepted += 1,
            Err(ClientError::Api(told)) => break told,
            Err(other) => panic!("the hub has ended: {other}"),
        }
        assert!(accepted < 100, "the file always grows");
    };
    assert_eq!(told.code, ErrorCode::Unavailable, "{told:?}");
    assert!(told.hint.as_deref().is_some_and(|hint| hint.contains("disk")), "{told:?}");

    let pid = Pid::from_raw(hub.pid().try_into().expect("a pid"));
    let maximum = getrlimit(Resource::Fsize).maximum;
    prlimit(pid, Resource::Fsize, Rlimit { current: maximum, maximum }).expect("our own child");
    operator.send(&mail).await.expect("accepted again");
    operator.ready().await.expect("ready again");
    let unread = world.json(&["agents"])["instances"][0]["unread"].as_u64();
    assert_eq!(unread, Some(accepted + 1));
}
