//! Finds the process that holds a port, so that "address in use" comes with a name.
//!
//! Linux has it in `/proc`: the table of listening sockets has an inode for the port, and
//! one of the processes has that inode open. Elsewhere, and for processes of other users,
//! the holder is unknown.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

pub(crate) fn holder(of: SocketAddr) -> Option<Holder> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listeners(&table, of.port()))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let open = fs::read_dir(entry.path().join("fd")).ok()?;
        let holds = open
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|target| is_socket(&target, &inodes)));
        let name = || fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        holds.then(|| Holder { pid, name: name().trim().to_owned() })
    })
}

/// Returns whether any process listens on this port on every address of the machine.
pub(crate) fn is_open(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    tables.filter_map(|table| fs::read_to_string(table).ok()).any(|table| opens(&table, port))
}

fn opens(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    let is_every_address = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (cells.get(1)?, cells.get(3)?);
        let address = local.strip_suffix(&port).filter(|_| *state == LISTEN)?;
        Some(address.bytes().all(|digit| digit == b'0'))
    };
    table.lines().skip(1).filter_map(is_every_address).any(|every| every)
}

/// Returns the inodes of the sockets that listen on this port, from a table of the
/// kernel.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (cells.get(1)?, cells.get(3)?, cells.get(9)?);
        (local.ends_with(&port) && *state == LISTEN).then(|| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(row).collect()
}

fn is_socket(target: &Path, inodes: &[String]) -> bool {
    let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
    inode.is_some_and(|inode| inodes.iter().any(|one| one == inode))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:26A1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0
   1: 0100007F:26A1 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0
   2: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 43 1 0
";

    #[test]
    fn only_the_listener_of_the_port_counts() {
        assert_eq!(listeners(TABLE, 9889), ["41"]);
        assert_eq!(listeners(TABLE, 8080), ["43"]);
        assert!(listeners(TABLE, 1).is_empty());
        assert!(listeners("", 9889).is_empty());
    }

    #[test]
    fn a_port_is_open_when_its_listener_has_every_address() {
        assert!(opens(TABLE, 8080));
        assert!(!opens(TABLE, 9889) && !opens(TABLE, 1) && !opens("", 9889));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_behind_a_taken_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let found = holder(listener.local_addr().expect("bound")).expect("it is us");
        assert_eq!(found.pid, std::process::id());
        assert!(!found.name.is_empty());
    }
}
