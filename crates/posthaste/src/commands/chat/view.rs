//! The conversation as it is now, and again whenever something has happened.

use std::time::Duration;

use posthaste_api::chat::{ChatQuery, ChatView};
use posthaste_api::client::{Client, Following};
use posthaste_api::events::EventsQuery;
use posthaste_api::{ApiError, ErrorCode};
use tokio::time::sleep;

use super::super::Session;
use crate::failure::Failure;

/// The time before a lost hub is asked again.
const PAUSE: Duration = Duration::from_millis(300);
/// The time between two looks at an agent at work: the end of its turn is no event.
const LOOK: Duration = Duration::from_millis(300);

pub(super) struct Views<'a> {
    id: &'a str,
    session: &'a Session,
    last: u32,
    /// The number of the last message of the last look: whatever came after it is news.
    seen: Option<u64>,
    following: Option<Following>,
    /// The last look showed the agent at work.
    working: bool,
    /// The hub did not answer, which was told.
    away: bool,
}

pub(super) enum Seen {
    View(Box<ChatView>),
    /// The hub does not answer, and is asked again.
    Away(ApiError),
}

impl<'a> Views<'a> {
    /// Looks at the last so many messages first, and then at all that came after them.
    pub(super) fn new(id: &'a str, session: &'a Session, last: u32) -> Self {
        Self { id, session, last, seen: None, following: None, working: false, away: false }
    }

    /// Returns the conversation now, and then whenever something has happened. The future
    /// may be dropped at any point, without loss.
    pub(super) async fn next(&mut self) -> Result<Seen, Failure> {
        loop {
            match self.look().await {
                Ok(view) => {
                    (self.away, self.working) = (false, view.working);
                    let newest = view.entries.iter().filter_map(|entry| entry.seq).max();
                    // A conversation may have no message yet.
                    self.seen = self.seen.max(newest).or(Some(0));
                    return Ok(Seen::View(view));
                }
                Err(Failure::Told(error)) if error.code == ErrorCode::Unavailable => {
                    self.following = None;
                    if !std::mem::replace(&mut self.away, true) {
                        return Ok(Seen::Away(error));
                    }
                    sleep(PAUSE).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn look(&mut self) -> Result<Box<ChatView>, Failure> {
        match &mut self.following {
            Some(following) => {
                let working = self.working;
                let heard = async {
                    tokio::select! {
                        biased;
                        heard = following.next() => Some(heard),
                        () = sleep(LOOK), if working => None,
                    }
                };
                if let Some(Ok(None) | Err(_)) = heard.await {
                    self.following = None;
                    // The hub may have gone, and come back elsewhere.
                    sleep(PAUSE).await;
                }
            }
            // What happens after this is heard.
            None => self.following = Some(follow(self.id, &self.session.client()?).await?),
        }
        let client = self.session.client()?;
        let mut view = self.page(&client, None).await?;
        let is_news = |before: &u64| self.seen.is_some_and(|seen| *before > seen);
        while let Some(before) = view.before.filter(is_news) {
            let older = self.page(&client, Some(before)).await?;
            view = joined(older, view);
        }
        Ok(Box::new(view))
    }

    /// Returns the last messages before a number, or of all.
    ///
    /// Each page has the same size, so the one that reaches back to the last look shows no
    /// message that is older than those of that look.
    async fn page(&self, client: &Client, before: Option<u64>) -> Result<ChatView, Failure> {
        let query = ChatQuery { last_n: Some(self.last), before };
        Ok(client.chat(self.id, &query).await?)
    }
}

/// Puts a page before a newer one, which tells how the agent is.
fn joined(older: ChatView, newer: ChatView) -> ChatView {
    let mut view = ChatView { before: older.before, ..newer };
    view.working |= older.working;
    view.open.splice(0..0, older.open);
    view.entries.splice(0..0, older.entries);
    view
}

async fn follow(id: &str, client: &Client) -> Result<Following, Failure> {
    let thread = client.instance(id).await?.thread_id;
    let query = EventsQuery {
        topics: Some(format!("thread:{thread},agent:{id}")),
        types: Some("message,delivery,instance,need,tool".to_owned()),
        ..EventsQuery::default()
    };
    Ok(client.events(&query).await?)
}
