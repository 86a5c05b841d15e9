//! The part that rmcp answers: the handshake of every era, the list of tools, and every
//! call that is not plainly right.

use std::sync::Arc;

use axum::http::request::Parts;
use parking_lot::Mutex;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::receive::Handed;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    InitializeRequestParams, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, SubscriptionFilter,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::LONGEST_REFUSAL;
use super::asker::Asker;
use super::call;
use super::dialects::Dialect;
use super::rpc::Params;
use super::tools::{INSTRUCTIONS, Tool, is_listed};
use crate::App;
use crate::bodies::Held;
use crate::extract::plain;

pub(crate) type Service = StreamableHttpService<Handler, NeverSessionManager>;

/// Makes rmcp's service without sessions, and without its checks of Host and Origin: the
/// hub's own checks stand before every route.
pub(crate) fn service(stop: CancellationToken) -> Service {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_cancellation_token(stop);
    StreamableHttpService::new(|| Ok(Handler), Arc::new(NeverSessionManager::default()), config)
}

/// Checks the parameters, because rmcp takes a method with unfit ones for an unknown
/// method.
pub(crate) fn params_fit(method: &str, params: &str) -> Result<(), String> {
    match method {
        "initialize" => fits::<InitializeRequestParams>(params),
        "tools/call" => fits::<CallToolRequestParams>(params),
        "tools/list" => fits::<PaginatedRequestParams>(params),
        _ => Ok(()),
    }
}

fn fits<T: DeserializeOwned>(params: &str) -> Result<(), String> {
    match serde_json::from_str::<T>(params) {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = format!("the params do not fit: {}", plain(&error.to_string()));
            Err(why.chars().take(LONGEST_REFUSAL).collect())
        }
    }
}

/// Holds the mail of a tool that rmcp called, for the front.
#[derive(Debug, Clone, Default)]
pub(crate) struct Left(Arc<Mutex<Option<Handed>>>);

impl Left {
    pub(crate) fn take(&self) -> Option<Handed> {
        self.0.lock().take()
    }
}

/// The front's knowledge of a request, for rmcp's handler.
#[derive(Clone)]
pub(crate) struct Front {
    app: App,
    dialect: Dialect,
    principal: Option<Principal>,
    calling: Option<Arc<Mutex<Option<UnansweredCall>>>>,
    left: Left,
    held: Held,
}

/// A call that rmcp may carry out.
struct UnansweredCall {
    who: Principal,
    asker: Asker,
    id: Box<RawValue>,
}

impl Front {
    pub(crate) fn new(app: &App, asker: &Asker, id: &RawValue, left: Left, held: Held) -> Self {
        let principal = asker.principal();
        let begun =
            principal.map(|who| UnansweredCall { who, asker: asker.clone(), id: id.to_owned() });
        Self {
            app: app.clone(),
            dialect: asker.dialect,
            principal,
            calling: begun.map(|begun| Arc::new(Mutex::new(Some(begun)))),
            left,
            held,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Handler;

fn front(context: &RequestContext<RoleServer>) -> Result<Front, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let front = parts.and_then(|parts| parts.extensions.get::<Front>()).cloned();
    front.ok_or_else(|| ErrorData::internal_error("the request has lost its caller", None))
}

impl ServerHandler for Handler {
    /// Announces that the tools may change. They never do, but a client that may hear of
    /// it keeps a stream open, and an open stream is a sign of life.
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let me = Implementation::new("posthaste", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(me).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let Front { app, dialect, principal, .. } = front(&context)?;
        let me = principal.and_then(Principal::instance).and_then(|id| app.hub.instance(id));
        let worker = me.is_some_and(|view| view.instance.work.is_some());
        let listed = dialect.tools().iter().filter(|tool| is_listed(tool, worker));
        let listed = listed.map(Tool::listed);
        let tools: Result<Vec<rmcp::model::Tool>, _> = listed.map(serde_json::from_value).collect();
        let tools = tools.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let front = front(&context)?;
        let Some(tool) = front.dialect.tool(&request.name) else {
            return Err(ErrorData::invalid_params(call::unknown(&request.name), None));
        };
        let begun = front.calling.as_ref().and_then(|calling| calling.lock().take());
        let Some(UnansweredCall { who, asker, id }) = begun else {
            return Err(ErrorData::internal_error("the request has lost its caller", None));
        };
        let arguments = request.arguments.map(|object| serde_json::value::to_raw_value(&object));
        let arguments =
            arguments.transpose().map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        let (params, share) = (Params::default(), front.held.take());
        let ctx = call::open(&front.app, who, &asker, &id, &params, tool.name, share);
        let job = (tool.run)(ctx, arguments.as_deref());
        // A call that waits keeps nothing of its request.
        drop(arguments);
        let done = tokio::select! {
            done = job => done,
            // The client has gone: dropping the job returns its leases.
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the client has gone away", None));
            }
        };
        *front.left.0.lock() = done.handed;
        let content: Vec<ContentBlock> =
            done.blocks.into_iter().map(|block| ContentBlock::text(block.text)).collect();
        let result = match done.is_error {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }

    /// Accepts subscriptions to changes of the tools, although the tools never change.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.tools_list_changed = requested.tools_list_changed;
        Some(accepted)
    }
}
