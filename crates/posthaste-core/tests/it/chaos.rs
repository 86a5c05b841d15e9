//! Many agents do anything at any time, and a ledger of what really happened is
//! kept beside the hub. In the end it must be as the hub says.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use posthaste_core::address::Mailbox;
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{Details, MessageRef, Principal, Seq};
use posthaste_core::messaging::proof::Scope;
use posthaste_core::messaging::receive::Ask;
use posthaste_core::ports::RecordState;
use posthaste_core::registry::Status;
use posthaste_core::{Hub, Limits};
use posthaste_store::Place;
use posthaste_testkit::world::{Agent, World};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::runtime::Builder;

const NAMES: [&str; 3] = ["alice", "bob", "mason"];

/// What really happened.
#[derive(Default)]
struct Book {
    accepted: Vec<Seq>,
    /// How often each delivery was in a written answer without its mark.
    plain: HashMap<DeliveryNo, usize>,
    /// Deliveries that were in a written answer.
    given: HashSet<DeliveryNo>,
    /// Unproven answers: whose, the receipt, and what was in it.
    answers: Vec<(Principal, u64, Vec<Seq>)>,
    wrong: Vec<String>,
}

/// Everybody who ever came, and who of them is still here.
#[derive(Default)]
struct People {
    here: Vec<Principal>,
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Send,
    SendOneOf,
    SendEveryone,
    Read,
    ReadByMcp,
    ReadAndDrop,
    ReadAuto,
    Ack,
    AckById,
    Nack,
    Reply,
    Begin,
    Interrupt,
    Cancel,
    Requeue,
    Sweep,
    Join,
    End,
}

/// Mail moves more often than people do.
const DEEDS: [(Deed, u32); 18] = [
    (Deed::Send, 20),
    (Deed::SendOneOf, 10),
    (Deed::SendEveryone, 2),
    (Deed::Read, 16),
    (Deed::ReadByMcp, 10),
    (Deed::ReadAndDrop, 5),
    (Deed::ReadAuto, 2),
    (Deed::Ack, 12),
    (Deed::AckById, 5),
    (Deed::Nack, 8),
    (Deed::Reply, 4),
    (Deed::Begin, 2),
    (Deed::Interrupt, 1),
    (Deed::Cancel, 5),
    (Deed::Requeue, 5),
    (Deed::Sweep, 3),
    (Deed::Join, 2),
    (Deed::End, 1),
];

fn any_deed(dice: &mut impl Rng) -> Deed {
    let mut roll = dice.random_range(0..DEEDS.iter().map(|(_, weight)| weight).sum());
    for (deed, weight) in DEEDS {
        if roll < weight {
            return deed;
        }
        roll -= weight;
    }
    Deed::Read
}

fn one<T: Clone>(dice: &mut impl Rng, of: &[T]) -> Option<T> {
    (!of.is_empty()).then(|| of[dice.random_range(0..of.len())].clone())
}

struct Town<'w> {
    world: &'w World,
    book: Arc<Mutex<Book>>,
    people: Arc<Mutex<People>>,
}

impl Town<'_> {
    /// Does one thing, whatever comes of it.
    async fn does(&self, deed: Deed, mut dice: StdRng) {
        let hub = &self.world.hub;
        let me = {
            let people = self.people.lock();
            one(&mut dice, &people.here)
        };
        let Some(who) = me else { return self.joins(&mut dice).await };
        let Some(me) = self.agent(who) else { return };
        let known = one(&mut dice, &self.book.lock().accepted);
        let answer = {
            let book = self.book.lock();
            one(&mut dice, &book.answers)
        };
        match deed {
            Deed::Send => {
                let to = one(&mut dice, &self.people.lock().here);
                if let Some(to) = to {
                    self.sends(&me, &to.to_string(), Details::default()).await;
                }
            }
            Deed::SendOneOf => {
                let to = one(&mut dice, &["alice", "bob", "mason", "@anyone"]).expect("a list");
                self.sends(&me, to, Details::default()).await;
            }
            Deed::SendEveryone => self.sends(&me, "@everyone", Details::default()).await,
            Deed::Read => self.reads(&me, me.ask()).await,
            Deed::ReadByMcp => {
                let call = format!("{}", dice.random_range(0..50));
                if dice.random_bool(0.2) {
                    hub.cancel_call(who, &call);
                }
                self.reads(&me, me.mcp(&call)).await;
            }
            Deed::ReadAndDrop => drop(hub.receive(me.ask()).await),
            Deed::ReadAuto => self.reads(&me, Ask { auto_ack: true, ..me.ask() }).await,
            Deed::Ack => {
                if let Some((by, receipt, _)) = answer {
                    hub.ack_receipt(by, receipt).await.expect("an answer");
                }
            }
            Deed::AckById => {
                if let Some((by, _, seqs)) = answer {
                    hub.ack_messages(by, seqs).await.expect("an answer");
                }
            }
            Deed::Nack => {
                if let Some((by, receipt, seqs)) = answer {
                    if dice.random_bool(0.5) {
                        hub.nack_receipt(by, receipt).await.expect("an answer");
                    } else {
                        hub.nack_messages(by, seqs).await.expect("an answer");
                    }
                }
            }
            Deed::Reply => {
                if let Some((by, _, seqs)) = answer
                    && let (Some(by), Some(seq)) = (self.agent(by), seqs.first())
                {
                    let details = Details { in_reply_to: Some(*seq), ..Details::default() };
                    self.sends(&by, "human", details).await;
                }
            }
            Deed::Begin => hub.begin(who, Scope::All),
            Deed::Interrupt => hub.interrupted(who),
            Deed::Cancel => {
                if let Some(seq) = known {
                    let _ = hub.cancel(Principal::Operator, MessageRef::Seq(seq)).await;
                }
            }
            Deed::Requeue => {
                if let Some(seq) = known {
                    let _ = hub.requeue(Principal::Operator, MessageRef::Seq(seq)).await;
                }
            }
            Deed::Sweep => {
                self.world.engine.sweep().await.expect("swept");
            }
            Deed::Join => self.joins(&mut dice).await,
            Deed::End => {
                let id = who.instance().expect("an agent");
                if hub.end(id, Status::Finished, dice.random_bool(0.5)).await.is_ok() {
                    self.people.lock().here.retain(|p| *p != who);
                }
            }
        }
    }

    fn agent(&self, who: Principal) -> Option<Agent> {
        let known = who.instance().is_some_and(|id| self.world.hub.instance(id).is_some());
        known.then(|| self.world.knows(who))
    }

    async fn joins(&self, dice: &mut StdRng) {
        if self.people.lock().here.len() < 6 {
            let name = one(dice, &NAMES).expect("a list");
            let new = self.world.agent(name).await;
            self.people.lock().here.push(new.who);
        }
    }

    async fn sends(&self, from: &Agent, to: &str, details: Details) {
        // A name or an instance may be gone by now; then nothing is accepted.
        if let Ok(receipt) = from.tries(to, "hello", details).await {
            self.book.lock().accepted.push(receipt.seq);
        }
    }

    async fn reads(&self, me: &Agent, ask: Ask) {
        let auto = ask.auto_ack;
        let answer = me.asks(ask).await;
        let mut book = self.book.lock();
        for entry in &answer.mail {
            let (delivery, seq) = (entry.leased.delivery, entry.leased.message.seq);
            book.given.insert(delivery);
            if entry.leased.message.from.instance == me.who.instance() {
                book.wrong.push(format!("{} was given its own message {seq}", me));
            }
            if !entry.leased.redelivered {
                let times = book.plain.entry(delivery).or_default();
                *times += 1;
                if *times > 1 {
                    book.wrong.push(format!("message {seq} was given twice unmarked"));
                }
            }
        }
        if !answer.mail.is_empty() && !auto {
            let seqs = answer.mail.iter().map(|e| e.leased.message.seq).collect();
            book.answers.push((me.who, answer.receipt, seqs));
        }
    }

    /// Everybody reads and proves until nothing is left, and then the books are
    /// compared.
    async fn settles(&self) {
        let hub: &Arc<Hub> = &self.world.hub;
        for name in NAMES {
            let new = self.world.agent(name).await;
            self.people.lock().here.push(new.who);
        }
        let here = self.people.lock().here.clone();
        for who in &here {
            hub.begin(*who, Scope::All);
        }
        hub.begin(Principal::Operator, Scope::All);
        let mut readers: Vec<Agent> = here.iter().map(|who| self.world.knows(*who)).collect();
        readers.push(self.world.operator());
        for _ in 0..200 {
            let mut idle = true;
            for reader in &readers {
                self.reads(reader, reader.ask()).await;
                let last = self.book.lock().answers.pop();
                if let Some((by, receipt, _)) = last {
                    hub.ack_receipt(by, receipt).await.expect("acked");
                    idle = false;
                }
            }
            if idle {
                break;
            }
        }
        let accepted: HashSet<Seq> = self.book.lock().accepted.iter().copied().collect();
        for seq in accepted {
            let record = self.world.record(seq).await.expect("nothing is old enough to be pruned");
            for delivery in &record.deliveries {
                let given = self.book.lock().given.contains(&delivery.delivery);
                let wrong = match delivery.state {
                    RecordState::Queued | RecordState::Leased => {
                        // One-of mail of the last of its kind is only its sender's own.
                        let own = matches!(&delivery.mailbox, m if m.is_one_of());
                        (!own || given).then_some("is still open")
                    }
                    RecordState::Acked(_) => (!given).then_some("is acked and was never given"),
                    RecordState::Dead { maybe_seen: false, .. } => {
                        given.then_some("is said to be unseen and was given")
                    }
                    RecordState::Dead { .. } => None,
                };
                if let Some(wrong) = wrong {
                    self.book.lock().wrong.push(format!("message {seq} {wrong}: {delivery:?}"));
                }
            }
        }
        for reader in here {
            let id = reader.instance().expect("an agent");
            let unread = hub.instance(id).expect("known").unread;
            if unread > 0 {
                self.book
                    .lock()
                    .wrong
                    .push(format!("{unread} unread in {}", Mailbox::Instance(id)));
            }
        }
    }
}

/// Some lives of one hub on one disk. Between them it is stopped or killed.
fn lives(folder: &Path, seed: u64, lives: usize, deeds: usize) -> Vec<String> {
    let mut dice = StdRng::seed_from_u64(seed);
    let (book, people) = (Arc::<Mutex<Book>>::default(), Arc::<Mutex<People>>::default());
    for life in 1..=lives {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            // A small window, so that much is read from disk.
            let limits = Limits { window_messages: 3, ..Limits::default() };
            let world = World::open(&Place::File(folder.to_owned()), limits);
            let (book, people) = (Arc::clone(&book), Arc::clone(&people));
            let town = Town { world: &world, book, people };
            let mut done = 0;
            while done < deeds {
                let together = dice.random_range(1..5);
                let deeds = (0..together).map(|_| {
                    let deed = any_deed(&mut dice);
                    town.does(deed, StdRng::seed_from_u64(dice.random()))
                });
                join_all(deeds.collect::<Vec<_>>()).await;
                done += together;
                if dice.random_bool(0.1) {
                    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
                }
            }
            if life == lives {
                town.settles().await;
            } else if dice.random_bool(0.5) {
                world.hub.close().await.expect("a clean stop");
            }
            // Receipts do not outlive a hub.
            town.book.lock().answers.clear();
        });
        runtime.shutdown_background();
    }
    std::mem::take(&mut book.lock().wrong)
}

#[test]
fn whatever_everybody_does_the_hub_tells_the_truth_in_the_end() {
    let seeds = if crate::model::is_quick() { 0..3 } else { 0..12 };
    for seed in seeds {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let wrong = lives(folder.path(), seed, 3, 100);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}
