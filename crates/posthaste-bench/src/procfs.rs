//! What the kernel knows about a process: CPU used, memory held, files open.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// CPU time of all threads, user and system together.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = read(pid, "stat")?;
    ticks(&stat).map(in_time).with_context(|| format!("/proc/{pid}/stat reads `{stat}`"))
}

/// CPU time of this process and of every child that it has reaped.
pub(crate) fn own_cpu() -> anyhow::Result<Duration> {
    let stat = read(std::process::id(), "stat")?;
    let all = fields(&stat).map(|[user, system, childs_user, childs_system]| {
        in_time(user + system + childs_user + childs_system)
    });
    all.context("/proc/self/stat cannot be read")
}

/// CPU time that anybody used on these cores since the machine was started.
pub(crate) fn cores_cpu(cores: &[usize]) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let of = |core: &usize| busy(&stat, *core).with_context(|| format!("no core {core}"));
    cores.iter().map(of).sum::<anyhow::Result<u64>>().map(in_time)
}

/// Resident memory in bytes.
pub(crate) fn rss(pid: u32) -> anyhow::Result<u64> {
    let status = read(pid, "status")?;
    number(&status, "VmRSS:").map(|kib| kib * 1024).context("no VmRSS in /proc")
}

/// Open files and sockets.
pub(crate) fn open_files(pid: u32) -> anyhow::Result<usize> {
    let path = format!("/proc/{pid}/fd");
    Ok(fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?.count())
}

pub(crate) fn threads(pid: u32) -> anyhow::Result<u64> {
    let status = read(pid, "status")?;
    number(&status, "Threads:").context("no Threads in /proc")
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

fn ticks(stat: &str) -> Option<u64> {
    fields(stat).map(|[user, system, ..]| user + system)
}

/// Fields 14 to 17, counted behind the name, which may hold spaces itself.
fn fields(stat: &str) -> Option<[u64; 4]> {
    let behind = stat.rsplit_once(')')?.1;
    let mut fields = behind.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some([next()?, next()?, next()?, next()?])
}

/// User, nice, system, then after idle and iowait: interrupts, and what the host
/// took away.
fn busy(stat: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|f| f.parse().ok()).collect();
    Some(fields.get(..3)?.iter().chain(fields.get(5..8)?).sum())
}

fn in_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

fn number(status: &str, key: &str) -> Option<u64> {
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
    fn idle_time_is_not_busy_and_stolen_time_is() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 100 100 4 5 6 0 0\n";
        assert_eq!(busy(stat, 1), Some(21));
        assert_eq!(busy(stat, 0), None);
    }

    #[test]
    fn memory_is_read_from_its_own_line() {
        let status = "Name:\thub\nVmHWM:\t  900 kB\nVmRSS:\t  123 kB\n";
        assert_eq!(number(status, "VmRSS:"), Some(123));
    }
}
