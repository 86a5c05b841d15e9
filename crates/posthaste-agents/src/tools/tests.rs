use std::time::Duration;

use serde_json::json;

use super::*;

fn toolbox(limits: &RunnerConfig, directory: PathBuf) -> Toolbox {
    let manners = Manners { umask: 0o022, open_files: None };
    // Nothing is started here.
    let tools = Tools::new(limits, "/nowhere/keeper".into(), manners, "http://127.0.0.1:9889");
    tools.toolbox(ToolboxSpec {
        services: vec![workspace::NAME.to_owned()],
        servers: Map::new(),
        directory,
        environment: Environment::default(),
        user: None,
        hub: HubFiles::default(),
    })
}

#[tokio::test]
async fn a_call_of_the_workspace_ends_with_the_time_of_a_call() {
    let scratch = tempfile::tempdir().expect("a folder");
    for number in 0..32 {
        // Much to read, and nothing on the disk.
        let file = std::fs::File::create(scratch.path().join(number.to_string())).expect("made");
        file.set_len(8 << 20).expect("grown");
    }
    let limits = RunnerConfig { tool_timeout: Duration::from_millis(1), ..RunnerConfig::default() };
    let toolbox = toolbox(&limits, scratch.path().to_owned());
    let Value::Object(arguments) = json!({ "query": "needle" }) else { panic!("an object") };
    let reply = toolbox.call("builtin_workspace__search", arguments).await;
    assert!(reply.is_error, "{reply:?}");
    let text = format!("{reply:?}");
    assert!(text.contains("longer than 1ms (runner.tool_timeout)"), "{text}");
}
