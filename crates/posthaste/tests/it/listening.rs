//! A port that is taken already: by a hub, or by something else.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};

use crate::world::{World, lacks};

#[test]
fn a_second_up_finds_the_hub_that_runs_already() {
    let world = World::new();
    let hub = world.hub();
    let address = format!("127.0.0.1:{}", hub.port());
    let pid = hub.process.pid();
    let there = format!("a hub is already running at http://{address} (pid {pid})");
    assert_eq!(world.say(&["up", "--listen", &address]), format!("{there}\n"));
    assert_eq!(world.json(&["up", "--listen", &address])["same_folder"], true);
    // It listens elsewhere than usual, and is the hub of this folder all the same.
    assert_eq!(world.say(&["up"]), format!("{there}\n"));
    let told = world.json(&["up"]);
    assert_eq!((&told["status"], &told["pid"]), (&"already_running".into(), &pid.into()));
}

#[test]
fn a_port_that_the_hub_of_another_folder_has_is_a_failure() {
    let world = World::new();
    let hub = world.hub();
    let (address, pid) = (format!("127.0.0.1:{}", hub.port()), hub.process.pid());
    let other = World::new();
    let ran = other.run(&["up", "--listen", &address]);
    let folder = other.data().display().to_string();
    ran.failed(5, &format!("another data folder than {folder} (pid {pid})"), "--any-port");
    assert_eq!(ran.out, "", "{ran:?}");
    let ran = other.run(&["up", "--listen", &address, "--json"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(!other.data().exists());
}

#[test]
fn a_hub_that_may_takes_any_free_port() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let world = World::new();
    let hub = world.hub_with(&["--listen", &address, "--any-port"]);
    assert!(
        hub.url.starts_with("http://127.0.0.1:") && !hub.url.ends_with(&address),
        "{}",
        hub.url
    );
    world.say(&["agents"]);
    hub.stop();
    drop(taken);
    let hub = world.hub_with(&["--listen", &address, "--any-port"]);
    assert!(hub.url.ends_with(&address), "the usual one is better: {}", hub.url);
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
fn a_port_that_is_just_being_freed_is_waited_for() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let world = World::new();
    let mut hub = world.start(&["up", "--json", "--listen", &address]);
    // It asks who is there. When it hears that nobody is, the port is free.
    let (asks, _) = taken.accept().expect("the new hub");
    drop(taken);
    drop(asks);
    let greeting = hub.line().expect("it listens after all");
    assert!(greeting.contains(&address), "{greeting}");
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

/// An address of this machine that is not loopback, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only says which way it would go.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_loopback())
}

#[test]
fn from_elsewhere_only_the_operator_sees_the_figures() {
    let Some(address) = own_address() else {
        return lacks("has no address but loopback, so nobody calls from elsewhere");
    };
    let world = World::new();
    let hub = world.hub_with(&["--listen", "0.0.0.0:0", "--allow-remote"]);
    let status = |ip: &str, token: Option<&str>| {
        let mut socket = TcpStream::connect(format!("{ip}:{}", hub.port())).expect("a hub");
        let bearer = token.map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
        let text = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{bearer}\r\n"
        );
        socket.write_all(text.as_bytes()).expect("sent");
        let mut reply = String::new();
        socket.read_to_string(&mut reply).expect("an answer");
        reply.split(' ').nth(1).expect("a status").to_owned()
    };
    let operator = world.say(&["token", "--operator"]);
    let agent = world.say(&["join", "alice", "--print-token"]);
    let elsewhere = address.to_string();
    assert_eq!(status("127.0.0.1", None), "200");
    assert_eq!(status(&elsewhere, None), "401");
    assert_eq!(status(&elsewhere, Some(agent.trim())), "403");
    assert_eq!(status(&elsewhere, Some(operator.trim())), "200");
}
