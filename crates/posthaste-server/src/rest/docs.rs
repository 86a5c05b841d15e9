//! `/docs` and `/openapi.json`: the interface, for people and for programs.

use std::sync::OnceLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

/// The page loads its own two files and the document, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /openapi.json`
pub(crate) async fn document() -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| {
        let document = posthaste_api::openapi::document(env!("CARGO_PKG_VERSION"));
        Bytes::from(document.to_string())
    });
    file("application/json", document.clone())
}

/// `GET /docs`
pub(crate) async fn page() -> Response {
    file("text/html; charset=utf-8", Bytes::from_static(include_bytes!("docs/page.html")))
}

/// `GET /docs/page.js`
pub(crate) async fn script() -> Response {
    file("text/javascript; charset=utf-8", Bytes::from_static(include_bytes!("docs/page.js")))
}

/// `GET /docs/page.css`
pub(crate) async fn style() -> Response {
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
