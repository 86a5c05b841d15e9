//! Routes from the table of calls: each is documented, and no path is written twice.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use posthaste_api::openapi::{Call, Method};

use crate::App;

/// A router that takes its routes from the table of calls.
pub(crate) trait Routes {
    /// Lets this handler answer this call.
    fn on<H, T>(self, call: &Call, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static;
}

impl Routes for Router<App> {
    fn on<H, T>(self, call: &Call, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let method = match call.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        self.route(call.path, on(method, handler))
    }
}
