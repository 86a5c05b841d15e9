//! Progress on a terminal, for a person who waits.

use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::output::Output;
use crate::paint::{self, Text, Tone};

/// The time between two drawings.
const TICK: Duration = Duration::from_millis(100);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Lines at the end of the terminal that are redrawn, and erased at the end.
pub(crate) struct Progress {
    colours: bool,
    began: Instant,
    /// Number of lines that are drawn now.
    drawn: usize,
}

impl Progress {
    /// Makes a progress, only if stderr is a terminal.
    pub(crate) fn for_viewer(output: &Output) -> Option<Self> {
        let colours = output.has_colours_on_stderr();
        output.is_watched().then(|| Self { colours, began: Instant::now(), drawn: 0 })
    }

    /// Returns how long the person has waited.
    pub(crate) fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// Draws an animated first line, and more lines below it.
    pub(crate) fn draw(&mut self, first: Text, below: impl IntoIterator<Item = Text>) {
        let columns = paint::columns(&io::stderr());
        // A line that fills the last column would wrap.
        let columns = Some(columns.unwrap_or(80).saturating_sub(1));
        let frame = self.waited().as_millis() / TICK.as_millis();
        let frame = SPINNER[usize::try_from(frame).unwrap_or(0) % SPINNER.len()];
        let first = Text::new().add(Tone::Good, frame).plain(" ").then(first);
        let lines: Vec<String> = std::iter::once(first)
            .chain(below)
            .map(|line| line.line(columns).render(self.colours))
            .collect();
        let drawing = format!("{}{}", self.erasing(), lines.join("\r\n"));
        self.drawn = lines.len();
        write(&drawing);
    }

    /// Erases the lines: further output takes their place.
    pub(crate) fn clear(&mut self) {
        if self.drawn > 0 {
            write(&self.erasing());
            self.drawn = 0;
        }
    }

    /// Returns the codes that go to the start of the first line and erase all behind it.
    fn erasing(&self) -> String {
        match self.drawn {
            0 | 1 => "\r\x1b[J".to_owned(),
            lines => format!("\r\x1b[{}A\x1b[J", lines - 1),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Waits for a future, and shows how long it has taken.
pub(crate) async fn while_waiting<T>(
    progress: &mut Option<Progress>,
    what: &str,
    awaited: impl Future<Output = T>,
) -> T {
    let Some(progress) = progress else { return awaited.await };
    let mut awaited = std::pin::pin!(awaited);
    // A future that completes at once needs no progress.
    let mut ticks = interval_at(Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let done = loop {
        tokio::select! {
            biased;
            done = awaited.as_mut() => break done,
            _ = ticks.tick() => {
                let time = format!(", {} s", progress.waited().as_secs());
                progress.draw(Text::from(what).add(Tone::Faint, time), []);
            }
        }
    };
    progress.clear();
    done
}

/// Writes to stderr, which may be closed.
fn write(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
