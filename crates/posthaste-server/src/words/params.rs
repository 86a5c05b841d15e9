//! Parameters that several doors take. Out of range is refused, not clamped.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use compact_str::{CompactString, format_compact};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::messaging::receive::WaitFor;

/// Makes the error of a parameter that is missing, unknown or out of range.
pub(crate) fn wrong(field: &'static str, why: impl Into<String>) -> ApiError {
    let message = format!("{field}: {}", why.into());
    let error = ApiError::new(ErrorCode::InvalidArgument, message);
    error.details(serde_json::json!({ "field": field }))
}

/// Returns the number if it lies in the range.
pub(crate) fn within<N: PartialOrd + Display>(
    field: &'static str,
    number: N,
    range: RangeInclusive<N>,
) -> Result<N, ApiError> {
    match range.contains(&number) {
        true => Ok(number),
        false => {
            let why = format!("it lies between {} and {}", range.start(), range.end());
            Err(wrong(field, why))
        }
    }
}

/// Reads a number of seconds from 0 to `most`.
pub(crate) fn seconds(
    field: &'static str,
    given: Option<f64>,
    default: f64,
    most: Duration,
) -> Result<Duration, ApiError> {
    let seconds = given.unwrap_or(default.min(most.as_secs_f64()));
    if !(0.0..=most.as_secs_f64()).contains(&seconds) {
        return Err(wrong(field, format!("it lies between 0 and {} seconds", most.as_secs())));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads the condition that ends a read's wait.
pub(crate) fn wait_for(word: Option<&str>) -> Result<WaitFor, ApiError> {
    match word {
        None | Some("any") => Ok(WaitFor::Any),
        Some("all") => Ok(WaitFor::All),
        Some(number) => match number.parse() {
            Ok(n) if n >= 1 => Ok(WaitFor::Senders(n)),
            _ => Err(wrong("wait_for", "it is `any`, `all` or a number from 1")),
        },
    }
}

/// Reads the number of newest messages that are wanted.
pub(crate) fn last_n(given: Option<u32>) -> Result<usize, ApiError> {
    within("last_n", given.unwrap_or(20), 1..=200).map(|last| last as usize)
}

/// Writes a receipt as clients see it.
pub(crate) fn print_receipt(receipt: u64) -> CompactString {
    format_compact!("r-{receipt:016x}")
}

/// Reads a receipt. An unreadable one is an unknown one: ignored, never an error.
pub(crate) fn parse_receipt(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("r-")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_is_printed_and_anything_else_is_ignored() {
        for receipt in [0, 7, u64::MAX] {
            assert_eq!(parse_receipt(&print_receipt(receipt)), Some(receipt));
        }
        for unknown in ["", "r-", "7", "r-x", "r-00000000000000000"] {
            assert_eq!(parse_receipt(unknown).filter(|receipt| *receipt > 0), None, "{unknown}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_and_names_the_range() {
        let most = Duration::from_secs(600);
        assert_eq!(seconds("timeout", None, 900.0, most).expect("the default"), most);
        for bad in [-1.0, 600.5, f64::NAN] {
            let error = seconds("timeout", Some(bad), 60.0, most).expect_err("out of range");
            assert_eq!(error.message, "timeout: it lies between 0 and 600 seconds");
        }
        let error = last_n(Some(201)).expect_err("out of range");
        assert_eq!(error.message, "last_n: it lies between 1 and 200");
        assert!(wait_for(Some("0")).is_err() && wait_for(Some("some")).is_err());
    }
}
