//! The one form of every error answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthaste_api::error::{ApiError, ErrorBody, ErrorCode};

use crate::words::params::wrong;

/// The detail that names the methods of a path.
const ALLOWED: &str = "allow";

/// An error answer: `{"error": {code, message, hint, details?}}`.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) ApiError);

impl<E: Into<ApiError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let code = self.0.code;
        let retry = match code {
            ErrorCode::Unavailable => Some(1),
            ErrorCode::RateLimited => self.0.details.as_ref().and_then(|details| {
                details["retry_after_s"].as_f64().map(|seconds| seconds.ceil() as u64)
            }),
            _ => None,
        };
        let mut error = self.0;
        error.hint.get_or_insert_with(|| code.advice().to_owned());
        let allowed = error.details.as_ref().and_then(|details| details[ALLOWED].as_str());
        let allowed = allowed.and_then(|methods| HeaderValue::from_str(methods).ok());
        let mut response = (status, Json(ErrorBody { error })).into_response();
        // The meters read it from there.
        response.extensions_mut().insert(code);
        if let Some(seconds) = retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(methods) = allowed {
            response.headers_mut().insert(header::ALLOW, methods);
        }
        response
    }
}

/// Makes the error of an answer that has no JSON form.
pub(crate) fn unwritable(error: serde_json::Error) -> Failure {
    Failure(ApiError::new(ErrorCode::Internal, format!("the answer cannot be written: {error}")))
}

/// Makes the error of a field that is missing, unknown or out of range.
pub(crate) fn invalid(field: &'static str, why: impl Into<String>) -> Failure {
    Failure(wrong(field, why))
}

/// Makes the error of a path outside the router that takes these methods only.
pub(crate) fn takes_only(path: &str, methods: &str) -> Failure {
    let error = ApiError::new(ErrorCode::MethodNotAllowed, format!("{path} takes {methods}"));
    Failure(error.details(serde_json::json!({ ALLOWED: methods })))
}

pub(crate) fn not_found(what: &str) -> Failure {
    Failure(ApiError::new(ErrorCode::NotFound, format!("no such {what}")))
}
