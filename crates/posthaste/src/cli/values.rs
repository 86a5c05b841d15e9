//! The values of flags: what they may be, and what is said of others.

use std::net::SocketAddr;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;
use std::time::Duration;

use humantime_serde::re::humantime;

/// Ten years. A clock can be turned this far without falling off.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// What a listening address looks like.
pub(crate) const ADDRESS: &str = "an address and a port, like 127.0.0.1:9889";

/// Seconds (`60`, `2.5`) or a time with its unit (`10m`).
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => humantime::parse_duration(text).ok(),
    };
    match time {
        Some(time) if time <= LONGEST => Ok(time),
        Some(_) => Err("nobody waits that long".to_owned()),
        None => Err("it should be seconds, or a time like 30s or 10m".to_owned()),
    }
}

/// A time in which work can be done: at least a second.
pub(super) fn working_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        time if time < Duration::from_secs(1) => Err("it should be at least 1s".to_owned()),
        time => Ok(time),
    }
}

pub(super) fn number<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "it is too large".to_owned(),
        IntErrorKind::Zero => "it should be a whole number from 1".to_owned(),
        _ => "it should be a whole number".to_owned(),
    })
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("it should be {ADDRESS}"))
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like name=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_or_has_a_unit() {
        assert_eq!(time("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        for bad in ["-1", "soon", "", "NaN", "inf", "1e300", "99years"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        for case in posthaste_testkit::fuzz::cases(3_000, &["2.5", "10m", "1h 5min 3s", "1day"]) {
            match time(&case.text()) {
                Ok(time) => assert!(time <= LONGEST),
                Err(why) => assert!(!why.is_empty()),
            }
        }
        assert_eq!(time("soon"), Err("it should be seconds, or a time like 30s or 10m".into()));
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("=b").is_err() && pair("ab").is_err());
    }
}
