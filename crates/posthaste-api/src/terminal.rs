//! `GET /v1/instances/{id}/terminal`: where a person attaches to a worker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{InvalidAddress, NotFound};
use crate::instances::INSTANCE;
use crate::openapi::{Who, call_table, get, json, of};

call_table![
    TERMINAL = get(
        "/v1/instances/{id}/terminal",
        "The terminal of a worker, to attach to; for those above it and the operator",
        Who::Anybody,
        &[json(200, "The pane of tmux in which it runs.", of::<TerminalView>)],
    )
    .part(INSTANCE)
    .fails(&[NotFound, InvalidAddress]),
];

/// The terminal of a running worker: a pane of tmux on the hub's machine, which the hub's
/// user can attach to with `tmux -S SOCKET attach-session -t PANE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalView {
    /// The path of the tmux server's socket.
    pub socket: String,
    /// tmux's own name of the session: `$` and a number.
    pub session: String,
    /// tmux's own name of the pane: `%` and a number.
    pub pane: String,
}
