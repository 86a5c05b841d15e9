//! Times for people: in their own zone, or relative to now.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Formats `12:03:04`, with the date in front if it was not today.
pub(crate) fn time_of_day(stamp: &str, now: &Zoned) -> String {
    let Ok(time) = stamp.parse::<Timestamp>() else { return stamp.to_owned() };
    let time = time.to_zoned(now.time_zone().clone());
    let form = if time.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    time.strftime(form).to_string()
}

/// Replaces the timestamps in a sentence by times for people.
pub(crate) fn in_words(sentence: &str, now: &Zoned) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches([';', ',', '.', ')']);
        format!("{}{}", time_of_day(bare, now), &word[bare.len()..])
    };
    sentence.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Formats `12 s`, `5 min`, `3 h`, `2 days`; an empty text for zero.
pub(crate) fn how_long(seconds: u64) -> String {
    match seconds {
        0 => String::new(),
        s @ 1..=119 => format!("{s} s"),
        s @ 120..=7199 => format!("{} min", s / 60),
        s @ 7200..=172_799 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

/// Formats `just now`, `12 s ago`, `5 min ago`, `3 h ago`, `2 days ago`.
pub(crate) fn ago(stamp: &str, now: Timestamp) -> String {
    let Ok(time) = stamp.parse::<Timestamp>() else { return stamp.to_owned() };
    match u64::try_from(now.as_second().saturating_sub(time.as_second())) {
        // A clock that is a little ahead does not mean the future.
        Err(_) | Ok(..=1) => "just now".to_owned(),
        Ok(seconds) => format!("{} ago", how_long(seconds)),
    }
}

/// Formats `now`, `in 12 s`, `in 5 min`, `in 3 h`, `in 2 days`.
pub(crate) fn until(stamp: &str, now: Timestamp) -> String {
    let Ok(time) = stamp.parse::<Timestamp>() else { return stamp.to_owned() };
    match u64::try_from(time.as_second().saturating_sub(now.as_second())) {
        Err(_) | Ok(0) => "now".to_owned(),
        Ok(seconds) => format!("in {}", how_long(seconds)),
    }
}

pub(crate) fn now() -> Zoned {
    Timestamp::now().to_zoned(TimeZone::system())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_today_needs_no_date() {
        let noon: Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        let now = noon.to_zoned(TimeZone::fixed(jiff::tz::offset(2)));
        assert_eq!(time_of_day("2026-03-04T10:03:04.123Z", &now), "12:03:04");
        assert_eq!(time_of_day("2026-03-03T10:03:04.123Z", &now), "2026-03-03 12:03:04");
        assert_eq!(time_of_day("2026-03-03T23:30:00.000Z", &now), "01:30:00");
        assert_eq!(time_of_day("yesterday", &now), "yesterday");
    }

    #[test]
    fn times_inside_a_sentence_are_told_in_the_readers_zone() {
        let noon: Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        let now = noon.to_zoned(TimeZone::fixed(jiff::tz::offset(2)));
        let told = "bob has had it since 2026-03-04T10:03:04.123Z; 3 wait, 2026 too";
        assert_eq!(in_words(told, &now), "bob has had it since 12:03:04; 3 wait, 2026 too");
    }

    #[test]
    fn how_long_ago_is_told_in_one_unit() {
        let now: Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        for (stamp, told) in [
            ("2026-03-04T12:00:09Z", "just now"),
            ("2026-03-04T11:59:59.5Z", "just now"),
            ("2026-03-04T11:59:30Z", "30 s ago"),
            ("2026-03-04T11:50:00Z", "10 min ago"),
            ("2026-03-04T09:00:00Z", "3 h ago"),
            ("2026-02-28T12:00:00Z", "4 days ago"),
        ] {
            assert_eq!(ago(stamp, now), told);
        }
    }
}
