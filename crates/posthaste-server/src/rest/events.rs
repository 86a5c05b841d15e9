//! `/v1/events`: follows events without a gap.
//!
//! A follower pulls from the journal at its own pace, so it costs the hub nothing
//! while it stalls; one that does not read for `server.write_timeout` is cut, and
//! goes on later where it was.

mod live;
mod wanted;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::Event as SseEvent;
use futures_util::Stream;
use futures_util::future::select_all;
use futures_util::stream::unfold;
use parking_lot::Mutex;
use posthaste_api::error::{ApiError, ErrorBody, ErrorCode};
use posthaste_api::events::{
    self as wire, ALIVE, ERROR, EventInstance, EventView, EventsQuery, RESET, Reset, TOOL, WRITING,
};
use posthaste_api::messages::{DeliveryView, MessageView};
use posthaste_core::events::{About, Event, EventFilter, EventKind, EventPage, Topic};
use posthaste_core::messaging::message::Principal;
use posthaste_core::{Map, Staying};
use tokio::sync::watch;

use self::live::Live;
use self::wanted::Wanted;
use crate::App;
use crate::auth::{self, Caller};
use crate::extract::Params;
use crate::failure::{Failure, invalid};
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::FOLLOW, follow)
}

/// Interval at which a follower is told that the hub is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Most events that a follower may ask to hear again without naming a number.
const MOST_LAST: u64 = 1000;

/// `GET /v1/events`
pub(super) async fn follow(
    State(app): State<App>,
    Caller(caller): Caller,
    headers: HeaderMap,
    Params(query): Params<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Failure> {
    let most = app.hub.limits().recipients;
    if list(&query.topics).nth(most).is_some() {
        return Err(invalid("topics", format!("at most {most} topics (limits.recipients)")));
    }
    let wanted = Wanted::read(list(&query.types))?;
    let filter = EventFilter {
        topics: list(&query.topics).map(topic).collect::<Result<_, _>>()?,
        kinds: wanted.of_journal(),
    };
    let after = match headers.get("last-event-id") {
        Some(id) => {
            Some(id.to_str().ok().and_then(|id| id.trim().parse().ok()).ok_or_else(|| {
                invalid("Last-Event-ID", "it is the number of an event, from an `id:` line")
            })?)
        }
        None => query.after,
    };
    if query.last.is_some_and(|last| last > MOST_LAST) {
        return Err(invalid("last", format!("it lies between 0 and {MOST_LAST}")));
    }
    if query.last.is_some() && query.after.is_some() {
        return Err(invalid("last", "it says where to begin, and so does `after`: give one"));
    }
    let room = Followers::enter(&app, caller)?;
    let news = app.hub.last_event();
    let after = match (after, query.last) {
        (Some(after), _) => after,
        (None, None) => *news.borrow(),
        (None, Some(count)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            app.hub.before_last_events(caller, count, &filter).await.map_err(ApiError::from)?
        }
    };
    let live = lives(&app, caller, &filter, &wanted).await;
    let follower = Follower {
        app,
        headers,
        caller,
        filter,
        wanted,
        live,
        after,
        news,
        // The follower learns the number to go on from before anything happens.
        next: VecDeque::from([Next::Ready(alive(after))]),
        broken: false,
        _room: room,
    };
    Ok(Sse::new(unfold(follower, |mut follower| async move {
        follower.next().await.map(|line| (Ok(line), follower))
    })))
}

/// Counts the open streams of each follower.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<Map<Principal, usize>>);

/// One open stream of a follower, counted until this is dropped.
pub(super) struct FollowerSlot {
    followers: Arc<Followers>,
    of: Principal,
    _stays: Staying,
}

impl Followers {
    /// Admits a stream. Agents cannot crowd out the operator, and no agent can crowd out
    /// the others.
    pub(super) fn enter(app: &App, caller: Principal) -> Result<FollowerSlot, Failure> {
        let limits = app.hub.limits();
        let mut open = app.followers.0.lock();
        let own = open.get(&caller).copied().unwrap_or(0);
        let agents = open.iter().filter(|(who, _)| **who != Principal::Operator);
        let (all, most_own) = match caller {
            Principal::Operator => (own, limits.event_readers),
            Principal::Instance(_) => (agents.map(|(_, n)| n).sum(), limits.event_readers_each),
        };
        if own >= most_own {
            let key = match caller {
                Principal::Operator => "limits.event_readers",
                Principal::Instance(_) => "limits.event_readers_each",
            };
            return Err(crowded(most_own, key));
        }
        if all >= limits.event_readers {
            return Err(crowded(limits.event_readers, "limits.event_readers"));
        }
        *open.entry(caller).or_default() += 1;
        let (followers, _stays) = (Arc::clone(&app.followers), app.hub.stays(caller));
        Ok(FollowerSlot { followers, of: caller, _stays })
    }
}

impl Drop for FollowerSlot {
    fn drop(&mut self) {
        let mut open = self.followers.0.lock();
        if let Some(count) = open.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.of);
            }
        }
    }
}

fn crowded(most: usize, key: &str) -> Failure {
    let error = ApiError::new(ErrorCode::RateLimited, format!("{most} follow the events already"))
        .hint(format!("end one of them, or raise {key}"))
        .details(serde_json::json!({ "limit": most, "key": key }));
    Failure(error)
}

fn list(text: &Option<String>) -> impl Iterator<Item = &str> {
    text.as_deref().unwrap_or("").split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn topic(text: &str) -> Result<Topic, Failure> {
    match text.split_once(':') {
        Some(("agent", id)) => Ok(Topic::Agent(id.parse()?)),
        Some(("team", name)) => Ok(Topic::Team(name.parse()?)),
        Some(("thread", id)) => Ok(Topic::Thread(id.parse()?)),
        Some(("session", "human")) => Ok(Topic::Session(Principal::Operator)),
        Some(("session", id)) => Ok(Topic::Session(Principal::Instance(id.parse()?))),
        _ => Err(invalid("topics", "a topic is agent:ID, team:NAME, session:ID or thread:ID")),
    }
}

/// Returns the agents of the followed threads whose work the caller may see.
async fn lives(app: &App, caller: Principal, filter: &EventFilter, wanted: &Wanted) -> Vec<Live> {
    let (tools, writes) = (wanted.has(TOOL), wanted.has(WRITING));
    let mut lives = Vec::new();
    for topic in filter.topics.iter().filter(|_| tools || writes) {
        let Topic::Thread(thread) = topic else { continue };
        let Some(who) = app.hub.thread_owner(*thread) else { continue };
        if caller == Principal::Instance(who) || app.hub.is_above(caller, who) {
            lives.push(Live::of(&app.hub, *thread, who, (tools, writes)).await);
        }
    }
    lives
}

/// The next item to send; an event becomes text when its turn comes.
enum Next {
    Ready(SseEvent),
    Event(Box<Event>),
    /// The event, after its thread's agent was told of.
    Told(Box<Event>),
}

/// Tells the follower the number up to which the hub has looked, also over events that do
/// not concern the follower. Without data it would be no event, and its number would be
/// lost.
fn alive(after: u64) -> SseEvent {
    SseEvent::default().event(ALIVE).id(after.to_string()).data("{}")
}

struct Follower {
    app: App,
    /// The token in them is checked again before each look: it may have ended.
    headers: HeaderMap,
    caller: Principal,
    filter: EventFilter,
    wanted: Wanted,
    live: Vec<Live>,
    /// Every event up to here was sent or does not concern the caller.
    after: u64,
    news: watch::Receiver<u64>,
    next: VecDeque<Next>,
    broken: bool,
    _room: FollowerSlot,
}

impl Follower {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            match self.next.pop_front() {
                Some(Next::Ready(line)) => return Some(line),
                Some(Next::Event(event)) => {
                    let said = self.said(&event);
                    self.next.push_front(Next::Told(event));
                    if said.is_some() {
                        return said;
                    }
                    continue;
                }
                Some(Next::Told(event)) => {
                    if !self.wanted.has(event.kind.as_str()) {
                        continue;
                    }
                    let line =
                        SseEvent::default().id(event.no.to_string()).event(event.kind.as_str());
                    // A view has only text keys: it is always JSON.
                    return line.json_data(view(*event)).ok();
                }
                None => {}
            }
            if let Some(text) = self.live.iter_mut().find_map(Live::text) {
                return Some(text);
            }
            let known = auth::caller(&self.app, &self.headers);
            if self.broken || !known.is_ok_and(|caller| caller == self.caller) {
                return None;
            }
            // Events after this look count as news.
            self.news.mark_unchanged();
            match self.app.hub.events(self.caller, self.after, &self.filter).await {
                Ok(page) => self.tell(page).await,
                Err(error) => {
                    self.broken = true;
                    let body = ErrorBody { error: error.into() };
                    let line = SseEvent::default().event(ERROR).json_data(body);
                    self.next.extend(line.map(Next::Ready));
                }
            }
            if self.next.is_empty() && !self.wait().await? {
                return Some(alive(self.after));
            }
        }
    }

    /// Returns the line of what a followed thread's agent says with this message. Its number
    /// is that of the event, whose own line comes after it, if it is wanted.
    fn said(&self, event: &Event) -> Option<SseEvent> {
        let About::Message(record, _) = &event.about else { return None };
        let followed = self.filter.topics.contains(&Topic::Thread(record.message.thread));
        if event.kind != EventKind::Accepted || !followed {
            return None;
        }
        let spoken = self.app.hub.spoken(record)?.as_str();
        if !self.wanted.has(spoken) {
            return None;
        }
        let line = SseEvent::default().event(spoken);
        let line = match self.wanted.has(event.kind.as_str()) {
            // Who loses the connection between the two lines hears both again.
            true => line,
            false => line.id(event.no.to_string()),
        };
        line.json_data(EventView { kind: spoken.to_owned(), ..view(event.clone()) }).ok()
    }

    async fn tell(&mut self, page: EventPage) {
        let unknown = self.after > page.last;
        let forgotten = self.after.saturating_add(1) < page.oldest;
        if unknown || forgotten {
            // Report the gap.
            let reset = Reset { oldest: page.oldest, last: page.last };
            self.after = if unknown { page.last } else { page.oldest - 1 };
            let line = SseEvent::default().event(RESET).id(self.after.to_string());
            self.next.extend(line.json_data(reset).map(Next::Ready));
        }
        let events = page.events.into_iter();
        let mut lines: Vec<_> = events.map(|e| (e.at, Next::Event(Box::new(e)))).collect();
        for live in &mut self.live {
            let calls = live.calls(&self.app.hub).await;
            lines.extend(calls.into_iter().map(|(at, line)| (at, Next::Ready(line))));
        }
        if !self.live.is_empty() {
            lines.sort_by_key(|(at, _)| *at);
        }
        self.next.extend(lines.into_iter().map(|(_, line)| line));
        if !unknown {
            self.after = self.after.max(page.upto);
        }
    }

    /// Waits for news. Returns whether there is any; `None` when the hub stops.
    async fn wait(&mut self) -> Option<bool> {
        if *self.news.borrow() > self.after {
            return Some(true);
        }
        let hub = &self.app.hub;
        let mut lives: Vec<_> =
            self.live.iter_mut().map(|live| Box::pin(live.changed(hub))).collect();
        let live = async {
            match lives.is_empty() {
                true => std::future::pending().await,
                false => drop(select_all(lives.iter_mut()).await),
            }
        };
        tokio::select! {
            () = hub.stopped() => None,
            changed = self.news.changed() => changed.ok().map(|()| true),
            () = live => Some(true),
            () = tokio::time::sleep(ALIVE_EVERY) => Some(false),
        }
    }
}

fn view(event: Event) -> EventView {
    let mut view = EventView {
        no: event.no,
        kind: event.kind.as_str().to_owned(),
        at: event.at.to_string(),
        seq: None,
        message: None,
        delivery: None,
        instance: None,
        team: None,
        profile: None,
        need_id: None,
        need: None,
    };
    match event.about {
        About::Message(record, delivery) => {
            let concerned = record.deliveries.iter().find(|d| Some(d.delivery) == delivery);
            view.seq = Some(record.message.seq.0);
            view.delivery = concerned.map(DeliveryView::from);
            view.message = Some(Box::new(MessageView::from(*record)));
        }
        About::Pruned(seq) => view.seq = Some(seq.0),
        About::Instance(i) => {
            view.team = Some(i.team.to_string());
            view.instance = Some(EventInstance {
                instance: i.id.to_string(),
                address: Some(i.address.to_string()),
                status: Some(i.status.as_str().to_owned()),
            });
        }
        About::Forgotten(id) => {
            let instance = id.to_string();
            view.instance = Some(EventInstance { instance, address: None, status: None });
        }
        About::Team(name) => view.team = Some(name.to_string()),
        About::Need(id, need) => {
            view.need_id = Some(id.0);
            view.need = need.map(|need| Box::new((*need).into()));
        }
        About::Profile(name) => view.profile = Some(name.to_string()),
    }
    view
}
