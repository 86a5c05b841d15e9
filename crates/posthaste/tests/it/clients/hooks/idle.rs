//! OpenCode, whose stop cannot be refused: a new turn begins with the mail. So it does
//! with mail that comes later.

use std::net::{TcpListener, TcpStream};

use super::{Machine, Program, STOP, works};
use crate::clients::opencode;
use crate::clients::program::{home, shut_in};
use crate::clients::running::Running;
use crate::world::eventually;

/// A server with sessions that stay, as its own window has one, and a user at it.
struct Served {
    machine: Machine,
    url: String,
    server: Running,
}

impl Served {
    async fn set_up() -> Option<Self> {
        let machine = Machine::set_up(Program::OpenCode, true).await?;
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("bound").port().to_string()
        };
        let server = Self::start(&machine, &["serve", "--hostname", "127.0.0.1", "--port", &port]);
        let address = format!("127.0.0.1:{port}");
        eventually(|| TcpStream::connect(&address).is_ok());
        Some(Self { machine, url: format!("http://{address}"), server })
    }

    fn start(machine: &Machine, args: &[&str]) -> Running {
        let (tools, world) = (&machine.tools, &machine.world);
        let mut command = opencode::subcommand(tools, world, machine.model.url(), args);
        shut_in(&mut command, &home(world));
        Running::new(command)
    }

    /// Until it waits for mail, or no longer does.
    fn until_it_waits(&self, waits: bool) {
        let activity = || self.machine.world.json(&["agents"])["instances"][0]["activity"].clone();
        eventually(|| (activity() == "waiting_inbox") == waits);
    }

    /// Its user writes, and its model answers.
    async fn works(&mut self) {
        let user = self.prompt("Do your work.");
        self.machine.model.asked().await.say("I am done.");
        assert_eq!(user.end().code, Some(0));
        self.until_it_waits(true);
    }

    fn prompt(&self, text: &str) -> Running {
        let to = ["run", "--attach", &self.url, "--format", "json", "-m", "scripted/m", text];
        Self::start(&self.machine, &to)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_that_opencode_has_not_seen_when_it_stops_begins_a_new_turn() {
    let Some(mut served) = Served::set_up().await else { return };
    let user = served.prompt("Do your work.");
    let turn = served.machine.model.asked().await;
    let address = served.machine.agent();
    let first = served.machine.send(&address, "wait for me");
    turn.say("I am done.");

    let turn = served.machine.model.asked().await;
    turn.assert_saw("I am done.");
    turn.assert_saw(STOP);
    turn.assert_saw_once("wait for me");
    let second = served.machine.send(&address, "and for me");
    turn.say("Now I am.");

    let turn = served.machine.model.asked().await;
    turn.assert_saw_once("and for me");
    turn.assert_never_saw(r#""redelivered":true"#);
    turn.say("Now I am, truly.");
    assert_eq!(user.end().code, Some(0));
    served.machine.until_acked(first);
    served.machine.until_acked(second);
    assert!(served.machine.model.is_idle(), "one turn for each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_for_an_idle_opencode_begins_a_turn() {
    let Some(mut served) = Served::set_up().await else { return };
    served.works().await;
    let address = served.machine.agent();
    for text in ["are you awake?", "and still so?"] {
        let seq = served.machine.send(&address, text);
        let turn = served.machine.model.asked().await;
        turn.assert_saw("I am done.");
        turn.assert_saw_once(text);
        turn.assert_never_saw(r#""redelivered":true"#);
        served.machine.until_acked(seq);
        assert_eq!(served.machine.record(seq).1.as_deref(), Some("receipt"));
        turn.say("I am awake.");
        served.until_it_waits(true);
    }
    assert!(served.machine.model.is_idle(), "one turn for each");

    served.server.kill();
    let machine = &served.machine;
    eventually(|| machine.world.json(&["agents"])["instances"][0]["activity"] != "waiting_inbox");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_writes_to_an_idle_opencode_ends_its_wait() {
    let Some(mut served) = Served::set_up().await else { return };
    served.works().await;
    let address = served.machine.agent();
    let user = served.prompt("Work on.");
    let turn = served.machine.model.asked().await;
    served.until_it_waits(false);
    let seq = served.machine.send(&address, "bring the ladder");
    works(Program::OpenCode, turn);
    let turn = served.machine.model.asked().await;
    turn.assert_saw_once("bring the ladder");
    turn.say("I have worked on.");
    assert_eq!(user.end().code, Some(0));
    served.machine.until_acked(seq);
    served.until_it_waits(true);
    assert!(served.machine.model.is_idle(), "it came once");
}
