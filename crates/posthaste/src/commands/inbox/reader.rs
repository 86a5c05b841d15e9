//! One reader of a mailbox: its queries, and the acks that it still owes the hub.

use std::time::Duration;

use posthaste_api::client::ClientError;
use posthaste_api::inbox::{Inbox, InboxQuery, SettleRequest};
use posthaste_api::messages::{MessageRef, ReadQuery};
use posthaste_api::{Client, ErrorCode};

use super::show::Known;
use crate::cli::InboxArgs;
use crate::commands::Session;
use crate::output::Output;

/// One reader, with a beginning at its first call and after every broken one.
pub(super) struct Reader {
    client: Client,
    query: InboxQuery,
    begin: bool,
    /// Messages that were shown, and are not acked yet.
    owed: Vec<u64>,
}

impl Reader {
    pub(super) fn new(client: Client, args: &InboxArgs) -> Self {
        let query = InboxQuery {
            batch_window: args.batch_window.map(|window| window.as_secs_f64()),
            wait_for: args.wait_for.clone(),
            from: (!args.from.is_empty()).then(|| args.from.join(",")),
            label: args.label.clone(),
            thread_id: args.thread.clone(),
            ..InboxQuery::default()
        };
        Self { client, query, begin: true, owed: Vec::new() }
    }

    /// Returns the address of the hub.
    pub(super) fn url(&self) -> &str {
        self.client.url()
    }

    pub(super) async fn read(
        &mut self,
        wait: Duration,
        output: &mut Output,
    ) -> Result<Inbox<'static>, ClientError> {
        let owed = self.owed.clone();
        self.settle(owed, output).await?;
        self.query.timeout = Some(wait.as_millis() as f64 / 1000.0);
        self.query.begin = self.begin.then_some(true);
        // Until the answer is here, it may be lost on its way.
        self.begin = true;
        let answer = self.client.inbox(&self.query).await?;
        self.begin = false;
        Ok(answer)
    }

    /// Acks the messages of this answer, after they were shown.
    pub(super) async fn prove(
        &mut self,
        answer: &Inbox<'_>,
        output: &mut Output,
    ) -> Result<(), ClientError> {
        let ids: Vec<u64> = answer.messages.iter().map(|entry| entry.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        if let Some(receipt) = &answer.receipt {
            let proof = SettleRequest { receipt: Some(receipt.to_string()), ids: None };
            match self.client.ack(&proof).await {
                Ok(settled) if settled.acked > 0 => return Ok(()),
                // A restarted hub does not know its earlier receipts.
                Ok(_) => (),
                Err(e) => {
                    self.owed = ids;
                    return Err(e);
                }
            }
        }
        self.settle(ids, output).await
    }

    /// Acks messages by number. A message that another reader holds now stays with that
    /// reader.
    async fn settle(&mut self, ids: Vec<u64>, output: &mut Output) -> Result<(), ClientError> {
        self.owed = ids;
        if self.owed.is_empty() {
            return Ok(());
        }
        let ids = self.owed.iter().copied().map(MessageRef::Seq).collect();
        match self.client.ack(&SettleRequest { receipt: None, ids: Some(ids) }).await {
            Ok(_) => (),
            Err(e) if e.is_passing() || e.code() == ErrorCode::Unauthorized => return Err(e),
            Err(e) => output.note(&format!("shown here, and not only here: {e}")),
        }
        self.owed.clear();
        Ok(())
    }

    /// Looks up the instances that are missing in an answer, and which of the reports of
    /// earlier answers say that their worker failed. A report that is not kept any more
    /// is skipped.
    pub(super) async fn look_up(&self, answer: &Inbox<'_>) -> Result<Known, ClientError> {
        let mut known = Known::default();
        let missing = answer.missing.iter().filter_map(|missing| missing.instance.as_deref());
        known.addresses.learn(&self.client, missing).await;
        let query = ReadQuery { max_chars: Some(1), ..ReadQuery::default() };
        for report in &answer.already {
            match self.client.read(&report.id.to_string(), &query).await {
                Ok(message) if super::is_failure(&message.kind) => known.failed.push(report.id),
                Ok(_) => (),
                Err(e) if e.code() == ErrorCode::NotFound => (),
                Err(e) => return Err(e),
            }
        }
        Ok(known)
    }

    /// Connects again: the hub may come back on another port, which its folder records.
    pub(super) fn reconnect(&mut self, session: &Session) {
        if (session.hub.is_some() || session.folder.running().is_some())
            && let Ok(client) = session.client()
        {
            self.client = client;
        }
    }
}
