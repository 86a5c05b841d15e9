//! What workers write.

use std::fs;

use super::Kept;

#[test]
fn of_a_flood_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
    let kept = Kept { bytes: 100_000, ..Kept::new(b"") };
    let script = "echo first; i=0; while [ $i -lt 3000 ]; do \
                  printf '%01000d' $i; i=$((i+1)); done; echo last";
    let exit = kept.run(script);
    let wrote = 3_000_000 + "first\n".len() + "last\n".len();
    let out = kept.out();
    assert!(out.starts_with("first\n") && out.ends_with("last\n"));
    let dropped = usize::try_from(exit["out_dropped"].as_u64().expect("a number")).expect("small");
    assert_eq!(dropped, wrote - 100_000);
    assert!(out.contains(&format!("[posthaste: {dropped} bytes are left out here")));
    assert!(out.len() < 101_000, "{}", out.len());
    assert_eq!(exit["err_dropped"], 0);
}

#[test]
fn both_streams_may_flood_at_the_same_time() {
    let kept = Kept { bytes: 10_000, ..Kept::new(b"") };
    let exit = kept.run("head -c 5000000 /dev/zero & head -c 6000000 /dev/zero >&2; wait");
    assert_eq!((&exit["code"], exit["out_dropped"].as_u64()), (&0.into(), Some(4_990_000)));
    assert_eq!(exit["err_dropped"], 5_990_000);
}

#[test]
fn rubbish_is_kept_to_the_byte() {
    let kept = Kept::new(b"");
    kept.run(r"printf '\377\000\033[2J\012'");
    assert_eq!(fs::read(kept.file("out")).expect("it is there"), b"\xff\x00\x1b[2J\n");
}

#[test]
fn what_a_worker_says_can_be_read_while_it_runs() {
    let kept = Kept::new(b"");
    let keeper = kept.script("echo working; read line; exec sleep 1000");
    kept.hears("working");
    assert!(kept.exit().is_none());
    keeper.signal(rustix::process::Signal::TERM);
    kept.ended(keeper.end());
}
