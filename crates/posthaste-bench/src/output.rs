//! The one place that prints: results to stdout, progress to stderr.

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "progress must not mix with the table")]
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}
