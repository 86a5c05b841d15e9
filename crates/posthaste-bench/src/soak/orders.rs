//! What the load asks for at its fixed rate, and the lanes that carry it out.
//!
//! Orders are given whether or not those before are done. Each lane has a connection of
//! its own and speaks with the token of whoever the order is from.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};
use posthaste_api::inbox::Inbox;
use posthaste_api::instances::{CreateInstance, Joined};
use posthaste_api::messages::{MessageRef, Receipt, SendMany, SendOutcome, SendRequest, To};
use posthaste_api::work::AssignRequest;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Shared;
use super::line::Line;
use super::record::{FOR_EACH, Sight, WORK, Who};
use super::{GUEST, NAME, WORKER};
use crate::agents::Agent;
use crate::requests::{get, post, send};

/// Profiles that are written again and again, and names that guests share.
const PROFILES: u64 = 50;
const GUEST_NAMES: u64 = 10;
const LIST: usize = 3;

#[derive(Debug)]
pub(super) enum Order {
    /// Anything, by chance.
    Any(u64),
    /// Mail to everyone: rare, because it is two hundred deliveries.
    Everyone(u64),
    /// A worker that says what it was told.
    Assign(u64),
    Answer {
        from: Who,
        to: String,
        seq: u64,
    },
}

pub(super) struct Lane {
    shared: Arc<Shared>,
    line: Line,
    rng: StdRng,
}

impl Lane {
    pub(super) fn new(shared: Arc<Shared>, seed: u64) -> Self {
        let line = Line::new(shared.hub);
        Self { shared, line, rng: StdRng::seed_from_u64(seed) }
    }

    /// Until nobody gives orders any more.
    pub(super) async fn run(mut self, mut orders: UnboundedReceiver<Order>) -> anyhow::Result<()> {
        while let Some(order) = orders.recv().await {
            if !self.shared.over.load(Ordering::Relaxed) {
                let what = format!("{order:?}");
                self.carry_out(order).await.with_context(|| format!("order {what}"))?;
            }
            self.shared.is_done();
        }
        Ok(())
    }

    async fn carry_out(&mut self, order: Order) -> anyhow::Result<()> {
        match order {
            Order::Everyone(number) => self.everyone(number).await,
            Order::Assign(number) => self.assign(number).await,
            Order::Answer { from, to, seq } => self.answer(from, to, seq).await,
            Order::Any(number) => match self.rng.random_range(0..100) {
                0..45 => self.send_to_one(number).await,
                45..55 => self.send_to_a_name(number).await,
                55..60 => self.send_to_anyone(number).await,
                60..65 => self.send_to_several(number).await,
                65..72 => self.twice(number).await,
                72..84 => self.look().await,
                84..90 => self.look_as_operator().await,
                90..96 => self.search().await,
                96..98 => self.write_a_profile(number).await,
                _ => self.guest(number).await,
            },
        }
    }

    /// Two different ones.
    fn pair(&mut self) -> (Who, Who) {
        let count = self.shared.agents.len();
        let one = self.rng.random_range(0..count);
        (one, (one + self.rng.random_range(1..count)) % count)
    }

    fn agent(&self, who: Who) -> &Agent {
        &self.shared.agents[who]
    }

    async fn send(&mut self, from: Who, request: &SendRequest) -> anyhow::Result<Receipt> {
        let body = serde_json::to_string(request)?;
        let request = post("/v1/messages", &self.agent(from).token, &body);
        self.line.expect(&self.shared.record, 201, &request).await?.read()
    }

    async fn send_text(&mut self, from: Who, to: &str, number: u64) -> anyhow::Result<Receipt> {
        let mut request = SendRequest::new(to, self.shared.text(&mut self.rng));
        request.idempotency_key = Some(format!("soak-{number}"));
        let receipt = self.send(from, &request).await?;
        ensure!(!receipt.duplicate, "message {number} is said to be a repeat");
        self.shared.record.accepted(receipt.seq);
        Ok(receipt)
    }

    async fn send_to_one(&mut self, number: u64) -> anyhow::Result<()> {
        let (from, to) = self.pair();
        let to = self.agent(to).id.clone();
        self.send_text(from, &to, number).await.map(drop)
    }

    async fn send_to_a_name(&mut self, number: u64) -> anyhow::Result<()> {
        let (from, _) = self.pair();
        // Two or more share each name, so that somebody else can always read it.
        let to = format!("{NAME}{}", self.rng.random_range(0..self.shared.agents.len() / 2));
        self.send_text(from, &to, number).await.map(drop)
    }

    async fn send_to_anyone(&mut self, number: u64) -> anyhow::Result<()> {
        let (from, _) = self.pair();
        self.send_text(from, "@anyone", number).await.map(drop)
    }

    async fn send_to_several(&mut self, number: u64) -> anyhow::Result<()> {
        let (from, first) = self.pair();
        let count = self.shared.agents.len();
        let to = (0..LIST).map(|more| (first + more) % count).filter(|to| *to != from);
        let to: Vec<String> = to.map(|to| self.agent(to).id.clone()).collect();
        let mut request = SendRequest::new("", self.shared.text(&mut self.rng));
        let asked = to.len();
        request.to = To::Many(to);
        request.idempotency_key = Some(format!("soak-{number}"));
        let body = serde_json::to_string(&request)?;
        let request = post("/v1/messages", &self.agent(from).token, &body);
        let many: SendMany = self.line.expect(&self.shared.record, 207, &request).await?.read()?;
        ensure!(many.results.len() == asked, "{} answers for {asked}", many.results.len());
        for one in many.results {
            match one.outcome {
                SendOutcome::Accepted(receipt) => self.shared.record.accepted(receipt.seq),
                SendOutcome::Refused { error } => anyhow::bail!("to {}: {error:?}", one.to),
            }
        }
        Ok(())
    }

    /// The same message under the same key, as after an answer that was lost.
    async fn twice(&mut self, number: u64) -> anyhow::Result<()> {
        let (from, to) = self.pair();
        let text = self.shared.text(&mut self.rng);
        let mut request = SendRequest::new(self.agent(to).id.as_str(), text);
        request.idempotency_key = Some(format!("soak-{number}"));
        let first = self.send(from, &request).await?;
        self.shared.record.accepted(first.seq);
        let again = self.send(from, &request).await?;
        self.shared.record.repeated(first.seq, again.seq, again.duplicate);
        Ok(())
    }

    async fn answer(&mut self, from: Who, to: String, seq: u64) -> anyhow::Result<()> {
        let mut request = SendRequest::new(to, self.shared.text(&mut self.rng));
        request.in_reply_to = Some(MessageRef::Seq(seq));
        let body = serde_json::to_string(&request)?;
        let request = post("/v1/messages", &self.agent(from).token, &body);
        let reply = self.line.call(&self.shared.record, &request).await?;
        // A guest may have gone meanwhile, and what was asked may be forgotten.
        if [404, 410].contains(&reply.status) {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&reply.body).into_owned();
        ensure!(reply.status == 201, "an answer was refused: {told}");
        let receipt: Receipt = reply.read()?;
        self.shared.record.accepted(receipt.seq);
        Ok(())
    }

    async fn everyone(&mut self, number: u64) -> anyhow::Result<()> {
        // In turns: nobody may write to everyone again within ten seconds.
        let from = usize::try_from(number)? % self.shared.agents.len();
        let text = format!("{FOR_EACH}{}", self.shared.text(&mut self.rng));
        let receipt = self.send(from, &SendRequest::new("@everyone", text)).await?;
        ensure!(receipt.skipped.is_empty(), "@everyone left out {:?}", receipt.skipped);
        // Guests may go before they read.
        let mailboxes = receipt.recipients.iter().filter_map(|to| to.mailbox.strip_prefix("i."));
        let readers: Vec<Who> = mailboxes.filter_map(|id| self.shared.number_of(id)).collect();
        ensure!(readers.len() + 1 == self.shared.agents.len(), "{} get it", readers.len());
        self.shared.record.accepted_for(receipt.seq, readers);
        Ok(())
    }

    async fn assign(&mut self, number: u64) -> anyhow::Result<()> {
        // Those who read through REST: their first numbers.
        let from = self.rng.random_range(0..self.shared.rest_readers);
        let label = format!("{WORK}{number}");
        let work = AssignRequest {
            agent: WORKER.to_owned(),
            message: self.shared.text(&mut self.rng),
            label: Some(label.clone()),
            ..AssignRequest::default()
        };
        let body = serde_json::to_string(&work)?;
        let request = post("/v1/assign", &self.agent(from).token, &body);
        self.line.expect(&self.shared.record, 201, &request).await?;
        self.shared.record.given_out(&label);
        Ok(())
    }

    async fn look(&mut self) -> anyhow::Result<()> {
        let (who, _) = self.pair();
        let path = match self.rng.random_range(0..3) {
            0 => "/v1/messages?last_n=20",
            1 => "/v1/messages?status=queued&last_n=5",
            _ => "/v1/context",
        };
        let request = get(path, &self.agent(who).token);
        self.line.expect(&self.shared.record, 200, &request).await.map(drop)
    }

    async fn look_as_operator(&mut self) -> anyhow::Result<()> {
        let path = match self.rng.random_range(0..5) {
            0 => "/v1/instances",
            1 => "/v1/stats/mailboxes",
            2 => "/v1/stats/stuck",
            3 => "/v1/messages?last_n=50",
            _ => "/metrics",
        };
        let request = get(path, &self.shared.operator);
        self.line.expect(&self.shared.record, 200, &request).await.map(drop)
    }

    async fn search(&mut self) -> anyhow::Result<()> {
        let (who, _) = self.pair();
        let word = self.rng.random_range(0..PROFILES);
        let path = format!("/v1/profiles/search?q=subject{word}+reviewer&limit=10");
        let request = get(&path, &self.agent(who).token);
        self.line.expect(&self.shared.record, 200, &request).await.map(drop)
    }

    async fn write_a_profile(&mut self, number: u64) -> anyhow::Result<()> {
        let (which, word) = (number % PROFILES, self.rng.random_range(0..PROFILES));
        let profile = json!({ "description": format!("a reviewer of subject{word}, {number}") });
        let path = format!("/v1/profiles/reviewer{which}");
        let request = send("PUT", &path, &self.shared.operator, &profile.to_string());
        let reply = self.line.call(&self.shared.record, &request).await?;
        let told = String::from_utf8_lossy(&reply.body);
        ensure!([200, 201].contains(&reply.status), "a profile was refused: {told}");
        Ok(())
    }

    /// Somebody comes, gets mail, reads and proves it, and is ended.
    async fn guest(&mut self, number: u64) -> anyhow::Result<()> {
        let shared = Arc::clone(&self.shared);
        let agent = format!("guest{}", number % GUEST_NAMES);
        let new = CreateInstance { agent, ..CreateInstance::default() };
        let body = serde_json::to_string(&new)?;
        let request = post("/v1/instances", &shared.operator, &body);
        let guest: Joined = self.line.expect(&shared.record, 201, &request).await?.read()?;
        let (from, _) = self.pair();
        let sent = self.send_text(from, &guest.instance, number).await?;
        // Mail to anyone may be among what it takes, and its own may come after it.
        let mut got = false;
        while !got {
            let request = get("/v1/inbox?timeout=10&batch_window=0", &guest.token);
            let reply = self.line.expect(&shared.record, 200, &request).await?;
            let inbox: Inbox<'_> = reply.read()?;
            ensure!(inbox.total > 0, "a guest's mail does not come");
            for entry in &inbox.messages {
                let (text, redelivered) = (entry.message.as_ref(), entry.redelivered);
                let sight = Sight { seq: entry.id, text, label: None, redelivered };
                // Guests are not told apart, so what goes to each of them is not counted.
                if !text.starts_with(FOR_EACH) {
                    shared.record.read(GUEST, sight);
                }
                got |= entry.id == sent.seq;
            }
            let body = json!({ "receipt": inbox.receipt }).to_string();
            let request = post("/v1/inbox/ack", &guest.token, &body);
            self.line.expect(&shared.record, 200, &request).await?;
        }
        let path = format!("/v1/instances/{}", guest.instance);
        let request = send("DELETE", &path, &shared.operator, "");
        self.line.expect(&shared.record, 200, &request).await?;
        shared.record.count(|counts| counts.guests += 1);
        Ok(())
    }
}
