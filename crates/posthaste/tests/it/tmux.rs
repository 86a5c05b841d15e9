//! A tmux server of one test, on a socket of its own.

use std::path::{Path, PathBuf};

use crate::world::{Ran, Started, World, lacks};

const PROGRAM: &str = "/usr/bin/tmux";

/// The server, whoever starts it. It ends with this value.
pub(crate) struct Tmux {
    /// For its commands, which need nothing of the test's own.
    nowhere: World,
    pub(crate) socket: String,
}

impl Tmux {
    /// The server for the hub of this test. Nothing where tmux is missing and need not be
    /// there.
    pub(crate) fn of(world: &World) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            lacks("has no /usr/bin/tmux");
            return None;
        }
        Some(Self { nowhere: World::new(), socket: name_for(world.scratch()) })
    }

    /// The configuration of a hub that uses the server.
    pub(crate) fn config(&self) -> String {
        format!("[agents]\ntmux_socket = \"{}\"\n", self.socket)
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        let all = [&["-u", "-L", &self.socket], words].concat();
        let mut command = self.nowhere.program(PROGRAM, &all);
        command.env("PATH", "/usr/bin:/bin");
        Started::new(command).end()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
        // tmux leaves the name of an ended server in the system's folder.
        let folder = format!("/tmp/tmux-{}", rustix::process::getuid().as_raw());
        let _ = std::fs::remove_file(PathBuf::from(folder).join(&self.socket));
    }
}

/// The name of the server of a test with this folder.
pub(crate) fn name_for(scratch: &Path) -> String {
    let unique = scratch.file_name().expect("a name").to_string_lossy();
    format!("posthaste-{}", unique.trim_start_matches('.'))
}
