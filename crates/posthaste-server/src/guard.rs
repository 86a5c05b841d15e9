//! Keeps web pages of other origins out, before any route is looked at.
//!
//! A browser on the same machine reaches loopback, so loopback alone is no
//! protection: the Host must be one of ours (no rebinding), and a request that
//! says it comes from another site is refused.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Request};
use posthaste_api::error::{ApiError, ErrorCode};

use crate::App;
use crate::failure::Failure;

pub(crate) fn check<B>(app: &App, request: &Request<B>) -> Result<(), Failure> {
    let (method, headers) = (request.method(), request.headers());
    let all = |name| headers.get_all(name).into_iter().map(|v| v.to_str().unwrap_or(""));
    // A target may be a whole address; its host then counts as well.
    let target = request.uri().authority().map(Authority::as_str);
    let is_one = all(HOST).count() == 1;
    if !is_one || !all(HOST).chain(target).all(|host| is_ours(app, host)) {
        let hint = "call it by 127.0.0.1 or localhost, or add the name to server.hosts";
        let error = refused("the request names a host that is not this hub, none, or two");
        return Err(error.hint(hint).into());
    }
    if !all(ORIGIN).all(|origin| is_our_page(app, origin)) {
        return Err(refused("requests from other origins are refused").into());
    }
    let unsafe_method = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if unsafe_method && is_from_another_site(headers) {
        return Err(refused("requests from other sites are refused").into());
    }
    Ok(())
}

/// Returns whether a browser says that another site sent the request. Pages cannot forge
/// the header, and an unknown word counts as another site.
pub(crate) fn is_from_another_site(headers: &HeaderMap) -> bool {
    let is_ours = |site: &HeaderValue| site == "same-origin" || site == "none";
    !headers.get_all("sec-fetch-site").into_iter().all(is_ours)
}

/// Returns whether the origin is one of ours. Programs with pages of their own call these
/// localhost, too, under another scheme.
fn is_our_page(app: &App, origin: &str) -> bool {
    let host = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
    host.is_some_and(|host| is_ours(app, host))
}

fn refused(why: &str) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, why)
}

fn is_ours(app: &App, host: &str) -> bool {
    let name = without_port(host);
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let ours = |ip: IpAddr| ip.is_loopback() || ip == app.config.listen.ip();
    name == "127.0.0.1"
        || name.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(ours)
        || app.config.hosts.iter().any(|h| h.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_the_name() {
        assert_eq!(without_port("localhost:9889"), "localhost");
        assert_eq!(without_port("localhost"), "localhost");
        assert_eq!(without_port("[::1]:80"), "[::1]");
        assert_eq!(without_port("[::1]"), "[::1]");
    }
}
