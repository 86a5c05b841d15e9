//! One answer, from the call that it answers to what became of its mail.

use compact_str::CompactString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Call, Door};
use crate::messaging::clients::Client;
use crate::messaging::delivery::{DeliveryNo, Proof};
use crate::messaging::message::{Principal, Seq};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Written {
    /// The call runs, or its answer is on its way.
    No,
    Yes,
    /// Ended without an answer, or cut off before it was written.
    Closed,
}

#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) who: Principal,
    pub(super) beginning: u64,
    pub(super) door: Door,
    pub(super) client: &'static Client,
    /// Whose call it was, where the client says so. In a box: ten thousand readers who
    /// wait say nothing.
    pub(super) called: Option<Box<Called>>,
    /// Begun while two processes used the one identity: the later call of one says
    /// nothing about the other.
    pub(super) shared: bool,
    pub(super) receipt: u64,
    pub(super) cut: CancellationToken,
    pub(super) written: Written,
    pub(super) mail: Vec<Held>,
    /// Ids under `settled`.
    pub(super) named: Vec<Seq>,
    /// Answered so late that the client may have given up.
    pub(super) late: bool,
    pub(super) suspicious: bool,
    /// The client showed that the call is over at its side: the hook after it came.
    pub(super) hooked: bool,
    /// A session start brought it, and no prompt came since.
    pub(super) at_start: bool,
    /// Called while a sub-agent worked, and perhaps by it.
    pub(super) to_sub_agent: bool,
    /// The number of the tool call that set `later`.
    pub(super) later_by: u64,
    pub(super) later: Option<(Instant, Proof)>,
    pub(super) proven: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) delivery: DeliveryNo,
    pub(super) seq: Seq,
    pub(super) doubted: bool,
    /// It lies in a mailbox that others read, too.
    pub(super) one_of: bool,
    /// This answer's part is over: settled or returned.
    pub(super) gone: bool,
}

/// What a client says of its call.
#[derive(Debug, Clone)]
pub(super) struct Called {
    /// Which process of the reader made it.
    pub(super) label: CompactString,
    /// What the client calls it; a repeat has one of them again.
    pub(super) names: Box<[CompactString]>,
    /// Which of the hub's tools it called.
    pub(super) tool: &'static str,
}

impl Called {
    pub(super) fn new(call: &Call<'_>) -> Option<Box<Self>> {
        let (label, names, tool) = (call.process.label(), call.names(), call.tool);
        let said = !label.is_empty() || !names.is_empty() || !tool.is_empty();
        said.then(|| Box::new(Self { label: label.into(), names, tool }))
    }
}

impl Answer {
    pub(super) fn label(&self) -> &str {
        self.called.as_ref().map_or("", |called| &called.label)
    }

    pub(super) fn tool(&self) -> &'static str {
        self.called.as_ref().map_or("", |called| called.tool)
    }

    /// Whether the client gave the call such a name.
    pub(super) fn is_called(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.called.iter().flat_map(|called| &called.names).any(|name| fits(name))
    }

    pub(super) fn holds(&self) -> Vec<DeliveryNo> {
        self.mail.iter().filter(|h| !h.gone).map(|h| h.delivery).collect()
    }

    /// The call still waits, as far as the hub knows.
    pub(super) fn is_open(&self) -> bool {
        self.written == Written::No && self.mail.is_empty()
    }

    /// Nothing can follow from it any more.
    pub(super) fn is_of_no_use(&self) -> bool {
        self.mail.is_empty() && self.named.is_empty()
    }

    /// It holds nothing, and tells nothing.
    pub(super) fn is_over(&self) -> bool {
        let told = self.named.is_empty() || self.suspicious;
        self.written != Written::No && told && self.holds().is_empty()
    }

    /// Ends a call that still waits. Too late once it has mail.
    pub(super) fn close(&mut self) -> bool {
        let waits = self.is_open();
        if waits {
            self.cut.cancel();
            self.written = Written::Closed;
        }
        waits
    }

    /// Nothing but the reader's own word proves it.
    pub(super) fn is_doubtful(&self) -> bool {
        self.suspicious || self.late
    }

    pub(super) fn let_go(&mut self, of: impl Fn(&Held) -> bool) {
        self.mail.iter_mut().filter(|h| of(h)).for_each(|h| h.gone = true);
    }
}
