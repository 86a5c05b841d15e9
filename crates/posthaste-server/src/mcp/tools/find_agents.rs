//! `find_agents`: lists the agents that can be assigned, and those that are active.

use posthaste_api::error::ApiError;
use posthaste_core::ports::Way;
use posthaste_core::registry::{InstanceFilter, InstanceView, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};
use crate::words::params::within;

pub(crate) const TOOL: Tool = Tool {
    name: "find_agents",
    description: "Posthaste: find agents by a few words, or all: who can be assigned, who is active.",
    schema: schema::of::<Args>,
    reads: true,
    waits: false,
    run,
};

const LIMIT: u32 = 10;
const MOST: u32 = 50;
/// Most addresses that are named for each agent.
const NAMED: usize = 5;
/// Characters around the list, and of the notice of waiting mail beside it.
const AROUND: usize = 700;
/// The most characters of an agent's description.
const WORDS: usize = 160;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    query: Option<String>,
    /// default 10
    #[serde(default)]
    limit: Option<u32>,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => find(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

#[derive(Debug, Serialize)]
struct Found {
    agents: Vec<Agent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Debug, Serialize)]
struct Agent {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// True if assign and handoff work: the hub starts a worker, or a running instance
    /// takes the task.
    can_assign: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    active: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    more_active: usize,
    /// Instances that are known and not connected: their mail waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    away: Vec<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn addresses(of: &[&InstanceView]) -> Vec<String> {
    of.iter().take(NAMED).map(|view| view.instance.address.to_string()).collect()
}

async fn find(ctx: &Ctx, args: Args) -> Result<Found, ApiError> {
    let hub = &ctx.app.hub;
    let limit = within("limit", args.limit.unwrap_or(LIMIT), 1..=MOST)?;
    let query = args.query.filter(|words| !words.trim().is_empty());
    let (profiles, total) = match query.clone() {
        Some(words) => {
            let found = hub.search_profiles(words, limit).await?;
            let total = found.len();
            (found, total)
        }
        None => {
            let page = hub.profiles(1, limit).await?;
            (page.items, usize::try_from(page.total).unwrap_or(usize::MAX))
        }
    };
    let mut agents: Vec<Agent> = profiles
        .into_iter()
        .map(|profile| {
            let template = profile.template.clone();
            let filter = InstanceFilter {
                agent: Some(template.name.clone()),
                statuses: vec![Status::Starting, Status::Running, Status::Away],
                limit: usize::MAX,
                ..InstanceFilter::default()
            };
            let here = hub.instances(&filter);
            let others = |view: &InstanceView| {
                let i = &view.instance;
                i.work.is_none() && i.status != Status::Starting && Some(i.id) != ctx.me.instance()
            };
            let is_away = |view: &&InstanceView| view.instance.status == Status::Away;
            let (away, active): (Vec<&InstanceView>, Vec<_>) = here.iter().partition(is_away);
            let can_assign = match hub.way_of(profile) {
                Ok(Way::Started { .. }) => true,
                Ok(Way::ByItself) => here.iter().any(others),
                Err(_) => false,
            };
            Agent {
                can_assign,
                name: template.name.to_string(),
                description: template.description.chars().take(WORDS).collect(),
                active: addresses(&active),
                more_active: active.len().saturating_sub(NAMED),
                away: addresses(&away),
            }
        })
        .collect();
    // The best agents stand first and are kept.
    agents.reverse();
    let fit = text::last_that_fit(&agents, ctx.client.chars.saturating_sub(AROUND));
    agents.drain(..agents.len() - fit);
    agents.reverse();
    let note = match (agents.len(), query) {
        (0, Some(_)) => Some("nobody fits these words: try others, or none".to_owned()),
        (0, None) => Some("nobody is known here yet".to_owned()),
        (shown, _) if shown < total => {
            Some(format!("{shown} of {total}: a query finds the fitting ones"))
        }
        _ => None,
    };
    Ok(Found { agents, note })
}
