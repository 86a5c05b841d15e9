//! The owner of a join key: the instance that joined with it and knows its secret.
//!
//! A key can be guessed, a secret cannot. Several instances may have joined with one key,
//! one after the other and each with a secret of its own, so an instance that takes a key
//! while its owner is away takes nothing from the owner.

use super::Ledger;
use crate::address::{InstanceId, Name};
use crate::registry::{Instance, JoinKey, RegistryError};
use crate::time::Timestamp;

impl Ledger {
    /// Returns the instance that joined with this key and secret and has not ended.
    pub fn keyed(&self, agent: &Name, team: &Name, key: &JoinKey) -> Option<InstanceId> {
        let mut same = self.with_key(agent, team, &key.key);
        same.find(|i| i.secret == Some(key.secret)).map(|i| i.id)
    }

    /// Returns the instance that a join with this key resumes. `None`: the join makes a
    /// new instance.
    pub(super) fn owner_of_key(
        &self,
        agent: &Name,
        team: &Name,
        key: &JoinKey,
        now: Timestamp,
    ) -> Result<Option<&Instance>, RegistryError> {
        let same = || self.with_key(agent, team, &key.key);
        if let Some(owner) = same().find(|i| i.secret == Some(key.secret)) {
            return Ok(Some(owner));
        }
        // Right after a start no instance has shown up yet, and an instance without a
        // secret could not tell its owner from a stranger later.
        let seen = |i: &Instance| now.since(i.last_seen) < self.limits.away_after;
        if same().any(|i| self.is_living(i) || i.secret.is_none() && seen(i)) {
            return Err(RegistryError::Taken(agent.to_string()));
        }
        // This instance joined before keys had secrets: the first that asks for it is its
        // owner.
        Ok(same().find(|i| i.secret.is_none()))
    }

    /// Returns the instances with this key that have not ended, the latest first.
    fn with_key(&self, agent: &Name, team: &Name, key: &str) -> impl Iterator<Item = &Instance> {
        let known = (agent.clone(), team.clone(), key.to_owned());
        let ids = self.joined.get(&known).into_iter().flatten().rev();
        ids.filter_map(|id| self.instances.get(id)).filter(|i| !i.status.has_ended())
    }

    pub(super) fn index_key(&mut self, instance: &Instance) {
        let Some(key) = &instance.key else { return };
        let known = (instance.agent.clone(), instance.team.clone(), key.clone());
        let ids = self.joined.entry(known).or_default();
        if !ids.contains(&instance.id) {
            ids.push(instance.id);
        }
    }

    pub(super) fn unindex_key(&mut self, instance: &Instance) {
        let Some(key) = &instance.key else { return };
        let known = (instance.agent.clone(), instance.team.clone(), key.clone());
        if let Some(ids) = self.joined.get_mut(&known) {
            ids.retain(|id| *id != instance.id);
            if ids.is_empty() {
                self.joined.remove(&known);
            }
        }
    }
}
