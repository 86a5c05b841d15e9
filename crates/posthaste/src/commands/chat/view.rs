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
    /// Looks at the last so many messages.
    pub(super) fn new(id: &'a str, session: &'a Session, last: u32) -> Self {
        Self { id, session, last, following: None, working: false, away: false }
    }

    /// Returns the conversation now, and then whenever something has happened. The future
    /// may be dropped at any point, without loss.
    pub(super) async fn next(&mut self) -> Result<Seen, Failure> {
        loop {
            match self.look().await {
                Ok(view) => {
                    (self.away, self.working) = (false, view.working);
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
        let query = ChatQuery { last_n: Some(self.last), before: None };
        Ok(Box::new(client.chat(self.id, &query).await?))
    }
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
