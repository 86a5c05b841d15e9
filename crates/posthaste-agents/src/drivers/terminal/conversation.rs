//! The conversation with a program in a terminal, over the lines of tmux's control mode.
//!
//! tmux keeps the screen; whenever the pane wrote something, the conversation asks for it
//! ([`Look`]). Nothing is typed blindly, and every step waits for what the screen shows:
//!
//! ```text
//! Free ──idle, prompt──▶ Typed ──text is seen──▶ Entered ──the program reacted──▶ Turn ──idle──▶ Free
//!                          │ not seen               │ nothing changed              Began   TurnEnded
//!                          └──────── NotTaken ◀─────┘
//! ```
//!
//! The state must be kept before the bytes of a step are written: [`Phase::Typed`] then
//! means that Enter was not pressed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dialogue::{ANSWER_TICKS, Dialogue, Request, STILL, State, Watch};
use super::manners::{Manners, Patterns};
use super::{screen, typing};
use crate::conversation::{
    Activity, Conversation, Heard, PermissionRequest, PromptNo, TurnEnd, one_line,
};
use crate::tmux::control::{Answer, Notice, Reader};

/// The number of the prompt with the task.
const TASK: PromptNo = 1;
/// Number of ticks for which the kind of the screen must stay the same before it counts:
/// a screen may be seen while its program draws it.
pub(super) const CALM: u32 = 2;
/// Number of ticks after which a text that is not seen was not taken.
pub(super) const ECHO_TICKS: u32 = 40;
/// Number of ticks after which a prompt was not taken if Enter changed nothing.
pub(super) const ENTER_TICKS: u32 = 80;
/// Number of ticks after which a screen is told that never stays the same: one minute.
const SCREEN_TICKS: u32 = 240;
/// Number of characters of a screen that a request for permission quotes.
const QUOTED: usize = 1_500;
/// Number of characters of a failure that the screen shows.
const FAILURE: usize = 200;

/// The conversation as it is kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    manners: Manners,
    #[serde(default)]
    phase: Phase,
    /// The program was idle once.
    #[serde(default)]
    ready: bool,
    /// A prompt was not taken: nothing is typed before the screen has changed its kind.
    #[serde(default)]
    wary: bool,
    /// Number of requests for permission until now.
    #[serde(default)]
    requests: u64,
    /// The request for permission about the dialogue on the screen.
    #[serde(default)]
    request: Option<Request>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// No turn of ours runs.
    #[default]
    Free,
    /// A prompt was written into the program's input.
    Typed(Prompt),
    /// Enter was pressed.
    Entered(Prompt),
    /// The program showed that it took the prompt.
    Turn(Prompt),
}

/// A prompt on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Prompt {
    number: PromptNo,
    /// The last letters and digits of its text.
    tail: String,
    /// How often its tail stood in the history and on the screen before it was typed. The
    /// next place is its echo.
    before: usize,
    /// The same for the screen alone.
    shown: usize,
    /// How often the sign of a paste stood on the screen before.
    pastes: usize,
    interrupted: bool,
    /// Ticks since the phase began.
    #[serde(skip)]
    age: u32,
    /// The screen and the row of the cursor when Enter was pressed.
    #[serde(skip)]
    entered: Option<(String, usize)>,
}

/// What the screen tells about the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Idle,
    Busy,
    Waiting,
    /// No pattern fits.
    Unclear,
}

/// An answer that is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Where the cursor is, and whose pane it is.
    Place,
    Screen,
    /// The history and the screen, for the echo and the answer of a prompt.
    All,
    /// The same, just before a prompt is typed.
    Before,
    /// A text or a key: nothing but an error matters.
    Done,
}

/// One look at the pane, as tmux answers it.
#[derive(Debug, Clone, Default)]
struct Look {
    /// The row of the cursor.
    cursor: usize,
    process: u32,
    rows: Vec<String>,
    /// The history and the screen, if they were asked for.
    all: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Terminal {
    kept: Kept,
    patterns: Patterns,
    reader: Reader,
    /// The pane and its process, while a client is attached.
    pane: Option<(String, u32)>,
    awaited: VecDeque<Asked>,
    /// The look that is under way, and the last one.
    coming: Look,
    last: Look,
    /// The text of the last look's screen.
    screen: String,
    /// The screen that was told last, its kind, and the ticks since.
    told: String,
    told_kind: Option<Kind>,
    told_ticks: u32,
    /// Ticks since the screen has changed.
    still: u32,
    kind: Option<Kind>,
    /// Ticks since the screen became of this kind.
    calm: u32,
    /// The pane wrote something after the last look was asked for.
    dirty: bool,
    /// A tick has passed since the last look was asked for.
    rested: bool,
    /// The length of a task that does not fit into a line.
    too_long: Option<usize>,
    /// The dialogue on the screen, until it is asked about.
    watch: Watch,
}

impl Terminal {
    /// Returns the state with which a conversation begins.
    pub(super) fn first(manners: Manners) -> Value {
        to_value(&Kept { manners, ..Kept::default() })
    }

    pub(super) fn resume(state: &Value) -> Option<Self> {
        let kept: Kept = serde_json::from_value(state.clone()).ok()?;
        let patterns = kept.manners.patterns().ok()?;
        Some(Self { kept, patterns, ..Self::default() })
    }

    fn attached(&mut self, pane: String, process: u32) -> Vec<Heard> {
        self.pane = Some((pane, process));
        self.awaited.clear();
        (self.kind, self.calm) = (None, 0);
        self.look()
    }

    fn look(&mut self) -> Vec<Heard> {
        self.asks_for_look().map(Heard::Send).into_iter().collect()
    }

    /// Asks for the screen, and for the history where an echo or an answer is awaited.
    fn asks_for_look(&mut self) -> Option<Vec<u8>> {
        let (pane, _) = self.pane.as_ref()?;
        (self.dirty, self.rested) = (false, false);
        self.coming = Look::default();
        let mut line = format!(
            "display-message -p -t {pane} '#{{cursor_y}} #{{pane_pid}}'\n\
             capture-pane -p -t {pane}\n"
        );
        self.awaited.extend([Asked::Place, Asked::Screen]);
        let wanted = match &self.kept.phase {
            Phase::Entered(_) => true,
            Phase::Turn(_) => self.is_calm(Kind::Idle),
            Phase::Free | Phase::Typed(_) => false,
        };
        if wanted {
            line.push_str(&typing::all(pane));
            self.awaited.push_back(Asked::All);
        }
        Some(line.into_bytes())
    }

    fn answered(&mut self, answer: Answer) -> Vec<Heard> {
        if !answer.asked {
            return Vec::new();
        }
        let Some(asked) = self.awaited.pop_front() else { return Vec::new() };
        match asked {
            Asked::Done if answer.refused => return self.not_taken(),
            Asked::Done => {}
            // The pane has gone; its keeper tells the rest.
            _ if answer.refused => self.pane = None,
            Asked::Place => {
                let line = answer.lines.first().map(String::as_str).unwrap_or_default();
                let mut numbers = line.split(' ').map(str::parse::<u64>);
                let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
                self.coming.cursor = usize::try_from(next()).unwrap_or(usize::MAX);
                self.coming.process = u32::try_from(next()).unwrap_or_default();
            }
            Asked::Screen => self.coming.rows = answer.lines,
            Asked::All => self.coming.all = Some(screen::all(&answer.lines)),
            Asked::Before => {
                if let Phase::Typed(prompt) = &mut self.kept.phase {
                    prompt.before = screen::places(&screen::all(&answer.lines), &prompt.tail).len();
                }
            }
        }
        let is_look = |asked: &Asked| matches!(asked, Asked::Place | Asked::Screen | Asked::All);
        let looking = self.awaited.iter().any(is_look);
        match asked {
            Asked::Done | Asked::Before => Vec::new(),
            _ if looking || self.pane.is_none() => Vec::new(),
            _ => self.seen(),
        }
    }

    /// Takes a whole look.
    fn seen(&mut self) -> Vec<Heard> {
        self.last = std::mem::take(&mut self.coming);
        if self.pane.as_ref().is_some_and(|(_, process)| *process != self.last.process) {
            self.pane = None;
            return vec![Heard::Fails("its pane runs another program".to_owned())];
        }
        let text = screen::text(&self.last.rows);
        let kind = self.kind_of(&text);
        self.kept.wary &= kind == Kind::Idle;
        match self.kind == Some(kind) {
            true => self.calm += 1,
            false => (self.kind, self.calm) = (Some(kind), 0),
        }
        if self.screen != text {
            (self.screen, self.still) = (text, 0);
        }
        match kind {
            Kind::Waiting => self.watch.see(&self.screen),
            Kind::Idle | Kind::Busy | Kind::Unclear => self.watch = Watch::default(),
        }
        self.step()
    }

    /// Tells the screen when its kind has changed and when it stays the same. A screen with
    /// a clock or a spinner is told once a minute.
    fn show(&mut self) -> Option<Heard> {
        let is_other = self.calm >= CALM && self.told_kind != self.kind;
        let is_time = is_other || self.still >= STILL || self.told_ticks >= SCREEN_TICKS;
        if self.told == self.screen || !is_time {
            return None;
        }
        self.told_kind = self.kind;
        self.told.clone_from(&self.screen);
        self.told_ticks = 0;
        Some(Heard::Screen(self.screen.clone()))
    }

    fn kind_of(&self, text: &str) -> Kind {
        let fits =
            |pattern: &Option<regex::Regex>| pattern.as_ref().is_some_and(|p| p.is_match(text));
        match () {
            () if fits(&self.patterns.busy) => Kind::Busy,
            () if fits(&self.patterns.waiting) => Kind::Waiting,
            () if fits(&self.patterns.idle) => Kind::Idle,
            () => Kind::Unclear,
        }
    }

    fn is_calm(&self, kind: Kind) -> bool {
        self.kind == Some(kind) && self.calm >= CALM
    }

    fn tick(&mut self) -> Vec<Heard> {
        if self.pane.is_none() {
            return Vec::new();
        }
        if let Some(bytes) = self.too_long.take() {
            return vec![Heard::Fails(format!(
                "its task has {bytes} bytes, and a line of its terminal takes {}: give it a \
                 shorter one, or say `multiline: true` if its program takes several lines",
                typing::LINE
            ))];
        }
        self.rested = true;
        self.told_ticks = self.told_ticks.saturating_add(1);
        self.still = self.still.saturating_add(1);
        self.watch.tick();
        if let Some(request) = &mut self.kept.request {
            request.age = request.age.saturating_add(1);
            request.gone = request.gone.saturating_add(1);
        }
        if let Phase::Typed(prompt) | Phase::Entered(prompt) = &mut self.kept.phase {
            prompt.age += 1;
        }
        if !self.awaited.is_empty() {
            return Vec::new();
        }
        if self.dirty {
            return self.look();
        }
        self.calm += 1;
        self.step()
    }

    /// Goes on with what the last look and the time tell.
    fn step(&mut self) -> Vec<Heard> {
        let mut heard: Vec<Heard> = self.show().into_iter().collect();
        heard.extend(self.permission());
        match self.kept.phase.clone() {
            Phase::Free => self.kept.ready |= self.is_calm(Kind::Idle),
            Phase::Typed(prompt) => heard.extend(self.after_typing(prompt)),
            Phase::Entered(prompt) => heard.extend(self.after_enter(prompt)),
            Phase::Turn(prompt) => heard.extend(self.in_turn(prompt)),
        }
        heard
    }

    fn after_typing(&mut self, prompt: Prompt) -> Vec<Heard> {
        let Some((pane, _)) = &self.pane else { return Vec::new() };
        // Somebody else pressed Enter.
        let entered = self.kind == Some(Kind::Busy);
        if !entered && !self.shows(&prompt) {
            return if prompt.age > ECHO_TICKS { self.not_taken() } else { Vec::new() };
        }
        let press = typing::press(pane, "Enter");
        let at_enter = Some(self.now());
        self.kept.phase = Phase::Entered(Prompt { age: 0, entered: at_enter, ..prompt });
        // The next look asks for what came since.
        self.dirty = true;
        if entered {
            return Vec::new();
        }
        self.awaited.push_back(Asked::Done);
        vec![Heard::Send(press.into_bytes())]
    }

    /// Returns whether the screen shows the text of a prompt that was just typed.
    fn shows(&self, prompt: &Prompt) -> bool {
        let rows = &self.last.rows;
        let to_cursor = &rows[..rows.len().min(self.last.cursor.saturating_add(1))];
        screen::ends_with(&screen::text(to_cursor), &prompt.tail)
            || screen::places(&self.screen, &prompt.tail).len() > prompt.shown
            || self.pastes() > prompt.pastes
    }

    fn pastes(&self) -> usize {
        self.patterns.pasted.as_ref().map_or(0, |sign| sign.find_iter(&self.screen).count())
    }

    fn now(&self) -> (String, usize) {
        (self.screen.clone(), self.last.cursor)
    }

    fn after_enter(&mut self, mut prompt: Prompt) -> Vec<Heard> {
        // A hub that was started meanwhile compares with what it saw first.
        let entered = prompt.entered.take().unwrap_or_else(|| self.now());
        let unchanged = entered == self.now();
        let all = self.last.all.as_deref();
        let echo = all.and_then(|all| Some((all, self.echo(all, &prompt)?)));
        let works_visibly = self.patterns.busy.is_some();
        let began = match (self.kind, echo) {
            (Some(Kind::Busy), _) => true,
            (Some(Kind::Idle | Kind::Waiting), Some(_)) => !unchanged,
            // A program without a pattern for its work shows by any word of its own that
            // it has read the line. The line end itself is the terminal's.
            (Some(Kind::Unclear), Some((all, end))) => {
                let was_last = screen::ends_with(&entered.0, &prompt.tail);
                !works_visibly && was_last && !all[end..].trim().is_empty()
            }
            _ => false,
        };
        if began {
            let number = prompt.number;
            self.kept.phase = Phase::Turn(prompt);
            return vec![Heard::Began(number)];
        }
        // Without a pattern for its work, a program may read the line much later.
        let tells = unchanged || works_visibly || self.is_calm(Kind::Idle);
        if prompt.age > ENTER_TICKS && tells {
            return self.not_taken();
        }
        self.kept.phase = Phase::Entered(Prompt { entered: Some(entered), ..prompt });
        Vec::new()
    }

    /// Returns the end of the line in which the echo of a prompt ends.
    fn echo(&self, all: &str, prompt: &Prompt) -> Option<usize> {
        let sign = || {
            let sign = self.patterns.pasted.as_ref()?.find_iter(all).last()?;
            Some(screen::end_of_line(all, sign.start()))
        };
        screen::places(all, &prompt.tail).get(prompt.before).copied().or_else(sign)
    }

    fn in_turn(&mut self, prompt: Prompt) -> Vec<Heard> {
        if !self.is_calm(Kind::Idle) {
            return Vec::new();
        }
        let Some(all) = self.last.all.take() else {
            return self.look();
        };
        let end = match self.failure_in(&all, &prompt) {
            _ if prompt.interrupted => TurnEnd::Interrupted,
            Some(failure) => TurnEnd::Failed(failure),
            None => TurnEnd::Answer(self.answer_in(&all, &prompt)),
        };
        self.kept.phase = Phase::Free;
        vec![Heard::TurnEnded(end)]
    }

    /// Returns the text between the echo of a prompt and the program's next prompt, or the
    /// part of it that the profile names.
    fn answer_in(&self, all: &str, prompt: &Prompt) -> String {
        let after = self.after_echo(all, prompt);
        if let Some(pattern) = &self.patterns.answer
            && let Some(found) = pattern.captures_iter(after).last()
        {
            let part = found.get(1).or_else(|| found.get(0)).map_or(0..0, |part| part.range());
            return screen::part(after, part);
        }
        let end = self.patterns.idle.as_ref().and_then(|idle| idle.find_iter(after).last());
        screen::trimmed(&after[..end.map_or(after.len(), |end| end.start())]).to_owned()
    }

    /// Returns what the program wrote after the echo of a prompt that means, by the profile,
    /// that the turn failed.
    fn failure_in(&self, all: &str, prompt: &Prompt) -> Option<String> {
        let found = self.patterns.failed.as_ref()?.captures(self.after_echo(all, prompt))?;
        let part = found.get(1).or_else(|| found.get(0))?;
        Some(one_line(part.as_str(), FAILURE))
    }

    fn after_echo<'a>(&self, all: &'a str, prompt: &Prompt) -> &'a str {
        // tmux forgets the first lines of a long history.
        let anywhere = || screen::places(all, &prompt.tail).last().copied();
        let begin = self.echo(all, prompt).or_else(anywhere).unwrap_or(0);
        &all[begin..]
    }

    /// Tells of a question of the program to a person, and of its end.
    fn permission(&mut self) -> Vec<Heard> {
        let Some(request) = &mut self.kept.request else {
            let dialogue = self.watch.dialogue().filter(|_| self.kind == Some(Kind::Waiting));
            return dialogue.map(|dialogue| self.ask(dialogue, "")).into_iter().collect();
        };
        if self.kind == Some(Kind::Waiting) && request.dialogue.is_on(&self.screen) {
            request.gone = 0;
            return self.answer_dialogue();
        }
        // A screen may be seen while its program draws it. Before a turn ends, its requests do.
        let is_over = self.kind != Some(Kind::Waiting) && self.calm >= CALM;
        let gone = self.kept.request.take_if(|request| is_over || request.gone >= CALM);
        let open = gone.filter(|request| request.state == State::Open);
        open.map(|request| Heard::Withdrew(request.id)).into_iter().collect()
    }

    /// Presses the key of the operator's answer. Asks again if the key changed nothing.
    fn answer_dialogue(&mut self) -> Vec<Heard> {
        let Some(request) = &mut self.kept.request else { return Vec::new() };
        match request.state {
            State::Answered { allow } => {
                (request.state, request.age) = (State::Pressed { allow }, 0);
                let keys = self.kept.manners.answers(allow).to_owned();
                self.press(&keys).map(Heard::Send).into_iter().collect()
            }
            State::Pressed { allow } if request.age > ANSWER_TICKS => {
                let (word, keys) =
                    (if allow { "yes" } else { "no" }, self.kept.manners.answers(allow));
                let before = format!(
                    "The key for {word} (`{keys}`) did not answer this. Answer it in the agent's \
                     terminal, with `posthaste attach`.\n\n"
                );
                let dialogue = request.dialogue.clone();
                vec![self.ask(dialogue, &before)]
            }
            State::Open | State::Pressed { .. } => Vec::new(),
        }
    }

    /// Asks the operator about a dialogue. The request has no subject, so that no verdict on
    /// it is remembered: a dialogue may be about anything.
    fn ask(&mut self, dialogue: Dialogue, before: &str) -> Heard {
        self.kept.requests += 1;
        let id = format!("screen-{}", self.kept.requests);
        self.kept.request = Some(Request::new(id.clone(), dialogue));
        // One row may change in each of several dialogues, and is no clock.
        self.watch = Watch::default();
        let skip = self.screen.chars().count().saturating_sub(QUOTED);
        let text = before.chars().chain(self.screen.chars().skip(skip)).collect();
        Heard::Asks(PermissionRequest { request: id, subject: String::new(), text })
    }

    /// Gives a prompt up that the program did not take. Its text may stand in the input,
    /// and then the screen is not idle, so nothing more is typed.
    fn not_taken(&mut self) -> Vec<Heard> {
        match std::mem::take(&mut self.kept.phase) {
            Phase::Typed(prompt) | Phase::Entered(prompt) => {
                self.kept.wary = true;
                vec![Heard::NotTaken(prompt.number)]
            }
            other => {
                self.kept.phase = other;
                Vec::new()
            }
        }
    }

    fn press(&mut self, keys: &str) -> Option<Vec<u8>> {
        let (pane, _) = self.pane.as_ref()?;
        self.awaited.push_back(Asked::Done);
        Some(typing::press(pane, keys).into_bytes())
    }
}

impl Conversation for Terminal {
    /// Writes nothing: the client attaches when the pane is there.
    fn open(&mut self) -> Vec<Heard> {
        Vec::new()
    }

    fn heard(&mut self, line: &[u8]) -> Vec<Heard> {
        match self.reader.take(line) {
            Some(Notice::Attached { pane, process }) => self.attached(pane, process),
            Some(Notice::Tick) => self.tick(),
            Some(Notice::Answer(answer)) => self.answered(answer),
            Some(Notice::Output { pane }) => {
                let ours = self.pane.as_ref().is_some_and(|(own, _)| *own == pane);
                self.dirty |= ours;
                match ours && self.rested && self.awaited.is_empty() {
                    true => self.look(),
                    false => Vec::new(),
                }
            }
            Some(Notice::Exit) => {
                self.pane = None;
                Vec::new()
            }
            Some(Notice::Other) | None => Vec::new(),
        }
    }

    fn prompt(&mut self, number: PromptNo, text: &str) -> Option<Vec<u8>> {
        let (pane, _) = self.pane.as_ref()?;
        if self.activity() != Activity::Idle {
            return None;
        }
        let mut typed = typing::typed(text, self.kept.manners.multiline);
        if !self.kept.manners.multiline && typed.len() > typing::LINE {
            if number == TASK {
                self.too_long = Some(typed.len());
                return Some(Vec::new());
            }
            typed = typing::clipped(typed);
        }
        let paste = typing::all(pane) + &typing::paste(pane, &typed);
        let tail = screen::tail_of(&typed);
        let shown = screen::places(&self.screen, &tail).len();
        let prompt = Prompt {
            number,
            before: shown,
            shown,
            pastes: self.pastes(),
            interrupted: false,
            age: 0,
            entered: None,
            tail,
        };
        self.kept.phase = Phase::Typed(prompt);
        self.awaited.extend([Asked::Before, Asked::Done, Asked::Done]);
        Some(paste.into_bytes())
    }

    /// No program of this kind can be steered: its input takes one prompt at a time.
    fn steer(&mut self, _: PromptNo, _: &str) -> Option<Vec<u8>> {
        None
    }

    /// Not without a key of the profile: Ctrl-C would end many a program.
    fn can_interrupt(&self) -> bool {
        self.kept.manners.interrupt.is_some()
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        let keys = self.kept.manners.interrupt.clone()?;
        let Phase::Turn(prompt) = &mut self.kept.phase else { return None };
        self.pane.as_ref()?;
        prompt.interrupted = true;
        self.press(&keys)
    }

    /// Looks at the screen once more: the key is pressed if it still shows the dialogue of
    /// the request.
    fn answer(&mut self, request: &str, allow: bool, _: &str) -> Option<Vec<u8>> {
        let open = self.kept.request.as_mut().filter(|open| open.id == request)?;
        if open.state != State::Open {
            return None;
        }
        open.state = State::Answered { allow };
        Some(self.asks_for_look().unwrap_or_default())
    }

    fn activity(&self) -> Activity {
        let current = !self.dirty && self.awaited.is_empty() && self.pane.is_some();
        match self.kept.phase {
            Phase::Free if current && self.is_calm(Kind::Idle) && !self.kept.wary => Activity::Idle,
            Phase::Free if !self.kept.ready => Activity::Starting,
            _ => Activity::Busy,
        }
    }

    fn screen(&self) -> Option<&str> {
        Some(&self.screen)
    }

    fn state(&self) -> Value {
        to_value(&self.kept)
    }
}

fn to_value(kept: &Kept) -> Value {
    serde_json::to_value(kept).expect("texts and numbers are JSON")
}
