//! The keys of a profile, as the real programs take them.

use std::path::Path;

use serde_json::{Value, json};

use super::acp::node;
use super::stage::Stage;
use super::{Cast, acp, claude, codex};

/// An MCP server with one tool.
const BRICKS: &str = r"
const tool = { name: 'lay_brick', description: 'lays a brick', inputSchema: { type: 'object' } };
require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const hello = { capabilities: { tools: {} }, serverInfo: { name: 'bricks', version: '1' } };
  const result = method === 'initialize' ? { ...hello, protocolVersion: params.protocolVersion }
    : method === 'tools/list' ? { tools: [tool] }
    : { content: [{ type: 'text', text: 'laid' }] };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
});
";

/// Adds a model and a server to the keys of a profile.
fn with(mut config: Value, tools: &Path, model: &str) -> Value {
    config["model"] = json!(model);
    let bricks = json!({ "command": node(tools), "args": ["-e", BRICKS] });
    config["mcp_config"] = json!({ "mcpServers": { "bricks": bricks } });
    config
}

/// The model of the profile is asked, and told of the tool of the profile's server.
async fn reach_the_program(cast: Cast, model: &str) {
    let Some(mut stage) = Stage::set(cast).await else { return };
    stage.assign("Lay a brick.");
    let turn = stage.turn().await;
    assert_eq!(turn.request()["model"], model, "{turn:?}");
    // Claude Code only names it, until the model looks for it.
    turn.assert_saw("lay_brick");
    turn.say("It is laid.");
    assert_eq!(stage.alice_reads()["message"], "It is laid.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_and_the_servers_of_a_profile_reach_claude() {
    let config = |tools: &Path| with((claude::CAST.config)(tools), tools, "claude-granite-1");
    reach_the_program(Cast { config, ..claude::CAST }, "claude-granite-1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_and_the_servers_of_a_profile_reach_codex() {
    let config = |tools: &Path| with((codex::CAST.config)(tools), tools, "granite");
    reach_the_program(Cast { config, ..codex::CAST }, "granite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_and_the_servers_of_a_profile_reach_a_program_over_acp() {
    let config = |tools: &Path| with((acp::OPENCODE.config)(tools), tools, "scripted/granite");
    reach_the_program(Cast { config, ..acp::OPENCODE }, "granite").await;
}
