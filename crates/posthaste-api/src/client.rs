//! The typed client: one method for each REST call.
//!
//! The client only translates: it has no retry and no cache. The caller decides what to do
//! about a failure, so [`ClientError`] answers the caller's two questions: did the hub
//! refuse the call, or did no hub answer.
//!
//! Plain HTTP, no proxy, no redirect: a token goes to the hub that was named and nowhere
//! else. A part of a path that came from outside is encoded, so an id can never turn one
//! call into another.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, ErrorBody, ErrorCode};
use crate::health::{Health, Ready};
use crate::inbox::{Acked, Inbox, InboxQuery, Returned, SettleRequest};
use crate::instances::{
    CreateInstance, InstanceView, Instances, InstancesQuery, JoinRequest, Joined,
};
use crate::messages::{
    History, HistoryQuery, MessageView, ReadQuery, Receipt, SendMany, SendRequest, To,
};
use crate::openapi::{self, Target};
use crate::profiles::{
    FoundProfiles, ProfileErrors, ProfileInput, ProfileSearch, ProfileView, Profiles,
    ProfilesQuery, RemovedProfile,
};
use crate::teams::{PutTeam, TeamView, Teams};
use crate::tokens::TokensRead;
use crate::{health, inbox, instances, messages, pages, profiles, teams, tokens};

mod chat;
mod events;
mod failure;
mod hooks;
mod needs;
mod reading;
mod stream;
mod work;

pub use events::{Following, Heard};
pub use failure::ClientError;
pub use reading::Export;
pub use stream::{Watched, Watching};

/// Time limit of an ordinary call, and the time that a long poll may take beyond its own
/// wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// The user agent of the command line.
pub const CLI_AGENT: &str = "posthaste-cli";

/// The hub's wait and batch window when the query does not name them.
const DEFAULT_WAIT: f64 = 60.0;
const DEFAULT_WINDOW: f64 = 2.0;

/// A client of one hub.
#[derive(Clone)]
pub struct Client {
    base: Url,
    token: Option<String>,
    agent: &'static str,
    /// Headers that identify the caller of every request, beside the token.
    who: Vec<(&'static str, String)>,
    http: reqwest::Client,
}

impl Client {
    /// Makes a client of the hub at `base_url`, for example `http://127.0.0.1:9889`.
    pub fn new(base_url: &str) -> Result<Self, ClientError> {
        let bad = |why: &str| ClientError::BadUrl { text: base_url.to_owned(), why: why.into() };
        let base = Url::parse(base_url).map_err(|e| bad(&e.to_string()))?;
        if base.scheme() != "http" || !base.has_host() {
            return Err(bad("it does not begin with http://"));
        }
        if !matches!(base.path(), "" | "/") || base.query().is_some() || base.fragment().is_some() {
            return Err(bad("nothing can follow the port"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(bad("a token does not belong into the address"));
        }
        let http = crate::http::plain().build().map_err(|e| bad(&e.to_string()))?;
        Ok(Self { base, token: None, agent: "posthaste-client", who: Vec::new(), http })
    }

    /// Names the command line as the caller: its messages say `via: cli`.
    pub fn as_command_line(mut self) -> Self {
        self.agent = CLI_AGENT;
        self
    }

    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Returns the address of the hub, without a slash at the end.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Returns whether the hub runs on this machine, as far as its address tells.
    pub fn is_local(&self) -> bool {
        let host = self.base.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// `GET /health`
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.ask(&health::HEALTH).await
    }

    /// `GET /ready`
    pub async fn ready(&self) -> Result<Ready, ClientError> {
        self.ask(&health::READY).await
    }

    /// `GET /metrics`, as Prometheus reads it.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let request = self.request(&pages::METRICS)?.timeout(PATIENCE);
        let (status, body) = self.answer(request).await?;
        String::from_utf8(body).map_err(|e| self.not_a_hub(status, e.to_string()))
    }

    /// `POST /v1/instances`
    pub async fn create_instance(&self, request: &CreateInstance) -> Result<Joined, ClientError> {
        self.tell(&instances::CREATE, request).await
    }

    /// `GET /v1/instances`
    pub async fn instances(&self, query: &InstancesQuery) -> Result<Instances, ClientError> {
        self.ask_with(&instances::LIST, query).await
    }

    /// `GET /v1/instances/{id}`
    pub async fn instance(&self, id: &str) -> Result<InstanceView, ClientError> {
        self.ask(instances::SHOW.of(id)).await
    }

    /// `DELETE /v1/instances/{id}`
    pub async fn leave(&self, id: &str) -> Result<InstanceView, ClientError> {
        self.ask(instances::STOP.of(id)).await
    }

    /// `POST /v1/join`
    pub async fn join(&self, request: &JoinRequest) -> Result<Joined, ClientError> {
        self.tell(&instances::JOIN, request).await
    }

    /// `POST /v1/messages` to one address.
    pub async fn send(&self, request: &SendRequest) -> Result<Receipt, ClientError> {
        if matches!(request.to, To::Many(_)) {
            let told = "a list of addresses has one answer for each of them";
            return Err(ApiError::new(ErrorCode::InvalidArgument, told).into());
        }
        self.tell(&messages::SEND, request).await
    }

    /// `POST /v1/messages` to a list of addresses: one answer for each, in order.
    pub async fn send_many(&self, request: &SendRequest) -> Result<SendMany, ClientError> {
        match &request.to {
            To::Many(_) => self.tell(&messages::SEND, request).await,
            To::One(to) => {
                let list = SendRequest { to: To::Many(vec![to.clone()]), ..request.clone() };
                self.tell(&messages::SEND, &list).await
            }
        }
    }

    /// `GET /v1/inbox`: answers when there is mail, or when the time is over.
    pub async fn inbox(&self, query: &InboxQuery) -> Result<Inbox<'static>, ClientError> {
        let wait = query.timeout.unwrap_or(DEFAULT_WAIT);
        let window = query.batch_window.unwrap_or(DEFAULT_WINDOW);
        // The hub refuses a number that cannot be a duration.
        let poll = Duration::try_from_secs_f64(wait + window).unwrap_or_default();
        let request = self.request(&inbox::RECEIVE)?.query(query);
        self.read_answer(request.timeout(poll.saturating_add(PATIENCE))).await
    }

    /// `POST /v1/inbox/ack`
    pub async fn ack(&self, request: &SettleRequest) -> Result<Acked, ClientError> {
        self.tell(&inbox::ACK, request).await
    }

    /// `POST /v1/inbox/nack`
    pub async fn nack(&self, request: &SettleRequest) -> Result<Returned, ClientError> {
        self.tell(&inbox::NACK, request).await
    }

    /// `GET /v1/messages`
    pub async fn history(&self, query: &HistoryQuery) -> Result<History, ClientError> {
        self.ask_with(&messages::HISTORY, query).await
    }

    /// `GET /v1/messages/{id or seq}`
    pub async fn read(&self, id: &str, query: &ReadQuery) -> Result<MessageView, ClientError> {
        self.ask_with(messages::READ.of(id), query).await
    }

    /// `POST /v1/messages/{id}/requeue`
    pub async fn requeue(&self, id: &str) -> Result<MessageView, ClientError> {
        self.ask(messages::REQUEUE.of(id)).await
    }

    /// `POST /v1/messages/{id}/cancel`
    pub async fn cancel(&self, id: &str) -> Result<MessageView, ClientError> {
        self.ask(messages::CANCEL.of(id)).await
    }

    /// `GET /v1/teams`
    pub async fn teams(&self) -> Result<Teams, ClientError> {
        self.ask(&teams::LIST).await
    }

    /// `GET /v1/teams/{name}`
    pub async fn team(&self, name: &str) -> Result<TeamView, ClientError> {
        self.ask(teams::SHOW.of(name)).await
    }

    /// `PUT /v1/teams/{name}`
    pub async fn put_team(&self, name: &str, request: &PutTeam) -> Result<TeamView, ClientError> {
        self.tell(teams::PUT.of(name), request).await
    }

    /// `POST /v1/tokens/reload`
    pub async fn reload_tokens(&self) -> Result<TokensRead, ClientError> {
        self.ask(&tokens::RELOAD).await
    }

    /// `GET /v1/profiles`
    pub async fn profiles(&self, query: &ProfilesQuery) -> Result<Profiles, ClientError> {
        self.ask_with(&profiles::LIST, query).await
    }

    /// `GET /v1/profiles/search`
    pub async fn search_profiles(
        &self,
        query: &ProfileSearch,
    ) -> Result<FoundProfiles, ClientError> {
        self.ask_with(&profiles::SEARCH, query).await
    }

    /// `GET /v1/profiles/errors`
    pub async fn profile_errors(&self) -> Result<ProfileErrors, ClientError> {
        self.ask(&profiles::ERRORS).await
    }

    /// `POST /v1/profiles`
    pub async fn create_profile(&self, request: &ProfileInput) -> Result<ProfileView, ClientError> {
        self.tell(&profiles::CREATE, request).await
    }

    /// `GET /v1/profiles/{name}`
    pub async fn profile(&self, name: &str) -> Result<ProfileView, ClientError> {
        self.ask(profiles::SHOW.of(name)).await
    }

    /// `PUT /v1/profiles/{name}`
    pub async fn put_profile(
        &self,
        name: &str,
        request: &ProfileInput,
    ) -> Result<ProfileView, ClientError> {
        self.tell(profiles::PUT.of(name), request).await
    }

    /// `DELETE /v1/profiles/{name}`
    pub async fn remove_profile(&self, name: &str) -> Result<RemovedProfile, ClientError> {
        self.ask(profiles::REMOVE.of(name)).await
    }

    /// Makes a call that has neither query nor body.
    async fn ask<'a, T: DeserializeOwned>(
        &self,
        what: impl Into<Target<'a>>,
    ) -> Result<T, ClientError> {
        self.read_answer(self.request(what)?.timeout(PATIENCE)).await
    }

    /// Makes a call with a query.
    async fn ask_with<'a, T: DeserializeOwned>(
        &self,
        what: impl Into<Target<'a>>,
        query: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read_answer(self.request(what)?.query(query).timeout(PATIENCE)).await
    }

    /// Makes a call with a body.
    async fn tell<'a, T: DeserializeOwned>(
        &self,
        what: impl Into<Target<'a>>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read_answer(self.request(what)?.json(body).timeout(PATIENCE)).await
    }

    fn request<'a>(&self, what: impl Into<Target<'a>>) -> Result<RequestBuilder, ClientError> {
        let target = what.into();
        let method = match target.call.method {
            openapi::Method::Get => Method::GET,
            openapi::Method::Post => Method::POST,
            openapi::Method::Put => Method::PUT,
            openapi::Method::Patch => Method::PATCH,
            openapi::Method::Delete => Method::DELETE,
        };
        let request = self.http.request(method, self.at(target)?);
        let request = request.header(reqwest::header::USER_AGENT, self.agent);
        let request =
            self.who.iter().fold(request, |request, (name, value)| request.header(*name, value));
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    /// Returns the address of a call. Refuses the parts that encoding cannot protect: a
    /// URL drops `.`, `..`, line ends and tabs, and the call would be another one.
    fn at(&self, target: Target<'_>) -> Result<Url, ClientError> {
        let forgotten =
            |part: &str| matches!(part, "" | "." | "..") || part.chars().any(|c| c.is_control());
        if let Some(part) = target.parts().find(|part| forgotten(part)) {
            let told = format!("`{}` cannot name anything", part.escape_debug());
            return Err(ApiError::new(ErrorCode::InvalidArgument, told).into());
        }
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut parts) => parts.clear().extend(target.parts()),
            Err(()) => {
                let text = self.base.to_string();
                return Err(ClientError::BadUrl { text, why: "it has no path".into() });
            }
        };
        Ok(url)
    }

    async fn read_answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let (status, body) = self.answer(request).await?;
        serde_json::from_slice(&body).map_err(|e| self.not_a_hub(status, e.to_string()))
    }

    /// Returns the body of a good answer; a bad answer becomes its error.
    async fn answer(&self, request: RequestBuilder) -> Result<(u16, Vec<u8>), ClientError> {
        let request = request.build().map_err(|e| self.failed(e, false))?;
        let changes = request.method() != Method::GET;
        let answer = self.http.execute(request).await.map_err(|e| self.failed(e, changes))?;
        if !answer.status().is_success() {
            return Err(self.refused(answer, changes).await);
        }
        let status = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|e| self.failed(e, changes))?;
        Ok((status, body.into()))
    }

    /// Reads the error in a bad answer.
    async fn refused(&self, answer: Response, changes: bool) -> ClientError {
        let status = answer.status().as_u16();
        let body = match answer.bytes().await {
            Ok(body) => body,
            Err(e) => return self.failed(e, changes),
        };
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(told) => told.error.into(),
            Err(e) => self.not_a_hub(status, e.to_string()),
        }
    }

    /// Makes the error of a call without an answer. `changes` is true if the call was to
    /// change something.
    fn failed(&self, source: reqwest::Error, changes: bool) -> ClientError {
        let url = self.url().to_owned();
        let source = source.without_url();
        if source.is_connect() {
            ClientError::Unreachable { url, source }
        } else if source.is_timeout() {
            ClientError::Silent { url, changes, source }
        } else {
            ClientError::Interrupted { url, changes, source }
        }
    }

    fn not_a_hub(&self, status: u16, why: String) -> ClientError {
        ClientError::NotAHub { url: self.url().to_owned(), status, why }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = if self.token.is_some() { "present" } else { "absent" };
        f.debug_struct("Client").field("url", &self.url()).field("token", &token).finish()
    }
}

#[cfg(test)]
mod tests;
