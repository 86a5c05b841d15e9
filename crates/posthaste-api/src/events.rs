//! `GET /v1/events`: what happens, as server-sent events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::messages::{DeliveryView, MessageView};

/// `GET /v1/events`; each field is a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventsQuery {
    /// `agent:{id}`, `team:{name}`, `session:{id}` (or `session:human`), `thread:{id}`,
    /// separated by commas: one must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<String>,
    /// Types or their families, separated by commas: `delivery.dead`, `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<String>,
    /// Begin after this number instead of now; `Last-Event-ID` beats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Begin with the last so many that fit, 0 to 1000. Not together with `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

/// One event; `id:` is its number and `event:` its type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    pub no: u64,
    /// `message.accepted`, `delivery.acked`, `delivery.dead`, `delivery.returned`,
    /// `delivery.requeued`, `instance.joined`, `instance.ended`, `instance.lost`,
    /// `team.changed`, `profile.changed`.
    #[serde(rename = "type")]
    pub kind: String,
    pub at: String,
    /// The number of the message that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// That message as it is now; absent once it was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<MessageView>>,
    /// The delivery that it is about, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<EventInstance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The profile that was created, changed or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// The instance that an event is about, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventInstance {
    pub instance: String,
    /// Absent once the instance was forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// `event: reset`: what came after the given number is not kept any more, or the
/// number was never given. Events go on from `oldest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reset {
    pub oldest: u64,
    pub last: u64,
}
