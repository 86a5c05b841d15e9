//! OpenCode, whose stop cannot be refused: a new turn begins with the mail.

use std::net::{TcpListener, TcpStream};

use super::{Machine, Program, STOP};
use crate::clients::opencode;
use crate::clients::program::{home, shut_in};
use crate::clients::running::Running;
use crate::world::eventually;

/// A server with sessions that stay, as its own window has one, and a user at it.
struct Served {
    machine: Machine,
    url: String,
    _server: Running,
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
        Some(Self { machine, url: format!("http://{address}"), _server: server })
    }

    fn start(machine: &Machine, args: &[&str]) -> Running {
        let (tools, world) = (&machine.tools, &machine.world);
        let mut command = opencode::subcommand(tools, world, machine.model.url(), args);
        shut_in(&mut command, &home(world));
        Running::new(command)
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
