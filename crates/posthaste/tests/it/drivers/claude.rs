//! Claude Code, driven by streams of JSON.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Cast;
use crate::clients;

pub(super) const CAST: Cast = Cast {
    driver: "claude",
    config,
    surround,
    dangerous: || ("Bash", json!({ "command": "touch made", "description": "make a file" })),
    denied: "denied",
    steers: true,
};

fn config(tools: &Path) -> Value {
    json!({ "command": [clients::claude_binary(tools)] })
}

pub(super) fn surround(command: &mut Command, model: &str, _: &Path) {
    command
        .env("ANTHROPIC_BASE_URL", model)
        .env("ANTHROPIC_API_KEY", "test-key")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("DISABLE_AUTOUPDATER", "1");
}
