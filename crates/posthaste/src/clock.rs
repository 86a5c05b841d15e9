//! Warns when the machine's clock is set: the hub keeps its own time until its next
//! start.

use std::convert::Infallible;
use std::time::Duration;

use posthaste_core::SystemClock;
use tokio::time::sleep;

const LOOK: Duration = Duration::from_secs(5);
/// The smallest difference that is reported.
const APART_MS: i64 = 5_000;

/// Runs until the future is dropped.
pub(crate) async fn tell_when_set(clock: SystemClock) -> Infallible {
    let mut known = 0;
    loop {
        sleep(LOOK).await;
        let by = clock.set_by();
        if let Some(told) = told(known, by) {
            known = by;
            tracing::warn!("{told}");
        }
    }
}

/// Returns the warning, unless this difference has been reported.
fn told(known: i64, by: i64) -> Option<String> {
    if (by - known).abs() < APART_MS {
        return None;
    }
    let seconds = by.abs() / 1_000;
    Some(match by {
        _ if by.abs() < APART_MS => "the machine's clock agrees with the hub's again".to_owned(),
        _ => {
            let way = if by > 0 { "forward" } else { "back" };
            format!(
                "the machine's clock was set {way}: it is {seconds} s apart from the hub's, which \
                 dates messages by its own until it is started again"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_once_and_so_is_its_end() {
        assert_eq!(told(0, 4_000), None);
        let back = told(0, -3_600_000).expect("a step");
        assert!(back.contains("set back") && back.contains("3600 s"), "{back}");
        assert_eq!(told(-3_600_000, -3_600_900), None);
        let again = told(-3_600_000, 12).expect("another step");
        assert!(again.contains("agrees"), "{again}");
    }
}
