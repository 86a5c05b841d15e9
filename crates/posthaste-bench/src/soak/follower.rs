//! Somebody who follows the events for a while, goes away, and comes back to where it
//! was or to what is new.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, timeout};

use super::Shared;
use crate::http::Conn;
use crate::requests::get;

const LONGEST_S: u64 = 30;
/// The hub says at least every 15 s that it is there.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn follow(who: usize, shared: Arc<Shared>, seed: u64) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut after = None;
    while !shared.stop.load(Ordering::Relaxed) {
        let token = &shared.agents[who].token;
        let path = match after.filter(|_| rng.random_bool(0.5)) {
            Some(number) => format!("/v1/events?after={number}"),
            None => "/v1/events".to_owned(),
        };
        let mut conn = Conn::open(shared.hub).await?;
        conn.follow(&get(&path, token), "id:").await?;
        let until = Instant::now() + Duration::from_secs(rng.random_range(1..LONGEST_S));
        while Instant::now() < until && !shared.stop.load(Ordering::Relaxed) {
            let piece = timeout(PATIENCE, conn.next_piece()).await??;
            after = last_number(piece).or(after);
        }
    }
    Ok(())
}

/// Of the last event that a piece names. A cut number is a number that was before.
fn last_number(piece: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(piece);
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).rev();
    lines.find_map(|line| line.strip_prefix("id:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_when_its_line_is_whole() {
        assert_eq!(last_number(b"id: 7\ndata: x\n\nid: 81"), Some(7));
        assert_eq!(last_number(b": alive\n\n"), None);
    }
}
