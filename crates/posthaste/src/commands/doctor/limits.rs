//! What the system grants.

use rustix::process::{Resource, getrlimit};

use super::Check;

const FILES: &str = "open files";
/// The database, the log, the standard streams, and some room.
const OTHERS: u64 = 64;

pub(super) fn open_files(connections: usize) -> Check {
    // The hub raises its own limit as far as it may.
    enough(getrlimit(Resource::Nofile).maximum, connections as u64)
}

fn enough(most: Option<u64>, connections: u64) -> Check {
    let needed = connections + OTHERS;
    match most {
        Some(most) if most < needed => Check::warn(
            FILES,
            format!("{most} are allowed, and {connections} connections need {needed}"),
            format!("raise it (ulimit -Hn {needed}), or lower server.connections"),
        ),
        Some(most) => {
            Check::ok(FILES, format!("{most} are allowed, enough for {connections} connections"))
        }
        None => Check::ok(FILES, "as many as it takes"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn fewer_files_than_connections_is_a_warning() {
        assert_eq!(enough(Some(1_024), 20_000).status, Status::Warn);
        assert_eq!(enough(Some(20_064), 20_000).status, Status::Ok);
        assert_eq!(enough(None, 20_000).status, Status::Ok);
    }
}
