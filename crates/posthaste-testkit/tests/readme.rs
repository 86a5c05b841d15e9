//! What README says of deliveries is all that there is.

use std::fs;
use std::path::Path;

use posthaste_core::messaging::delivery::{Proof, Reason};

/// Every proof. A new one does not compile until it is here, and in README.
fn proofs() -> Vec<Proof> {
    use Proof::{Auto, End, Hook, NextCall, Receipt, Reply, Stored, Turn};
    let all = [Receipt, Stored, Turn, Reply, Hook, NextCall, End, Auto];
    let known = |proof: &Proof| match proof {
        Receipt | Stored | Turn | Reply | Hook | NextCall | End | Auto => true,
    };
    all.into_iter().filter(known).collect()
}

/// The same for the reasons of a death.
fn reasons() -> Vec<Reason> {
    use Reason::{Cancelled, Expired, RecipientGone, Refused, Unreadable};
    let all = [RecipientGone, Expired, Cancelled, Refused, Unreadable];
    let known = |reason: &Reason| match reason {
        RecipientGone | Expired | Cancelled | Refused | Unreadable => true,
    };
    all.into_iter().filter(known).collect()
}

/// The first cells of the table whose head begins with this, or nothing.
fn rows(page: &str, head: &str) -> Option<Vec<String>> {
    let mut lines = page.lines().skip_while(|line| !line.starts_with(head));
    lines.next()?;
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    Some(rows.filter_map(|row| row.split('|').nth(1)).map(|cell| cell.trim().to_owned()).collect())
}

#[test]
fn the_readme_explains_every_proof_and_every_reason_of_a_death() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("README.md")).expect("a page");
    let told = rows(&page, "| Proof of `acked` ").expect("a table of proofs").join(" ");
    for proof in proofs() {
        assert!(told.contains(&format!("`{proof}`")), "{proof} is missing: {told}");
    }
    let dead = page.lines().find(|line| line.starts_with("| **dead** ")).expect("a row");
    for reason in reasons() {
        assert!(dead.contains(&format!("`{}`", reason.as_str())), "{reason:?} is missing: {dead}");
    }
}
