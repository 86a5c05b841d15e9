//! The port to the hub's own tools, for agents whose model the hub calls itself.
//!
//! The doors implement it, so that such an agent has the same tools, with the same words,
//! as an agent that connects over MCP.

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::address::InstanceId;
use crate::messaging::receive::Handed;

/// A set of the hub's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSet {
    /// The native tools of every agent.
    Native,
    /// The tools of the built-in service `assistant` (seed 001).
    Assistant,
}

/// A tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnTool {
    pub name: String,
    pub description: String,
    /// A JSON schema.
    pub schema: Value,
}

/// The call of a tool.
#[derive(Debug, Clone)]
pub struct OwnCall {
    pub who: InstanceId,
    pub set: ToolSet,
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
    /// Names the call: a call that is repeated under the same key sends nothing twice.
    pub key: String,
    /// Number of characters that the answer may have.
    pub chars: usize,
}

/// The answer of a tool.
#[derive(Debug)]
pub struct OwnAnswer {
    pub text: String,
    pub is_error: bool,
    /// The hand-over of the mail in the answer.
    pub handed: Option<Handed>,
}

/// The hub's own tools.
pub trait OwnTools: Send + Sync {
    fn list(&self, set: ToolSet) -> Vec<OwnTool>;

    /// Calls a tool; its answer carries no other mail than the tool itself returns.
    fn call(&self, call: OwnCall) -> BoxFuture<'static, OwnAnswer>;
}
