//! Wakes readers in this process.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use posthaste_core::Map;
use posthaste_core::address::Mailbox;
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Principal;
use posthaste_core::ports::{Bell, Filter, Queue, Ticket};
use smallvec::SmallVec;
use tokio::sync::Notify;

/// A bell for every reader that waits, rung in the order in which they came.
#[derive(Clone, Default)]
pub struct LocalQueue {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    boxes: Map<Mailbox, Listeners>,
}

/// The listeners of a mailbox, by number. Nearly always there is one.
type Listeners = SmallVec<[(u64, Arc<Listener>); 1]>;

struct Listener {
    reader: Principal,
    filter: Filter,
    notify: Notify,
    /// Tickets of one-of mailboxes for which this listener was rung.
    handed: Mutex<Vec<Ticket>>,
}

impl Listener {
    /// Returns how late messages of one-of mailboxes are offered to this listener.
    /// Readers come before drivers. Listeners that may not take such a message for long
    /// come last: those that gather, or that take only messages which no other reader
    /// could take.
    fn rank(&self) -> u8 {
        match &self.filter {
            filter if filter.or_ends_wait || filter.own => 2,
            filter if filter.quiet => 1,
            _ => 0,
        }
    }

    fn may_want(&self, ticket: &Ticket) -> bool {
        ticket.message.as_ref().is_none_or(|m| {
            let own = m.from.instance.is_some() && m.from.instance == self.reader.instance();
            !own && self.filter.accepts(m)
        })
    }
}

fn all(listeners: &Listeners) -> impl Iterator<Item = &Arc<Listener>> {
    listeners.iter().map(|(_, listener)| listener)
}

impl LocalQueue {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Queue for LocalQueue {
    fn put(&self, ticket: Ticket) {
        let inner = self.inner.lock();
        let Some(listeners) = inner.boxes.get(&ticket.mailbox) else { return };
        if !ticket.mailbox.is_one_of() {
            let rung = all(listeners).filter(|l| l.may_want(&ticket));
            rung.for_each(|l| l.notify.notify_one());
            return;
        }
        // Rings the first listener that may take it; one that was rung for another ticket comes
        // last.
        let able = || all(listeners).filter(|l| l.may_want(&ticket));
        let is_busy = |l: &Listener| !l.handed.lock().is_empty();
        let first = able().find(|l| l.rank() == 0 && !is_busy(l));
        if let Some(listener) = first.or_else(|| able().min_by_key(|l| (is_busy(l), l.rank()))) {
            listener.handed.lock().push(ticket);
            listener.notify.notify_one();
        }
    }

    fn listen(
        &self,
        reader: Principal,
        mailboxes: Arc<[Mailbox]>,
        filter: Filter,
    ) -> Box<dyn Bell> {
        let listener = Arc::new(Listener {
            reader,
            filter,
            notify: Notify::new(),
            handed: Mutex::new(Vec::new()),
        });
        let mut inner = self.inner.lock();
        inner.next += 1;
        let number = inner.next;
        for mailbox in &*mailboxes {
            // Numbers grow, so the list stays sorted.
            let listeners = inner.boxes.entry(mailbox.clone()).or_default();
            listeners.push((number, Arc::clone(&listener)));
        }
        drop(inner);
        Box::new(LocalBell { queue: self.clone(), number, listener, mailboxes })
    }

    fn waiting(&self, mailbox: &Mailbox, but: Principal) -> u32 {
        let inner = self.inner.lock();
        let listeners = inner.boxes.get(mailbox).into_iter().flat_map(all);
        let count = listeners.filter(|l| l.reader != but && !l.filter.quiet).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn cleanup(&self, mailbox: &Mailbox) {
        self.inner.lock().boxes.remove(mailbox);
    }

    fn close(&self) {
        self.inner.lock().boxes.clear();
    }
}

struct LocalBell {
    queue: LocalQueue,
    number: u64,
    listener: Arc<Listener>,
    mailboxes: Arc<[Mailbox]>,
}

impl LocalBell {
    /// Offers the tickets for which this listener was rung, and which it did not take, to
    /// the next listener.
    fn pass_on(&self, taken: &[DeliveryNo]) {
        let handed = std::mem::take(&mut *self.listener.handed.lock());
        for ticket in handed.into_iter().filter(|t| !taken.contains(&t.delivery)) {
            self.queue.put(ticket);
        }
    }

    fn leave(&mut self) {
        let mut inner = self.queue.inner.lock();
        for mailbox in &*std::mem::take(&mut self.mailboxes) {
            if let Some(listeners) = inner.boxes.get_mut(mailbox) {
                if let Ok(at) = listeners.binary_search_by_key(&self.number, |(number, _)| *number)
                {
                    listeners.remove(at);
                }
                if listeners.is_empty() {
                    inner.boxes.remove(mailbox);
                }
            }
        }
    }
}

impl Bell for LocalBell {
    fn rung(&mut self) -> BoxFuture<'_, ()> {
        self.listener.notify.notified().boxed()
    }

    fn answered(&mut self, taken: &[DeliveryNo]) {
        self.leave();
        self.pass_on(taken);
    }
}

impl Drop for LocalBell {
    fn drop(&mut self) {
        self.leave();
        self.pass_on(&[]);
    }
}
