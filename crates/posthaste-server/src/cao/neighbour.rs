//! Tells whether a connection on this machine comes from the hub's own system user.
//!
//! The system's table of sockets names the user of each socket. The client's end of a
//! connection stands there under the same two addresses, the other way round.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::auth::Peer;

/// The state of an open connection in the table.
const ESTABLISHED: &str = "01";

/// Returns whether the other end belongs to the hub's own user. Anything unclear is no.
pub(super) async fn is_own_user(peer: Peer) -> bool {
    if !peer.from.ip().to_canonical().is_loopback() {
        return false;
    }
    let look = move || {
        let me = rustix::process::geteuid().as_raw();
        let is_told = |user| user == me && Some(user) != overflow_user();
        user_of(peer).is_some_and(is_told)
    };
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

/// Returns the user for whom the table shows all users that it cannot name.
#[cfg(target_os = "linux")]
fn overflow_user() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()
}

#[cfg(target_os = "linux")]
fn user_of(peer: Peer) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| {
        let table = std::fs::read_to_string(table).ok()?;
        table.lines().skip(1).find_map(|line| user_in(line, peer))
    })
}

/// Elsewhere nobody is known by the connection alone: a token is needed.
#[cfg(not(target_os = "linux"))]
fn user_of(_: Peer) -> Option<u32> {
    None
}

#[cfg(not(target_os = "linux"))]
fn overflow_user() -> Option<u32> {
    None
}

/// Returns the user of the client's socket if this line of the table is about it.
///
/// A socket that its process has closed has no user any more, and the table shows root
/// instead: only an open socket counts, which has an inode.
fn user_in(line: &str, peer: Peer) -> Option<u32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
    let (user, inode) = (words.nth(3)?, words.nth(1)?);
    let is_it = state == ESTABLISHED
        && inode != "0"
        && address(local)? == canonical(peer.from)
        && address(remote)? == canonical(peer.to);
    is_it.then(|| user.parse().ok()).flatten()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Reads an address of the table: groups of four bytes in the machine's order, then the
/// port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let group = |n: usize| {
        let digits = ip.get(n * 8..n * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(group(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (n, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&group(n)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    fn peer(from: &str, to: &str) -> Peer {
        Peer { from: from.parse().expect("an address"), to: to.parse().expect("an address") }
    }

    const OPEN: &str = "   3: 0100007F:D2F0 0100007F:26A1 01 00000000:00000000 00:00000000 00000000  1000        0 71234 1 0000000000000000 20 4 30 10 -1";

    #[test]
    fn the_table_names_the_user_of_the_other_end() {
        let it = peer("127.0.0.1:54000", "127.0.0.1:9889");
        assert_eq!(user_in(OPEN, it), Some(1000));
        // The hub's own end of the same connection is another line.
        assert_eq!(user_in(OPEN, peer("127.0.0.1:9889", "127.0.0.1:54000")), None);
        assert_eq!(user_in(OPEN, peer("127.0.0.1:54001", "127.0.0.1:9889")), None);
        assert_eq!(user_in(OPEN, peer("127.0.0.2:54000", "127.0.0.1:9889")), None);
    }

    #[test]
    fn an_ipv4_connection_of_an_ipv6_socket_is_found() {
        let line = "1: 0000000000000000FFFF00000100007F:D2F0 0000000000000000FFFF00000100007F:26A1 01 0:0 0:0 0 1000 0 7 1";
        assert_eq!(user_in(line, peer("127.0.0.1:54000", "127.0.0.1:9889")), Some(1000));
        let line = "1: 00000000000000000000000001000000:D2F0 00000000000000000000000001000000:26A1 01 0:0 0:0 0 1000 0 7 1";
        assert_eq!(user_in(line, peer("[::1]:54000", "[::1]:9889")), Some(1000));
    }

    #[test]
    fn a_socket_that_was_closed_has_no_user() {
        let it = peer("127.0.0.1:54000", "127.0.0.1:9889");
        // The table says root, and no inode, of a socket without a process.
        let orphan = OPEN.replace(" 1000 ", " 0 ").replace("71234", "0");
        assert_eq!(user_in(&orphan, it), None);
        for state in ["04", "05", "06", "08"] {
            let closing = OPEN.replacen(" 01 ", &format!(" {state} "), 1);
            assert_eq!(user_in(&closing, it), None, "{state}");
        }
    }

    #[test]
    fn rubbish_names_nobody() {
        let it = peer("127.0.0.1:54000", "127.0.0.1:9889");
        for line in ["", "x", "1: 0100007F:D2F0", "1: é100007F:D2F0 0100007F:26A1 01 a b c d e f"]
        {
            assert_eq!(user_in(line, it), None, "{line}");
        }
    }
}
