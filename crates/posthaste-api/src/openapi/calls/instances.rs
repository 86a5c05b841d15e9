//! `/v1/join`, `/v1/instances` and `/v1/stop`.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::error::ErrorCode::{Conflict, IdentityTaken, Internal, InvalidAddress, NotFound};
use crate::instances::{
    CreateInstance, InstanceView, Instances, InstancesQuery, JoinRequest, Joined, Pruned, Stopped,
    StoppedAll,
};
use crate::work::{OutputQuery, OutputView};

const INSTANCE: &str = "The instance: 8 hex digits, with or without `inst-` before them.";

pub(super) const CALLS: &[Call] = &[
    call(
        "POST",
        "/v1/join",
        "Join as an agent; the same instance for the same key and secret",
        Who::Joiner,
        &[json(201, "Here, or back again, with a token of its own.", of::<Joined>)],
    )
    .body(of::<JoinRequest>)
    .fails(&[IdentityTaken, InvalidAddress]),
    call(
        "POST",
        "/v1/instances",
        "Create an instance",
        Who::Operator,
        &[json(201, "Created; the token is shown this once.", of::<Joined>)],
    )
    .body(of::<CreateInstance>)
    .fails(&[NotFound, InvalidAddress]),
    call(
        "GET",
        "/v1/instances",
        "Who is here",
        Who::Anybody,
        &[json(200, "A page of instances.", of::<Instances>)],
    )
    .query(of::<InstancesQuery>)
    .fails(&[InvalidAddress]),
    call(
        "GET",
        "/v1/instances/{id}",
        "One instance",
        Who::Anybody,
        &[json(200, "As it is now.", of::<InstanceView>)],
    )
    .part(INSTANCE)
    .fails(&[NotFound, InvalidAddress]),
    call(
        "DELETE",
        "/v1/instances/{id}",
        "Stop an instance and everybody below it: itself, those above it, its team's leaders, the operator",
        Who::Anybody,
        &[json(200, "As it is now; a process that was asked may still run.", of::<Stopped>)],
    )
    .part(INSTANCE)
    .fails(&[NotFound, Conflict, InvalidAddress]),
    call(
        "GET",
        "/v1/instances/{id}/output",
        "What a worker wrote; for those above it and the operator",
        Who::Anybody,
        &[json(200, "A stretch of it, and where the next begins.", of::<OutputView>)],
    )
    .part(INSTANCE)
    .query(of::<OutputQuery>)
    .fails(&[NotFound, InvalidAddress, Internal]),
    call(
        "POST",
        "/v1/instances/prune",
        "Forget everybody who is away or lost and has neither mail nor open work",
        Who::Operator,
        &[json(200, "Who was forgotten. No mail is removed.", of::<Pruned>)],
    ),
    call(
        "POST",
        "/v1/stop",
        "Stop every worker that was started for the operator, and everybody below",
        Who::Operator,
        &[json(200, "Asked to end, or ended.", of::<StoppedAll>)],
    ),
];
