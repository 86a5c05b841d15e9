//! The address of the hub, and the retries while there is none.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_api::{ApiError, ErrorCode};
use tokio::time::{Instant, sleep};

use super::super::Session;
use super::super::start::{Start, Started};
use crate::failure::told;

/// The pause between two attempts: this at first, and then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(4);
/// The time for which the bridge waits for a hub that never answered.
const NEVER_THERE: Duration = Duration::from_secs(30);
/// The time for which the bridge asks a busy hub again.
const BUSY: Duration = Duration::from_secs(30);
/// Number of times in a row that a running hub may drop one call in the middle. A hub
/// does so when it dies, but also when it refuses to read a line to its end.
const CUTS: u32 = 8;
/// The time between two starts of a hub.
const STARTING: Duration = Duration::from_secs(10);
/// Of two hubs that start at once one gives up; the time that the other may take to
/// answer.
const GIVEN_UP: Duration = Duration::from_secs(3);
/// A supervisor starts a hub again that died. If none does within this time, the bridge
/// does.
const MISSED: Duration = Duration::from_secs(5);

/// The hub of this machine, or the one that was named.
pub(super) struct Hub {
    session: Session,
    /// `None` if no hub may be started.
    start: Option<Start>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    url: Option<Arc<str>>,
    /// A hub has answered at least once.
    met: bool,
    /// That hub was the one recorded in the folder.
    announced: bool,
    missed: Option<Instant>,
    started: Option<(Instant, Started)>,
}

impl Hub {
    pub(super) fn new(session: Session, start: Option<Start>) -> Self {
        // Only the hub of this folder can be started.
        let start = start.filter(|_| session.hub.is_none());
        Self { session, start, state: Mutex::default() }
    }

    /// Returns the hub's address. Looks it up again after every failure: the hub may have
    /// come back on another port.
    pub(super) fn url(&self) -> Result<Arc<str>, ApiError> {
        let mut state = self.state.lock();
        let named = self.session.hub.is_some();
        // A program that listens where the folder's hub has died is not the hub.
        let gone = || !named && !self.session.folder.has_hub();
        if state.announced && gone() {
            state.url = None;
        }
        if let Some(url) = &state.url {
            return Ok(url.clone());
        }
        let announced = self.session.folder.announced().is_some();
        if announced && gone() {
            state.announced = true;
            self.start_if_missed(&mut state)?;
            return Err(self.absent("the hub has died"));
        }
        if !announced && !named {
            if state.announced {
                return Err(self.absent("the hub has stopped"));
            }
            if self.start.is_some() {
                self.start_if_due(&mut state)?;
                return Err(self.absent("no hub runs here yet"));
            }
        }
        state.announced |= announced;
        let client = self.session.stranger().map_err(told)?;
        let url: Arc<str> = client.url().into();
        state.url = Some(url.clone());
        Ok(url)
    }

    /// Records that the hub answered.
    pub(super) fn met(&self) {
        let mut state = self.state.lock();
        (state.met, state.missed, state.started) = (true, None, None);
    }

    /// Records that the hub did not answer at this address.
    pub(super) fn lost(&self, url: &str) {
        let mut state = self.state.lock();
        if state.url.as_deref() == Some(url) {
            state.url = None;
        }
        // The next call reports why the hub cannot be started.
        let _ = self.start_if_missed(&mut state);
    }

    fn start_if_missed(&self, state: &mut State) -> Result<(), ApiError> {
        let since = *state.missed.get_or_insert_with(Instant::now);
        // A hub that was stopped in order is not wanted, and has removed its address. One that
        // died left its address behind.
        let died = self.session.folder.announced().is_some();
        match !state.met || (died && since.elapsed() >= MISSED) {
            true => self.start_if_due(state),
            false => Ok(()),
        }
    }

    /// Returns the error for a caller that waited in vain.
    pub(super) fn absent(&self, why: &str) -> ApiError {
        let hint = match (&self.session.hub, &self.start) {
            (Some(_), _) => "is this its address?".to_owned(),
            (None, Some(start)) => {
                format!("start it with `posthaste up`, or look into {}", start.log().display())
            }
            (None, None) => "start one with `posthaste up --detach`".to_owned(),
        };
        ApiError::new(ErrorCode::Unavailable, why).hint(hint)
    }

    fn start_if_due(&self, state: &mut State) -> Result<(), ApiError> {
        let Some(start) = &self.start else { return Ok(()) };
        let due = state.started.as_ref().is_none_or(|(at, _)| at.elapsed() >= STARTING);
        if due {
            state.started = Some((Instant::now(), start.start()?));
        }
        Ok(())
    }

    /// Returns why waiting for the hub is in vain, if it is.
    fn hopeless(&self, waited: Duration, why: &ApiError) -> Option<ApiError> {
        let state = self.state.lock();
        if state.met {
            return None;
        }
        let failure = state
            .started
            .as_ref()
            .filter(|(at, _)| at.elapsed() >= GIVEN_UP)
            .and_then(|(_, started)| started.failure());
        failure.or_else(|| (waited >= NEVER_THERE).then(|| why.clone()))
    }
}

/// The wait of one call for the hub.
pub(super) struct Waiting<'a> {
    hub: &'a Hub,
    since: Option<Instant>,
    busy: Option<Instant>,
    cuts: u32,
    pause: Pause,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(hub: &'a Hub) -> Self {
        Self { hub, since: None, busy: None, cuts: 0, pause: Pause::default() }
    }

    /// Handles a missing answer. Returns after a pause, or with the reason to give up.
    pub(super) async fn absent(&mut self, why: &ApiError) -> Result<(), ApiError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if let Some(reason) = self.hub.hopeless(since.elapsed(), why) {
            return Err(reason);
        }
        self.cuts = 0;
        self.pause.wait().await;
        Ok(())
    }

    /// Handles a hub that dropped the call in the middle.
    pub(super) async fn cut(&mut self, why: &ApiError) -> Result<(), ApiError> {
        self.cuts += 1;
        if self.cuts >= CUTS {
            let told = format!("{}, {CUTS} times in a row", why.message);
            return Err(ApiError::new(why.code, told).hint("is this more than the hub takes?"));
        }
        self.pause.wait().await;
        Ok(())
    }

    /// Handles a hub that answered that it is busy.
    pub(super) async fn busy(&mut self, why: &ApiError) -> Result<(), ApiError> {
        if self.busy.get_or_insert_with(Instant::now).elapsed() >= BUSY {
            return Err(why.clone());
        }
        self.pause.wait().await;
        Ok(())
    }
}

/// Pauses that grow.
#[derive(Default)]
pub(super) struct Pause(Option<Duration>);

impl Pause {
    pub(super) async fn wait(&mut self) {
        let pause = self.0.map_or(FIRST_PAUSE, |last| (last * 2).min(LAST_PAUSE));
        self.0 = Some(pause);
        sleep(pause).await;
    }

    pub(super) fn reset(&mut self) {
        self.0 = None;
    }
}
