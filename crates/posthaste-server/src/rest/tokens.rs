//! `/v1/tokens`: the two tokens that are not an agent's.

use axum::Router;
use axum::extract::State;
use posthaste_api::tokens::{self as wire, TokensRead};

use crate::App;
use crate::auth::Operator;
use crate::extract::Json;
use crate::failure::Failure;
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::RELOAD, reload)
}

/// `POST /v1/tokens/reload`
async fn reload(State(app): State<App>, _: Operator) -> Result<Json<TokensRead>, Failure> {
    let changed = app.keys.reload()?.into_iter().map(str::to_owned).collect();
    Ok(Json(TokensRead { changed }))
}
