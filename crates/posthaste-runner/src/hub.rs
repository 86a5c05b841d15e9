//! The hub, as a runner sees it: calls with answers, and notices that come between them.

use std::io::Write;
use std::sync::mpsc::{Receiver, TryRecvError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::RunnerError;
use crate::lines::{Event, LONGEST};
use crate::protocol::{NO_REQUEST, Notice, Start, UNKNOWN_METHOD, WRONG_PARAMS};
use crate::wire::{self, Incoming, Request, RpcError};

/// The outcome of a call that the hub answered.
pub(crate) type Answer<R> = Result<R, RpcError>;

pub(crate) struct Hub<W> {
    events: Receiver<Event>,
    output: W,
    thread_id: String,
    /// The number of the last call.
    last: u64,
    /// Mail has been announced since the inbox was last asked for.
    mail: bool,
    cancelled: bool,
}

/// One thing that may end a wait.
enum Heard {
    Answer {
        id: u64,
        outcome: Result<Value, RpcError>,
    },
    /// A line that was too long to be read.
    TooLong,
    /// A notice, or a line that changed nothing.
    Other,
    End,
}

impl<W: Write> Hub<W> {
    /// Waits for `start` and answers it; returns `None` if the input ends before.
    pub(crate) fn meet(
        events: Receiver<Event>,
        output: W,
    ) -> Result<Option<(Self, Start)>, RunnerError> {
        let (thread_id, last, mail, cancelled) = (String::new(), 0, false, false);
        let mut hub = Self { events, output, thread_id, last, mail, cancelled };
        loop {
            let incoming = match hub.events.recv() {
                Ok(Event::Line(line)) => Incoming::read(&line),
                Ok(Event::TooLong) => too_long(),
                Ok(Event::Broken(error)) => return Err(RunnerError::Input(error)),
                Ok(Event::End) | Err(_) => return Ok(None),
            };
            match incoming {
                Incoming::Asked { id, method, params } if method == "start" => {
                    match serde_json::from_value::<Start>(params) {
                        Ok(start) => {
                            hub.thread_id.clone_from(&start.thread_id);
                            hub.done(id)?;
                            return Ok(Some((hub, start)));
                        }
                        Err(e) => hub.refuse(id, WRONG_PARAMS, &format!("start: {e}"))?,
                    }
                }
                Incoming::Asked { id, .. } => {
                    hub.refuse(id, NO_REQUEST, "the first line must be `start`")?;
                }
                Incoming::Refused { id, error } => hub.write(&wire::error(id, &error))?,
                Incoming::Answer { .. } | Incoming::Stray => {}
            }
        }
    }

    pub(crate) fn thread_id(&self) -> String {
        self.thread_id.clone()
    }

    /// Calls the hub and waits for the answer. The outer error ends the runner.
    pub(crate) fn call<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<Answer<R>, RunnerError> {
        self.last += 1;
        let id = self.last;
        self.write(&Request { jsonrpc: "2.0", id, method, params })?;
        let unread = |why: &str| RpcError::new(NO_REQUEST, format!("{method}: {why}"));
        loop {
            let event = self.events.recv().unwrap_or(Event::End);
            match self.hear(event)? {
                Heard::Answer { id: of, outcome } if of == id => {
                    return Ok(outcome.and_then(|value| {
                        serde_json::from_value(value)
                            .map_err(|e| unread(&format!("the hub's answer cannot be read: {e}")))
                    }));
                }
                // Only an answer can be that long, and no other call is open.
                Heard::TooLong => return Ok(Err(unread("the hub's answer is too long"))),
                Heard::Answer { .. } | Heard::Other => {}
                Heard::End => return Err(RunnerError::HubGone),
            }
        }
    }

    /// Returns whether the hub has cancelled the turn, as far as it can be known now.
    pub(crate) fn is_cancelled(&mut self) -> Result<bool, RunnerError> {
        while !self.cancelled {
            match self.events.try_recv() {
                Ok(event) => {
                    if matches!(self.hear(event)?, Heard::End) {
                        return Err(RunnerError::HubGone);
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(RunnerError::HubGone),
            }
        }
        Ok(self.cancelled)
    }

    /// Forgets that mail was announced: whoever calls this asks for it next.
    pub(crate) fn looks(&mut self) {
        self.mail = false;
    }

    /// Waits until mail has been announced; returns whether it has, and the input has not
    /// ended before. A `cancel` finds nothing to cancel here.
    pub(crate) fn wait_for_mail(&mut self) -> Result<bool, RunnerError> {
        self.cancelled = false;
        while !self.mail {
            let event = self.events.recv().unwrap_or(Event::End);
            if matches!(self.hear(event)?, Heard::End) {
                return Ok(false);
            }
            self.cancelled = false;
        }
        Ok(true)
    }

    fn hear(&mut self, event: Event) -> Result<Heard, RunnerError> {
        let (incoming, heard) = match event {
            Event::Line(line) => (Incoming::read(&line), Heard::Other),
            Event::TooLong => (too_long(), Heard::TooLong),
            Event::Broken(error) => return Err(RunnerError::Input(error)),
            Event::End => return Ok(Heard::End),
        };
        match incoming {
            Incoming::Answer { id, outcome } => return Ok(Heard::Answer { id, outcome }),
            Incoming::Stray => {}
            Incoming::Asked { id, method, params } => self.take(id, &method, params)?,
            Incoming::Refused { id, error } => self.write(&wire::error(id, &error))?,
        }
        Ok(heard)
    }

    /// Takes a notice of the hub.
    fn take(&mut self, id: Option<Value>, method: &str, params: Value) -> Result<(), RunnerError> {
        if !matches!(method, "inbox" | "cancel") {
            return match method {
                "start" => self.refuse(id, NO_REQUEST, "this runner has started already"),
                _ => self.refuse(id, UNKNOWN_METHOD, "the hub asks start, inbox and cancel"),
            };
        }
        match serde_json::from_value::<Notice>(params) {
            Ok(notice) if notice.thread_id != self.thread_id => {
                self.refuse(id, WRONG_PARAMS, "this is the thread of somebody else")
            }
            Ok(_) => {
                match method {
                    "inbox" => self.mail = true,
                    _ => self.cancelled = true,
                }
                match id {
                    Some(_) => self.done(id),
                    None => Ok(()),
                }
            }
            Err(e) => self.refuse(id, WRONG_PARAMS, &format!("{method}: {e}")),
        }
    }

    fn done(&mut self, id: Option<Value>) -> Result<(), RunnerError> {
        self.write(&wire::result(id.unwrap_or(Value::Null)))
    }

    fn refuse(&mut self, id: Option<Value>, code: i64, message: &str) -> Result<(), RunnerError> {
        let error = RpcError::new(code, message);
        self.write(&wire::error(id.unwrap_or(Value::Null), &error))
    }

    /// Writes one line, whole.
    fn write(&mut self, line: &impl Serialize) -> Result<(), RunnerError> {
        let mut bytes = serde_json::to_vec(line).map_err(|e| RunnerError::Output(e.into()))?;
        bytes.push(b'\n');
        let written = self.output.write_all(&bytes).and_then(|()| self.output.flush());
        written.map_err(RunnerError::Output)
    }
}

fn too_long() -> Incoming {
    let message = format!("a line has at most {LONGEST} bytes");
    Incoming::Refused { id: Value::Null, error: RpcError::new(NO_REQUEST, message) }
}
