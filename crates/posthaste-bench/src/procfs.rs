//! What the kernel knows about a process: CPU used, memory held.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// CPU time of all threads, user and system together.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = read(pid, "stat")?;
    ticks(&stat).map(in_time).with_context(|| format!("/proc/{pid}/stat reads `{stat}`"))
}

/// Resident memory in bytes.
pub(crate) fn rss(pid: u32) -> anyhow::Result<u64> {
    let status = read(pid, "status")?;
    kib(&status, "VmRSS:").map(|kib| kib * 1024).context("no VmRSS in /proc")
}

/// How busy everybody keeps this machine.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

pub(crate) fn raise_open_files() {
    let now = getrlimit(Resource::Nofile);
    // Without it only the largest runs fail, and they say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
}

fn read(pid: u32, what: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/{what}");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// Fields 14 and 15, counted behind the name, which may hold spaces itself.
fn ticks(stat: &str) -> Option<u64> {
    let behind = stat.rsplit_once(')')?.1;
    let mut fields = behind.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred ticks")]
fn in_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

fn kib(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 3 0";
        assert_eq!(ticks(stat), Some(100));
    }

    #[test]
    fn memory_is_read_from_its_own_line() {
        let status = "Name:\thub\nVmHWM:\t  900 kB\nVmRSS:\t  123 kB\n";
        assert_eq!(kib(status, "VmRSS:"), Some(123));
    }
}
