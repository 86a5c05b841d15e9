//! The queue of commands in front of the writer loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::commands::append::{Accepted, Append};
use super::writer::Command;
use crate::messaging::message::Draft;
use crate::messaging::send::SendError;
use crate::ports::StoreError;

/// Number of times that the writer yields before it takes a group: meanwhile every ready
/// socket is read, and the group grows without a timer.
const YIELDS: usize = 3;

/// The waiting commands, in their order.
#[derive(Clone)]
pub(super) struct CommandLine {
    inner: Arc<Inner>,
}

struct Inner {
    /// Number of commands that may wait before a send is refused.
    most: usize,
    line: Mutex<Waiting>,
    due: Notify,
    closed: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    waiting: Vec<Box<dyn Command>>,
    /// Set while the backlog is being read: the commands that must wait for it.
    late: Option<Vec<Box<dyn Command>>>,
    /// Set if the backlog could not be read, or the writer has ended.
    broken: Option<StoreError>,
}

impl Waiting {
    fn len(&self) -> usize {
        self.waiting.len() + self.late.as_ref().map_or(0, Vec::len)
    }
}

impl CommandLine {
    pub(super) fn new(most: usize) -> Self {
        let (line, due, closed) = (Mutex::default(), Notify::new(), AtomicBool::new(false));
        Self { inner: Arc::new(Inner { most, line, due, closed }) }
    }

    /// Queues a command. Its answer comes after the commit; none comes if the writer
    /// fails in the middle of its group ([`unanswered`]).
    pub(super) fn push<T, C: Command + 'static>(
        &self,
        make: impl FnOnce(oneshot::Sender<T>) -> C,
    ) -> oneshot::Receiver<T> {
        let (tx, rx) = oneshot::channel();
        let command = Box::new(make(tx));
        match self.inner.closed.load(Ordering::Acquire) {
            true => command.answer(Some(StoreError::Closed)),
            false => self.stand_in_line(command),
        }
        rx
    }

    fn stand_in_line(&self, command: Box<dyn Command>) {
        let mut line = self.inner.line.lock();
        if let Some(error) = line.broken.clone() {
            drop(line);
            return command.answer(Some(error));
        }
        match &mut line.late {
            Some(late) if !command.is_early() => late.push(command),
            _ => {
                line.waiting.push(command);
                self.inner.due.notify_one();
            }
        }
    }

    /// Queues a send, or refuses it while too many commands wait. No other command is
    /// refused: reads, acks and ends make room.
    pub(super) fn append(&self, draft: Draft) -> oneshot::Receiver<Result<Accepted, SendError>> {
        if self.inner.line.lock().len() >= self.inner.most {
            let (tx, rx) = oneshot::channel();
            let busy = StoreError::Busy { limit: self.inner.most };
            // The caller may have gone.
            let _ = tx.send(Err(busy.into()));
            return rx;
        }
        self.push(|tx| Append::new(draft, tx))
    }

    /// Holds back all commands that need the backlog.
    pub(super) fn hold_back(&self) {
        self.inner.line.lock().late = Some(Vec::new());
    }

    /// Lets the held commands go ahead, or fails them if the backlog cannot be read.
    pub(super) fn release(&self, known: Result<(), StoreError>) {
        let mut line = self.inner.line.lock();
        let late = line.late.take().unwrap_or_default();
        match known {
            Ok(()) => line.waiting.extend(late),
            Err(error) => {
                line.broken = Some(error.clone());
                drop(line);
                late.into_iter().for_each(|command| command.answer(Some(error.clone())));
            }
        }
        self.inner.due.notify_one();
    }

    /// Fails the commands that wait or come later: the writer has ended.
    pub(super) fn shut(&self) {
        let mut line = self.inner.line.lock();
        line.broken.get_or_insert(StoreError::Closed);
        let mut left = std::mem::take(&mut line.waiting);
        left.extend(line.late.take().unwrap_or_default());
        drop(line);
        left.into_iter().for_each(|command| command.answer(Some(StoreError::Closed)));
    }

    pub(super) fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.due.notify_one();
    }

    /// Takes the next group: all waiting commands, at most so many.
    pub(super) async fn take(&self, most: usize) -> Vec<Box<dyn Command>> {
        loop {
            let ready = !self.inner.line.lock().waiting.is_empty();
            if !ready {
                self.inner.due.notified().await;
            }
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            let waiting = &mut self.inner.line.lock().waiting;
            if waiting.len() > most {
                return waiting.drain(..most).collect();
            }
            if !waiting.is_empty() {
                return std::mem::take(waiting);
            }
        }
    }
}

/// The error for a command without an answer: the writer failed in the middle of its
/// group.
pub(super) fn unanswered(_: oneshot::error::RecvError) -> StoreError {
    StoreError::Unknown("the writer failed in the middle of it".into())
}
