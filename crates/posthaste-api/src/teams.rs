//! `/v1/teams`: address scopes with leaders.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{InvalidAddress, NotFound};
use crate::openapi::{Who, call_table, get, json, of, put};

const TEAM: &str = "The team's name.";

call_table![
    LIST = get("/v1/teams", "All teams", Who::Anybody, &[json(200, "By name.", of::<Teams>)]),
    SHOW = get(
        "/v1/teams/{name}",
        "One team",
        Who::Anybody,
        &[json(200, "Its leaders and members.", of::<TeamView>)],
    )
    .part(TEAM)
    .fails(&[NotFound, InvalidAddress]),
    PUT = put(
        "/v1/teams/{name}",
        "Create a team, or name its leaders",
        Who::Operator,
        &[json(200, "As it is now.", of::<TeamView>)],
    )
    .part(TEAM)
    .body(of::<PutTeam>)
    .fails(&[InvalidAddress]),
];

/// `PUT /v1/teams/{name}` (operator)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutTeam {
    /// Instance ids, or agent names: such a name leads if the operator made its instance
    /// in this team. To make an agent that joined a leader, name its instance.
    #[serde(default)]
    pub leaders: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamView {
    /// The team's name.
    pub name: String,
    /// Instance ids and names, as they were given.
    pub leaders: Vec<String>,
    /// Addresses of those who are starting, running or lost.
    pub members: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Teams {
    /// By name.
    pub teams: Vec<TeamView>,
}
