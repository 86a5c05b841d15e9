//! `/v1/tokens`: the two tokens that are not an agent's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::Internal;
use crate::openapi::{Who, call_table, json, of, post};

call_table![
    RELOAD = post(
        "/v1/tokens/reload",
        "Read the files of the operator's and the join token again: what stands there counts from now on, and the old ones no longer",
        Who::Operator,
        &[json(200, "Which of the two are new.", of::<TokensRead>)],
    )
    .fails(&[Internal]),
];

/// `POST /v1/tokens/reload`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokensRead {
    /// Which of the two are new since the hub last read them: `operator`, `join`.
    pub changed: Vec<String>,
}
