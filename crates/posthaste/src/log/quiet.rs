//! What no filter brings into the log.
//!
//! Libraries print what they were given: at `debug` and `trace` that is requests,
//! answers and the mail in them. An operator who asks for more detail asks for the
//! hub's own lines, which have no text of agents.

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;

pub(super) fn layer<S: Subscriber>() -> impl Layer<S> {
    filter_fn(|about| may_say(about.target(), about))
}

fn may_say(target: &str, about: &Metadata<'_>) -> bool {
    let of = target.split("::").next().unwrap_or_default();
    match of {
        // Its warnings quote calls and their results, too. What came of a call is in
        // the door's own line.
        "rmcp" => false,
        ours if ours.starts_with("posthaste") => true,
        _ => *about.level() <= Level::INFO,
    }
}
