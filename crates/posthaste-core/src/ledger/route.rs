//! Resolving an address to mailboxes at the moment of the send.

use std::sync::Arc;

use super::Ledger;
use crate::address::{Address, InstanceId, Mailbox, Name};
use crate::messaging::message::{Draft, Principal, SenderKind};
use crate::messaging::send::SendError;
use crate::registry::{Relation, nearest};

impl Ledger {
    /// Returns the mailboxes that a draft is for. Within a thread the name of an instance
    /// that talks there names that instance; anywhere else it names the name's own
    /// mailbox.
    pub(super) fn route(&self, draft: &Draft) -> Result<Vec<Mailbox>, SendError> {
        let (from, to) = (draft.from, &draft.to);
        let named = self.mailboxes_of(from, to)?;
        match self.meant_in_thread(draft, &named) {
            Some(instance) => self.exact(from, to, None, instance, None),
            None => Ok(named),
        }
    }

    /// Returns the mailboxes that `to` names now. Unknown names are errors with the
    /// nearest names; one-of mail may wait for an instance that comes later.
    fn mailboxes_of(&self, from: Principal, to: &Address) -> Result<Vec<Mailbox>, SendError> {
        if let Address::Named { team: Some(team), .. }
        | Address::Anyone { team: Some(team) }
        | Address::Everyone { team: Some(team) } = to
        {
            self.known_team(to, team)?;
        }
        match to {
            Address::Human if from == Principal::Operator => Err(SendError::SelfSend),
            Address::Human => Ok(vec![Mailbox::Human]),
            Address::Exact { name, instance, team } => {
                self.exact(from, to, name.as_ref(), *instance, team.as_ref())
            }
            Address::Named { name, team } => {
                if !self.profiles.contains_key(name) {
                    let known = self.profiles.keys().map(Name::as_str);
                    return Err(SendError::NoRecipient {
                        to: to.to_string(),
                        why: format!("no agent is called `{name}`"),
                        nearest: nearest(name.as_str(), known),
                    });
                }
                Ok(vec![match team {
                    Some(team) => Mailbox::NameIn(name.clone(), team.clone()),
                    None => Mailbox::Name(name.clone()),
                }])
            }
            Address::Anyone { team: None } => Ok(vec![Mailbox::Anyone]),
            Address::Anyone { team: Some(team) } => Ok(vec![Mailbox::AnyoneIn(team.clone())]),
            Address::Everyone { team } => {
                let all: Vec<Mailbox> = self
                    .instances
                    .values()
                    .filter(|i| self.is_living(i) && team.as_ref().is_none_or(|t| i.team == *t))
                    .filter(|i| from != Principal::Instance(i.id))
                    .map(|i| Mailbox::Instance(i.id))
                    .collect();
                if all.is_empty() {
                    return Err(SendError::NoRecipient {
                        to: to.to_string(),
                        why: "nobody else is active there right now".into(),
                        nearest: Vec::new(),
                    });
                }
                Ok(all)
            }
        }
    }

    fn known_team(&self, to: &Address, team: &Name) -> Result<(), SendError> {
        if self.teams.contains_key(team) {
            return Ok(());
        }
        Err(SendError::NoRecipient {
            to: to.to_string(),
            why: format!("no team is called `{team}`"),
            nearest: nearest(team.as_str(), self.teams.keys().map(Name::as_str)),
        })
    }

    /// Refuses an exact address of which a given part does not match.
    fn exact(
        &self,
        from: Principal,
        to: &Address,
        name: Option<&Name>,
        id: InstanceId,
        team: Option<&Name>,
    ) -> Result<Vec<Mailbox>, SendError> {
        let nobody =
            |why: String, nearest| Err(SendError::NoRecipient { to: to.to_string(), why, nearest });
        let Some(instance) = self.instances.get(&id) else {
            let wanted = id.to_string();
            let active = self.instances.values().filter(|i| !i.status.has_ended());
            let known: Vec<String> = active.map(|i| i.id.to_string()).collect();
            let near = nearest(&wanted, known.iter().map(String::as_str));
            return nobody(format!("no instance has the id `{id}`"), near);
        };
        if name.is_some_and(|n| *n != instance.agent) || team.is_some_and(|t| *t != instance.team) {
            let actual = instance.address.to_string();
            return nobody(format!("`{id}` is {actual}"), vec![actual]);
        }
        if from == Principal::Instance(id) {
            return Err(SendError::SelfSend);
        }
        if instance.status.has_ended() {
            return Err(SendError::RecipientGone { address: instance.address.to_string() });
        }
        Ok(vec![Mailbox::Instance(id)])
    }

    /// Returns the mailboxes that a reader has keys to, its own first. An ended instance
    /// has none: mail that its calls took now would never be acked.
    pub fn keys_of(&self, reader: Principal) -> Arc<[Mailbox]> {
        let keys = match reader {
            Principal::Operator => return Arc::clone(&self.operator_keys),
            Principal::Instance(id) => {
                let alive = self.instances.get(&id).filter(|i| !i.status.has_ended());
                alive.map(|i| Arc::clone(&i.keys))
            }
        };
        keys.unwrap_or_default()
    }

    pub fn relation(
        &self,
        reader: Principal,
        sender: Option<InstanceId>,
        kind: SenderKind,
    ) -> Relation {
        match kind {
            SenderKind::Human => return Relation::Human,
            SenderKind::System => return Relation::System,
            SenderKind::Agent => {}
        }
        let of = |id: InstanceId| self.instances.get(&id);
        let them = sender.and_then(of);
        if let (Principal::Operator, Some(them)) = (reader, them)
            && them.parent.is_none()
            && them.work.is_some()
        {
            return Relation::Child;
        }
        let (Some(me), Some(them)) = (reader.instance().and_then(of), them) else {
            return Relation::Peer;
        };
        if me.parent == Some(them.id) {
            Relation::Parent
        } else if them.parent == Some(me.id) {
            Relation::Child
        } else if me.parent.is_some() && me.parent == them.parent {
            Relation::Sibling
        } else if self.is_led_by(&me.team, them) {
            Relation::Leader
        } else {
            Relation::Peer
        }
    }
}
