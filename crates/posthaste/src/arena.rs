//! Limits the hub's allocator to one arena.
//!
//! The allocator of glibc gives each thread an arena of its own and keeps freed memory in
//! it. A hub that works for hours would hold some megabytes for each thread that ever
//! read the database; with one arena the threads share it (decision 0024). The allocator
//! reads its environment once, at the start of a program, so the hub starts itself again.

#[cfg(target_env = "gnu")]
const ARENAS: &str = "MALLOC_ARENA_MAX";
/// The newer variable for the same setting, and others.
#[cfg(target_env = "gnu")]
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Executes this program again, in this process, unless the environment sets the number
/// of arenas. Returns in that case, or if the call fails: then the hub uses more memory,
/// and works as well.
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
