//! What workers write.

use std::fs;

use super::Kept;
use crate::disk::can_mount;
use crate::world::{BINARY, Started};

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

#[test]
fn who_ends_on_a_full_disk_still_says_how_and_how_much_is_missing() {
    let kept = Kept::new(b"");
    if !can_mount(&kept.world) {
        return;
    }
    let script = "mount -t tmpfs -o size=256k tmpfs \"$1\"; : > \"$1/task\"\n\
                  cd \"$1\"; ln -s / cwd\n\
                  \"$0\" keep 1000000 1000 60000 022 - task - /bin/sh -c \
                  'cat /dev/zero > \"$0/filler\"; echo an answer; exit 7' \"$1\" >&2\n\
                  cat \"$1/exit.json\"";
    let folder = kept.folder();
    let words = ["-rm", "/bin/sh", "-c", script, BINARY, folder.to_str().expect("plain")];
    let ran = Started::new(kept.world.program("/usr/bin/unshare", &words)).end();
    let exit: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
    assert_eq!((&exit["code"], &exit["out_dropped"]), (&7.into(), &10.into()), "{ran:?}");
}
