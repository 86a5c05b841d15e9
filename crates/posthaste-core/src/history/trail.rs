//! The trail of a message: its steps, and the reason why it was not answered.
//!
//! Made from what is kept: of several leases only the last. Unknown steps are left out.

use crate::Hub;
use crate::address::{InstanceId, Mailbox, Name};
use crate::messaging::delivery::Reason;
use crate::messaging::message::{MessageRef, Principal, Seq};
use crate::messaging::refused_answers::RefusedAnswer;
use crate::ports::{DeliveryRecord, Note, Noted, Record, RecordState, StoreError};
use crate::registry::{InstanceFilter, Status};
use crate::time::Timestamp;

/// Maximum number of replies that a trail names.
const REPLIES: usize = 100;
const STOPPED: &str = "stopped";

/// The trail of one message, oldest step first.
#[derive(Debug, Clone)]
pub struct Trail {
    pub record: Record,
    /// One line: what became of the message.
    pub verdict: String,
    pub steps: Vec<Step>,
}

/// A step of a message.
#[derive(Debug, Clone)]
pub struct Step {
    /// `None` if the time was not kept.
    pub at: Option<Timestamp>,
    /// `accepted`, `returned`, `refused`, `requeued`, `leased`, `acked`, `unreadable`,
    /// `dead`, `answered`, `stopped` for an answer that the hop limit refused, or
    /// `queued` for a delivery that still waits.
    pub event: &'static str,
    pub mailbox: Option<Mailbox>,
    /// The actor of the step.
    pub by: Option<String>,
    /// The proof, or the reason of death.
    pub how: Option<&'static str>,
    /// The number of the reply.
    pub message: Option<Seq>,
    /// The step as a sentence.
    pub text: String,
    /// The sort key of the step.
    order: Timestamp,
}

impl Hub {
    /// Returns the trail of a message, if the caller may read it.
    pub async fn trail(
        &self,
        by: Principal,
        which: MessageRef,
    ) -> Result<Option<Trail>, StoreError> {
        let Some(record) = self.message(by, which).await? else { return Ok(None) };
        let mut replies = self.engine.replies(record.message.seq, REPLIES).await?;
        replies.retain(|r| self.may_read(by, r));
        let notes = self.engine.notes(&record).await?;

        let mut steps = vec![accepted(&record)];
        steps.extend(record.deliveries.iter().flat_map(|d| self.steps(&record, d, &notes)));
        steps.extend(replies.iter().map(answered));
        let stopped = self.refused_answers.lock().to(record.message.seq);
        steps.extend(stopped.iter().map(|answer| self.refusal_of(answer)));
        steps.sort_by_key(|step| step.order);
        let mut verdict = self.verdict(&record, &replies);
        if let (true, Some(last)) = (replies.is_empty(), steps.iter().rfind(|s| s.event == STOPPED))
        {
            verdict = format!("{verdict}; {}", last.text);
        }
        Ok(Some(Trail { record, verdict, steps }))
    }

    /// Makes the step of an answer that the hop limit refused.
    fn refusal_of(&self, answer: &RefusedAnswer) -> Step {
        let who = self.name_of(answer.by);
        let hops = self.limits.hops;
        Step {
            at: Some(answer.at),
            event: STOPPED,
            mailbox: None,
            text: format!(
                "an answer of {who} was refused by the hop limit: more than {hops} quick answers \
                 in a row (limits.hops)"
            ),
            by: Some(who),
            how: Some("hop_limit"),
            message: None,
            order: answer.at,
        }
    }

    /// Returns the steps of one delivery.
    fn steps(&self, record: &Record, d: &DeliveryRecord, notes: &[Note]) -> Vec<Step> {
        let by = d.by.map(|by| self.name_of(by));
        let who = by.clone().unwrap_or_else(|| "somebody".into());
        let step = |at: Option<Timestamp>, event, how, text: String| Step {
            at,
            event,
            mailbox: Some(d.mailbox.clone()),
            by: by.clone(),
            how,
            message: None,
            text,
            order: at.or(d.leased_at).or(d.settled_at).unwrap_or(record.message.created_at),
        };
        let mut steps: Vec<Step> = Vec::new();
        for note in notes.iter().filter(|n| n.delivery == d.delivery) {
            let at = Some(note.at);
            steps.push(match &note.noted {
                Noted::Refused(reader) => {
                    let by = reader.map(|by| self.name_of(by));
                    let who = by.clone().unwrap_or_else(|| "its reader".into());
                    let text = format!("refused by {who}, and queued again in {}", d.mailbox);
                    Step { by, ..step(at, "refused", None, text) }
                }
                Noted::Requeued(reason) => {
                    let how = reason.map(Reason::as_str);
                    let dead = how.map(|how| format!(" ({how})")).unwrap_or_default();
                    let text = format!("was dead{dead} and is queued again in {}", d.mailbox);
                    Step { by: None, ..step(at, "requeued", how, text) }
                }
                Noted::Unreadable(what) => {
                    let text = format!("set aside, because it cannot be read: {what}");
                    Step { by: None, ..step(at, "unreadable", None, text) }
                }
            });
        }
        // The mark has no time; notes explain it well enough.
        if d.marked && steps.is_empty() {
            let why = match d.doubted {
                true => "its reader cancelled the call",
                false => "handed out before, or the hub was restarted",
            };
            let text = format!("came back to {}: {why}; marked redelivered", d.mailbox);
            steps.push(Step { by: None, ..step(None, "returned", None, text) });
        }
        if let Some(at) = d.leased_at {
            let text = format!("handed to {who} from {}", d.mailbox);
            steps.push(step(Some(at), "leased", None, text));
        }
        match d.state {
            RecordState::Queued => {
                // The present state comes last.
                let queued = step(None, "queued", None, self.why_queued(record, d));
                steps.push(Step { order: Timestamp(i64::MAX), ..queued });
            }
            RecordState::Leased => {}
            RecordState::Acked(proof) => {
                let text = format!("proved by {who}, by {proof}");
                steps.push(step(d.settled_at, "acked", Some(proof.as_str()), text));
            }
            RecordState::Dead { reason, maybe_seen } => {
                let seen = if maybe_seen { "; it may have been seen" } else { "" };
                let text = format!("dead in {}: {}{seen}", d.mailbox, reason.as_str());
                steps.push(step(d.settled_at, "dead", Some(reason.as_str()), text));
            }
        }
        steps
    }

    /// Returns one line that says why there is no answer.
    fn verdict(&self, record: &Record, replies: &[Record]) -> String {
        if let Some(first) = replies.first() {
            let m = &first.message;
            let more = match replies.len() {
                1 => String::new(),
                n => format!(", and {} more", n - 1),
            };
            return format!(
                "answered by message {} from {} at {}{more}",
                m.seq, m.from.address, m.created_at
            );
        }
        // The delivery that is furthest from an answer.
        let worst = record.deliveries.iter().max_by_key(|d| match d.state {
            RecordState::Acked(_) => 0,
            RecordState::Leased => 1,
            RecordState::Queued => 2,
            RecordState::Dead { .. } => 3,
        });
        let Some(worst) = worst else { return "it was for nobody".into() };
        let verdict = self.verdict_of(record, worst);
        let all = record.deliveries.len();
        let acked = |d: &&DeliveryRecord| matches!(d.state, RecordState::Acked(_));
        match record.deliveries.iter().filter(acked).count() {
            _ if all == 1 => verdict,
            n if n == all => format!("all {all} have proved it and nobody has answered it"),
            n => format!("{n} of {all} have proved it; {verdict}"),
        }
    }

    fn verdict_of(&self, record: &Record, d: &DeliveryRecord) -> String {
        let who = d.by.map_or_else(|| "its reader".into(), |by| self.name_of(by));
        let at = |time: Option<Timestamp>| time.map(|t| format!(" {t}")).unwrap_or_default();
        match d.state {
            RecordState::Queued => self.why_queued(record, d),
            RecordState::Leased => {
                let since = d.leased_at.map(|t| format!(" since {t}")).unwrap_or_default();
                format!("{who} has had it{since} and has neither proved nor answered it")
            }
            RecordState::Acked(proof) => {
                let when = at(d.settled_at);
                format!("{who} has it, proved by {proof}{when}, and has not answered it")
            }
            RecordState::Dead { reason, maybe_seen } => {
                let when = at(d.settled_at);
                match (reason, maybe_seen) {
                    (Reason::Expired, false) => format!("dead: expired unread{when}"),
                    (Reason::Expired, true) => {
                        format!("dead: expired{when}; it may have been seen, nobody proved it")
                    }
                    (Reason::Cancelled, _) => format!("dead: cancelled{when}"),
                    (Reason::Refused, _) => {
                        format!("dead: refused by {who}, the last time{when}")
                    }
                    (Reason::Unreadable, _) => format!(
                        "dead: the database cannot read it any more{when}; the operator can \
                         repair its row and queue it again"
                    ),
                    (Reason::RecipientGone, seen) => {
                        let gone = self.owner_of(&d.mailbox);
                        let read = if seen { "it may have been seen" } else { "unread" };
                        format!("dead: {gone} ended{when}; {read}")
                    }
                }
            }
        }
    }

    /// Returns the reason why no reader has the delivery yet.
    fn why_queued(&self, record: &Record, d: &DeliveryRecord) -> String {
        let again = match (d.attempts, d.marked) {
            (0, false) => String::new(),
            (0, true) => " again".into(),
            (n, _) => format!(" after it was refused {}", times(n)),
        };
        let sender = record.message.from.instance.map_or(Principal::Operator, Principal::Instance);
        let waiting = self.queue.waiting(&d.mailbox, sender);
        let why = match &d.mailbox {
            Mailbox::Human => "the operator has not read it".into(),
            Mailbox::Instance(id) => self.why_unread(*id, waiting),
            mailbox => self.why_untaken(mailbox, sender, waiting),
        };
        format!("waits{again} in {}: {why}", d.mailbox)
    }

    fn why_unread(&self, id: InstanceId, waiting: u32) -> String {
        let Some(view) = self.engine.ledger(|l| l.instance(id)) else {
            return "its reader is unknown".into();
        };
        let (name, seen) = (&view.instance.address, view.instance.last_seen);
        match view.instance.status.as_str() {
            _ if waiting > 0 => format!("{name} waits for mail, but for other mail than this"),
            "away" => format!("{name} is away: nothing of it is connected since {seen}"),
            "lost" => format!("{name} is lost: no sign of life since {seen}"),
            status if view.instance.status.has_ended() => format!("{name} has {status}"),
            _ => format!("{name} has not read its mail; its last sign of life was {seen}"),
        }
    }

    pub(crate) fn why_untaken(&self, mailbox: &Mailbox, sender: Principal, waiting: u32) -> String {
        match self.engine.ledger(|l| l.active(mailbox, sender)) {
            0 if self.engine.ledger(|l| l.active(mailbox, Principal::Operator)) > 0 => {
                "only its sender is here, who never takes its own mail".into()
            }
            0 => match mailbox {
                Mailbox::Name(name) => match self.who_is_away(name, None) {
                    Some(away) => away,
                    None => "nobody of that name is here".into(),
                },
                Mailbox::NameIn(name, team) => match self.who_is_away(name, Some(team)) {
                    Some(away) => away,
                    None => format!("nobody of that name is in team {team}"),
                },
                Mailbox::AnyoneIn(team) => format!("nobody who could take it is in team {team}"),
                Mailbox::Anyone | Mailbox::Human | Mailbox::Instance(_) => {
                    "nobody who could take it is here".into()
                }
            },
            n if waiting == 0 => format!("{n} could take it, and none of them waits for mail"),
            n => format!("{waiting} of {n} who could take it wait, but for other mail than this"),
        }
    }

    /// Returns the instances that mail to a name waits for while all of them are away or
    /// lost.
    fn who_is_away(&self, name: &Name, team: Option<&Name>) -> Option<String> {
        let filter = InstanceFilter {
            agent: Some(name.clone()),
            team: team.cloned(),
            statuses: vec![Status::Away, Status::Lost],
            limit: usize::MAX,
            ..InstanceFilter::default()
        };
        match &*self.engine.ledger(|l| l.instances(&filter)) {
            [] => None,
            [one] => Some(format!("{} is {}", one.instance.address, one.instance.status.as_str())),
            all => Some(format!("all {} of that name are away", all.len())),
        }
    }

    /// Returns an address for people.
    pub(crate) fn name_of(&self, who: Principal) -> String {
        match who {
            Principal::Operator => "the operator".into(),
            Principal::Instance(id) => match self.engine.ledger(|l| l.instance(id)) {
                Some(view) => view.instance.address.to_string(),
                None => id.to_string(),
            },
        }
    }

    fn owner_of(&self, mailbox: &Mailbox) -> String {
        match mailbox {
            Mailbox::Instance(id) => self.name_of(Principal::Instance(*id)),
            other => other.to_string(),
        }
    }
}

fn accepted(record: &Record) -> Step {
    let m = &record.message;
    let boxes: Vec<String> =
        record.deliveries.iter().take(3).map(|d| d.mailbox.to_string()).collect();
    let more = match record.deliveries.len() {
        n if n > boxes.len() => format!(" and {} more", n - boxes.len()),
        _ => String::new(),
    };
    Step {
        at: Some(m.created_at),
        event: "accepted",
        mailbox: None,
        by: Some(m.from.address.to_string()),
        how: Some(m.via.as_str()),
        message: None,
        text: format!(
            "accepted from {} by {} for {}, into {}{more}",
            m.from.address,
            m.via.as_str(),
            m.to,
            boxes.join(", ")
        ),
        order: m.created_at,
    }
}

fn answered(reply: &Record) -> Step {
    let m = &reply.message;
    Step {
        at: Some(m.created_at),
        event: "answered",
        mailbox: None,
        by: Some(m.from.address.to_string()),
        how: None,
        message: Some(m.seq),
        text: format!("answered by {} with message {}", m.from.address, m.seq),
        order: m.created_at,
    }
}

fn times(n: u8) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}
