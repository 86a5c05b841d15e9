//! Events: everything that happened, in one order.
//!
//! The store numbers each event inside the transaction that made it true, so a follower
//! that has seen `n` has seen all below. The journal keeps the subject of an event, not
//! its state: a follower gets the message or the instance as it is when the event is
//! read. A change that is not durable, like a lease, is no event.

mod list;

pub use self::list::EventList;
use crate::address::{InstanceId, Mailbox, Name};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::{Principal, Seq, ThreadId};
use crate::needs::{Need, NeedId};
use crate::ports::Record;
use crate::registry::Instance;
use crate::time::Timestamp;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Accepted,
    Acked,
    Dead,
    Returned,
    Requeued,
    Joined,
    Ended,
    Lost,
    Team,
    Profile,
    Starting,
    Running,
    Settled,
    NeedOpened,
    NeedClosed,
}

impl EventKind {
    /// All kinds, with the number under which a store keeps each.
    pub const ALL: [(Self, u8, &'static str); 15] = [
        (Self::Accepted, 1, "message.accepted"),
        (Self::Acked, 2, "delivery.acked"),
        (Self::Dead, 3, "delivery.dead"),
        (Self::Returned, 4, "delivery.returned"),
        (Self::Requeued, 5, "delivery.requeued"),
        (Self::Joined, 6, "instance.joined"),
        (Self::Ended, 7, "instance.ended"),
        (Self::Lost, 8, "instance.lost"),
        (Self::Team, 9, "team.changed"),
        (Self::Profile, 10, "profile.changed"),
        (Self::Starting, 11, "instance.starting"),
        (Self::Running, 12, "instance.running"),
        (Self::Settled, 13, "assignment.settled"),
        (Self::NeedOpened, 14, "need.opened"),
        (Self::NeedClosed, 15, "need.closed"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, _, word)| word)
    }

    pub fn number(self) -> u8 {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or(0, |(_, number, _)| *number)
    }

    /// Parses the number that a store keeps. A later version may have written others.
    pub fn read(number: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, n, _)| *n == number).map(|(kind, ..)| *kind)
    }
}

/// The subject of an event, as a journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    Message { seq: Seq, delivery: DeliveryNo },
    Instance(InstanceId),
    Team(Name),
    Profile(Name),
    Need(NeedId),
}

/// The subject of an event in its present state.
#[derive(Debug, Clone)]
pub enum About {
    /// A message, and one of its deliveries; `None` for the message as a whole.
    Message(Box<Record>, Option<DeliveryNo>),
    /// A message that has been pruned since.
    Pruned(Seq),
    Instance(Box<Instance>),
    /// An instance that has been forgotten since.
    Forgotten(InstanceId),
    Team(Name),
    /// A profile that was created, changed or removed.
    Profile(Name),
    /// A need of the operator; `None` if it has been pruned since.
    Need(NeedId, Option<Box<Need>>),
}

#[derive(Debug, Clone)]
pub struct Event {
    pub no: u64,
    pub at: Timestamp,
    pub kind: EventKind,
    pub about: About,
}

/// Some events in order, with the range of the journal.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// The first number that is still kept, or the next one if none is.
    pub oldest: u64,
    /// The last number given.
    pub last: u64,
    /// Every event up to this number is in this page or was not understood.
    pub upto: u64,
}

/// The subject that a follower asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topic {
    Agent(InstanceId),
    Team(Name),
    Thread(ThreadId),
    /// This principal and every instance below it.
    Session(Principal),
}

/// The team and the session of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belongs {
    pub team: Name,
    pub session: Principal,
}

impl Topic {
    fn fits(&self, event: &Event, of: &dyn Fn(InstanceId) -> Option<Belongs>) -> bool {
        match (self, &event.about) {
            (Self::Agent(id), About::Message(record, _)) => {
                record.message.from.instance == Some(*id)
                    || record.deliveries.iter().any(|d| {
                        d.mailbox == Mailbox::Instance(*id)
                            || d.by == Some(Principal::Instance(*id))
                    })
            }
            (Self::Agent(id), About::Instance(instance)) => instance.id == *id,
            (Self::Agent(id), About::Forgotten(gone)) => gone == id,
            (Self::Team(team), About::Message(record, _)) => {
                let of_team = |m: &Mailbox| match m {
                    Mailbox::NameIn(_, t) | Mailbox::AnyoneIn(t) => t == team,
                    Mailbox::Instance(id) => of(*id).is_some_and(|b| b.team == *team),
                    Mailbox::Human | Mailbox::Name(_) | Mailbox::Anyone => false,
                };
                let sender = record.message.from.address.rsplit_once('@');
                sender.is_some_and(|(_, t)| t == team.as_str())
                    || record.deliveries.iter().any(|d| of_team(&d.mailbox))
            }
            (Self::Team(team), About::Instance(instance)) => instance.team == *team,
            (Self::Agent(id), About::Need(_, Some(need))) => need.from.instance == Some(*id),
            (Self::Team(team), About::Need(_, Some(need))) => {
                let asker = need.from.address.rsplit_once('@');
                asker.is_some_and(|(_, t)| t == team.as_str())
            }
            (Self::Session(top), About::Need(_, Some(need))) => {
                need.from.instance.and_then(of).is_some_and(|b| b.session == *top)
            }
            (Self::Team(team), About::Team(name)) => name == team,
            (Self::Thread(thread), About::Message(record, _)) => record.message.thread == *thread,
            (Self::Session(top), About::Message(record, _)) => {
                let within = |id: InstanceId| of(id).is_some_and(|b| b.session == *top);
                record.message.from.instance.is_some_and(within)
                    || record.deliveries.iter().any(|d| match d.mailbox {
                        Mailbox::Instance(id) => within(id),
                        _ => d.mailbox == Mailbox::of(*top),
                    })
            }
            (Self::Session(top), About::Instance(instance)) => {
                of(instance.id).is_some_and(|b| b.session == *top)
            }
            _ => false,
        }
    }
}

/// The events that a follower asks for. One entry of each list must fit; an empty list
/// restricts nothing.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    pub topics: Vec<Topic>,
    /// Whole kinds (`delivery.dead`) or families (`delivery`).
    pub kinds: Vec<String>,
}

impl EventFilter {
    pub fn fits(&self, event: &Event, of: &dyn Fn(InstanceId) -> Option<Belongs>) -> bool {
        let word = event.kind.as_str();
        let family = word.split('.').next();
        let kind = |k: &String| k == word || Some(k.as_str()) == family;
        (self.kinds.is_empty() || self.kinds.iter().any(kind))
            && (self.topics.is_empty() || self.topics.iter().any(|topic| topic.fits(event, of)))
    }
}
