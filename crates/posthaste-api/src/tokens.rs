//! `/v1/tokens`: the two tokens that are not an agent's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/tokens/reload`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokensRead {
    /// Which of the two are new since the hub last read them: `operator`, `join`.
    pub changed: Vec<String>,
}
