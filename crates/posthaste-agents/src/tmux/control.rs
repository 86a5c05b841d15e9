//! The lines of tmux's control mode.
//!
//! tmux answers each command with a block, `%begin`, lines, `%end` or `%error`, and tells
//! of other events in lines of their own between the blocks. The lines inside a block are
//! not escaped: a program may print `%end` on its screen. A block therefore ends only
//! with the numbers that it began with.
//!
//! The hub's own client adds lines that begin with a byte that no line of tmux has
//! ([`ATTACHED`], [`TICK`]), so they count anywhere, also inside a block.

/// The line that the hub's client writes when it has attached, followed by a space, the
/// pane, a space, and the process of the pane.
pub(crate) const ATTACHED: &str = "\u{1}attached";

/// The line that the hub's client writes from time to time.
pub(crate) const TICK: &str = "\u{1}tick";

/// Number of bytes of one answer that are kept; of a longer one the end is.
const ANSWER_BYTES: usize = 4 << 20;

/// The meaning of one or more lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The client has attached to this pane, in which this process runs.
    Attached { pane: String, process: u32 },
    /// Some time has passed.
    Tick,
    /// A pane wrote something.
    Output { pane: String },
    /// The answer to a command.
    Answer(Answer),
    /// The client ends.
    Exit,
    /// An event that does not matter here.
    Other,
}

/// The answer to one command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The command was refused; the lines say why.
    pub(crate) refused: bool,
    /// The command came in through the client's stdin. The other one is the command with
    /// which the client was started.
    pub(crate) asked: bool,
    pub(crate) lines: Vec<String>,
}

/// Puts lines together.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    open: Option<Block>,
}

#[derive(Debug)]
struct Block {
    /// Time, number and flags: all that stands behind `%begin`.
    numbers: Vec<u8>,
    lines: Vec<String>,
    bytes: usize,
}

impl Reader {
    /// Takes one line, without its line end. `None`: the line is a part of an answer.
    pub(crate) fn take(&mut self, line: &[u8]) -> Option<Notice> {
        if line.first() == Some(&1) {
            return Some(self.own(line));
        }
        let Some(mut block) = self.open.take() else { return self.outside(line) };
        let refused = match line.strip_prefix(b"%end ") {
            Some(numbers) if numbers == block.numbers => false,
            _ if line.strip_prefix(b"%error ") == Some(&block.numbers) => true,
            _ => {
                block.push(line);
                self.open = Some(block);
                return None;
            }
        };
        let asked = block.numbers.ends_with(b" 1");
        Some(Notice::Answer(Answer { refused, asked, lines: block.lines }))
    }

    /// Takes a line of the hub's client.
    fn own(&mut self, line: &[u8]) -> Notice {
        if line == TICK.as_bytes() {
            return Notice::Tick;
        }
        let text = String::from_utf8_lossy(line);
        let mut words = text.split(' ');
        match (words.next(), words.next(), words.next().map(str::parse)) {
            (Some(ATTACHED), Some(pane), Some(Ok(process))) if is_pane(pane) => {
                // What the earlier client did not finish is never finished.
                self.open = None;
                Notice::Attached { pane: pane.to_owned(), process }
            }
            _ => Notice::Other,
        }
    }

    fn outside(&mut self, line: &[u8]) -> Option<Notice> {
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        match word {
            b"%begin" => {
                self.open = Some(Block { numbers: rest.to_vec(), lines: Vec::new(), bytes: 0 });
                None
            }
            b"%output" | b"%extended-output" => {
                let pane = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
                let pane = std::str::from_utf8(pane).ok().filter(|pane| is_pane(pane));
                Some(pane.map_or(Notice::Other, |pane| Notice::Output { pane: pane.to_owned() }))
            }
            b"%exit" => Some(Notice::Exit),
            _ => Some(Notice::Other),
        }
    }
}

impl Block {
    fn push(&mut self, line: &[u8]) {
        let line = &line[line.len().saturating_sub(ANSWER_BYTES)..];
        let line = String::from_utf8_lossy(line).into_owned();
        self.bytes += line.len() + 1;
        self.lines.push(line);
        if self.bytes > ANSWER_BYTES {
            // Half of it, so that a flood does not move all lines again and again.
            let mut gone = 0;
            let mut from = 0;
            while gone < ANSWER_BYTES / 2 && from + 1 < self.lines.len() {
                gone += self.lines[from].len() + 1;
                from += 1;
            }
            self.lines.drain(..from);
            self.bytes -= gone;
        }
    }
}

/// Returns whether this is tmux's own name of a pane: `%` and a number.
pub(crate) fn is_pane(text: &str) -> bool {
    let digits = text.strip_prefix('%').unwrap_or_default();
    !digits.is_empty() && digits.len() < 12 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz;

    use super::*;

    /// What tmux 3.3a wrote to a client that looked at an agent, made it answer a line,
    /// sent nonsense, changed the size of its window and killed it.
    const RECORDED: &str = include_str!("recorded/session.txt");

    fn read(text: &str) -> Vec<Notice> {
        let mut reader = Reader::default();
        text.lines().filter_map(|line| reader.take(line.as_bytes())).collect()
    }

    fn answer(refused: bool, lines: &[&str]) -> Notice {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        Notice::Answer(Answer { refused, asked: true, lines })
    }

    #[test]
    fn a_real_session_is_understood() {
        let notices = read(RECORDED);
        let answers: Vec<&Notice> =
            notices.iter().filter(|n| matches!(n, Notice::Answer(_))).collect();
        assert!(matches!(answers[0], Notice::Answer(Answer { asked: false, .. })));
        assert_eq!(answers[2], &answer(false, &["2 0 0 10"]));
        let screen = [
            "> h\u{e4}llo; \\ \"x\" $HOME #{pid}",
            "> MOCK: h\u{e4}llo; \\ \"x\" $HOME #{pid}",
            ">",
        ];
        let Notice::Answer(seen) = answers[6] else { panic!("an answer") };
        assert_eq!(seen.lines[..3], screen);
        assert_eq!(answers[7], &answer(true, &["parse error: unknown command: nonsense"]));
        let wrote = notices.iter().filter(|n| **n == Notice::Output { pane: "%0".into() }).count();
        assert_eq!(wrote, 3);
        assert_eq!(notices.last(), Some(&Notice::Exit));
    }

    #[test]
    fn a_program_that_prints_the_words_of_tmux_ends_no_answer() {
        let text = "%begin 17 5 1\n%end 17 4 1\n%error 17 6 1\n%exit\n%output %0 x\n%begin 1 1 1\n%end 17 5 1";
        let inside = ["%end 17 4 1", "%error 17 6 1", "%exit", "%output %0 x", "%begin 1 1 1"];
        assert_eq!(read(text), [answer(false, &inside)]);
    }

    #[test]
    fn a_tick_counts_inside_an_answer_and_a_new_client_forgets_the_old_ones_answer() {
        assert_eq!(
            read("%begin 17 5 1\nhalf\n\u{1}tick\nrest\n%end 17 5 1"),
            [Notice::Tick, answer(false, &["half", "rest"])]
        );
        let attached = Notice::Attached { pane: "%3".into(), process: 4711 };
        assert_eq!(
            read("%begin 17 5 1\nhalf\n\u{1}attached %3 4711\n%exit"),
            [attached, Notice::Exit]
        );
        assert_eq!(read("\u{1}attached ;kill-server 1"), [Notice::Other]);
    }

    #[test]
    fn of_an_endless_answer_the_end_is_kept() {
        let mut reader = Reader::default();
        assert_eq!(reader.take(b"%begin 1 1 1"), None);
        let line = "x".repeat(1 << 20);
        for _ in 0..9 {
            assert_eq!(reader.take(line.as_bytes()), None);
        }
        assert_eq!(reader.take(b"the last"), None);
        let Some(Notice::Answer(answer)) = reader.take(b"%end 1 1 1") else { panic!("an end") };
        assert!(answer.lines.iter().map(String::len).sum::<usize>() <= ANSWER_BYTES);
        assert_eq!(answer.lines.last().map(String::as_str), Some("the last"));
    }

    #[test]
    fn no_line_breaks_the_reader() {
        for case in fuzz::cases(2_000, &[RECORDED]) {
            let mut reader = Reader::default();
            for line in case.bytes.split(|byte| *byte == b'\n') {
                if let Some(Notice::Output { pane } | Notice::Attached { pane, .. }) =
                    reader.take(line)
                {
                    assert!(is_pane(&pane), "{pane:?} would be a word of a command");
                }
            }
        }
    }
}
