//! One answer, from its call to the end of its mail.

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
    /// The call ended without an answer, or was cut off before it was written.
    Closed,
}

#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) who: Principal,
    pub(super) beginning: u64,
    pub(super) door: Door,
    pub(super) client: &'static Client,
    /// The process that made the call, if the client names it. Boxed: ten thousand
    /// waiting readers have none.
    pub(super) called: Option<Box<Called>>,
    /// Set if the call began while two processes used the one identity: the later call of
    /// one proves nothing about the other.
    pub(super) shared: bool,
    pub(super) receipt: u64,
    pub(super) cut: CancellationToken,
    pub(super) written: Written,
    pub(super) mail: Vec<Held>,
    /// Ids named under `settled`.
    pub(super) named: Vec<Seq>,
    /// Set if the answer came so late that the client may have given up.
    pub(super) late: bool,
    pub(super) suspicious: bool,
    /// Set if the client showed that the call is over at its side: the hook after it
    /// came.
    pub(super) hooked: bool,
    /// Set if a session start brought it, and no prompt came since.
    pub(super) at_start: bool,
    /// Set if the call came while a sub-agent worked, and perhaps from it.
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
    /// Set if it is in a mailbox that others read, too.
    pub(super) one_of: bool,
    /// Set once this answer no longer holds it: settled or returned.
    pub(super) gone: bool,
}

/// The client's own data about its call.
#[derive(Debug, Clone)]
pub(super) struct Called {
    /// The process of the reader that made the call.
    pub(super) label: CompactString,
    /// The client's names for the call; a repeat has one of them again.
    pub(super) names: Box<[CompactString]>,
    /// The tool of the hub that was called.
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

    /// Returns whether the client gave the call a name that `fits`.
    pub(super) fn is_called(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.called.iter().flat_map(|called| &called.names).any(|name| fits(name))
    }

    pub(super) fn holds(&self) -> Vec<DeliveryNo> {
        self.mail.iter().filter(|h| !h.gone).map(|h| h.delivery).collect()
    }

    /// Returns whether the call still waits, as far as the hub knows.
    pub(super) fn is_open(&self) -> bool {
        self.written == Written::No && self.mail.is_empty()
    }

    /// Returns whether nothing can follow from the answer any more.
    pub(super) fn is_of_no_use(&self) -> bool {
        self.mail.is_empty() && self.named.is_empty()
    }

    /// Returns whether the answer holds no mail and tells of no ids.
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

    /// Returns whether only the reader's own ack or reply can prove the answer.
    pub(super) fn is_doubtful(&self) -> bool {
        self.suspicious || self.late
    }

    pub(super) fn let_go(&mut self, of: impl Fn(&Held) -> bool) {
        self.mail.iter_mut().filter(|h| of(h)).for_each(|h| h.gone = true);
    }
}
