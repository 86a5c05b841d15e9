//! `/v1/teams`.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::error::ErrorCode::{InvalidAddress, NotFound};
use crate::teams::{PutTeam, TeamView, Teams};

const TEAM: &str = "The team's name.";

pub(super) const CALLS: &[Call] = &[
    call("GET", "/v1/teams", "All teams", Who::Anybody, &[json(200, "By name.", of::<Teams>)]),
    call(
        "GET",
        "/v1/teams/{name}",
        "One team",
        Who::Anybody,
        &[json(200, "Its leaders and members.", of::<TeamView>)],
    )
    .part(TEAM)
    .fails(&[NotFound, InvalidAddress]),
    call(
        "PUT",
        "/v1/teams/{name}",
        "Create a team, or name its leaders",
        Who::Operator,
        &[json(200, "As it is now.", of::<TeamView>)],
    )
    .part(TEAM)
    .body(of::<PutTeam>)
    .fails(&[InvalidAddress]),
];
