//! What the operator writes to an agent, judged before the agent reads it.

use std::sync::Arc;

use super::ChatError;
use crate::Hub;
use crate::address::{Address, InstanceId, Mailbox};
use crate::messaging::message::{
    Details, Draft, DraftError, Kind, Message, MessageRef, Principal, Receipt, Recipient, Seq, Via,
};
use crate::needs::{Answer, Answered, Need, NeedId, NeedKind};
use crate::orchestration::Assign;
use crate::ports::StoreError;
use crate::ports::store::NeedsLook;
use crate::registry::Instance;

/// Begins a text that answers a question.
const ANSWER: &str = "/answer";
/// The words that allow and deny, in lower case.
const ALLOWS: [&str; 3] = ["y", "yes", "allow"];
const DENIES: [&str; 3] = ["n", "no", "deny"];

const NO_WORDS: &str = "it has no words: write what the agent is to read";

/// Needs that are looked at at a time.
const PAGE: usize = 500;

/// What the operator writes.
#[derive(Debug, Clone)]
pub struct Say {
    pub text: String,
    pub idempotency_key: Option<String>,
    pub via: Via,
}

/// What became of it.
#[derive(Debug)]
pub struct Said {
    /// The message that went to the agent; `None` for a verdict.
    pub sent: Option<Receipt>,
    /// The need that was answered.
    pub need: Option<Need>,
}

impl Said {
    pub(super) fn sent(receipt: Receipt) -> Self {
        Self { sent: Some(receipt), need: None }
    }
}

/// A message of the operator.
pub(super) struct Letter {
    pub(super) text: String,
    pub(super) key: Option<String>,
    pub(super) via: Via,
}

/// What a text is.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Verdict(NeedId, bool),
    /// The answer to a question.
    Answers(NeedId, String),
    /// `/answer` where nothing waits for an answer.
    AnswersNothing,
    /// A message to the agent.
    Message,
}

impl Hub {
    /// Takes what the operator writes to an agent:
    ///
    /// 1. `/answer [ID] text` answers that need of the agent, or its open question, the
    ///    blocking one first.
    /// 2. A plain yes or no is the verdict on the agent's oldest open permission request.
    /// 3. Any other text is the answer to the agent's open blocking question.
    /// 4. Without one it is a message to the agent.
    pub async fn chat_say(self: &Arc<Self>, who: InstanceId, say: Say) -> Result<Said, ChatError> {
        let view = self.instance(who).ok_or_else(|| ChatError::NoSuchAgent(who.to_string()))?;
        let agent = view.instance;
        let Say { text, idempotency_key: key, via } = say;
        has_words(&text)?;
        let mut _one_at_a_time = None;
        if let Some(key) = &key {
            if may_be_verdict(&text) {
                _one_at_a_time = Some(self.chats.judging.lock().await);
            }
            // What a repeated call means has been decided, whatever is asked by now.
            if let Some(said) = self.said_before(who, &text, key, via).await? {
                return Ok(said);
            }
        }
        let meaning = match self.named_need(&agent, &text).await? {
            Some(meaning) => meaning,
            None => meaning(&text, &self.open_needs_of(who).await?),
        };
        match meaning {
            Meaning::Verdict(id, allow) => {
                let answer = Answer { allow: Some(allow), ..Answer::default() };
                self.answered(id, answer, key, via).await
            }
            Meaning::Answers(id, text) => {
                let answer = Answer { text: Some(text), ..Answer::default() };
                self.answered(id, answer, key, via).await
            }
            Meaning::AnswersNothing => {
                Err(ChatError::NothingAsked { address: agent.address.to_string() })
            }
            Meaning::Message => {
                let letter = Letter { text, key, via };
                Ok(Said::sent(self.tell_agent(who, letter).await?))
            }
        }
    }

    async fn answered(
        &self,
        id: NeedId,
        answer: Answer,
        key: Option<String>,
        via: Via,
    ) -> Result<Said, ChatError> {
        let Answered { need, sent } = self.answer_need_once(id, answer, key, via).await?;
        Ok(Said { sent, need: Some(need) })
    }

    /// Reads `/answer ID text`; `None` if the text does not begin with the number of a
    /// need.
    async fn named_need(&self, agent: &Instance, text: &str) -> Result<Option<Meaning>, ChatError> {
        let Some((id, rest)) = answer_of(text).and_then(numbered) else { return Ok(None) };
        let found = self.needs(NeedsLook::These(vec![id])).await?;
        let Some(need) = found.into_iter().next() else { return Ok(None) };
        if need.from.instance != Some(agent.id) {
            let address = agent.address.to_string();
            return Err(ChatError::NeedOfAnother { id, address });
        }
        match need.kind {
            NeedKind::Permission => match verdict(rest) {
                Some(allow) => Ok(Some(Meaning::Verdict(id, allow))),
                None => Err(ChatError::YesOrNo(id)),
            },
            _ => Ok(Some(Meaning::Answers(id, rest.to_owned()))),
        }
    }

    /// Returns what an agent asks the operator and nobody has answered, oldest first.
    pub async fn open_needs_of(&self, who: InstanceId) -> Result<Vec<Need>, StoreError> {
        let ids = self.engine.ledger(|l| l.needs_of(who));
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut needs = self.needs(NeedsLook::These(ids)).await?;
        needs.retain(|need| need.closed.is_none());
        needs.sort_by_key(|need| need.id);
        Ok(needs)
    }

    /// Sends a message of the operator to an agent. For a worker that does not answer the
    /// operator by itself it is a task, of which the report is the answer.
    pub(super) async fn tell_agent(
        self: &Arc<Self>,
        who: InstanceId,
        letter: Letter,
    ) -> Result<Receipt, ChatError> {
        let view = self.instance(who).ok_or_else(|| ChatError::NoSuchAgent(who.to_string()))?;
        let agent = view.instance;
        if agent.work.is_some() && !self.answers_operator(&agent).await? {
            return self.give_task(agent, letter).await;
        }
        self.listens(who).await?;
        Ok(self.send(self.draft_for(who, letter)?).await?)
    }

    async fn give_task(
        self: &Arc<Self>,
        agent: Instance,
        letter: Letter,
    ) -> Result<Receipt, ChatError> {
        let Letter { text, key, via } = letter;
        let assign = Assign {
            by: Principal::Operator,
            agent: agent.agent,
            worker: Some(agent.id),
            team: None,
            message: text,
            label: None,
            directory: None,
            worktree: None,
            timeout: None,
            terms: None,
            idempotency_key: key,
            via,
        };
        let given = self.assign(assign).await?;
        let task = self.engine.message(MessageRef::Seq(given.task)).await?;
        let task = task.ok_or(StoreError::Unavailable("the message is gone".into()))?.message;
        Ok(self.receipt_of(&task, &given.instance, given.duplicate))
    }

    fn receipt_of(&self, message: &Message, to: &Instance, duplicate: bool) -> Receipt {
        let recipient = Recipient {
            mailbox: Mailbox::Instance(to.id),
            active: u32::from(!to.status.has_ended()),
            waiting: u32::from(self.is_waiting(to.id)),
        };
        Receipt {
            seq: message.seq,
            id: message.id,
            thread: message.thread,
            recipients: vec![recipient],
            duplicate,
            durable: self.is_durable(),
            skipped: Vec::new(),
        }
    }

    /// Returns what became of this text when it was said with this key before: a verdict, or
    /// a message and the question that it answered.
    async fn said_before(
        &self,
        who: InstanceId,
        text: &str,
        key: &str,
        via: Via,
    ) -> Result<Option<Said>, ChatError> {
        // Checks the key as well.
        let draft = |text: &str| {
            let key = Some(key.to_owned());
            self.draft_for(who, Letter { text: text.to_owned(), key, via })
        };
        let mut sent = self.engine.hired(&draft(text)?).await;
        let answer = answer_of(text).filter(|answer| !answer.is_empty());
        for words in [answer, answer.and_then(numbered).map(|(_, words)| words)] {
            if let (Err(_), Some(words)) = (&sent, words) {
                // The text of an answer is kept without its command.
                sent = self.engine.hired(&draft(words)?).await;
            }
        }
        let Some(sent) = sent? else {
            let verdict = match may_be_verdict(text) {
                true => self.verdict_with_key(who, key).await?,
                false => None,
            };
            return match verdict {
                Some(id) => Ok(Some(Said { sent: None, need: Some(self.need(id).await?) })),
                None => Ok(None),
            };
        };
        let message = self.engine.message(MessageRef::Seq(sent.task)).await?;
        let message = message.ok_or(StoreError::Unavailable("the message is gone".into()))?.message;
        let need = match message.in_reply_to {
            Some(_) => self.answered_by(message.seq).await?,
            None => None,
        };
        let receipt = self.receipt_of(&message, &sent.instance, true);
        Ok(Some(Said { sent: Some(receipt), need }))
    }

    /// Returns the question that a message of the operator has answered.
    async fn answered_by(&self, message: Seq) -> Result<Option<Need>, StoreError> {
        let (kind, mut after) = (Some(NeedKind::Question), NeedId(0));
        loop {
            let look = NeedsLook::After { after, kind, open_only: false, most: PAGE };
            let page = self.needs(look).await?;
            let Some(last) = page.last() else { return Ok(None) };
            after = last.id;
            let by_it = |need: &Need| {
                need.closed.as_ref().is_some_and(|closed| closed.message == Some(message))
            };
            if let Some(need) = page.into_iter().find(by_it) {
                return Ok(Some(need));
            }
        }
    }

    fn draft_for(&self, who: InstanceId, letter: Letter) -> Result<Draft, ChatError> {
        let Letter { text, key, via } = letter;
        // What the operator writes is work for the agent, which takes only directives for
        // work.
        let details = Details { kind: Kind::DIRECTIVE, idempotency_key: key, ..Details::default() };
        let to = Address::Exact { name: None, instance: who, team: None };
        Ok(Draft::new(Principal::Operator, to, text.into(), details, via, &self.limits)?)
    }
}

/// Refuses a text in which there is nothing to read.
pub(super) fn has_words(text: &str) -> Result<(), DraftError> {
    match text.trim().is_empty() {
        true => Err(DraftError::Invalid { field: "message", why: NO_WORDS.to_owned() }),
        false => Ok(()),
    }
}

/// Decides what a text is, by what the agent asks, oldest first.
fn meaning(text: &str, open: &[Need]) -> Meaning {
    let question = |blocking: bool| {
        open.iter().find(|need| need.kind == NeedKind::Question && need.blocking == blocking)
    };
    let permission = open.iter().find(|need| need.kind == NeedKind::Permission);
    if let Some(answer) = answer_of(text) {
        return match (question(true).or_else(|| question(false)), permission, verdict(answer)) {
            (Some(question), ..) => Meaning::Answers(question.id, answer.to_owned()),
            (None, Some(asked), Some(allow)) => Meaning::Verdict(asked.id, allow),
            (None, ..) => Meaning::AnswersNothing,
        };
    }
    match (permission, verdict(text), question(true)) {
        (Some(asked), Some(allow), _) => Meaning::Verdict(asked.id, allow),
        (_, _, Some(question)) => Meaning::Answers(question.id, text.to_owned()),
        (_, _, None) => Meaning::Message,
    }
}

/// Returns the text after `/answer`, if the text begins with that word.
fn answer_of(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix(ANSWER)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim_start())
}

/// Splits a number from the text after it.
fn numbered(text: &str) -> Option<(NeedId, &str)> {
    let (number, rest) = text.split_once(char::is_whitespace)?;
    let number: u64 = number.trim_start_matches('#').parse().ok()?;
    let is_kept = i64::try_from(number).is_ok();
    (is_kept && !rest.trim().is_empty()).then(|| (NeedId(number), rest.trim()))
}

/// Returns whether a text is a verdict if the agent asks for permission.
fn may_be_verdict(text: &str) -> bool {
    let answer = answer_of(text).unwrap_or(text);
    verdict(answer).or_else(|| verdict(numbered(answer)?.1)).is_some()
}

/// Returns whether a text plainly allows or denies. Whoever writes another sign beside the
/// word may mean something else by it.
fn verdict(text: &str) -> Option<bool> {
    let beside = |c: char| c.is_ascii_whitespace() || matches!(c, '.' | ',' | '!');
    let word = text.trim_matches(beside).to_ascii_lowercase();
    if ALLOWS.contains(&word.as_str()) {
        return Some(true);
    }
    DENIES.contains(&word.as_str()).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::Asker;
    use crate::time::Timestamp;

    fn need(id: u64, kind: NeedKind, blocking: bool) -> Need {
        let from = Asker { instance: Some(InstanceId(7)), address: "helper".into() };
        Need { blocking, ..Need::new(NeedId(id), kind, from, "text", Timestamp(0)) }
    }

    #[test]
    fn a_plain_yes_or_no_may_have_a_full_stop_and_nothing_else_beside_it() {
        for yes in ["y", "Yes", "YES!", " yes. ", "allow", "yes,\n"] {
            assert_eq!(verdict(yes), Some(true), "{yes}");
        }
        for no in ["n", "No.", "deny!", "NO"] {
            assert_eq!(verdict(no), Some(false), "{no}");
        }
        let signs =
            ["🚫 yes 🚫", "yes?", "(y)", "\"yes\"", "-yes", "yes 👎", "~yes~", "yes\u{200b}"];
        let words = ["", "yes please", "nope", "not yes", "yesno", "ja"];
        for neither in signs.into_iter().chain(words) {
            assert_eq!(verdict(neither), None, "{neither}");
        }
    }

    #[test]
    fn a_plain_text_goes_to_the_oldest_permission_then_to_the_blocking_question() {
        let asked = need(4, NeedKind::Permission, true);
        let later = need(6, NeedKind::Permission, true);
        let side = need(3, NeedKind::Question, false);
        let waits = need(5, NeedKind::Question, true);
        let open = [side.clone(), asked, waits.clone(), later];
        assert_eq!(meaning("Yes!", &open), Meaning::Verdict(NeedId(4), true));
        assert_eq!(meaning("red", &open), Meaning::Answers(NeedId(5), "red".into()));
        assert_eq!(
            meaning("yes", std::slice::from_ref(&waits)),
            Meaning::Answers(NeedId(5), "yes".into())
        );
        assert_eq!(
            meaning("red", std::slice::from_ref(&side)),
            Meaning::Message,
            "nobody waits for it"
        );
        assert_eq!(meaning("yes", &[]), Meaning::Message);
        let both = [side.clone(), waits];
        assert_eq!(meaning("/answer blue", &both), Meaning::Answers(NeedId(5), "blue".into()));
        assert_eq!(meaning("/answer 42", &[side]), Meaning::Answers(NeedId(3), "42".into()));
        assert_eq!(meaning("/answer red", &[]), Meaning::AnswersNothing);
    }

    #[test]
    fn an_answer_may_begin_with_the_number_of_a_need() {
        let read = |text| answer_of(text).and_then(numbered);
        assert_eq!(read("/answer 23 dark red"), Some((NeedId(23), "dark red")));
        assert_eq!(read("/answer #23 red"), Some((NeedId(23), "red")));
        for none in ["/answer 23", "/answer red 23", "/answers 23 red", "answer 23 red"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
