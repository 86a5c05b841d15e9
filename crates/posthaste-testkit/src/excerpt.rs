//! Excerpts of long texts for failing tests: enough to see the fault, and never the whole
//! text.

/// Number of characters up to which a text is printed whole.
const WHOLE: usize = 2_000;
/// Number of characters that are shown on either side of a part.
const AROUND: usize = 120;
/// Number of places of the part that are shown.
const PLACES: usize = 3;

/// Returns a short text itself; of a long one the beginning and the end.
pub fn excerpt(text: &str) -> String {
    let length = text.chars().count();
    if length <= WHOLE {
        return text.to_owned();
    }
    let end = length - WHOLE / 2;
    let head: String = text.chars().take(WHOLE / 2).collect();
    let tail: String = text.chars().skip(end).collect();
    format!("{head}[… {} characters …]{tail}", length - WHOLE)
}

/// Returns the first places where `part` stands, each with a little text around it.
pub fn places(text: &str, part: &str) -> Vec<String> {
    let around = |(at, _): (usize, &str)| {
        let (before, rest) = (&text[..at], &text[at + part.len()..]);
        let skipped = before.chars().count().saturating_sub(AROUND);
        let before: String = before.chars().skip(skipped).collect();
        let after: String = rest.chars().take(AROUND).collect();
        format!("…{before}{part}{after}…")
    };
    text.match_indices(part).take(PLACES).map(around).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_shown_whole_and_of_a_long_one_both_ends() {
        assert_eq!(excerpt("größer"), "größer");
        let long = format!("begin{}end", "ü".repeat(300_000));
        let shown = excerpt(&long);
        assert!(shown.starts_with("begin") && shown.ends_with("end"), "{shown}");
        assert!(shown.contains("[… 298008 characters …]"), "{shown}");
        assert!(shown.chars().count() < WHOLE + 50);
    }

    #[test]
    fn a_part_is_shown_with_what_stands_around_it() {
        let text = format!("{}ä mail ö{}", "x".repeat(9_000), " mail".repeat(9));
        let shown = places(&text, "mail");
        assert_eq!(shown.len(), PLACES);
        assert!(shown[0].contains("xä mail ö mail"), "{}", shown[0]);
        assert!(shown.iter().all(|one| one.chars().count() <= 2 * AROUND + 6), "{shown:?}");
        assert!(places(&text, "post").is_empty());
    }
}
