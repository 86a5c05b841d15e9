//! Calls without wire types: pages for people, and figures for Prometheus.

use crate::error::ErrorCode::Unauthorized;
use crate::openapi::{Who, call_table, get, text};

call_table![
    ROOT = get(
        "/",
        "Leads to the page at /docs",
        Who::Nobody,
        &[text(307, "`Location` is /docs; the text says where to look.", "text/plain")],
    ),
    // From elsewhere than this machine it needs the operator's token.
    METRICS = get(
        "/metrics",
        "Figures for Prometheus; from another machine only with the operator's token",
        Who::Nobody,
        &[text(200, "Prometheus text format.", "text/plain")],
    )
    .fails(&[Unauthorized]),
    DOCUMENT = get(
        "/openapi.json",
        "This document",
        Who::Nobody,
        &[text(200, "An OpenAPI document.", "application/json")],
    ),
    PAGE = get(
        "/docs",
        "This document as a page",
        Who::Nobody,
        &[text(200, "A page that loads nothing from elsewhere.", "text/html")],
    ),
];
