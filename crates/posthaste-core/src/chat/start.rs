//! Starting an agent to talk to.

use std::sync::Arc;

use serde_json::json;

use super::partner::several;
use super::say::{Letter, has_words};
use super::{ChatError, Said};
use crate::Hub;
use crate::address::{Address, Name};
use crate::messaging::message::{Details, Draft, DraftError, Principal, Via};
use crate::messaging::send::SendError;
use crate::orchestration::{AssignError, OpenWorker};
use crate::ports::{Job, Way};
use crate::registry::{Instance, InstanceFilter, Terms, Work};

/// The state that makes repeated calls one.
#[derive(Default)]
pub(crate) struct Chats {
    /// Lets one conversation start at a time.
    starting: tokio::sync::Mutex<()>,
    /// Lets one verdict with a key be given at a time: a call that is repeated while the
    /// first one is under way finds its key.
    pub(super) judging: tokio::sync::Mutex<()>,
}

/// A request for an agent to talk to.
#[derive(Debug, Clone)]
pub struct StartChat {
    pub agent: Name,
    pub team: Option<Name>,
    pub label: Option<String>,
    /// An absolute path.
    pub directory: Option<String>,
    pub message: Option<String>,
    pub idempotency_key: Option<String>,
    pub via: Via,
}

/// A conversation that has begun.
#[derive(Debug)]
pub struct Started {
    pub instance: Instance,
    pub said: Option<Said>,
    /// The key was accepted before, for this agent.
    pub duplicate: bool,
}

impl Hub {
    /// Starts an agent that stays for further messages, and sends it the first one. An
    /// agent that comes by itself is talked to if exactly one is here.
    pub async fn start_chat(self: &Arc<Self>, start: StartChat) -> Result<Started, ChatError> {
        self.check_start(&start)?;
        let _one_at_a_time = self.chats.starting.lock().await;
        let record = record_of(start.idempotency_key.as_deref());
        let known = start.idempotency_key.as_ref().and_then(|_| self.started_as(&record));
        let duplicate = known.is_some();
        let instance = match known {
            Some(known) if known.agent != start.agent => {
                let address = known.address.to_string();
                return Err(ChatError::KeyOfAnother { address });
            }
            Some(known) => known,
            None => self.partner_for(&start, record).await?,
        };
        let said = match start.message {
            Some(text) => {
                let letter = Letter { text, key: start.idempotency_key, via: start.via };
                Some(Said::sent(self.tell_agent(instance.id, letter).await?))
            }
            None => None,
        };
        Ok(Started { instance, said, duplicate })
    }

    /// Refuses what the agent's first message or its row could not hold, before anything
    /// is started.
    fn check_start(&self, start: &StartChat) -> Result<(), ChatError> {
        let details = Details {
            label: start.label.clone(),
            idempotency_key: start.idempotency_key.clone(),
            ..Details::default()
        };
        start.message.as_deref().map_or(Ok(()), has_words)?;
        let text = start.message.clone().unwrap_or_else(|| "-".to_owned());
        let from = Principal::Operator;
        let checked =
            Draft::new(from, Address::Human, text.into(), details, start.via, &self.limits);
        Ok(checked.map(drop)?)
    }

    /// Returns the agent that was started with this record.
    fn started_as(&self, record: &str) -> Option<Instance> {
        let all = InstanceFilter { limit: usize::MAX, ..InstanceFilter::default() };
        let mut all = self.instances(&all).into_iter().map(|view| view.instance);
        all.find(|i| i.work.as_deref().and_then(Work::record) == Some(record))
    }

    async fn partner_for(
        self: &Arc<Self>,
        start: &StartChat,
        record: String,
    ) -> Result<Instance, ChatError> {
        let profile = self.engine.profile(start.agent.clone()).await?;
        let job = profile.map(|profile| Job {
            profile,
            directory: start.directory.clone().map(Into::into),
            worktree: None,
            task: false,
        });
        let launcher = &self.staff().map_err(AssignError::from)?.launcher;
        if let Some(Ok(Way::ByItself)) = job.map(|job| launcher.check(&job)) {
            let mut here = self.living(start.agent.clone(), start.team.clone());
            return match here.len() {
                0 => Err(AssignError::NobodyHere { name: start.agent.to_string() }.into()),
                1 => Ok(here.remove(0).instance),
                _ => Err(several(start.agent.as_str(), &here)),
            };
        }
        let open = OpenWorker {
            by: Principal::Operator,
            agent: start.agent.clone(),
            team: start.team.clone(),
            label: start.label.clone(),
            directory: start.directory.clone(),
            worktree: None,
            terms: Terms { record: Some(record), ..Terms::default() },
        };
        Ok(self.open_worker(open).await?)
    }
}

/// Makes the record of an agent that was started for a conversation.
fn record_of(key: Option<&str>) -> String {
    match key {
        Some(key) => json!({ "door": "chat", "key": key }).to_string(),
        None => json!({ "door": "chat" }).to_string(),
    }
}

impl From<DraftError> for ChatError {
    fn from(error: DraftError) -> Self {
        SendError::from(error).into()
    }
}
