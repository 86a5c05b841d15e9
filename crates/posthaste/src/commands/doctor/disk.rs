//! Checks the disk under the data folder, and the clock.
//!
//! The flush is tried with a file that is unlinked before the first byte is written, so
//! that nothing is left of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::statvfs;

use super::Check;

const SPACE: &str = "disk space";
const FLUSH: &str = "disk";
const CLOCK: &str = "clock";

/// Below this the log of the database may not fit.
const SCARCE: u64 = 256 << 20;
/// Below this the hub soon refuses messages.
const NONE: u64 = 16 << 20;
/// A flush that takes longer is reported: each send waits for one.
const SLOW: Duration = Duration::from_millis(50);
const FLUSHES: usize = 3;
/// The difference that is tolerated, because file systems may round times.
const APART: Duration = Duration::from_secs(5);
/// 2025-01-01, in seconds: no hub is older.
const BIRTH: u64 = 1_735_689_600;

pub(super) fn checks(folder: &Path) -> Vec<Check> {
    // A missing folder will be created below its nearest existing ancestor.
    let Some(place) = folder.ancestors().find(|path| path.is_dir()) else {
        return vec![Check::fail(FLUSH, "no folder above it exists", "choose another with --data")];
    };
    let tried = try_out(place);
    let written = tried.as_ref().ok().map(|tried| tried.written_at);
    vec![space(place), flush(place, tried), clock(SystemTime::now(), written)]
}

fn space(place: &Path) -> Check {
    match statvfs(place) {
        Err(e) => Check::warn(SPACE, format!("it is unknown: {e}"), "see `df`"),
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let told = format!("{} free", size(free));
            let hint = "make room: a full disk refuses every send";
            match free {
                ..NONE => Check::fail(SPACE, told, hint),
                NONE..SCARCE => Check::warn(SPACE, told, hint),
                _ => Check::ok(SPACE, told),
            }
        }
    }
}

struct Tried {
    flush: Duration,
    written_at: SystemTime,
}

fn try_out(place: &Path) -> io::Result<Tried> {
    let path = place.join(format!(".doctor.{:016x}.tmp", rand::random::<u64>()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    let mut times = [Duration::ZERO; FLUSHES];
    for time in &mut times {
        *time = flush_once(&mut file)?;
    }
    times.sort_unstable();
    Ok(Tried { flush: times[FLUSHES / 2], written_at: file.metadata()?.modified()? })
}

fn flush_once(file: &mut File) -> io::Result<Duration> {
    file.write_all(&[0; 4096])?;
    let began = Instant::now();
    file.sync_data()?;
    Ok(began.elapsed())
}

fn flush(place: &Path, tried: io::Result<Tried>) -> Check {
    let shown = place.display();
    match tried {
        Err(e) => Check::fail(
            FLUSH,
            format!("{shown} cannot be written: {e}"),
            "make it writable for you, or choose another with --data",
        ),
        Ok(Tried { flush, .. }) => {
            let told = format!("writable, a flush takes {:.1} ms", flush.as_secs_f64() * 1000.0);
            match flush > SLOW {
                true => Check::warn(FLUSH, told, "every send waits for one; use a local disk"),
                false => Check::ok(FLUSH, told),
            }
        }
    }
}

fn clock(now: SystemTime, written: Option<SystemTime>) -> Check {
    let birth = SystemTime::UNIX_EPOCH + Duration::from_secs(BIRTH);
    if now < birth {
        return Check::fail(CLOCK, "it is before 2025", "set the clock: messages are dated by it");
    }
    let apart = |then: SystemTime| {
        now.duration_since(then).or_else(|_| then.duration_since(now)).unwrap_or_default()
    };
    match written.map(apart) {
        Some(apart) if apart > APART => Check::warn(
            CLOCK,
            format!("the file system's time is {} s away from it", apart.as_secs()),
            "set both by the same source",
        ),
        Some(_) => Check::ok(CLOCK, "it agrees with the file system"),
        None => Check::ok(CLOCK, "it is after 2025"),
    }
}

/// Formats a number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, word)) => format!("{} {word}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_clock_before_2025_or_far_from_the_disk_is_noticed() {
        let at = |s| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
        assert_eq!(clock(at(1_000_000), None).status, Status::Fail);
        assert_eq!(clock(at(BIRTH + 1), None).status, Status::Ok);
        assert_eq!(clock(at(BIRTH + 1000), Some(at(BIRTH + 1001))).status, Status::Ok);
        assert_eq!(clock(at(BIRTH + 1000), Some(at(BIRTH + 2000))).status, Status::Warn);
        assert_eq!(clock(at(BIRTH + 2000), Some(at(BIRTH + 1000))).status, Status::Warn);
    }

    #[test]
    fn a_slow_disk_is_a_warning_and_a_closed_one_a_failure() {
        let tried = |ms| Tried { flush: Duration::from_millis(ms), written_at: SystemTime::now() };
        let place = Path::new("/data");
        assert_eq!(flush(place, Ok(tried(1))).status, Status::Ok);
        assert_eq!(flush(place, Ok(tried(500))).status, Status::Warn);
        let closed = flush(place, Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(closed.status, Status::Fail);
        assert!(closed.hint.is_some());
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(12), "12 bytes");
        assert_eq!(size(5 << 20), "5 MiB");
        assert_eq!(size(3 << 30), "3 GiB");
    }
}
