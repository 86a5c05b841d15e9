//! Reading requests: bounded in size and time, with errors that say what is wrong.

use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use posthaste_api::error::{ApiError, ErrorCode};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::App;
use crate::failure::Failure;

/// The whole body, no larger and no slower than allowed.
pub(crate) async fn whole_body(request: Request, app: &App) -> Result<Bytes, Failure> {
    let limit = app.config.request_bytes;
    let body = Limited::new(request.into_body(), limit);
    let collected = tokio::time::timeout(app.config.body_timeout, body.collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the request is larger than {limit} bytes");
            let error = ApiError::new(ErrorCode::TooLarge, message)
                .hint("send less, or raise server.request_bytes")
                .details(serde_json::json!({ "limit": limit, "key": "server.request_bytes" }));
            Err(Failure(error))
        }
        Ok(Err(error)) => {
            Err(ApiError::new(ErrorCode::BadRequest, format!("the body broke off: {error}")).into())
        }
        Err(_) => Err(ApiError::new(ErrorCode::RequestTimeout, "the body came too slowly").into()),
    }
}

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        parse(&whole_body(request, app).await?).map(Self)
    }
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        let (code, what) = match error.classify() {
            Category::Data => (ErrorCode::InvalidArgument, "the request does not fit"),
            Category::Syntax | Category::Eof | Category::Io => {
                (ErrorCode::BadRequest, "the body is not valid JSON")
            }
        };
        Failure(ApiError::new(code, format!("{what}: {error}")))
    })
}

/// Query parameters.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => {
                let message = format!("the query does not fit: {}", error.body_text());
                Err(ApiError::new(ErrorCode::InvalidArgument, message).into())
            }
        }
    }
}
