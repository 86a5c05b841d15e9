//! `/v1/hooks`.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::error::ErrorCode::{IdentityTaken, InvalidAddress, NotFound};
use crate::hooks::{HookAnswer, HookRequest};

pub(super) const CALLS: &[Call] = &[call(
    "POST",
    "/v1/hooks/{event}",
    "A hook of an agent's program fired: what its model should see",
    Who::Anybody,
    &[json(200, "What to show, and whether to go on.", of::<HookAnswer>)],
)
.part("`session_start`, `prompt`, `before_tool`, `tool` or `stop`.")
.body(of::<HookRequest>)
// The caller may say by headers who it is, and joins by it.
.fails(&[NotFound, IdentityTaken, InvalidAddress])];
