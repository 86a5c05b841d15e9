//! Who started whom.

use std::sync::Arc;

use super::Ledger;
use crate::address::InstanceId;
use crate::messaging::message::Principal;
use crate::registry::Instance;

impl Ledger {
    /// Returns the session of an instance, the top of its tree: an external agent, or the
    /// human.
    pub fn session(&self, id: InstanceId) -> Principal {
        let top = self.top(id);
        match self.instances.get(&top) {
            Some(instance) if instance.work.is_none() => Principal::Instance(top),
            _ => Principal::Operator,
        }
    }

    /// Returns the instance at the top of an instance's tree, perhaps itself.
    pub fn top(&self, id: InstanceId) -> InstanceId {
        let mut top = id;
        while let Some(parent) = self.instances.get(&top).and_then(|i| i.parent)
            && self.instances.contains_key(&parent)
        {
            top = parent;
        }
        top
    }

    /// Returns all instances below `who` that have not ended, nearest first.
    pub fn below(&self, who: Principal) -> Vec<Arc<Instance>> {
        let alive = |i: &&Instance| !i.status.has_ended();
        self.all_below(who)
            .iter()
            .filter_map(|id| self.instances.get(id))
            .filter(alive)
            .map(|i| Arc::new(i.clone()))
            .collect()
    }

    /// Returns all instances below `who`, ended ones included, nearest first.
    pub fn all_below(&self, who: Principal) -> Vec<InstanceId> {
        let started = |i: &&Instance| match who {
            Principal::Operator => i.parent.is_none() && i.work.is_some(),
            Principal::Instance(id) => i.parent == Some(id),
        };
        let mut found: Vec<InstanceId> =
            self.instances.values().filter(started).map(|i| i.id).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            next += 1;
            let children = self.instances.values().filter(|i| i.parent == Some(parent));
            found.extend(children.map(|i| i.id));
        }
        found
    }
}
