//! Keeps lines out of the log that no filter may let in.
//!
//! Libraries print their input: at `debug` and `trace` that is requests, answers and the
//! messages in them. An operator who asks for more detail wants the hub's own lines,
//! which contain no text of agents.

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;

pub(super) fn layer<S: Subscriber>() -> impl Layer<S> {
    filter_fn(|about| may_say(about.target(), about))
}

fn may_say(target: &str, about: &Metadata<'_>) -> bool {
    let of = target.split("::").next().unwrap_or_default();
    match of {
        // The warnings of rmcp quote calls and their results, too. The door's own
        // line reports the outcome of a call.
        "rmcp" => false,
        ours if ours.starts_with("posthaste") => true,
        _ => *about.level() <= Level::INFO,
    }
}
