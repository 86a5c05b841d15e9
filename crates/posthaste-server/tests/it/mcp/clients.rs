//! rmcp's own client, in both eras: somebody else's idea of the protocol.

use posthaste_api::instances::Joined;
use rmcp::model::{CallToolRequestParams, ClientRequest, Implementation, ProtocolVersion, Request};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};

use crate::house::{House, send, within};

#[derive(Debug, Clone, Default)]
struct Quiet;

impl ClientHandler for Quiet {
    fn get_info(&self) -> rmcp::model::ClientConfig {
        rmcp::model::ClientConfig::new(Default::default(), Implementation::new("rmcp-test", "1"))
    }
}

type Connected = RunningService<RoleClient, Quiet>;

async fn connect(house: &House, joined: &Joined, mode: ClientLifecycleMode) -> Connected {
    let config =
        StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", house.address))
            .auth_header(joined.token.clone());
    let transport = StreamableHttpClientTransport::from_config(config);
    within("the handshake", Quiet.serve_with_lifecycle(transport, mode)).await.expect("connected")
}

fn modes() -> [ClientLifecycleMode; 3] {
    let newest = || vec![ProtocolVersion::V_2026_07_28];
    [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover { preferred_versions: newest() },
        ClientLifecycleMode::Auto { preferred_versions: newest(), legacy_version: None },
    ]
}

fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("an object") };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

async fn text_of(client: &Connected, params: CallToolRequestParams) -> Value {
    let result = within("a tool", client.call_tool(params)).await.expect("a result");
    let result = serde_json::to_value(&result).expect("JSON");
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    serde_json::from_str(text).expect("JSON in text")
}

#[tokio::test]
async fn rmcps_client_gets_its_mail_in_every_mode() {
    for mode in modes() {
        let house = House::new().await;
        let (bob, _) = house.agent("bob").await;
        let client = connect(&house, &bob, mode.clone()).await;
        let tools = client.list_all_tools().await.expect("tools");
        assert_eq!(tools.len(), 9, "{mode:?}");
        let who = text_of(&client, call("whoami", json!({}))).await;
        assert_eq!(who["instance"], json!(bob.instance));

        let peer = client.peer().clone();
        let waiting = tokio::spawn(async move {
            peer.call_tool(call("check_inbox", json!({ "timeout": 30 }))).await
        });
        house.waits(&bob.instance).await;
        send(&house.operator(), &bob.instance, "hello").await;
        let told = within("mail", waiting).await.expect("no panic").expect("a result");
        let told = serde_json::to_value(&told).expect("JSON");
        let inbox: Value = serde_json::from_str(told["content"][0]["text"].as_str().expect("text"))
            .expect("JSON in text");
        assert_eq!(inbox["messages"][0]["message"], "hello", "{mode:?}");

        let wrong = client.call_tool(call("no_such_tool", json!({}))).await;
        assert!(wrong.is_err(), "a protocol error: {wrong:?}");
        client.cancel().await.expect("ended");
    }
}

#[tokio::test]
async fn rmcps_client_may_cancel_a_wait_and_loses_nothing() {
    for mode in modes() {
        let house = House::new().await;
        let (bob, _) = house.agent("bob").await;
        let client = connect(&house, &bob, mode.clone()).await;
        let params = call("check_inbox", json!({ "timeout": 60 }));
        let request = ClientRequest::CallToolRequest(Request::new(params));
        let running = client
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .expect("sent");
        house.waits(&bob.instance).await;
        running.cancel(Some("enough".into())).await.expect("cancelled");
        house.waits_no_more(&bob.instance).await;

        let sent = send(&house.operator(), &bob.instance, "still there?").await;
        let inbox = text_of(&client, call("check_inbox", json!({ "timeout": 5 }))).await;
        assert_eq!(inbox["messages"][0]["id"], sent.seq, "{mode:?}: {inbox}");
        assert!(inbox["messages"][0]["redelivered"].is_null());
        client.cancel().await.expect("ended");
    }
}
