//! The thread that a message belongs to, and the threads that a sender may write into.
//!
//! A message in a thread is read by the family of the thread's owner, so a foreign thread
//! is a way to write to instances. An agent may name its own thread, one of its family,
//! or its recipient's own, whom `write_policy` lets it write to at the time. Within a
//! thread a name stands for the instance of that name that talks there.

use super::Ledger;
use crate::address::{Address, InstanceId, Mailbox};
use crate::messaging::message::{Draft, Principal, RepliedTo, ThreadId};
use crate::messaging::send::SendError;
use crate::registry::Instance;

impl Ledger {
    /// Returns the thread that a draft names; else the thread of the message that it
    /// answers, if that thread is near; else the sender's own. A message of the operator
    /// to one agent belongs to that agent's thread.
    pub(super) fn thread_of(
        &self,
        draft: &Draft,
        mailboxes: &[Mailbox],
    ) -> Result<ThreadId, SendError> {
        let choice = &draft.details().thread;
        let answered = match &choice.replied_to {
            Some(RepliedTo::Seen { thread, .. }) => Some(*thread),
            Some(RepliedTo::Unseen(_)) | None => None,
        };
        // An instance that was written to answers in the same thread, whoever owns it.
        let goes_back = |thread| answered == Some(thread) && draft.goes_back(mailboxes);
        let near = |thread| goes_back(thread) || self.is_near_thread(draft.from, thread, mailboxes);
        match (choice.named, answered) {
            (Some(named), _) if near(named) => Ok(named),
            (Some(named), _) if !self.is_thread(named) => Err(SendError::NoSuchThread(named)),
            (Some(named), _) if draft.from == Principal::Operator => Ok(named),
            (Some(named), _) => Err(SendError::ForeignThread(named)),
            (None, Some(answered)) if near(answered) => Ok(answered),
            (None, _) => Ok(self.usual_thread(draft)),
        }
    }

    /// Returns the instance that a name stands for in the thread that a draft names: the
    /// owner of the thread; else, among the living, the owner's parent, or the only
    /// instance of its family. A sender never means itself.
    pub(super) fn meant_in_thread(&self, draft: &Draft, named: &[Mailbox]) -> Option<InstanceId> {
        let [mailbox] = named else { return None };
        let (Mailbox::Name(name) | Mailbox::NameIn(name, _)) = mailbox else { return None };
        let owner = self.owner_of(draft.details().thread.named?)?;
        let is_meant =
            |i: &Instance| i.keys.contains(mailbox) && draft.from != Principal::Instance(i.id);
        if is_meant(owner) {
            return Some(owner.id);
        }
        let namesakes = self.named.get(name).into_iter().flatten();
        let living = namesakes.filter_map(|id| self.instances.get(id));
        let living = living.filter(|i| !i.status.has_ended() && is_meant(i) && i.is_kin_of(owner));
        let family: Vec<InstanceId> = living.map(|i| i.id).collect();
        match (owner.parent.filter(|parent| family.contains(parent)), family.as_slice()) {
            (Some(parent), _) => Some(parent),
            (None, [only]) => Some(*only),
            (None, _) => None,
        }
    }

    fn is_thread(&self, thread: ThreadId) -> bool {
        thread == ThreadId::OPERATOR || self.threads.contains_key(&thread)
    }

    /// Returns whether the thread is the sender's, its family's, or its recipient's.
    fn is_near_thread(&self, from: Principal, thread: ThreadId, mailboxes: &[Mailbox]) -> bool {
        let own = match from {
            Principal::Operator => thread == ThreadId::OPERATOR,
            Principal::Instance(id) => self.is_kins(id, thread),
        };
        own || matches!(mailboxes, [only] if self.is_own_thread(only, thread))
    }

    /// Returns whether the thread is the sender's or its family's.
    fn is_kins(&self, sender: InstanceId, thread: ThreadId) -> bool {
        let sender = self.instances.get(&sender);
        sender.zip(self.owner_of(thread)).is_some_and(|(sender, owner)| sender.is_kin_of(owner))
    }

    /// Returns whether the thread is that of the one reader that the mailbox names.
    fn is_own_thread(&self, mailbox: &Mailbox, thread: ThreadId) -> bool {
        match mailbox {
            Mailbox::Human => thread == ThreadId::OPERATOR,
            Mailbox::Instance(_) | Mailbox::Name(_) | Mailbox::NameIn(..) => {
                self.owner_of(thread).is_some_and(|owner| owner.keys.contains(mailbox))
            }
            Mailbox::Anyone | Mailbox::AnyoneIn(_) => false,
        }
    }

    /// Returns the instance that owns a thread. The operator's own thread has none.
    pub(super) fn owner_of(&self, thread: ThreadId) -> Option<&Instance> {
        self.threads.get(&thread).and_then(|id| self.instances.get(id))
    }

    /// Returns the id of the instance that owns a thread.
    pub fn thread_owner(&self, thread: ThreadId) -> Option<InstanceId> {
        self.owner_of(thread).map(|owner| owner.id)
    }

    fn usual_thread(&self, draft: &Draft) -> ThreadId {
        let own = |id| self.instances.get(&id).map(|i| i.thread);
        let thread = match (draft.from, &draft.to) {
            (Principal::Instance(id), _) => own(id),
            (Principal::Operator, Address::Exact { instance, .. }) => own(*instance),
            (Principal::Operator, _) => None,
        };
        thread.unwrap_or(ThreadId::OPERATOR)
    }
}
