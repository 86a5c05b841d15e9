//! A tmux that the hub cannot use.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::Room;

impl Room {
    /// A hub that finds this script as its tmux.
    fn with_tmux(script: &str) -> Option<Self> {
        let mut room = Self::new()?;
        room.kill_the_hub();
        let bin = room.world.scratch().join("bin");
        fs::create_dir(&bin).expect("a folder");
        let tmux = bin.join("tmux");
        let text =
            format!("#!/bin/sh\ncase \" $* \" in {script} esac\nexec /usr/bin/tmux \"$@\"\n");
        fs::write(&tmux, text).expect("written");
        fs::set_permissions(&tmux, fs::Permissions::from_mode(0o755)).expect("a program");
        room.path = format!("{}:{}", bin.display(), room.path);
        room.start_the_hub();
        Some(room)
    }
}

#[test]
fn a_tmux_that_is_too_old_is_told_before_the_worker_starts() {
    let Some(room) = Room::with_tmux("*' -V '*) echo tmux 3.1c; exit ;;") else { return };
    room.assign("mock-cli", "hello");
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("tmux 3.1c is too old"), "{text}");
    assert!(room.panes().is_empty());
}

#[test]
fn a_tmux_that_refuses_the_hub_fails_the_worker_in_its_own_words() {
    let refuses = "*' attach-session '*) echo 'tmux: unknown option -- f' >&2; exit 1 ;;";
    let Some(room) = Room::with_tmux(refuses) else { return };
    room.assign("mock-cli", "hello");
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("tmux: unknown option -- f"), "{text}");
    assert!(room.panes().is_empty());
}
