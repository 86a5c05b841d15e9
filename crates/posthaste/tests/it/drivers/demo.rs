//! `posthaste demo --with`: a real job for a real program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::model_server::{Asked, ModelServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::codex;
use super::installed::{CLAUDE, CODEX, GEMINI, Installed, OPENCODE};
use super::stage::Stage;
use crate::clients::{home, shut_in, tools};
use crate::world::{Ran, Started, World};

const MENDED: &str = "if [ $(($1 % 400)) -eq 0 ] || \
    { [ $(($1 % 4)) -eq 0 ] && [ $(($1 % 100)) -ne 0 ]; }; then\n";
const FAULT: &str = "if [ $(($1 % 4)) -eq 0 ]; then\n";

/// The demo of a user who has this program.
struct Demo {
    world: World,
    model: ModelServer,
    place: PathBuf,
    process: Started,
}

impl Demo {
    async fn start(program: Installed) -> Option<Self> {
        let tools = tools()?;
        let world = World::new();
        let model = ModelServer::start().await;
        let (mut command, place) = command(&world, program.name);
        program.found_by(&mut command, &tools, &world, model.url());
        let process = Started::new(command);
        Some(Self { world, model, place, process })
    }

    async fn turn(&mut self) -> Asked {
        self.model.asked().await
    }

    /// Ends the demo, which leaves nothing behind.
    fn end(self) -> Ran {
        let ran = self.process.end();
        assert_eq!(left_in(&self.place), Vec::<String>::new());
        let scratch = self.world.scratch().to_string_lossy().into_owned();
        let run = Stage::command_lines();
        let ours: Vec<_> = run.iter().filter(|line| line.contains(&scratch)).collect();
        assert!(ours.is_empty(), "{ours:?}");
        ran
    }
}

/// The demo in surroundings of its own, and where its files are.
fn command(world: &World, program: &str) -> (Command, PathBuf) {
    let mut command = world.command(&["demo", "--with", program]);
    let home = home(world);
    shut_in(&mut command, &home);
    let place = world.scratch().join("temporary");
    fs::create_dir(&place).expect("a folder");
    command.env("TMPDIR", &place);
    (command, place)
}

/// The folders that the demo left here; those of the programs are not its own.
fn left_in(place: &Path) -> Vec<String> {
    let all = fs::read_dir(place).expect("a folder").flatten();
    let all = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    all.filter(|name| name.starts_with("posthaste")).collect()
}

fn assert_told(ran: &Ran) {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for told in [
        "may cost a little money",
        "-implementer.",
        "The centuries are right now.",
        "-if [ $(($1 % 4)) -eq 0 ]; then",
        "+if [ $(($1 % 400)) -eq 0 ]",
        "-reviewer.",
        "I found no fault.",
        "The project's tests pass now.",
    ] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_of_claude_code_mend_and_review_a_fault_in_the_demo() {
    let Some(mut demo) = Demo::start(CLAUDE).await else { return };
    let bash = |command: &str| json!({ "command": command, "description": "work" });
    let turn = demo.turn().await;
    turn.assert_saw("`sh test.sh` fails");
    turn.call("Bash", bash("sh test.sh"));
    let turn = demo.turn().await;
    assert!(turn.result().contains("1900: expected no"), "{turn:?}");
    // What it has no permission for is denied, and it goes on.
    turn.call("Bash", bash("curl http://127.0.0.1:9/"));
    let turn = demo.turn().await;
    assert!(turn.result().contains("denied"), "{}", turn.result());
    turn.call("Bash", bash("pwd"));
    let turn = demo.turn().await;
    let file = Path::new(turn.result().trim()).join("leap.sh");
    turn.call("Read", json!({ "file_path": file }));
    let edit = json!({ "file_path": file, "old_string": FAULT, "new_string": MENDED });
    demo.turn().await.call("Edit", edit);
    demo.turn().await.call("Bash", bash("sh test.sh"));
    let turn = demo.turn().await;
    assert!(!turn.result().contains("expected"), "{}", turn.result());
    turn.call("Bash", bash("git commit -qam 'Count centuries as they are'"));
    demo.turn().await.say("The centuries are right now.");

    let turn = demo.turn().await;
    turn.assert_saw("You review changes.");
    turn.assert_saw("+if [ $(($1 % 400)) -eq 0 ]");
    turn.call("Bash", bash("git log -1 --oneline"));
    let turn = demo.turn().await;
    assert!(turn.result().contains("Count centuries"), "{}", turn.result());
    turn.say("I found no fault.");

    let ran = demo.end();
    assert_told(&ran);
    assert!(ran.out.contains("the demo denies it: Bash") && ran.out.contains("curl"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_of_codex_mend_and_review_a_fault_in_the_demo() {
    let Some(mut demo) = Demo::start(CODEX).await else { return };
    let run = |command: &str| json!({ "cmd": command });
    let turn = demo.turn().await;
    turn.assert_saw("`sh test.sh` fails");
    turn.call("exec_command", run("sh test.sh"));
    let turn = demo.turn().await;
    assert!(turn.result().contains("1900: expected no"), "{turn:?}");
    let mend = format!("cat > leap.sh <<'END'\n{}END\nsh test.sh", whole());
    turn.call("exec_command", run(&mend));
    let turn = demo.turn().await;
    assert!(!turn.result().contains("expected"), "{}", turn.result());
    turn.say("The centuries are right now.");

    let turn = demo.turn().await;
    turn.assert_saw("You review changes.");
    turn.assert_saw("+if [ $(($1 % 400)) -eq 0 ]");
    turn.call("exec_command", run("touch made && echo written || echo refused"));
    let turn = demo.turn().await;
    assert!(turn.result().contains("refused"), "a reviewer may not write: {}", turn.result());
    turn.say("I found no fault.");
    assert_told(&demo.end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_of_opencode_mend_and_review_a_fault_in_the_demo() {
    let write = ("write", json!({ "filePath": "leap.sh", "content": whole() }));
    asks_for_its_shell(OPENCODE, write).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_of_gemini_cli_mend_and_review_a_fault_in_the_demo() {
    let write = ("write_file", json!({ "file_path": "leap.sh", "content": whole() }));
    asks_for_its_shell(GEMINI, write).await;
}

/// A program that asks for each command of its shell: the demo allows the one that its task
/// names and no other, and the program goes on without.
async fn asks_for_its_shell(program: Installed, write: (&str, Value)) {
    let Some(mut demo) = Demo::start(program).await else { return };
    let runs = |turn: Asked, command: &str| {
        let (tool, arguments) = (program.shell)(command);
        turn.call(tool, arguments);
    };
    let turn = demo.turn().await;
    turn.assert_saw("`sh test.sh` fails");
    turn.assert_saw("You implement one change");
    runs(turn, "sh test.sh");
    let turn = demo.turn().await;
    assert!(turn.result().contains("1900: expected no"), "{}", turn.result());
    runs(turn, "sh test.sh; touch made");
    let turn = demo.turn().await;
    turn.call(write.0, write.1);
    runs(demo.turn().await, "sh test.sh");
    let turn = demo.turn().await;
    assert!(!turn.result().contains("1900: expected"), "{}", turn.result());
    turn.say("The centuries are right now.");

    let turn = demo.turn().await;
    turn.assert_saw("You review changes.");
    turn.assert_saw("+if [ $(($1 % 400)) -eq 0 ]");
    turn.assert_never_saw("+++ b/made");
    turn.say("I found no fault.");
    let ran = demo.end();
    assert_told(&ran);
    for told in
        ["the demo allows it: Bash: sh test.sh", "the demo denies it: Bash: sh test.sh; touch made"]
    {
        assert!(ran.out.contains(told), "{told}: {ran:?}");
    }
}

/// The script as it should be.
fn whole() -> String {
    format!("{MENDED}  echo yes\nelse\n  echo no\nfi\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_with_a_program_that_is_not_logged_in_says_so_and_what_to_do() {
    let logged_out =
        Installed { surround: |command, _, home| codex::surround(command, home, ""), ..CODEX };
    let Some(demo) = Demo::start(logged_out).await else { return };
    let ran = demo.end();
    assert_eq!(ran.code, Some(9), "{ran:?}");
    let told = ran.out.lines().find(|line| line.starts_with("codex-implementer."));
    assert!(told.is_some_and(|told| told.contains("`codex login`")), "{ran:?}");
    assert!(!ran.out.contains("changed nothing") && ran.err.is_empty(), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_whose_agent_does_nothing_says_that_the_tests_still_fail() {
    let Some(mut demo) = Demo::start(CLAUDE).await else { return };
    demo.turn().await.say("All is well.");
    let ran = demo.end();
    assert_eq!(ran.code, Some(9), "{ran:?}");
    assert!(ran.out.contains("All is well.") && ran.out.contains("It has changed nothing."));
    assert!(ran.out.contains("still fail"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_whose_agent_bends_the_tests_says_that_they_still_fail() {
    let Some(mut demo) = Demo::start(CODEX).await else { return };
    let (tool, arguments) = (CODEX.shell)("echo exit 0 > test.sh && sh test.sh");
    demo.turn().await.call(tool, arguments);
    demo.turn().await.say("The tests pass.");
    let turn = demo.turn().await;
    turn.assert_saw("+exit 0");
    turn.say("It bends the test.");
    let ran = demo.end();
    assert_eq!(ran.code, Some(9), "{ran:?}");
    assert!(ran.out.contains("It bends the test.") && ran.out.contains("still fail"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_ends_the_demo_with_its_agents_in_mid_turn() {
    let Some(mut demo) = Demo::start(CLAUDE).await else { return };
    let turn = demo.turn().await;
    demo.process.signal(Signal::INT);
    let ran = demo.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    drop(turn);
}

#[test]
fn a_demo_with_a_program_that_is_not_installed_says_how_to_install_it() {
    let world = World::new();
    let (mut command, place) = command(&world, "codex");
    command.env("PATH", "/usr/bin:/bin");
    let ran = Started::new(command).end();
    ran.failed(3, "the program `codex` is not there", "npm install -g @openai/codex");
    assert_eq!(ran.out, "", "nothing has begun");
    assert_eq!(left_in(&place), Vec::<String>::new());
}
