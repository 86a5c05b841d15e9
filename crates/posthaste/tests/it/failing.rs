//! A hub that cannot go on ends with a code that its supervisor sees.

use posthaste_api::client::ClientError;
use posthaste_api::messages::SendRequest;
use posthaste_api::teams::PutTeam;
use posthaste_api::{Client, ErrorCode};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::world::{World, eventually};

/// The threads that a hub has for its disk.
fn disk_threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("tokio")).count()
}

/// As much memory as it has now, and a little more: not enough for another thread.
fn starve(pid: u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    let id = Pid::from_raw(pid.try_into().expect("a pid"));
    let most = getrlimit(Resource::As).maximum;
    let current = Some((kib + 1024) * 1024);
    prlimit(id, Resource::As, Rlimit { current, maximum: most }).expect("our own child");
}

/// The writer asks for a thread and gets none: a real way for it to die.
#[tokio::test]
async fn a_hub_whose_writer_has_died_ends_with_a_code_that_a_supervisor_sees() {
    let world = World::new();
    let file = world.config("[limits]\nsweep = '10m'\n[profiles]\nrescan = '10m'\n");
    let up = ["up", "--json", "--listen", "127.0.0.1:0", "--config", &file];
    let mut up = world.command(&up);
    // Otherwise the C library keeps the stack of an ended thread for the next one.
    up.env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");
    let hub = world.hub_of(up);
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    let operator = || Client::new(&hub.url).expect("a good address").with_token(token.trim());
    world.joined("bob");
    operator().send(&SendRequest::new("bob", "before")).await.expect("accepted");
    let pid = hub.process.pid();
    eventually(|| disk_threads(pid) == 0);
    starve(pid);

    // A connection of its own: those of the other client were idle for long.
    // Teams are always written on a thread.
    let told = operator().put_team("in-doubt", &PutTeam { leaders: Vec::new() }).await;
    let Err(ClientError::Api(told)) = told else { panic!("nobody writes it: {told:?}") };
    assert_eq!(told.code, ErrorCode::Unavailable, "{told:?}");
    assert!(told.message.contains("whether this was written is not known"), "{told:?}");
    let ran = hub.process.end();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("the hub cannot go on: the writer of the store"), "{ran:?}");

    let _hub = world.hub();
    let mail = world.json(&["inbox", "--as", "bob", "--timeout", "0"]);
    assert_eq!(mail["messages"][0]["message"], "before", "{mail}");
}
