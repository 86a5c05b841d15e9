//! `/v1/tokens`: the two tokens that are not an agent's.

use axum::Json as Answer;
use axum::extract::State;
use posthaste_api::tokens::TokensRead;

use crate::App;
use crate::auth::Operator;
use crate::failure::Failure;

/// `POST /v1/tokens/reload`
pub(crate) async fn reload(
    State(app): State<App>,
    _: Operator,
) -> Result<Answer<TokensRead>, Failure> {
    let changed = app.keys.reload()?.into_iter().map(str::to_owned).collect();
    Ok(Answer(TokensRead { changed }))
}
