//! Metrics of the process from Linux's `/proc`; on other systems they are left out.

use std::fs;

use super::text::MetricsText;

pub(super) fn tell(page: &mut MetricsText) {
    if let Some(bytes) = resident() {
        page.gauge("process_resident_memory_bytes", "Memory in use.");
        page.value(&[], bytes);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        page.gauge("process_open_fds", "Open files and sockets.");
        page.value(&[], files.count());
    }
    if let Some(most) = most_files() {
        page.gauge("process_max_fds", "How many may be open.");
        page.value(&[], most);
    }
}

fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn most_files() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
