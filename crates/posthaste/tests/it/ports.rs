//! A port that is taken already: by a hub, or by something else.

use std::net::TcpListener;

use crate::world::World;

#[test]
fn a_second_up_finds_the_hub_that_runs_already() {
    let world = World::new();
    let hub = world.hub();
    let address = format!("127.0.0.1:{}", hub.port());
    let pid = hub.process.pid();
    // Whatever its folder is: the port decides.
    let other = World::new();
    let ran = other.run(&["up", "--listen", &address]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.out, format!("a hub is already running at http://{address} (pid {pid})\n"));
    let told = other.json(&["up", "--listen", &address]);
    assert_eq!((&told["status"], &told["pid"]), (&"already_running".into(), &pid.into()));
    assert!(!other.data().exists());
}

#[test]
fn something_else_on_the_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let world = World::new();
    let ran = world.run(&["up", "--listen", &address]);
    ran.failed(5, &format!("{address} is taken by "), "--listen");
    #[cfg(target_os = "linux")]
    ran.failed(5, &format!("(pid {})", std::process::id()), "");
    assert!(!world.data().exists());
}

#[test]
fn a_hub_for_other_machines_is_found_here_by_loopback() {
    let world = World::new();
    let hub = world.hub_with(&["--listen", "0.0.0.0:0", "--allow-remote"]);
    assert!(hub.url.starts_with("http://127.0.0.1:"), "{}", hub.url);
    world.say(&["agents"]);
}

#[test]
fn an_address_that_is_not_ours_is_an_error_with_advice() {
    let world = World::new();
    // Reserved for documentation: no machine has it.
    let ran = world.run(&["up", "--listen", "192.0.2.1:9889", "--allow-remote"]);
    ran.failed(2, "cannot listen on 192.0.2.1:9889", "--listen");
}
