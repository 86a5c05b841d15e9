//! CAO's `assign` and `handoff`, with its answers.

use std::time::Duration;

use posthaste_api::error::ApiError;
use posthaste_api::work::AssignRequest;
use posthaste_core::orchestration as core;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::mcp::call::{Ctx, HandoffResult, Job, done, done_beside, text as json};
use crate::mcp::text;
use crate::mcp::tools::assign::{assign as give, wish};
use crate::words::params::seconds;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Assign {
    /// The agent profile for the worker
    agent_profile: String,
    /// The task, with whom to send the results to
    message: String,
    #[serde(default)]
    working_directory: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Handoff {
    /// The agent profile to hand off to
    agent_profile: String,
    message: String,
    /// Max seconds to wait, default 600
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    working_directory: Option<String>,
}

#[derive(Debug, Serialize)]
struct Given {
    success: bool,
    terminal_id: Option<String>,
    message: String,
}

#[derive(Debug, Serialize)]
struct HandedOff {
    success: bool,
    message: String,
    output: Option<String>,
    terminal_id: Option<String>,
}

fn why(error: &ApiError) -> String {
    match &error.hint {
        Some(hint) => format!("{}: {hint}", error.message),
        None => error.message.clone(),
    }
}

fn not_given(error: &ApiError) -> String {
    let message = format!("Assignment failed: {}", why(error));
    json(&Given { success: false, terminal_id: None, message }).unwrap_or_default()
}

fn not_handed_off(error: &ApiError) -> String {
    let message = format!("Handoff failed: {}", why(error));
    let failed = HandedOff { success: false, message, output: None, terminal_id: None };
    json(&failed).unwrap_or_default()
}

pub(super) fn assign(ctx: Ctx, args: Option<&RawValue>) -> Job {
    let args = text::arguments::<Assign>(args);
    Box::pin(async move {
        let given = match args {
            Ok(Assign { agent_profile, message, working_directory }) => {
                give(&ctx, request(agent_profile, message, working_directory)).await
            }
            Err(error) => Err(error),
        };
        let told = given.map(|core::Assigned { instance, .. }| Given {
            success: true,
            terminal_id: Some(instance.id.to_string()),
            message: format!("Task assigned to {} (terminal: {})", instance.agent, instance.id),
        });
        ctx.reply_as(told, not_given).await
    })
}

fn request(agent: String, message: String, working_directory: Option<String>) -> AssignRequest {
    AssignRequest { agent, message, working_directory, ..AssignRequest::default() }
}

pub(super) fn handoff(ctx: Ctx, args: Option<&RawValue>) -> Job {
    let asked = text::arguments::<Handoff>(args).and_then(|args| asked(&ctx, args));
    Box::pin(async move {
        let (assign, timeout) = match asked {
            Ok(asked) => asked,
            Err(error) => return ctx.reply_as::<()>(Err(error), not_handed_off).await,
        };
        match ctx.handoff(assign, timeout).await {
            HandoffResult::Report { assigned, report, batch, .. } => {
                let agent = &assigned.instance.agent;
                let (success, mut message) = match report.failed() {
                    true => (false, format!("{agent} failed")),
                    false => (true, format!("{agent} has finished")),
                };
                if report.clip.is_some() {
                    let all = report.message.seq;
                    message.push_str(&format!("; its output is cut, message {all} has all"));
                }
                let output = Some(report.text().to_owned());
                let terminal_id = Some(assigned.instance.id.to_string());
                match json(&HandedOff { success, message, output, terminal_id }) {
                    Ok(told) => done_beside(told, batch),
                    Err(error) => done(not_handed_off(&error), true, None),
                }
            }
            // This is no failure: a model that reads one would start the same work again.
            HandoffResult::Job { ctx, assigned, .. } => {
                let agent = &assigned.instance.agent;
                let message =
                    format!("{agent} still works; its output comes by check_inbox when it is done");
                let terminal_id = Some(assigned.instance.id.to_string());
                let told = HandedOff { success: true, message, output: None, terminal_id };
                ctx.reply_as(Ok(told), not_handed_off).await
            }
            HandoffResult::Refused { ctx, error } => {
                ctx.reply_as::<()>(Err(error), not_handed_off).await
            }
            HandoffResult::Failed(error) => done(not_handed_off(&error), true, None),
        }
    })
}

fn asked(ctx: &Ctx, args: Handoff) -> Result<(core::Assign, Duration), ApiError> {
    let most = ctx.app.hub.limits().wait;
    let timeout = seconds("timeout", args.timeout, 600.0, most)?;
    let Handoff { agent_profile, message, working_directory, .. } = args;
    Ok((wish(ctx, request(agent_profile, message, working_directory))?, timeout))
}
