//! `posthaste demo --with`: a real job for a real program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::model_server::{Asked, ModelServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::stage::Stage;
use super::{acp, claude, codex};
use crate::clients::{self, home, shut_in, tools};
use crate::world::{Ran, Started, World};

const MENDED: &str = "if [ $(($1 % 400)) -eq 0 ] || \
    { [ $(($1 % 4)) -eq 0 ] && [ $(($1 % 100)) -ne 0 ]; }; then\n";
const FAULT: &str = "if [ $(($1 % 4)) -eq 0 ]; then\n";

/// Makes the program at this path, from where the programs are.
type Link = fn(tools: &Path, path: &Path);

/// Lets the program find its model.
type Surround = fn(&mut Command, &str, &Path);

/// The demo of a user who has this program.
struct Demo {
    world: World,
    model: ModelServer,
    place: PathBuf,
    process: Started,
}

impl Demo {
    async fn start(name: &str, link: Link, surround: Surround) -> Option<Self> {
        let tools = tools()?;
        let world = World::new();
        let model = ModelServer::start().await;
        let (mut command, place) = command(&world, name);
        let bin = world.scratch().join("bin");
        fs::create_dir(&bin).expect("a folder");
        link(&tools, &bin.join(name));
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        surround(&mut command, model.url(), &home(&world));
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

fn to(program: &Path, path: &Path) {
    symlink(program, path).expect("a link");
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
    ] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_of_claude_code_mend_and_review_a_fault_in_the_demo() {
    let Some(mut demo) = Demo::start(
        "claude",
        |tools, path| to(&clients::claude_binary(tools), path),
        claude::CAST.surround,
    )
    .await
    else {
        return;
    };
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
    let Some(mut demo) = Demo::start(
        "codex",
        |tools, path| to(&clients::codex_binary(tools), path),
        codex::CAST.surround,
    )
    .await
    else {
        return;
    };
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
    let link: Link = |tools, path| to(&clients::opencode_binary(tools), path);
    let Some(demo) = Demo::start("opencode", link, acp::OPENCODE.surround).await else { return };
    let shell = ("bash", json!({ "command": "sh test.sh", "description": "test" }));
    let write = ("write", json!({ "filePath": "leap.sh", "content": whole() }));
    asks_for_its_shell(demo, shell, write).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_of_gemini_cli_mend_and_review_a_fault_in_the_demo() {
    let link: Link = |tools, path| {
        let (node, script) = (acp::node(tools), clients::gemini_script(tools));
        let text = format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", node.display(), script.display());
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
    };
    let Some(demo) = Demo::start("gemini", link, acp::GEMINI.surround).await else { return };
    let shell = ("run_shell_command", json!({ "command": "sh test.sh" }));
    let write = ("write_file", json!({ "file_path": "leap.sh", "content": whole() }));
    asks_for_its_shell(demo, shell, write).await;
}

/// A program that asks for each command of its shell: the demo decides for nobody, and
/// the program goes on without.
async fn asks_for_its_shell(mut demo: Demo, shell: (&str, Value), write: (&str, Value)) {
    let turn = demo.turn().await;
    turn.assert_saw("`sh test.sh` fails");
    turn.assert_saw("You implement one change");
    turn.call(shell.0, shell.1);
    demo.turn().await.call(write.0, write.1);
    demo.turn().await.say("The centuries are right now.");

    let turn = demo.turn().await;
    turn.assert_saw("You review changes.");
    turn.assert_saw("+if [ $(($1 % 400)) -eq 0 ]");
    turn.say("I found no fault.");
    let ran = demo.end();
    assert_told(&ran);
    assert!(ran.out.contains("the demo denies it"), "{ran:?}");
}

/// The script as it should be.
fn whole() -> String {
    format!("{MENDED}  echo yes\nelse\n  echo no\nfi\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_ends_the_demo_with_its_agents_in_mid_turn() {
    let Some(mut demo) = Demo::start(
        "claude",
        |tools, path| to(&clients::claude_binary(tools), path),
        claude::CAST.surround,
    )
    .await
    else {
        return;
    };
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
