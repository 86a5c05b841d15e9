//! Callers of another user of the machine.

use std::process::Stdio;

use crate::world::{Started, World, is_root, lacks};

/// The status of a request that another user sends, whose end of the connection stays open
/// until the answer is there; or is closed at once.
fn as_nobody(world: &World, url: &str, request: &str, hangs_up: bool) -> String {
    let place = url.strip_prefix("http://").expect("an address").replace(':', "/");
    let rest = if hangs_up { "" } else { "; head -n 1 <&3" };
    let script = format!("exec 3<>/dev/tcp/{place}; printf '%b' \"$0\" >&3{rest}");
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let args = [&user[..], &["/bin/bash", "-c", &script, request]].concat();
    let ran = Started::new(world.program("/usr/bin/setpriv", &args)).end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.out
}

#[test]
fn another_user_of_the_machine_needs_a_token() {
    if !is_root("a caller as another user") {
        return;
    }
    let world = World::new();
    let probe = ["--reuid=65534", "--regid=65534", "--clear-groups", "/bin/bash", "-c", "true"];
    let mut probe = world.program("/usr/bin/setpriv", &probe);
    if !probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        lacks("has no setpriv or no bash (Debian: the packages `util-linux` and `bash`)");
        return;
    }
    let hub = world.hub();
    let make = "POST /sessions?agent_profile=developer&provider=mock_cli&session_name=";
    let head = format!("HTTP/1.1\\r\\nHost: {}\\r\\n", hub.url.trim_start_matches("http://"));
    let request = |call: &str, more: &str| {
        format!("{call} {head}{more}Content-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    };

    let told = as_nobody(&world, &hub.url, &request(&format!("{make}theirs"), ""), false);
    assert!(told.contains(" 401 "), "{told}");
    let told = as_nobody(&world, &hub.url, &request("GET /sessions", ""), false);
    assert!(told.contains(" 401 "), "{told}");
    // A socket whose process has gone belongs to root, the table says: not to the caller.
    for n in 0..20 {
        as_nobody(&world, &hub.url, &request(&format!("{make}gone{n}"), ""), true);
    }
    let token = world.say(&["token", "--operator"]);
    let bearer = format!("Authorization: Bearer {}\\r\\n", token.trim());
    let told = as_nobody(&world, &hub.url, &request("GET /sessions", &bearer), false);
    assert!(told.contains(" 200 "), "{told}");

    let agents = world.json(&["agents"]);
    assert_eq!(agents["instances"].as_array().map(Vec::len), Some(0), "{agents}");
    hub.stop();
}
