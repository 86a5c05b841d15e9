//! Who is here: `/v1/instances` and `/v1/join`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{Conflict, IdentityTaken, InvalidAddress, NotFound};
use crate::openapi::{Who, call_table, delete, get, json, of, post};
use crate::work::AssignmentView;

pub(crate) const INSTANCE: &str =
    "The instance: 8 hex digits, with or without `inst-` before them.";

call_table![
    JOIN = post(
        "/v1/join",
        "Join as an agent; the same instance for the same key and secret",
        Who::Joiner,
        &[json(201, "Here, or back again, with a token of its own.", of::<Joined>)],
    )
    .body(of::<JoinRequest>)
    .fails(&[IdentityTaken, InvalidAddress]),
    CREATE = post(
        "/v1/instances",
        "Create an instance",
        Who::Operator,
        &[json(201, "Created; the token is shown this once.", of::<Joined>)],
    )
    .body(of::<CreateInstance>)
    .fails(&[NotFound, InvalidAddress]),
    LIST = get(
        "/v1/instances",
        "Who is here",
        Who::Anybody,
        &[json(200, "A page of instances.", of::<Instances>)],
    )
    .query(of::<InstancesQuery>)
    .fails(&[InvalidAddress]),
    SHOW = get(
        "/v1/instances/{id}",
        "One instance",
        Who::Anybody,
        &[json(200, "As it is now.", of::<InstanceView>)],
    )
    .part(INSTANCE)
    .fails(&[NotFound, InvalidAddress]),
    STOP = delete(
        "/v1/instances/{id}",
        "Stop an instance and everybody below it: itself, those above it, its team's leaders, the operator",
        Who::Anybody,
        &[json(200, "As it is now; a process that was asked may still run.", of::<Stopped>)],
    )
    .part(INSTANCE)
    .fails(&[NotFound, Conflict, InvalidAddress]),
    PRUNE = post(
        "/v1/instances/prune",
        "Forget everybody who is away or lost and has neither mail nor open work",
        Who::Operator,
        &[json(200, "Who was forgotten. No mail is removed.", of::<Pruned>)],
    ),
    STOP_ALL = post(
        "/v1/stop",
        "Stop every worker that was started for the operator, and everybody below",
        Who::Operator,
        &[json(200, "Asked to end, or ended.", of::<StoppedAll>)],
    ),
];

/// `POST /v1/instances` (operator)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateInstance {
    /// Its name: a profile's, or a new one.
    pub agent: String,
    /// Its team; default `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// A word to tell it from others of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The instance that this one works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `external` (default) or `mechanical`: never gets `@anyone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// `POST /v1/join` (join token): the same instance for the same key and secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The agent's name: a profile's, or a new one.
    pub agent: String,
    /// Its team; default `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// What stays the same when the same conversation comes back.
    pub key: String,
    /// What proves that it is the same: the secret that the first join answered with. A
    /// join that makes an instance may bring a secret of its own; else the hub makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// 201: the instance and its token. The same key and secret give the same token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// The instance: 8 hex digits.
    pub instance: String,
    /// Its whole address, like `bob.3fa76470@main`.
    pub address: String,
    /// Its team.
    pub team: String,
    /// Its own thread.
    pub thread_id: String,
    /// Its token, for `Authorization: Bearer`.
    pub token: String,
    /// The key and its secret were known: this instance was here before.
    #[serde(default)]
    pub resumed: bool,
    /// The secret of the key, told once, when it became the instance's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceView {
    /// The instance: 8 hex digits.
    pub instance: String,
    /// Its whole address, like `bob.3fa76470@main`.
    pub address: String,
    /// Its name.
    pub agent: String,
    /// Its team.
    pub team: String,
    /// `external`, or `mechanical`, which never gets `@anyone`.
    pub kind: String,
    /// Who made it: `operator`, `join` (it came by itself) or `assigned` (the worker of
    /// an agent).
    #[serde(default)]
    pub origin: String,
    /// `starting`, `running`, `away` (in place of `running` while nothing of it is
    /// connected), `lost`, `finished`, `failed` or `stopped`.
    pub status: String,
    /// `waiting_inbox`, `waiting_user`, `busy` (a worker), `quiet` (a worker that has neither
    /// written nor called for `agents.quiet`), `idle` (a worker that has reported) or
    /// `unknown`.
    pub activity: String,
    /// The key that it joined with: its conversation. Only the operator is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The instance that it works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its own thread.
    pub thread_id: String,
    /// Unproved mail that only this instance could take: in its own mailbox, and in those
    /// of its name and of anyone while nobody else is alive who could.
    pub unread: usize,
    /// Mail to its name or to anyone that other living instances could take as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread_shared: usize,
    /// When it came.
    pub created_at: String,
    /// Its last sign of life.
    pub last_seen: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Where a worker works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// The branch of its own worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Seconds that a worker may run, as its assignment or its profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// When its process began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// The exit code of a worker's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it ended, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who stands at the top of a worker's tree: an instance that came by itself, or
    /// `human`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What the model of a built-in assistant has used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageView>,
    /// What the models of the workers that it started have used, and of theirs, those that
    /// have ended included. Told of one instance, not in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_of_workers: Option<UsageView>,
    /// What it was given to do; what is settled is forgotten in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignments: Vec<AssignmentView>,
}

/// What models have used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// How many answers they gave.
    pub calls: u64,
    /// Tokens that they read, cached ones included.
    pub input_tokens: u64,
    /// Tokens that they wrote.
    pub output_tokens: u64,
    /// What that cost by the prices in the configuration; 0 without prices.
    pub cost_usd: f64,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// `DELETE /v1/instances/{id}`: the instance as it is now. A process that was asked to
/// end may still be running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopped {
    #[serde(flatten)]
    pub instance: InstanceView,
    /// How many were ended or asked to: itself, and everybody below it.
    pub stopped: usize,
}

/// `POST /v1/stop` (operator)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoppedAll {
    /// How many workers were ended or asked to.
    pub stopped: usize,
}

/// `POST /v1/instances/prune` (operator): who was away or lost and had neither mail nor
/// open work. Nobody can write to them any more, and their history stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pruned {
    /// Who was forgotten.
    pub forgotten: Vec<Forgotten>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// The instance.
    pub instance: String,
    /// Its address.
    pub address: String,
    /// Its last sign of life.
    pub last_seen: String,
}

/// `GET /v1/instances`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InstancesQuery {
    /// Only of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only of this team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Only the children of this instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Only those whose tree this instance, or `human`, is at the top of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A status, or `active` (starting, running), or `all`; by default all who have not
    /// ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// 1 to 1000, default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// From a former answer: the page after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instances {
    /// By id.
    pub instances: Vec<InstanceView>,
    /// Give it back as `cursor` for the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
