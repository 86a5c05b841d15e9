//! Sends spans to a collector: OTLP over HTTP, in JSON.

use std::time::Duration;

use posthaste_api::ApiError;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::span::{self, Span};
use crate::config::Secret;
use crate::failure::invalid;

/// The most spans in one request.
const MOST: usize = 512;
/// The time for which spans are collected before they are sent.
const PAUSE: Duration = Duration::from_secs(1);
/// The time limit of a request to the collector.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Collector {
    http: Client,
    url: Url,
}

impl Collector {
    pub(super) fn new(endpoint: &str, headers: &Secret) -> Result<Self, ApiError> {
        let wrong = |why: &str| {
            invalid(format!("telemetry.otlp: `{endpoint}` is no address of a collector: {why}"))
                .hint(
                    "for example http://127.0.0.1:4318; a collector on this machine can pass it on",
                )
        };
        let mut url = Url::parse(endpoint).map_err(|e| wrong(&e.to_string()))?;
        if url.scheme() != "http" || !url.has_host() {
            return Err(wrong("it does not begin with http://"));
        }
        // By the standard the address is that of all signals, and the path that of traces.
        url.path_segments_mut()
            .map_err(|()| wrong("it has no path"))?
            .pop_if_empty()
            .extend(["v1", "traces"]);
        let http = posthaste_api::http::plain()
            .timeout(PATIENCE)
            .default_headers(parse(headers)?)
            .build()
            .map_err(|e| wrong(&e.to_string()))?;
        Ok(Self { http, url })
    }

    async fn send(&self, spans: &[Span]) -> Result<(), String> {
        let sent = self.http.post(self.url.clone()).json(&span::request(spans)).send().await;
        let answer = sent.map_err(|e| e.without_url().to_string())?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(format!("it answered {}", answer.status())),
        }
    }
}

/// Parses `name=value,name=value`. Errors do not contain the value.
fn parse(headers: &Secret) -> Result<HeaderMap, ApiError> {
    let wrong = || {
        invalid("telemetry.headers: it does not fit").hint("write it like name=value,name=value")
    };
    let pairs = headers.reveal().split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            let name = name.trim().parse::<HeaderName>().map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((name, value))
        })
        .collect()
}

/// Sends spans until the hub stops, and then the rest.
pub(super) async fn run(
    collector: Collector,
    mut spans: Receiver<Span>,
    stopping: CancellationToken,
) {
    let mut trouble = false;
    loop {
        let stop = stopping.is_cancelled();
        let mut batch = Vec::new();
        if stop {
            while batch.len() < MOST && spans.try_recv().map(|span| batch.push(span)).is_ok() {}
            if batch.is_empty() {
                return;
            }
        } else {
            tokio::select! {
                () = stopping.cancelled() => continue,
                got = spans.recv_many(&mut batch, MOST) => if got == 0 { return },
            }
            // The next steps of a message often follow soon after its first.
            while batch.len() < MOST {
                let room = MOST - batch.len();
                let more = spans.recv_many(&mut batch, room);
                tokio::select! {
                    () = stopping.cancelled() => break,
                    more = timeout(PAUSE, more) => if !matches!(more, Ok(1..)) { break },
                }
            }
        }
        match collector.send(&batch).await {
            Ok(()) => trouble = false,
            // Reported once, until it works again.
            Err(why) if !trouble => {
                trouble = true;
                tracing::warn!(%why, "the collector of traces takes nothing; spans are dropped");
            }
            Err(_) => (),
        }
        if stop && trouble {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        serde_json::from_value(text.into()).expect("text")
    }

    #[test]
    fn the_path_of_traces_is_added_to_the_address() {
        let url = |text: &str| Collector::new(text, &secret("")).map(|c| c.url.to_string());
        for (given, meant) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector/otlp", "http://collector/otlp/v1/traces"),
        ] {
            assert_eq!(url(given).ok().as_deref(), Some(meant));
        }
        for bad in ["https://collector:4318", "collector:4318", "nonsense", "http://"] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_that_do_not_fit_are_refused_without_being_shown() {
        let good = parse(&secret("authorization=Bearer a=b, x-team=one")).expect("two headers");
        assert_eq!(good["authorization"], "Bearer a=b");
        assert_eq!(good["x-team"], "one");
        assert!(parse(&secret("")).expect("none").is_empty());
        for bad in ["geheim", "ge heim=1", "x=ge\nheim"] {
            let told = format!("{:?}", parse(&secret(bad)).expect_err("refused"));
            assert!(!told.contains("heim"), "{told}");
        }
    }
}
