//! Workers in terminals of a real tmux, on a socket of the test's own.

mod claude;
mod dialogues;
mod faulty;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tmux::Tmux;
use crate::world::{Hub, Ran, Started, World, eventually};

/// Answers each line, as the example profile `mock-cli` does.
const MOCK: &str = include_str!("../../../../../examples/profiles/mock-cli.md");

/// A hub with its own tmux server.
struct Room {
    world: World,
    hub: Option<Hub>,
    tmux: Tmux,
    /// The folders in which the hub looks for programs.
    path: String,
}

/// A worker and its task.
struct Worker {
    id: String,
    task: u64,
}

impl Room {
    /// With this profile beside `mock-cli`. Nothing where tmux is missing and need not be
    /// there.
    fn with(name: &str, keys: &str, script: &str) -> Option<Self> {
        let world = World::new();
        let tmux = Tmux::of(&world)?;
        let profiles = world.file("profiles");
        std::fs::create_dir_all(&profiles).expect("a folder");
        std::fs::write(profiles.join("mock-cli.md"), MOCK).expect("written");
        let text = format!(
            "---\nname: {name}\ndescription: a script in a terminal\ndriver: terminal\n{keys}\n\
             command: [/bin/sh, -c, '{}']\n---\n",
            script.replace('\'', "''")
        );
        std::fs::write(profiles.join(format!("{name}.md")), text).expect("written");
        let mut room = Self { world, hub: None, tmux, path: "/usr/bin:/bin".to_owned() };
        room.start_the_hub();
        room.world.say(&["join", "alice"]);
        Some(room)
    }

    fn new() -> Option<Self> {
        Self::with("unused", "", "true")
    }

    /// A worker that answers when the file `go` is there.
    fn with_patient() -> Option<Self> {
        let script = "echo $$ > pid; while printf \"> \" && IFS= read -r line; do echo working; \
                      until [ -e go ]; do sleep 0.02; done; rm go; echo \"done: $line\"; done";
        Self::with("patient", "patterns: { idle: '^> *\\z', busy: 'working\\z' }", script)
    }

    fn start_the_hub(&mut self) {
        let listen = match &self.hub {
            None => "127.0.0.1:0".to_owned(),
            Some(hub) => format!("127.0.0.1:{}", hub.port()),
        };
        let config = self.world.config(&self.tmux.config());
        let mut command =
            self.world.command(&["up", "--json", "--listen", &listen, "--config", &config]);
        command.env("PATH", &self.path);
        self.hub = Some(self.world.hub_of(command));
    }

    /// The plug is pulled, and the hub comes back at another port.
    fn kill_the_hub(&mut self) {
        self.hub.take().expect("a hub").kill();
    }

    fn tmux(&self, words: &[&str]) -> Ran {
        self.tmux.run(words)
    }

    fn assign(&self, agent: &str, task: &str) -> Worker {
        let given = self.world.json(&["assign", agent, task, "--as", "alice"]);
        let id = given["instance"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned();
        Worker { id, task: given["task"].as_u64().unwrap_or_else(|| panic!("{given}")) }
    }

    fn send(&self, to: &Worker, text: &str) -> u64 {
        let sent = self.world.json(&["send", &to.id, text, "--as", "alice"]);
        sent["seq"].as_u64().unwrap_or_else(|| panic!("{sent}"))
    }

    /// The next mail for alice: type and text.
    fn alice_reads(&self) -> (String, String) {
        let inbox = self.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
        let message = &inbox["messages"][0];
        let text =
            |key: &str| message[key].as_str().unwrap_or_else(|| panic!("{inbox}")).to_owned();
        (text("type"), text("message"))
    }

    fn look(&self, worker: &Worker) -> Value {
        self.world.json(&["poll", &worker.id])
    }

    fn until_activity(&self, worker: &Worker, activity: &str) {
        eventually(|| self.look(worker)["activity"] == activity);
    }

    /// State and proof of the one delivery of a message.
    fn delivery(&self, seq: u64) -> (String, String) {
        let message = self.world.json(&["read", &seq.to_string()]);
        let delivery = &message["deliveries"][0];
        let text = |key: &str| delivery[key].as_str().unwrap_or_default().to_owned();
        (text("state"), text("proof"))
    }

    fn until_proved(&self, seq: u64) {
        eventually(|| self.delivery(seq).0 == "acked");
        assert_eq!(self.delivery(seq).1, "turn");
    }

    fn folder(&self, worker: &Worker) -> PathBuf {
        self.world.file("agents").join(&worker.id)
    }

    /// Lets a patient worker answer.
    fn go(&self, worker: &Worker) {
        let desk = self.look(worker)["working_directory"].as_str().expect("a path").to_owned();
        std::fs::write(PathBuf::from(desk).join("go"), "").expect("written");
    }

    /// The pane of a worker, as its keeper noted it.
    fn pane(&self, worker: &Worker) -> String {
        let note = self.folder(worker).join("pane");
        eventually(|| note.exists());
        let note = std::fs::read(note).expect("a note");
        let note: Value = serde_json::from_slice(&note).expect("JSON");
        note["pane"].as_str().expect("a pane").to_owned()
    }

    /// The history and the screen, with wrapped rows as one line.
    fn history(&self, worker: &Worker) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-", "-t", &self.pane(worker)]).out
    }

    fn screen(&self, worker: &Worker) -> String {
        self.tmux(&["capture-pane", "-p", "-t", &self.pane(worker)]).out
    }

    fn panes(&self) -> Vec<String> {
        let listed = self.tmux(&["list-panes", "-a", "-F", "#{session_name}:#{window_name}"]);
        listed.out.lines().map(str::to_owned).collect()
    }
}

impl Drop for Room {
    /// The hub ends before its terminals.
    fn drop(&mut self) {
        self.hub = None;
    }
}

#[test]
fn an_agent_in_a_terminal_does_its_task_and_its_answer_is_the_report() {
    let Some(room) = Room::new() else { return };
    let worker = room.assign("mock-cli", "hello, \"world\" $HOME; ~ #{pid} \u{e4}\u{1f40e}");
    let report = room.alice_reads();
    let answer = "> MOCK: hello, \"world\" $HOME; ~ #{pid} \u{e4}\u{1f40e}".to_owned();
    assert_eq!(report, ("result".to_owned(), answer));
    room.until_proved(worker.task);
    room.until_activity(&worker, "idle");
    assert!(room.screen(&worker).contains("> MOCK: hello"));
}

#[test]
fn several_agents_that_start_at_once_share_a_new_session() {
    let keys = "session: together\npatterns: { idle: '^> *\\z' }";
    let script = "while printf \"> \" && IFS= read -r line; do echo \"done: $line\"; done";
    let Some(room) = Room::with("peer", keys, script) else { return };
    let names: Vec<String> = (0..6).map(|n| format!("job {n}")).collect();
    let workers: Vec<Worker> = names.iter().map(|task| room.assign("peer", task)).collect();
    let gathered =
        room.world.json(&["inbox", "--as", "alice", "--wait-for", "all", "--timeout", "60"]);
    let reports = gathered["messages"].as_array().expect("mail");
    assert!(reports.iter().all(|report| report["type"] == "result"), "{gathered}");
    let windows: Vec<String> =
        workers.iter().map(|worker| format!("together:peer-{}", worker.id)).collect();
    let mut panes = room.panes();
    panes.sort();
    let mut expected = windows.clone();
    expected.sort();
    assert_eq!(panes, expected);
}

#[test]
fn mail_for_an_idle_agent_is_typed_and_proved_by_its_turn() {
    let Some(room) = Room::new() else { return };
    let worker = room.assign("mock-cli", "get ready");
    room.alice_reads();
    room.until_activity(&worker, "idle");
    let evil = "the wall\nleans \u{1b}[201~\u{3}\u{4}";
    let seq = room.send(&worker, evil);
    room.until_proved(seq);
    room.until_activity(&worker, "idle");
    let screen = room.screen(&worker);
    assert!(screen.contains("> MOCK: [posthaste] You have mail"), "{screen}");
    assert!(screen.contains("the wall\\nleans"), "{screen}");
    assert_eq!(room.look(&worker)["status"], "running");
}

#[test]
fn mail_for_a_busy_agent_waits_until_it_is_idle() {
    let Some(room) = Room::with_patient() else { return };
    let worker = room.assign("patient", "dig");
    room.until_proved(worker.task);
    assert_eq!(room.look(&worker)["activity"], "busy");
    let seq = room.send(&worker, "deeper");
    let typed = room.screen(&worker);
    assert!(!typed.contains("deeper"), "{typed}");
    assert_eq!(room.delivery(seq).0, "queued");
    room.go(&worker);
    assert_eq!(room.alice_reads(), ("result".to_owned(), "working\ndone: dig".to_owned()));
    room.until_proved(seq);
    assert!(room.screen(&worker).contains("deeper"));
}

#[test]
fn messages_that_waited_are_one_prompt() {
    let Some(room) = Room::with_patient() else { return };
    let worker = room.assign("patient", "dig");
    room.until_proved(worker.task);
    let (one, two) = (room.send(&worker, "deeper"), room.send(&worker, "and wider"));
    room.go(&worker);
    room.alice_reads();
    // Its turn with both has not ended.
    room.until_proved(one);
    room.until_proved(two);
    let typed = room.history(&worker);
    assert_eq!((typed.matches("deeper").count(), typed.matches("and wider").count()), (1, 1));
    room.go(&worker);
    room.until_activity(&worker, "idle");
}

#[test]
fn urgent_mail_ends_the_turn_by_a_key_and_the_task_is_finished_after_it() {
    let keys = "patterns: { idle: '^> *\\z', busy: 'working\\z' }\nkeys: { interrupt: C-c }";
    let script = "trap cut=1 INT; while printf \"> \" && IFS= read -r line; do cut=; echo working; \
                  until [ -e go ] || [ -n \"$cut\" ]; do sleep 0.02; done; \
                  if [ -e go ]; then rm go; echo \"done: $line\"; else echo; echo cut short; fi; done";
    let Some(room) = Room::with("patient", keys, script) else { return };
    let worker = room.assign("patient", "dig");
    room.until_proved(worker.task);
    let sent = ["send", &worker.id, "the wall falls", "--urgent", "--as", "alice"];
    let seq = room.world.json(&sent)["seq"].as_u64().expect("a number");
    room.until_proved(seq);
    let typed = room.history(&worker);
    assert!(typed.contains("cut short"), "{typed}");
    assert_eq!(typed.matches("the wall falls").count(), 1, "{typed}");
    room.go(&worker);
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "result");
    assert!(text.contains("the wall falls") && text.contains("done: "), "{text}");
    room.until_activity(&worker, "idle");
    let typed = room.history(&worker);
    assert_eq!(typed.matches("the wall falls").count(), 2, "typed and answered: {typed}");
}

#[test]
fn a_hub_killed_in_mid_turn_goes_on_where_it_was() {
    let Some(mut room) = Room::with_patient() else { return };
    let worker = room.assign("patient", "dig");
    room.until_proved(worker.task);
    room.kill_the_hub();
    let desk = room.folder(&worker).join("cwd");
    std::fs::write(desk.join("go"), "").expect("written");
    eventually(|| room.screen(&worker).contains("done: dig"));
    room.start_the_hub();
    assert_eq!(room.alice_reads(), ("result".to_owned(), "working\ndone: dig".to_owned()));
    let seq = room.send(&worker, "deeper");
    room.until_proved(seq);
    room.go(&worker);
    room.until_activity(&worker, "idle");
    assert_eq!(room.screen(&worker).matches("deeper").count(), 2, "typed and answered, once");
}

#[test]
fn a_terminal_that_a_person_closes_fails_its_assignment() {
    let Some(room) = Room::with_patient() else { return };
    let worker = room.assign("patient", "dig");
    room.until_proved(worker.task);
    room.tmux(&["kill-pane", "-t", &room.pane(&worker)]);
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("its terminal was closed"), "{text}");
    assert!(text.contains("> dig"), "the last screen is quoted: {text}");
    assert_eq!(room.look(&worker)["status"], "failed");

    // Also one that reads the end of its input and ends well.
    let worker = room.assign("mock-cli", "hello");
    room.alice_reads();
    room.tmux(&["kill-pane", "-t", &room.pane(&worker)]);
    eventually(|| room.look(&worker)["status"] == "failed");
}

#[test]
fn a_worker_that_is_stopped_leaves_no_pane_and_no_process() {
    let Some(room) = Room::with_patient() else { return };
    let worker = room.assign("patient", "dig");
    room.until_proved(worker.task);
    let mock = room.assign("mock-cli", "stay");
    room.alice_reads();
    let desk = room.look(&worker)["working_directory"].as_str().expect("a path").to_owned();
    let pid = std::fs::read_to_string(PathBuf::from(desk).join("pid")).expect("a number");
    room.world.say(&["stop", &worker.id]);
    let (kind, text) = room.alice_reads();
    assert!(kind == "system.agent_failed" && text.contains("stopped"), "{kind}: {text}");
    assert!(text.contains("working"), "the end of its terminal is quoted: {text}");
    assert!(!PathBuf::from(format!("/proc/{}", pid.trim())).exists());
    assert_eq!(room.panes().len(), 1, "{:?}", room.panes());
    assert!(room.panes()[0].starts_with("posthaste-mock-cli-"), "{:?}", room.panes());
    assert_eq!(room.look(&mock)["status"], "running");
}

#[test]
fn an_exit_code_and_the_end_of_the_terminal_are_told() {
    let script = "printf \"> \"; read -r line; echo the disk is gone; exit 3";
    let Some(room) = Room::with("failing", "patterns: { idle: '^> *\\z' }", script) else { return };
    room.assign("failing", "try");
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("exit code 3") && text.contains("the disk is gone"), "{text}");
}

#[test]
fn a_program_that_does_not_take_its_task_is_told_and_nothing_is_entered() {
    let script = "stty -echo; printf \"> \"; read -r line; echo took it";
    let Some(room) = Room::with("deaf", "patterns: { idle: '^> *\\z' }", script) else { return };
    room.assign("deaf", "hear me");
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("did not take its task") && !text.contains("took it"), "{text}");
}

#[test]
fn without_a_pattern_for_idle_a_task_is_refused() {
    let Some(room) = Room::with("quiet", "", "true") else { return };
    let ran = room.world.run(&["assign", "quiet", "hear me", "--as", "alice"]);
    assert!(ran.code != Some(0) && ran.err.contains("quiet takes no task"), "{ran:?}");
    assert!(ran.err.contains("patterns: { idle:"), "{ran:?}");
    assert!(room.panes().is_empty());
}

#[test]
fn a_turn_whose_screen_shows_a_failure_fails_its_assignment() {
    let keys = "patterns: { idle: '^> *\\z', failed: '^! (.*)' }";
    let script = "while printf \"> \" && read -r line; do echo \"! Not logged in\"; done";
    let Some(room) = Room::with("stranger", keys, script) else { return };
    room.assign("stranger", "try");
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("Not logged in"), "{text}");
}

#[test]
fn workers_of_one_session_are_its_windows() {
    let keys = "session: cao-build\npatterns: { idle: '^> *\\z' }";
    let script = "while printf \"> \" && read -r line; do echo \"= $line\"; done";
    let Some(room) = Room::with("builder", keys, script) else { return };
    room.assign("builder", "one");
    assert_eq!(room.alice_reads().1, "= one");
    room.assign("builder", "two");
    assert_eq!(room.alice_reads().1, "= two");
    let panes = room.panes();
    assert_eq!(panes.len(), 2, "{panes:?}");
    assert!(panes.iter().all(|pane| pane.starts_with("cao-build:builder-")), "{panes:?}");
}

#[test]
fn a_worker_has_its_own_environment_and_is_not_told_of_tmux() {
    let script = "printf \"> \"; read -r line; env | sort; exec sleep 1000";
    let Some(room) = Room::with("shower", "patterns: { idle: '^> *\\z' }", script) else { return };
    let worker = room.assign("shower", "env");
    eventually(|| room.screen(&worker).contains("TERM="));
    let screen = room.history(&worker);
    assert!(screen.contains(&format!("POSTHASTE_INSTANCE={}", worker.id)), "{screen}");
    assert!(screen.contains("POSTHASTE_TOKEN=") && screen.contains("POSTHASTE_RUN="), "{screen}");
    assert!(!screen.lines().any(|line| line.starts_with("TMUX")), "{screen}");
    assert!(!room.folder(&worker).join("ticket").exists());
    let shown = room.tmux(&["show-environment", "-g"]).out;
    assert!(!shown.contains("POSTHASTE_"), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_list_shows_no_id_no_token_and_no_task() {
    let Some(room) = Room::with_patient() else { return };
    let worker = room.assign("patient", "geheim-geheim");
    room.until_proved(worker.task);
    let mut of_tmux = 0;
    for process in std::fs::read_dir("/proc").expect("Linux has it").flatten() {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        if words.contains("/posthaste assign") {
            continue;
        }
        of_tmux += usize::from(words.contains(&room.tmux.socket));
        for secret in [&worker.id, "geheim-geheim"] {
            assert!(!words.contains(secret), "{words}");
        }
    }
    assert!(of_tmux >= 2, "the server and the hub's client: {of_tmux}");
}

#[test]
fn a_person_who_suspends_an_agent_does_not_lose_it() {
    let script = "while printf \"> \" && read -r line; do echo \"= $line\"; done";
    let Some(room) = Room::with("builder", "patterns: { idle: '^> *\\z' }", script) else { return };
    let worker = room.assign("builder", "one");
    assert_eq!(room.alice_reads().1, "= one");
    room.tmux(&["send-keys", "-t", &room.pane(&worker), "C-z"]);
    eventually(|| room.screen(&worker).contains("^Z"));
    room.tmux(&["send-keys", "-t", &room.pane(&worker), "two", "Enter"]);
    eventually(|| room.screen(&worker).contains("= two"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_person_attaches_to_an_agent_and_leaves_it_again() {
    let Some(room) = Room::new() else { return };
    let worker = room.assign("mock-cli", "hello");
    room.alice_reads();
    let printed = room.world.say(&["attach", &worker.id]);
    let pane = room.pane(&worker);
    assert!(printed.starts_with("tmux -S /"), "{printed}");
    assert!(printed.trim_end().ends_with(&format!("attach-session -t {pane}")), "{printed}");
    let view = room.world.json(&["attach", "mock-cli", "--read-only"]);
    assert_eq!(view["pane"], pane.as_str());
    assert_eq!(view["command"][4], "-r");

    let mut attach = room.world.on_terminal(100, &["attach", &worker.id]);
    // A person who types nothing; the end of the input would be a key.
    attach.stdin(Stdio::piped());
    let attached = Started::new(attach);
    let persons = || {
        let listed = ["list-clients", "-F", "#{client_control_mode} #{client_name}"];
        let all = room.tmux(&listed).out;
        let person = all.lines().find_map(|line| line.strip_prefix("0 ").map(str::to_owned));
        person.filter(|name| !name.is_empty())
    };
    eventually(|| persons().is_some());
    // The window has the person's size now, and the hub goes on all the same.
    let seq = room.send(&worker, "you are watched");
    room.until_proved(seq);
    room.until_activity(&worker, "idle");
    room.tmux(&["detach-client", "-t", &persons().expect("just seen")]);
    let ran = attached.end();
    assert!(ran.out.contains("MOCK: hello"), "{ran:?}");
    assert_eq!(room.look(&worker)["status"], "running");

    room.world.say(&["stop", &worker.id]);
    eventually(|| room.look(&worker)["status"] == "stopped");
    let ran = room.world.run(&["attach", &worker.id]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("has ended: stopped"), "its last screens are shown: {ran:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_tmux_server_that_a_worker_started_is_not_used() {
    let Some(room) = Room::new() else { return };
    let text = format!(
        "---\nname: hermit\ndriver: command\n\
         command: [/bin/sh, -c, 'tmux -L {} new-session -d -s own cat && exec sleep 1000']\n---\n",
        room.tmux.socket
    );
    std::fs::write(room.world.file("profiles/hermit.md"), text).expect("written");
    eventually(|| room.world.run(&["assign", "hermit", "x", "--as", "alice"]).code == Some(0));
    eventually(|| room.panes().len() == 1);
    room.assign("mock-cli", "hello");
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("a worker has started the tmux server"), "{text}");
    assert!(text.contains("agents.tmux_socket"), "{text}");
}

#[test]
fn a_hub_without_tmux_says_how_to_install_it() {
    let Some(mut room) = Room::new() else { return };
    room.kill_the_hub();
    let config = room.world.config("");
    let mut command: Command =
        room.world.command(&["up", "--json", "--listen", "127.0.0.1:0", "--config", &config]);
    command.env("PATH", room.world.scratch());
    room.hub = Some(room.world.hub_of(command));
    let ran = room.world.run(&["assign", "mock-cli", "hello"]);
    assert!(ran.err.contains("`tmux` is not there"), "{ran:?}");
    assert!(ran.err.contains("apt install tmux"), "{ran:?}");
}

/// tmux itself waits for ever for somebody who reads what its pane wrote.
#[cfg(target_os = "linux")]
#[test]
fn a_hub_killed_while_a_terminal_is_flooded_leaves_no_client_and_the_server_can_end() {
    let script = "printf \"> \"; read -r line; exec yes \"$line\"";
    let Some(mut room) = Room::with("flooder", "patterns: { idle: '^> *\\z' }", script) else {
        return;
    };
    let worker = room.assign("flooder", "water");
    room.until_proved(worker.task);
    let clients = |room: &Room| room.tmux(&["list-clients", "-F", "#{client_pid}"]).out;
    eventually(|| !clients(&room).is_empty());
    room.kill_the_hub();
    eventually(|| clients(&room).is_empty());
    let server = room.tmux(&["display-message", "-p", "#{pid}"]).out;
    room.tmux(&["kill-server"]);
    eventually(|| !PathBuf::from(format!("/proc/{}", server.trim())).exists());
}
