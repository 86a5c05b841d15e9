//! `/docs` and `/openapi.json`: the interface, for people and for programs.

use std::sync::OnceLock;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use posthaste_api::pages;

use crate::App;
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&pages::ROOT, root)
        .on(&pages::DOCUMENT, document)
        .on(&pages::PAGE, page)
        .route("/docs/", get(root))
        .route("/docs/page.js", get(script))
        .route("/docs/page.css", get(style))
}

/// The page loads its own two files and the document, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /` and `GET /docs/`: lead people who type the address to the docs.
async fn root() -> Response {
    let told = concat!(
        "Posthaste ",
        env!("CARGO_PKG_VERSION"),
        ": the calls of this hub are described at /docs and in /openapi.json.\n"
    );
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/docs")], told).into_response()
}

/// `GET /openapi.json`
async fn document(State(app): State<App>) -> Response {
    // One document without CAO's routes, and one with them.
    static DOCUMENTS: [OnceLock<Bytes>; 2] = [OnceLock::new(), OnceLock::new()];
    let document = DOCUMENTS[usize::from(app.cao)].get_or_init(|| {
        let document = posthaste_api::openapi::document(env!("CARGO_PKG_VERSION"), app.cao);
        Bytes::from(document.to_string())
    });
    file("application/json", document.clone())
}

/// `GET /docs`
async fn page() -> Response {
    file("text/html; charset=utf-8", Bytes::from_static(include_bytes!("docs/page.html")))
}

/// `GET /docs/page.js`
async fn script() -> Response {
    file("text/javascript; charset=utf-8", Bytes::from_static(include_bytes!("docs/page.js")))
}

/// `GET /docs/page.css`
async fn style() -> Response {
    file("text/css; charset=utf-8", Bytes::from_static(include_bytes!("docs/page.css")))
}

fn file(kind: &'static str, body: Bytes) -> Response {
    let head = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        // A newer hub has a newer page.
        (CACHE_CONTROL, "no-cache"),
    ];
    (head, body).into_response()
}
