//! Keeps web pages of other origins out, before any route is looked at.
//!
//! A browser on the same machine reaches loopback, so loopback alone is no
//! protection: the Host must be one of ours (no rebinding), and a request that
//! says it comes from another site is refused.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use posthaste_api::error::{ApiError, ErrorCode};

use crate::App;
use crate::failure::Failure;

pub(crate) fn check(app: &App, method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| headers.get(name).map(|v: &axum::http::HeaderValue| v.to_str().unwrap_or(""));
    if !text(HOST.as_str()).is_some_and(|host| is_ours(app, host)) {
        let hint = "call it by 127.0.0.1 or localhost, or add the name to server.hosts";
        let error = refused("the Host header names a host that is not this hub");
        return Err(error.hint(hint).into());
    }
    if let Some(origin) = text(ORIGIN.as_str()) {
        let host = origin.split_once("://").map_or("", |(_, host)| host);
        if !is_ours(app, host) {
            return Err(refused("requests from other origins are refused").into());
        }
    }
    let unsafe_method = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if unsafe_method && is_from_another_site(headers) {
        return Err(refused("requests from other sites are refused").into());
    }
    Ok(())
}

/// Browsers say where a request comes from, and pages cannot lie about it.
fn is_from_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
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
