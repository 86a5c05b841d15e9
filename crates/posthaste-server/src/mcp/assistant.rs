//! The hub's own tools for assistants whose model the hub calls itself: the same tools, in
//! this process instead of over HTTP.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use posthaste_core::ports::{OwnAnswer, OwnCall, OwnTool, OwnTools, ToolSet};
use serde_json::value::RawValue;

use super::call::{self, Done};
use super::dialects::Dialect;
use super::tools::{Tool, ask_user, respond_to_user};
use crate::App;

/// Tools that an assistant has under other names, because they end or pause its turn.
const OF_THE_LOOP: [&str; 2] = [ask_user::TOOL.name, respond_to_user::TOOL.name];

pub(crate) struct ToolsOfHub(pub(crate) App);

fn tools(set: ToolSet) -> impl Iterator<Item = &'static Tool> {
    let dialect = match set {
        ToolSet::Native => Dialect::Native,
        ToolSet::Assistant => Dialect::Assistant,
    };
    dialect.tools().iter().filter(|tool| !OF_THE_LOOP.contains(&tool.name))
}

impl OwnTools for ToolsOfHub {
    fn list(&self, set: ToolSet) -> Vec<OwnTool> {
        let told = |tool: &Tool| OwnTool {
            name: tool.name.to_owned(),
            description: tool.description.to_owned(),
            schema: (tool.schema)().into(),
        };
        tools(set).map(told).collect()
    }

    fn call(&self, call: OwnCall) -> BoxFuture<'static, OwnAnswer> {
        let Some(tool) = tools(call.set).find(|tool| tool.name == call.name) else {
            let text = call::unknown(&call.name);
            return Box::pin(async move { OwnAnswer { text, is_error: true, handed: None } });
        };
        let ctx = call::open_for_assistant(&self.0, &call, tool.name);
        let arguments = RawValue::from_string(call.arguments).ok();
        let job = (tool.run)(ctx, arguments.as_deref());
        Box::pin(async move {
            let Done { blocks, is_error, handed } = job.await;
            let texts: Vec<&str> = blocks.iter().map(|block| &*block.text).collect();
            OwnAnswer { text: texts.join("\n"), is_error, handed }
        })
    }
}

/// Offers the tools to the hub's assistants, until the result is dropped.
pub(crate) fn offer(app: &App) -> Offered {
    app.hub.offer_tools(Some(Arc::new(ToolsOfHub(app.clone()))));
    Offered(Arc::clone(&app.hub))
}

/// Takes the tools back when it is dropped: the hub and the doors would hold each other.
pub(crate) struct Offered(Arc<posthaste_core::Hub>);

impl Drop for Offered {
    fn drop(&mut self) {
        self.0.offer_tools(None);
    }
}
