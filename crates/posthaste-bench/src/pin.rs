//! Server and load on cores of their own.
//!
//! Left to itself the scheduler sometimes puts both on one core, and a ratio of
//! two such runs is wrong by a factor of two.

use anyhow::Context;

/// Which core is whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pins {
    pub(crate) server: usize,
    pub(crate) load: usize,
}

/// The cores that this process may use.
pub(crate) fn allowed() -> Vec<usize> {
    imp::allowed()
}

impl Pins {
    /// The first two.
    pub(crate) fn choose() -> Option<Self> {
        let mut cores = allowed().into_iter();
        Some(Self { server: cores.next()?, load: cores.next()? })
    }
}

/// Keeps the calling thread, and whatever it starts from now on, on `core`.
pub(crate) fn this_process(core: Option<usize>) -> anyhow::Result<()> {
    match core {
        Some(core) => imp::stay_on(core).with_context(|| format!("cannot stay on core {core}")),
        None => Ok(()),
    }
}

/// Runs `start` on `core`: a child inherits the core of the thread that starts it.
pub(crate) fn started_on<T>(
    core: Option<usize>,
    back_to: Option<usize>,
    start: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    this_process(core)?;
    let started = start();
    this_process(back_to)?;
    started
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn allowed() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
    }

    pub(super) fn stay_on(core: usize) -> io::Result<()> {
        let mut set = CpuSet::new();
        set.set(core);
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;

    pub(super) fn allowed() -> Vec<usize> {
        Vec::new()
    }

    pub(super) fn stay_on(_: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
