//! The hub itself.

use super::super::{Call, Who, of};
use super::{JSON, call, json, other};
use crate::error::ErrorCode::{Internal, Unauthorized};
use crate::health::{Health, Ready};
use crate::tokens::TokensRead;

pub(super) const CALLS: &[Call] = &[
    call(
        "GET",
        "/",
        "Leads to the page at /docs",
        Who::Nobody,
        &[other(307, "`Location` is /docs; the text says where to look.", "text/plain")],
    ),
    call(
        "GET",
        "/health",
        "Whether a hub is here",
        Who::Nobody,
        &[json(200, "A hub is here.", of::<Health>)],
    ),
    call(
        "GET",
        "/ready",
        "Whether the hub takes and hands out mail",
        Who::Nobody,
        &[json(200, "It does.", of::<Ready>)],
    ),
    // From elsewhere than this machine it needs the operator's token.
    call(
        "GET",
        "/metrics",
        "Figures for Prometheus; from another machine only with the operator's token",
        Who::Nobody,
        &[other(200, "Prometheus text format.", "text/plain")],
    )
    .fails(&[Unauthorized]),
    call(
        "POST",
        "/v1/tokens/reload",
        "Read the files of the operator's and the join token again: what stands there counts from now on, and the old ones no longer",
        Who::Operator,
        &[json(200, "Which of the two are new.", of::<TokensRead>)],
    )
    .fails(&[Internal]),
    call(
        "GET",
        "/openapi.json",
        "This document",
        Who::Nobody,
        &[other(200, "An OpenAPI document.", JSON)],
    ),
    call(
        "GET",
        "/docs",
        "This document as a page",
        Who::Nobody,
        &[other(200, "A page that loads nothing from elsewhere.", "text/html")],
    ),
];
