//! `/v1/profiles`.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::error::ErrorCode::{Conflict, InvalidAddress, NotFound};
use crate::profiles::{
    FoundProfiles, ProfileErrors, ProfileInput, ProfileSearch, ProfileView, Profiles,
    ProfilesQuery, RemovedProfile,
};

const PROFILE: &str = "The profile's name.";

pub(super) const CALLS: &[Call] = &[
    call(
        "GET",
        "/v1/profiles",
        "Who could be here",
        Who::Anybody,
        &[json(200, "A page, without the prompts.", of::<Profiles>)],
    )
    .query(of::<ProfilesQuery>),
    call(
        "POST",
        "/v1/profiles",
        "Create a profile",
        Who::Operator,
        &[json(201, "Created.", of::<ProfileView>)],
    )
    .body(of::<ProfileInput>)
    .fails(&[Conflict, InvalidAddress]),
    call(
        "GET",
        "/v1/profiles/search",
        "Find profiles by words, best first",
        Who::Anybody,
        &[json(200, "Maybe none.", of::<FoundProfiles>)],
    )
    .query(of::<ProfileSearch>),
    call(
        "GET",
        "/v1/profiles/errors",
        "Profile files that could not be read",
        Who::Anybody,
        &[json(200, "With file, line and what is wrong.", of::<ProfileErrors>)],
    ),
    call(
        "GET",
        "/v1/profiles/{name}",
        "One profile, whole",
        Who::Anybody,
        &[json(200, "As it is now; its `ETag` is its version.", of::<ProfileView>)],
    )
    .part(PROFILE)
    .fails(&[NotFound, InvalidAddress]),
    call(
        "PUT",
        "/v1/profiles/{name}",
        "Replace a profile, or create it",
        Who::Operator,
        &[json(200, "Replaced.", of::<ProfileView>), json(201, "Created.", of::<ProfileView>)],
    )
    .part(PROFILE)
    .body(of::<ProfileInput>)
    .fails(&[NotFound, Conflict, InvalidAddress]),
    call(
        "DELETE",
        "/v1/profiles/{name}",
        "Remove a profile that nobody uses",
        Who::Operator,
        &[json(200, "Removed; mail that waits for its name stays.", of::<RemovedProfile>)],
    )
    .part(PROFILE)
    .fails(&[NotFound, Conflict, InvalidAddress]),
];
