//! Instances and teams.

use futures_util::FutureExt;

use super::commands::people::{End, ForgetGone, Join, PutTeam};
use super::commands::report::ReportAnswer;
use super::{Engine, Started};
use crate::address::InstanceId;
use crate::messaging::message::{Principal, Seq};
use crate::ports::{Ending, OpenCall};
use crate::registry::{Instance, Joined, NewInstance, RegistryError, Team, TokenHash};
use crate::time::Timestamp;

impl Engine {
    /// Creates an instance, or finds the one that joined with the same key and secret.
    /// The key of a living instance is refused without its secret. An unknown agent
    /// becomes a profile of kind external, an unknown team a team.
    pub fn join(&self, new: NewInstance) -> Started<Joined, RegistryError> {
        let answer = self.shared.line.push(|tx| Join::new(new, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    /// Ends an instance in one group: its status, returned one-of leases, dead mail of
    /// its own mailbox (`maybe_seen` if a reader may have read it), and one report for
    /// each of its open assignments, to the giver, or to the giver's own giver if the
    /// giver has ended.
    pub fn end(&self, who: InstanceId, ending: Ending) -> Started<Instance, RegistryError> {
        let answer = self.shared.line.push(|tx| End::new(who, ending, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    /// Reports on the open assignments of a worker that goes on living: one report each,
    /// with this answer. Returns how many there were.
    pub fn report(
        &self,
        who: InstanceId,
        answer: String,
        unseen: Vec<Seq>,
    ) -> Started<usize, RegistryError> {
        let answer = self.shared.line.push(|tx| ReportAnswer::new(who, answer, unseen, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    /// Ends every instance that is away or lost without a sign of life since `before` and
    /// has neither mail nor open work. The group that ends them decides.
    pub fn forget_gone(&self, before: Timestamp) -> Started<Vec<Instance>, RegistryError> {
        let answer = self.shared.line.push(|tx| ForgetGone::new(before, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    pub fn put_team(&self, team: Team) -> Started<(), RegistryError> {
        let answer = self.shared.line.push(|tx| PutTeam::new(team, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    /// Returns the owner of a token, and counts this as a sign of life. Ended instances
    /// have no token.
    pub fn caller(&self, token: &TokenHash) -> Option<Principal> {
        let now = self.shared.clock.now();
        let mut ledger = self.shared.ledger.lock();
        let who = ledger.caller(token)?;
        ledger.seen(who, now);
        Some(who)
    }

    /// Counts a sign of life: a lost instance is running again, and one without a lasting
    /// connection is alive for `limits.away_after`.
    pub fn seen(&self, who: Principal) {
        let now = self.shared.clock.now();
        self.shared.ledger.lock().seen(who, now);
    }

    /// Counts a lasting connection (stream, bridge) that opens: the instance is alive
    /// while it is open.
    pub fn connected(&self, who: Principal) {
        let now = self.shared.clock.now();
        self.shared.ledger.lock().connect(who, now);
    }

    /// Counts a lasting connection that closes. After the last one the instance is away
    /// at once: still an address, not active, and no taker of one-of mail while others
    /// live.
    pub fn disconnected(&self, who: Principal) {
        let now = self.shared.clock.now();
        self.shared.ledger.lock().disconnect(who, now);
    }

    /// Counts a call that begins: the instance is alive while the call is open.
    pub fn call_opened(&self, who: Principal) -> OpenCall {
        let now = self.shared.clock.now();
        self.shared.ledger.lock().open_call(who, now)
    }

    /// Counts a call that ends. An instance without a lasting connection is alive for
    /// `limits.away_after` after it, unless its last connection closed during the call.
    pub fn call_closed(&self, who: Principal, call: OpenCall) {
        let now = self.shared.clock.now();
        self.shared.ledger.lock().close_call(who, call, now);
    }
}

pub(super) fn stopping() -> RegistryError {
    RegistryError::Unavailable("the hub is stopping".into())
}
