//! The open stream from the hub: it shows that the agent is alive, and brings
//! notifications.
//!
//! Every agent that is used has one (see [`super::open_streams`]). Notifications go to
//! the client only after a handshake of the old era: in the new era a client asks for
//! them itself.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, HeaderValue};
use tokio::time::sleep;

use super::Bridge;
use super::call::is_stream;
use super::hub::Pause;
use super::sse;
use super::who::{Look, Seen};

const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The hub sends something twice a minute; silence for longer means that it is gone.
const SILENCE: Duration = Duration::from_secs(90);

/// The time between two looks for an agent that a hook has joined as.
const LOOK: Duration = Duration::from_secs(1);

impl Bridge {
    /// Opens the stream of an agent that a hook of the program has joined as: the program
    /// lives, although it has called no tool yet.
    pub(super) async fn watch_hooks(&self) {
        let mut seen = Seen::default();
        loop {
            match self.who.look(&mut seen).await {
                Look::Over => return,
                Look::Known => self.who.forgotten().await,
                Look::Found(identity) => drop(self.uses(&identity)),
                Look::Nobody => (),
            }
            sleep(LOOK).await;
        }
    }

    /// Keeps one stream open until the future is dropped.
    pub(super) async fn listen(&self, identity: &str) {
        let mut pause = Pause::default();
        loop {
            self.follow(identity, &mut pause).await;
            pause.wait().await;
        }
    }

    async fn follow(&self, identity: &str, pause: &mut Pause) {
        // Only calls look for a hub and join again, because a client waits for them.
        let Ok(hub) = self.hub.url() else { return };
        let Some(bearer) = self.who.known(&hub, identity).await else { return };
        let request = self
            .signed(self.http.get(self.door(&hub)), &bearer)
            .headers(self.handshake.of_old_era(&bearer))
            .header(ACCEPT, STREAM);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(_) => return self.hub.lost(&hub),
        };
        if answer.status() == StatusCode::UNAUTHORIZED {
            // A hook may have joined again, or will: the next look finds it.
            self.who.forget(&bearer).await;
            return;
        }
        if !answer.status().is_success() || !is_stream(answer.headers()) {
            return;
        }
        pause.reset();
        let mut messages = sse::messages(answer, SILENCE);
        while let Some(news) = messages.next().await {
            if self.wants_news() {
                self.out.line(news.as_bytes());
            }
        }
    }
}
