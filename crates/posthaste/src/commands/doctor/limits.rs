//! Checks the limits of the system.

use posthaste_server::ServerConfig;
use rustix::process::{Resource, getrlimit};

use super::Check;

const FILES: &str = "open files";

pub(super) fn open_files(server: &ServerConfig) -> Check {
    // The hub raises its own limit as far as it may.
    told(getrlimit(Resource::Nofile).maximum, server)
}

/// Reports the number of connections: a hub that may open fewer files takes fewer
/// connections, and says so at its start.
fn told(files: Option<u64>, server: &ServerConfig) -> Check {
    let (wanted, most) = (server.connections, server.connections_within(files));
    let Some(files) = files else {
        return Check::ok(FILES, format!("as many as it takes, for {most} connections"));
    };
    let message = match most < wanted {
        true => format!(
            "{files} are allowed, so a hub takes {most} connections and not the {wanted} of \
             server.connections; raise the limit (ulimit -Hn) for more"
        ),
        false => format!("{files} are allowed, enough for {most} connections"),
    };
    Check::ok(FILES, message)
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn with_few_open_files_it_says_how_many_connections_there_are() {
        let server = ServerConfig::default();
        let few = told(Some(1_024), &server);
        assert_eq!(few.status, Status::Ok);
        assert!(few.message.contains("760") && few.message.contains("20000"), "{few:?}");
        assert!(told(Some(100_000), &server).message.contains("enough for 20000"));
        assert!(told(None, &server).message.contains("20000"));
    }
}
