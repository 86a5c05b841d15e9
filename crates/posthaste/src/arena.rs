//! One arena of memory for the hub.
//!
//! The allocator of glibc gives each thread an arena of its own and keeps what was freed
//! in it. A hub that works for hours would hold some megabytes for each thread that ever
//! read the database; with one arena they share it (decision 0024). The allocator looks
//! at its environment once, when a program starts, so the hub starts itself again.

#[cfg(target_env = "gnu")]
const ARENAS: &str = "MALLOC_ARENA_MAX";
/// The newer way to say the same, and more.
#[cfg(target_env = "gnu")]
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Starts this program again, in this process, unless somebody has said how many arenas
/// there shall be. It returns where that is so, or where it does not work: then the hub
/// is larger, and as good.
#[cfg(target_env = "gnu")]
#[expect(clippy::disallowed_methods, reason = "it becomes this program; there is no child")]
pub(crate) fn have_one() {
    use std::os::unix::process::CommandExt;

    if crate::config::is_set(ARENAS) || crate::config::is_set(TUNABLES) {
        return;
    }
    let mut words = std::env::args_os();
    let (Some(name), Ok(program)) = (words.next(), std::env::current_exe()) else { return };
    let _ = std::process::Command::new(program).arg0(name).args(words).env(ARENAS, "1").exec();
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn have_one() {}
