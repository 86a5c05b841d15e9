//! Permission requests, and the verdicts that are remembered.

use std::sync::Arc;

use super::Ledger;
use super::needs::{NeedsPlan, Open, Request};
use crate::address::{InstanceId, Name};
use crate::needs::{
    Asked, Asker, Need, NeedId, NeedKind, Outcome, PermissionAsk, Remembered, Verdict,
};
use crate::time::Timestamp;

/// The decision about a permission request.
#[derive(Debug)]
pub enum PlannedPermission {
    /// The need is to be written.
    New(NeedsPlan),
    /// The need is open already.
    Waits(NeedId, Timestamp),
    Decided(Verdict),
}

impl Ledger {
    /// Decides about a permission request: a verdict that is remembered or was given
    /// before, the need that waits already, or a new one.
    pub fn plan_permission(
        &mut self,
        who: InstanceId,
        ask: &PermissionAsk,
        now: Timestamp,
    ) -> PlannedPermission {
        let deny = |why: String| PlannedPermission::Decided(Verdict::Deny { why });
        let Ok(asker) = self.living(who) else { return deny("the agent has ended".into()) };
        let request = self.needs.requests.get(&who).and_then(|all| all.get(&ask.request));
        match request {
            Some(Request::Closed(_, outcome)) => {
                return PlannedPermission::Decided(Verdict::of(*outcome));
            }
            Some(Request::Open(id)) => {
                let since = self.needs.open.get(id).map_or(now, |open| open.need.created_at);
                return PlannedPermission::Waits(*id, since);
            }
            None => {}
        }
        let remembered = self.needs.remembered.get(&(asker.agent.clone(), ask.subject.clone()));
        if let Some(remembered) = remembered {
            let outcome = if remembered.allow { Outcome::Allowed } else { Outcome::Denied };
            return PlannedPermission::Decided(Verdict::of(outcome));
        }
        let most = self.limits.request_chars;
        if ask.request.chars().count() > most {
            return deny(format!("its id is longer than {most} characters (limits.request_chars)"));
        }
        let most = self.limits.open_permissions;
        if self.needs.of(who).filter(|need| need.kind == NeedKind::Permission).count() >= most {
            return deny(format!(
                "{most} requests of this agent wait for the operator already \
                 (limits.open_permissions)"
            ));
        }
        let fits = ask.subject.chars().count() <= self.limits.subject_chars;
        let asked = Asked {
            request: ask.request.clone(),
            subject: Some(ask.subject.clone()).filter(|subject| fits && !subject.is_empty()),
        };
        let from = Asker { instance: Some(who), address: Arc::clone(&asker.address) };
        let mut plan = NeedsPlan::default();
        self.open_need(&mut plan, |id| Need {
            blocking: true,
            asked: Some(asked),
            ..Need::new(id, NeedKind::Permission, from, ask.text.as_str(), now)
        });
        PlannedPermission::New(plan)
    }

    /// Returns the subjects of a profile's remembered verdicts: all, or this one.
    pub fn remembered_of(&self, profile: &Name, subject: Option<&str>) -> Vec<String> {
        let of = self.needs.remembered.keys().filter(|(name, _)| name == profile);
        let subjects = of.map(|(_, subject)| subject);
        subjects.filter(|known| subject.is_none_or(|s| s == *known)).cloned().collect()
    }

    pub fn forget_verdict(&mut self, profile: &Name, subject: &str) {
        self.needs.remembered.remove(&(profile.clone(), subject.to_owned()));
    }

    pub fn remembered(&self) -> Vec<Remembered> {
        self.needs.remembered.values().cloned().collect()
    }

    /// Returns the verdict on a request; `None` while it is open. A request that is not
    /// known any more ended with its asker.
    pub fn verdict(&self, who: InstanceId, request: &str) -> Option<Verdict> {
        match self.needs.requests.get(&who).and_then(|all| all.get(request)) {
            Some(Request::Open(_)) => None,
            Some(Request::Closed(_, outcome)) => Some(Verdict::of(*outcome)),
            None => Some(Verdict::of(Outcome::Withdrawn)),
        }
    }

    pub fn open_request(&self, who: InstanceId, request: &str) -> Option<NeedId> {
        match self.needs.requests.get(&who)?.get(request)? {
            Request::Open(id) => Some(*id),
            Request::Closed(..) => None,
        }
    }

    /// Returns the open permission requests from before this time.
    pub fn overdue_permissions(&self, before: Timestamp) -> Vec<NeedId> {
        let due =
            |open: &&Open| open.need.kind == NeedKind::Permission && open.need.created_at < before;
        self.needs.open.values().filter(due).map(|open| open.need.id).collect()
    }
}
