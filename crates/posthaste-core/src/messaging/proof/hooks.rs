//! Proof by the hooks of a client.
//!
//! A program with hooks runs one before and one after each tool call, its calls of the
//! hub included, one when its user writes, and one when its model ends its turn. The
//! hook after a call comes before the program stores the result, so by itself it proves
//! nothing: a kill in between loses the result. It makes the answer *hooked*: a call that
//! begins later, or the stop, then proves it.

use std::hash::Hash;
use std::time::Duration;

use compact_str::CompactString;
use tokio::time::Instant;

use super::answer::{Answer, Written};
use super::reader::Reader;
use super::{Door, Effect, Proofs, Rule};
use crate::messaging::clients::Client;
use crate::messaging::delivery::{AnswerId, Proof};
use crate::messaging::message::Principal;

/// The moment at which a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moment {
    SessionStart,
    Prompt,
    BeforeTool,
    AfterTool,
    Stop,
    /// The model has finished its turn, and the program waits for its user. The hook waits
    /// for mail, and the program begins a turn with it.
    Idle,
}

/// One hook, as its program reports it.
#[derive(Debug, Clone, Copy)]
pub struct Hook<'a> {
    pub moment: Moment,
    pub client: &'static Client,
    /// The reason of a session start.
    pub source: &'a str,
    /// The conversation, or the program's process; empty where it is not known.
    pub conversation: &'a str,
    /// The tool as the program calls it; empty where it is about none.
    pub tool: &'a str,
    /// The program's id of the tool call; empty where it has none.
    pub call: &'a str,
    /// Set if the tool failed.
    pub failed: bool,
    /// Set if the agent's model would not see what the hook adds.
    pub quiet: bool,
}

impl Hook<'_> {
    pub const fn new(moment: Moment, client: &'static Client) -> Self {
        Self {
            moment,
            client,
            source: "",
            conversation: "",
            tool: "",
            call: "",
            failed: false,
            quiet: false,
        }
    }
}

/// A tool call at the client: announced by the hook before it, or seen at the hub.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Tool {
    name: CompactString,
    /// The client's ids of the call, if it has any.
    ids: Vec<CompactString>,
    /// Set if the hook before it came.
    announced: bool,
    /// Set if the hub has seen the call itself.
    arrived: bool,
    /// The hub's answer to it.
    pub(super) answer: Option<AnswerId>,
    /// Set if it starts a sub-agent.
    sub_agent: bool,
}

/// Maximum number of running tool calls kept for one reader. With more it is not alone.
const MOST: usize = 64;

/// Maximum length of a name or id of a tool call that is kept.
const LONGEST: usize = 200;

/// A reader whose hub calls came without any hook for this long, and this often, has no
/// hooks any more.
const HOOKS_GONE: Duration = Duration::from_secs(30);
const CALLS_WITHOUT_HOOKS: usize = 4;

fn short(text: &str) -> CompactString {
    text.chars().take(LONGEST).collect()
}

impl Tool {
    /// Returns all that decides how the call goes on, apart from its answer.
    pub(super) fn outline(&self) -> impl Hash {
        let Self { name, ids, announced, arrived, sub_agent, answer: _ } = self;
        (name.clone(), ids.clone(), *announced, *arrived, *sub_agent)
    }

    fn has_id(&self, id: &str) -> bool {
        !id.is_empty() && self.ids.iter().any(|known| *known == short(id))
    }
}

impl Reader {
    pub(super) fn runs_sub_agent(&self) -> bool {
        self.running.iter().any(|(_, tool)| tool.sub_agent)
    }

    /// Notes a call that begins. Returns its number and whether no other call runs.
    fn runs(&mut self, tool: Tool) -> (u64, bool) {
        let alone = self.running.is_empty();
        self.started += 1;
        if self.running.len() < MOST {
            self.running.push((self.started, tool));
        }
        (self.started, alone)
    }

    /// Ends the tool call of an after-tool hook: found by its id, or by its name if the
    /// hook has no id or no hook announced the call.
    fn finishes(&mut self, hook: &Hook<'_>) -> Option<Tool> {
        let at = |fits: &dyn Fn(&Tool) -> bool| self.running.iter().position(|(_, t)| fits(t));
        let found = at(&|tool| tool.has_id(hook.call))
            .or_else(|| at(&|tool| hook.call.is_empty() && tool.name == hook.tool))
            .or_else(|| at(&|tool| !tool.announced && is_tool(hook.tool, &tool.name)))?;
        Some(self.running.remove(found).1)
    }

    /// Notes that a hook came.
    fn hears(&mut self, now: Instant) {
        self.has_hooks = true;
        self.last_hook = Some(now);
        self.calls_since_hook = 0;
    }

    /// Notes a call of the hub, and returns whether hooks of the client can still be
    /// expected.
    pub(super) fn expects_hooks(&mut self, now: Instant) -> bool {
        self.calls_since_hook += 1;
        let long_ago = self.last_hook.is_none_or(|at| now.duration_since(at) >= HOOKS_GONE);
        if self.has_hooks && long_ago && self.calls_since_hook > CALLS_WITHOUT_HOOKS {
            self.loses_hooks();
        }
        self.has_hooks
    }

    /// Notes that the client's hooks are gone, or that a new client must show its own.
    pub(super) fn loses_hooks(&mut self) {
        self.has_hooks = false;
        self.running.clear();
        self.unmatched.clear();
    }
}

impl Proofs {
    /// Returns whether an answer to anything but a read may carry mail along: not beside
    /// an error, which a client with hooks may drop, nor to a sub-agent.
    pub fn may_enclose(&self, who: Principal, is_error: bool) -> bool {
        let reader = self.readers.get(&who);
        let drops = |reader: &Reader| reader.runs_sub_agent() || is_error && reader.has_hooks;
        !reader.is_some_and(drops)
    }

    /// Notes a hook of the reader, and returns whether its answer may carry mail.
    pub fn hook(&mut self, who: Principal, hook: &Hook<'_>, now: Instant) -> (bool, Vec<Effect>) {
        let effects = match hook.moment {
            // After a compaction the same process goes on and knows the mail that it
            // held.
            Moment::SessionStart if hook.source == "compact" => Vec::new(),
            Moment::SessionStart => self.begin_session(who, hook),
            Moment::Prompt => self.turn(who, false, now),
            Moment::Stop => self.turn(who, true, now),
            Moment::BeforeTool => self.announce(who, hook, now),
            // The stop before it was the boundary. A wait that is renewed says nothing about
            // what the reader holds.
            Moment::Idle => Vec::new(),
            Moment::AfterTool => {
                let (carries, effects) = self.tool_is_over(who, hook, now);
                return (carries && !hook.quiet, effects);
            }
        };
        let reader = self.readers.entry(who).or_default();
        reader.hears(now);
        reader.starts = hook.moment == Moment::SessionStart;
        let heard = hook.moment != Moment::BeforeTool && !hook.quiet && !hook.failed;
        (heard && !reader.runs_sub_agent(), effects)
    }

    /// Notes a tool that is about to run: a call that begins.
    fn announce(&mut self, who: Principal, hook: &Hook<'_>, now: Instant) -> Vec<Effect> {
        let reader = self.readers.entry(who).or_default();
        reader.hears(now);
        let began = reader.runs(Tool {
            name: short(hook.tool),
            ids: Some(hook.call).filter(|id| !id.is_empty()).map(short).into_iter().collect(),
            announced: true,
            arrived: false,
            answer: None,
            sub_agent: hook.client.sub_agents.contains(&hook.tool),
        });
        self.began(who, None, Proof::Hook, began, now)
    }

    /// Notes a call of the hub that begins, of a reader with hooks. The hook before it,
    /// if there was one, has announced it.
    pub(super) fn arrives(
        &mut self,
        who: Principal,
        tool: &'static str,
        label: &str,
        names: &[CompactString],
        now: Instant,
    ) -> Vec<Effect> {
        let Some(reader) = self.readers.get_mut(&who) else { return Vec::new() };
        let same = |tool: &Tool| names.iter().any(|name| tool.has_id(name));
        let waits = |announced: &Tool| !announced.arrived && is_tool(&announced.name, tool);
        let at = reader.running.iter().position(|(_, tool)| !tool.arrived && same(tool));
        let at = at.or_else(|| reader.running.iter().position(|(_, tool)| waits(tool)));
        if let Some(at) = at {
            reader.running[at].1.arrived = true;
            return Vec::new();
        }
        let began = reader.runs(Tool {
            name: tool.into(),
            ids: names.iter().map(|name| short(name)).collect(),
            announced: false,
            arrived: true,
            answer: None,
            sub_agent: false,
        });
        if began.1 {
            self.forget_unhooked(who);
        }
        self.began(who, Some(label), Proof::NextCall, began, now)
    }

    /// Notes the answer of a call that has arrived.
    pub(super) fn note_answer(&mut self, who: Principal, id: AnswerId) {
        let Some(reader) = self.readers.get_mut(&who) else { return };
        let arrived = |(_, tool): &&mut (u64, Tool)| tool.arrived && tool.answer.is_none();
        if let Some((_, tool)) = reader.running.iter_mut().find(arrived) {
            tool.answer = Some(id);
        }
    }

    /// Forgets answers without mail whose hook has not come when a call begins while no
    /// other runs: the hook is lost, and the answer must not be confused with later ones.
    fn forget_unhooked(&mut self, who: Principal) {
        let lost = |id: &AnswerId| {
            self.answers.get(id).is_some_and(|a| {
                a.door == Door::Mcp && a.written == Written::Yes && !a.hooked && a.is_of_no_use()
            })
        };
        let lost: Vec<AnswerId> = self.answers_of(who).into_iter().filter(lost).collect();
        lost.into_iter().for_each(|id| self.forget(id));
        if let Some(reader) = self.readers.get_mut(&who) {
            reader.unmatched.clear();
        }
    }

    /// Notes a call that has begun later than the hooks that came so far. While another
    /// call is open, the program may not have stored the results yet; hooks of one batch
    /// come in any order, so a parallel call withdraws the proof of a call that seemed to
    /// come later.
    fn began(
        &mut self,
        who: Principal,
        label: Option<&str>,
        proof: Proof,
        (number, alone): (u64, bool),
        now: Instant,
    ) -> Vec<Effect> {
        if alone || !self.rules.has(Rule::Alone) {
            return self.later(who, label, proof, number, now);
        }
        let Some(reader) = self.readers.get(&who) else { return Vec::new() };
        for id in &reader.answers {
            let Some(answer) = self.answers.get_mut(id) else { continue };
            let runs = reader.running.iter().any(|(running, _)| *running == answer.later_by);
            if runs && let Some((at, _)) = answer.later.take() {
                self.due.remove(&(at, *id));
            }
        }
        Vec::new()
    }

    /// Ends a call that the hub answers with an error: some programs run no hook after
    /// that.
    pub fn erred(&mut self, id: AnswerId) {
        let Some(answer) = self.answers.get(&id) else { return };
        if let Some(reader) = self.readers.get_mut(&answer.who) {
            reader.running.retain(|(_, tool)| tool.answer != Some(id));
        }
    }

    /// Notes that a tool has run. Its answer of the hub is hooked, or suspicious if the
    /// program says that the call failed.
    fn tool_is_over(
        &mut self,
        who: Principal,
        hook: &Hook<'_>,
        now: Instant,
    ) -> (bool, Vec<Effect>) {
        let reader = self.readers.entry(who).or_default();
        reader.hears(now);
        reader.starts = false;
        // A call that was announced and never came to the hub is one of another server's
        // tools.
        let foreign = reader.finishes(hook).is_some_and(|tool| tool.announced && !tool.arrived);
        let quiet = reader.runs_sub_agent();
        let failed = hook.failed && self.rules.has(Rule::Failed);
        let (own, sure) = match foreign {
            true => (Vec::new(), false),
            false => self.answered_by(who, hook, failed),
        };
        let mut effects = Vec::new();
        if failed {
            for id in &own {
                if !self.answers.get_mut(id).is_some_and(Answer::close) {
                    effects.extend(self.suspect(*id, false));
                }
            }
            return (false, effects);
        }
        if sure {
            own.iter().for_each(|id| self.note_hook(*id));
        }
        if !self.rules.has(Rule::Began) {
            effects.extend(self.later(who, None, Proof::Hook, 0, now));
        }
        (own.is_empty() && !quiet, effects)
    }

    /// Finds the answers of the hub that the hook may be about, and whether it is about
    /// all of them: by the call's id or, without one, by the tool's name. Several answers
    /// of one tool can be told apart only when as many hooks have come.
    fn answered_by(
        &mut self,
        who: Principal,
        hook: &Hook<'_>,
        failed: bool,
    ) -> (Vec<AnswerId>, bool) {
        let Some(reader) = self.readers.get_mut(&who) else { return (Vec::new(), false) };
        let of = |fits: &dyn Fn(&Answer) -> bool| -> Vec<AnswerId> {
            let fits = |id: &&AnswerId| {
                self.answers.get(id).is_some_and(|a| {
                    a.door == Door::Mcp && a.beginning == reader.beginning && !a.hooked && fits(a)
                })
            };
            reader.answers.iter().filter(fits).copied().collect()
        };
        let by_id = of(&|a| !hook.call.is_empty() && a.is_called(|name| name == hook.call));
        if !by_id.is_empty() {
            return (by_id, true);
        }
        let same_tool = |a: &Answer| !a.tool().is_empty() && is_tool(hook.tool, a.tool());
        let open = of(&|a| same_tool(a) && a.is_open());
        let written = of(&|a| same_tool(a) && !a.is_open() && a.written != Written::Closed);
        match (written.len(), failed) {
            // The client gave up a call that the hub still has open, or one of those that
            // are answered.
            (_, true) => (open.into_iter().chain(written).collect(), false),
            (0 | 1, false) => (written, true),
            (several, false) => {
                let tool = self.answers.get(&written[0]).map_or("", Answer::tool);
                let all = &mut reader.unmatched;
                let at = all.iter().position(|(name, _)| *name == tool).unwrap_or_else(|| {
                    all.push((tool, 0));
                    all.len() - 1
                });
                all[at].1 += 1;
                let sure = all[at].1 >= several;
                if sure {
                    all.remove(at);
                }
                (written, sure)
            }
        }
    }

    fn note_hook(&mut self, id: AnswerId) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        answer.hooked = !answer.to_sub_agent;
        if answer.is_of_no_use() {
            self.forget(id);
        }
    }

    /// Notes a turn boundary: the user has written, or the model has finished its turn.
    /// The reader's open calls are dropped. A stop proves hooked answers; unproven mail
    /// goes back, because an interrupted client may have dropped it without a sign.
    fn turn(&mut self, who: Principal, stop: bool, now: Instant) -> Vec<Effect> {
        let reader = self.readers.entry(who).or_default();
        reader.running.clear();
        reader.unmatched.clear();
        if reader.is_shared() {
            return Vec::new();
        }
        let beginning = reader.beginning;
        let turns = self.rules.has(Rule::Turn);
        let mut effects = Vec::new();
        for id in self.answers_of(who) {
            let Some(answer) = self.answers.get_mut(&id) else { continue };
            let theirs = matches!(answer.door, Door::Mcp | Door::Hook | Door::Idle);
            if !theirs || answer.proven || answer.beginning != beginning {
                continue;
            }
            // The session start and the first prompt are one turn to the model.
            let just_started = std::mem::take(&mut answer.at_start);
            if just_started && !stop && self.rules.has(Rule::Start) {
                continue;
            }
            if answer.is_open() {
                if turns {
                    answer.close();
                }
                continue;
            }
            let shown = answer.hooked || !self.rules.has(Rule::Hooked);
            let good = shown && answer.written == Written::Yes && !answer.is_doubtful();
            if stop && good && self.rules.has(Rule::Stop) {
                effects.extend(self.prove(id, Proof::Hook));
            } else if turns {
                effects.extend(self.suspect(id, false));
            } else if !self.rules.has(Rule::Began) {
                effects.extend(self.later(who, None, Proof::Hook, 0, now));
            }
            if self.answers.get(&id).is_some_and(Answer::is_over) {
                self.forget(id);
            }
        }
        effects
    }
}

/// Returns whether a program's name for a tool (`mcp__hub__check_inbox`,
/// `hub-check_inbox`) means this tool of the hub. A bare name is a tool of the program's
/// own.
fn is_tool(theirs: &str, tool: &str) -> bool {
    let before = theirs.strip_suffix(tool).filter(|_| !tool.is_empty());
    before.is_some_and(|before| before.ends_with(['_', '-', '.', ':', '/']))
}

#[cfg(test)]
mod tests {
    use super::is_tool;

    #[test]
    fn the_hubs_tools_are_known_under_every_programs_prefix() {
        for theirs in [
            "mcp__posthaste__check_inbox",
            "mcp_posthaste_check_inbox",
            "posthaste_check_inbox",
            "posthaste-check_inbox",
            "posthaste.check_inbox",
        ] {
            assert!(is_tool(theirs, "check_inbox"), "{theirs}");
        }
        assert!(!is_tool("check_inbox", "check_inbox"), "a tool of the program's own");
        assert!(!is_tool("Bash", "check_inbox"));
        assert!(!is_tool("mcp__posthaste__", ""));
    }
}
