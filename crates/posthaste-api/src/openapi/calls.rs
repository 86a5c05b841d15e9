//! The table of calls.

use super::{Answer, Call, Shape, Who, of};
use crate::events::{EventView, EventsQuery};
use crate::health::{Health, Ready};
use crate::hooks::{HookAnswer, HookRequest};
use crate::inbox::{Acked, Inbox, InboxQuery, Returned, SettleRequest};
use crate::instances::{
    CreateInstance, InstanceView, Instances, InstancesQuery, JoinRequest, Joined, Pruned, Stopped,
    StoppedAll,
};
use crate::messages::{
    ExportQuery, History, HistoryQuery, MessageView, ReadQuery, Receipt, SendMany, SendRequest,
};
use crate::profiles::{
    FoundProfiles, ProfileErrors, ProfileInput, ProfileSearch, ProfileView, Profiles,
    ProfilesQuery, RemovedProfile,
};
use crate::stats::{AgentsStats, MailboxStats, Stuck, TeamsStats};
use crate::teams::{PutTeam, TeamView, Teams};
use crate::threads::{ThreadMessages, ThreadQuery};
use crate::tokens::TokensRead;
use crate::trail::TrailView;
use crate::work::{
    AssignRequest, Assigned, ContextView, HandedOff, HandoffRequest, OutputQuery, OutputView,
};

const JSON: &str = "application/json";

const fn call(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    who: Who,
    answers: &'static [Answer],
) -> Call {
    Call { method, path, summary, who, query: None, body: None, answers }
}

impl Call {
    const fn query(mut self, shape: Shape) -> Self {
        self.query = Some(shape);
        self
    }

    const fn body(mut self, shape: Shape) -> Self {
        self.body = Some(shape);
        self
    }
}

const fn json(status: u16, what: &'static str, shape: Shape) -> Answer {
    Answer { status, what, media: JSON, shape: Some(shape) }
}

const fn other(status: u16, what: &'static str, media: &'static str) -> Answer {
    Answer { status, what, media, shape: None }
}

/// Every call under `/v1`, and the few beside it.
pub fn calls() -> &'static [Call] {
    CALLS
}

const CALLS: &[Call] = &[
    call(
        "GET",
        "/health",
        "Whether a hub is here",
        Who::Nobody,
        &[json(200, "A hub is here.", of::<Health>)],
    ),
    call(
        "GET",
        "/openapi.json",
        "This document",
        Who::Nobody,
        &[other(200, "An OpenAPI document.", JSON)],
    ),
    call(
        "GET",
        "/docs",
        "This document as a page",
        Who::Nobody,
        &[other(200, "A page that loads nothing from elsewhere.", "text/html")],
    ),
    call(
        "POST",
        "/v1/join",
        "Join as an agent; the same instance for the same key",
        Who::Joiner,
        &[
            json(201, "Here, with a token of its own.", of::<Joined>),
            json(200, "Back again, with a new token.", of::<Joined>),
        ],
    )
    .body(of::<JoinRequest>),
    call(
        "POST",
        "/v1/instances",
        "Create an instance",
        Who::Operator,
        &[json(201, "Created; the token is shown this once.", of::<Joined>)],
    )
    .body(of::<CreateInstance>),
    call(
        "GET",
        "/v1/instances",
        "Who is here",
        Who::Anybody,
        &[json(200, "A page of instances.", of::<Instances>)],
    )
    .query(of::<InstancesQuery>),
    call(
        "GET",
        "/v1/instances/{id}",
        "One instance",
        Who::Anybody,
        &[json(200, "As it is now.", of::<InstanceView>)],
    ),
    call(
        "DELETE",
        "/v1/instances/{id}",
        "Stop an instance and everybody below it: itself, those above it, its team's leaders, the operator",
        Who::Anybody,
        &[json(200, "As it is now; a process that was asked may still run.", of::<Stopped>)],
    ),
    call(
        "GET",
        "/v1/instances/{id}/output",
        "What a worker wrote; for those above it and the operator",
        Who::Anybody,
        &[json(200, "A stretch of it, and where the next begins.", of::<OutputView>)],
    )
    .query(of::<OutputQuery>),
    call(
        "POST",
        "/v1/instances/prune",
        "Forget everybody who is away or lost and has neither mail nor open work",
        Who::Operator,
        &[json(200, "Who was forgotten. No mail is removed.", of::<Pruned>)],
    ),
    call(
        "POST",
        "/v1/stop",
        "Stop every worker that was started for the operator, and everybody below",
        Who::Operator,
        &[json(200, "Asked to end, or ended.", of::<StoppedAll>)],
    ),
    call(
        "POST",
        "/v1/assign",
        "Give an agent work and go on; its report comes by mail",
        Who::Anybody,
        &[json(201, "Who has the work.", of::<Assigned>)],
    )
    .body(of::<AssignRequest>),
    call(
        "POST",
        "/v1/handoff",
        "Give an agent work and wait for its report; a job if that takes longer",
        Who::Anybody,
        &[json(200, "The report, leased until its receipt comes back; or a job.", of::<HandedOff>)],
    )
    .body(of::<HandoffRequest>),
    call(
        "GET",
        "/v1/context",
        "Who works for the caller, and what waits: as a prompt and as data",
        Who::Anybody,
        &[json(200, "As it is now.", of::<ContextView>)],
    ),
    call("GET", "/v1/teams", "All teams", Who::Anybody, &[json(200, "By name.", of::<Teams>)]),
    call(
        "GET",
        "/v1/teams/{name}",
        "One team",
        Who::Anybody,
        &[json(200, "Its leaders and members.", of::<TeamView>)],
    ),
    call(
        "PUT",
        "/v1/teams/{name}",
        "Create a team, or name its leaders",
        Who::Operator,
        &[json(200, "As it is now.", of::<TeamView>)],
    )
    .body(of::<PutTeam>),
    call(
        "POST",
        "/v1/messages",
        "Send a message",
        Who::Anybody,
        &[
            json(201, "Accepted: it is on disk.", of::<Receipt>),
            json(207, "One answer for each address of a list, in order.", of::<SendMany>),
        ],
    )
    .body(of::<SendRequest>),
    call(
        "GET",
        "/v1/messages",
        "History; never consumes",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<History>)],
    )
    .query(of::<HistoryQuery>),
    call(
        "GET",
        "/v1/messages/{id}",
        "One message, by number or id",
        Who::Anybody,
        &[json(200, "With where each delivery stands.", of::<MessageView>)],
    )
    .query(of::<ReadQuery>),
    call(
        "POST",
        "/v1/messages/{id}/cancel",
        "Take back what nobody has read",
        Who::Anybody,
        &[json(200, "As it is now.", of::<MessageView>)],
    ),
    call(
        "POST",
        "/v1/messages/{id}/requeue",
        "Give the dead another chance",
        Who::Anybody,
        &[json(200, "As it is now.", of::<MessageView>)],
    ),
    call(
        "GET",
        "/v1/inbox",
        "Wait for mail; leases it until its receipt comes back",
        Who::Anybody,
        &[json(200, "What arrived, and what is still missing.", of::<Inbox<'static>>)],
    )
    .query(of::<InboxQuery>),
    call(
        "POST",
        "/v1/inbox/ack",
        "Prove that mail arrived",
        Who::Anybody,
        &[json(200, "Settled.", of::<Acked>)],
    )
    .body(of::<SettleRequest>),
    call(
        "POST",
        "/v1/hooks/{event}",
        "A hook of an agent's client fired (session_start, prompt, before_tool, tool, stop): what its model should see",
        Who::Anybody,
        &[json(200, "What to show, and whether to go on.", of::<HookAnswer>)],
    )
    .body(of::<HookRequest>),
    call(
        "POST",
        "/v1/inbox/nack",
        "Refuse mail: it comes again, and dies the fifth time",
        Who::Anybody,
        &[json(200, "Returned.", of::<Returned>)],
    )
    .body(of::<SettleRequest>),
    call(
        "GET",
        "/v1/events",
        "Follow what happens, as server-sent events",
        Who::Anybody,
        &[Answer {
            status: 200,
            what: "A stream; each event's data has this shape. `Last-Event-ID` goes on after it.",
            media: "text/event-stream",
            shape: Some(of::<EventView>),
        }],
    )
    .query(of::<EventsQuery>),
    call(
        "GET",
        "/ready",
        "Whether the hub takes and hands out mail",
        Who::Nobody,
        &[json(200, "It does.", of::<Ready>)],
    ),
    call(
        "GET",
        "/metrics",
        "Figures for Prometheus",
        Who::Nobody,
        &[other(200, "Prometheus text format.", "text/plain")],
    ),
    call(
        "GET",
        "/v1/messages/{id}/trail",
        "What happened to a message, and why",
        Who::Anybody,
        &[json(200, "In order of time, with a verdict.", of::<TrailView>)],
    ),
    call(
        "GET",
        "/v1/threads/{id}/messages",
        "Read a conversation, and mark it as read on request",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<ThreadMessages>)],
    )
    .query(of::<ThreadQuery>),
    call(
        "POST",
        "/v1/tokens/reload",
        "Read the files of the operator's and the join token again: what stands there counts from now on, and the old ones no longer",
        Who::Operator,
        &[json(200, "Which of the two are new.", of::<TokensRead>)],
    ),
    call(
        "GET",
        "/v1/export",
        "Every message with its deliveries, as lines of JSON",
        Who::Operator,
        &[Answer {
            status: 200,
            what: "Each line has this shape.",
            media: "application/x-ndjson",
            shape: Some(of::<MessageView>),
        }],
    )
    .query(of::<ExportQuery>),
    call(
        "GET",
        "/v1/stats/mailboxes",
        "What lies in the mailboxes",
        Who::Anybody,
        &[json(200, "One entry for each mailbox.", of::<Vec<MailboxStats>>)],
    ),
    call(
        "GET",
        "/v1/stats/agents",
        "Figures by agent",
        Who::Anybody,
        &[json(200, "One entry for each agent.", of::<AgentsStats>)],
    ),
    call(
        "GET",
        "/v1/stats/teams",
        "Figures by team",
        Who::Anybody,
        &[json(200, "One entry for each team.", of::<TeamsStats>)],
    ),
    call(
        "GET",
        "/v1/stats/stuck",
        "Mail that does not move, why, and what to do",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<Vec<Stuck>>)],
    ),
    call(
        "GET",
        "/v1/profiles",
        "Who could be here",
        Who::Anybody,
        &[json(200, "A page, without the prompts.", of::<Profiles>)],
    )
    .query(of::<ProfilesQuery>),
    call(
        "POST",
        "/v1/profiles",
        "Create a profile",
        Who::Operator,
        &[json(201, "Created.", of::<ProfileView>)],
    )
    .body(of::<ProfileInput>),
    call(
        "GET",
        "/v1/profiles/search",
        "Find profiles by words, best first",
        Who::Anybody,
        &[json(200, "Maybe none.", of::<FoundProfiles>)],
    )
    .query(of::<ProfileSearch>),
    call(
        "GET",
        "/v1/profiles/errors",
        "Profile files that could not be read",
        Who::Anybody,
        &[json(200, "With file, line and what is wrong.", of::<ProfileErrors>)],
    ),
    call(
        "GET",
        "/v1/profiles/{name}",
        "One profile, whole",
        Who::Anybody,
        &[json(200, "As it is now.", of::<ProfileView>)],
    ),
    call(
        "PUT",
        "/v1/profiles/{name}",
        "Replace a profile, or create it",
        Who::Operator,
        &[json(200, "Replaced.", of::<ProfileView>), json(201, "Created.", of::<ProfileView>)],
    )
    .body(of::<ProfileInput>),
    call(
        "DELETE",
        "/v1/profiles/{name}",
        "Remove a profile that nobody uses",
        Who::Operator,
        &[json(200, "Removed; mail that waits for its name stays.", of::<RemovedProfile>)],
    ),
];
