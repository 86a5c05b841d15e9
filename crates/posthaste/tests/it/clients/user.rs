//! The user of an agent program: it is on their path, and they type our commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::program::{Program, home, shut_in};
use crate::world::{Ran, Started, World};

/// As a package manager would: a file of its name that starts it.
pub(super) fn put_on_path(program: Program, tools: &Path, world: &World) {
    let bin = home(world).join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let (binary, script) = program.binary(tools);
    let script = script.map(|script| format!("'{}' ", script.display())).unwrap_or_default();
    let text = format!("#!/bin/sh\nexec '{}' {script}\"$@\"\n", binary.display());
    let file = bin.join(program.name());
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
}

/// They have it on their path, and connect it.
pub(crate) fn connects(program: Program, tools: &Path, world: &World) {
    put_on_path(program, tools, world);
    says(world, &["connect", program.name(), "--yes"]);
}

/// One of our commands, as the user types it.
pub(super) fn posthaste(world: &World, args: &[&str]) -> Ran {
    let home = home(world);
    let mut command = world.command(args);
    shut_in(&mut command, &home);
    command
        .env("POSTHASTE_DATA", world.data())
        .env("PATH", format!("{}:/usr/bin:/bin", home.join("bin").display()));
    Started::new(command).end()
}

/// The same, and it works.
#[track_caller]
pub(super) fn says(world: &World, args: &[&str]) -> String {
    let ran = posthaste(world, args);
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    ran.out
}
