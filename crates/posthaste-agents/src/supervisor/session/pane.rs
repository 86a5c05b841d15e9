//! The conversation with a worker in a terminal, through tmux instead of its keeper.
//!
//! tmux numbers no bytes, so nothing that was written is written again: what matters is
//! on the screen, and the conversation looks there before it goes on.

use std::convert::Infallible;
use std::io::{self, ErrorKind};

use posthaste_core::ports::TranscriptKind;
use tokio::time::sleep;

use super::{AGAIN, Session, hearing, mail};
use crate::conversation::Heard;
use crate::supervisor::keepers::keeper_of;
use crate::supervisor::outcome;
use crate::ticket::Pane;
use crate::tmux::Client;

/// Number of characters of the terminal's text that the transcript shows at its end.
const SHOWN: usize = 8_000;
/// Number of clients in a row that tmux may refuse for a pane that is there.
const REFUSED: u32 = 10;
/// The same for a pane that tmux does not show: about a minute, in which the keeper of a
/// pane that has gone ends and tells why.
const GONE: u32 = 300;

impl Session {
    /// Talks through one client after the other, as long as the worker has its pane.
    pub(super) async fn converse_in_pane(&mut self) -> io::Result<()> {
        let mut refused = 0;
        loop {
            let missing = || io::Error::from(ErrorKind::NotFound);
            let tmux = self.tmux.clone().ok_or_else(missing)?;
            let pane = Pane::noted(&self.folder).ok_or_else(missing)?;
            let keeper = keeper_of(&self.folder).ok_or_else(missing)?;
            let mut client = Client::attach(&tmux, &pane, keeper)?;
            let Err(error) = self.converse_through(&mut client).await;
            tracing::debug!(who = %self.who, %error, "tmux ended the hub's client");
            refused = if client.attached() { 0 } else { refused + 1 };
            if refused >= GONE || (refused >= REFUSED && tmux.has(&pane).await) {
                self.stop.fail(&format!("tmux does not let the hub attach to its pane: {error}"));
            }
            sleep(AGAIN).await;
        }
    }

    /// Talks through one client, until it ends.
    async fn converse_through(&mut self, client: &mut Client) -> io::Result<Infallible> {
        // An earlier client, or none, got these.
        self.kept.unsent.clear();
        loop {
            self.prompt_with_what_is_held();
            self.save_and_write(client).await;
            self.choose_wait();
            tokio::select! {
                line = client.next() => self.take_pane_line(&line?).await,
                arrived = mail::arrives(&mut self.wait) => {
                    self.wait = None;
                    self.take_mail(arrived);
                }
                (request, verdict) = hearing::verdict(&mut self.verdicts) => {
                    self.verdicts.remove(&request);
                    self.answer(&request, &verdict);
                }
            }
        }
    }

    /// Adds the end of the terminal's text to the transcript. A pane that was closed left
    /// none, and then it is the screen that was seen last.
    pub(super) fn show_the_end(&mut self) {
        let mut screen = outcome::last(&self.folder.terminal(), SHOWN);
        if screen.is_empty() {
            screen = self.talk.screen().unwrap_or_default().to_owned();
        }
        if !screen.is_empty() && self.screen.as_ref() != Some(&screen) {
            self.tell(TranscriptKind::Screen, &screen);
            self.screen = Some(screen);
        }
    }

    async fn take_pane_line(&mut self, line: &[u8]) {
        for heard in self.talk.heard(line) {
            // A look at the screen changes nothing that is kept.
            self.dirty |= !matches!(heard, Heard::Send(_) | Heard::Screen(_));
            self.act(heard).await;
        }
        self.note_activity();
    }

    /// Writes the state, if it has changed, and then the commands that go with it.
    async fn save_and_write(&mut self, client: &mut Client) {
        let pieces = std::mem::take(&mut self.kept.unsent);
        let state = self.talk.state();
        if self.dirty || self.kept.state != state {
            self.kept.state = state;
            self.keep().await;
        }
        for piece in pieces {
            client.write(piece.text.as_bytes());
        }
    }
}
