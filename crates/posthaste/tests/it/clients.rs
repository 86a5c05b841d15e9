//! Real agent programs against a real hub, with a model whose part the test plays.
//!
//! What they are is pinned in `scripts/agents`, and `scripts/test` installs it.

mod claude;
mod codex;
mod program;

use posthaste_testkit::model_server::ModelServer;

use crate::world::World;
use program::Program;

/// The programs talk to the model server as they talk to their provider.
async fn it_says_what_its_model_says(program: Program) {
    let Some(tools) = program::tools() else { return };
    let world = World::new();
    let mut model = ModelServer::start().await;
    let agent = program.start(&tools, &world, &model, None, "Say hello.");

    let turn = model.asked().await;
    assert!(turn.saw("Say hello."), "{}", turn.request);
    turn.say("hello from the script");

    let ran = agent.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("hello from the script"), "{ran:?}");
    assert!(model.is_idle(), "one turn, no more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_says_what_its_model_says() {
    it_says_what_its_model_says(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_says_what_its_model_says() {
    it_says_what_its_model_says(Program::Codex).await;
}
