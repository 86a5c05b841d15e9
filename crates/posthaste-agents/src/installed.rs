//! The program of a profile, looked for before anybody asks for an agent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::Profile;

use crate::drivers::{self, Brief};
use crate::environment::Environment;
use crate::program;
use crate::settings::{Settings, Stdin};
use crate::supervisor::resolve;
use crate::tmux;

/// Returns the program that a hub with this environment would start for an agent of the
/// profile; `None` if such an agent connects by itself, or is a part of this program.
pub fn installed(
    profile: &Profile,
    environment: &[(OsString, OsString)],
) -> Result<Option<PathBuf>, LaunchError> {
    let base = Environment::inherited(environment);
    let settings = Settings::read(profile, base.get("HOME").map(Path::new))?;
    let brief = Brief::of_nobody(&profile.template, &settings);
    let Some(launch) = drivers::launch(profile, &brief)? else { return Ok(None) };
    if launch.assistant && settings.command.is_none() {
        return Ok(None);
    }
    let command = resolve(&launch.line, &settings, &base.clone().with(&settings))?;
    if launch.stdin == Stdin::Terminal {
        check_tmux(&program::find("tmux", None, base.get("PATH"))?)?;
    }
    Ok(command.into_iter().next().map(PathBuf::from))
}

/// Refuses a tmux that is too old. One that says no version is left to the hub.
#[expect(clippy::disallowed_methods, reason = "it is waited for")]
fn check_tmux(program: &Path) -> Result<(), LaunchError> {
    let mut command = Command::new(program);
    let said = command.arg(tmux::VERSION).stdin(Stdio::null()).stderr(Stdio::null()).output();
    said.map_or(Ok(()), |said| tmux::check_version(&said.stdout))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::settings::tests::profile;

    #[test]
    fn a_program_that_is_missing_is_told_with_the_way_to_get_it() {
        let path = |folders: &str| vec![(OsString::from("PATH"), OsString::from(folders))];
        let sh = profile(Some("command"), r#"{"command": ["sh"]}"#);
        let found = installed(&sh, &path("/usr/bin:/bin")).expect("every machine has it");
        assert!(found.is_some_and(|sh| sh.is_absolute()));
        let mock = profile(Some("terminal"), r#"{"command": ["/bin/sh"]}"#);
        let error = installed(&mock, &path("/nowhere")).expect_err("tmux is not there");
        assert!(error.why.contains("`tmux`") && error.hint.is_some(), "{error}");
        let folder = tempfile::tempdir().expect("a folder");
        let tmux = folder.path().join("tmux");
        std::fs::write(&tmux, "#!/bin/sh\necho tmux 3.0a\n").expect("written");
        std::fs::set_permissions(&tmux, Permissions::from_mode(0o755)).expect("a program");
        let old = installed(&mock, &path(folder.path().to_str().expect("a plain path")));
        assert!(old.expect_err("it is too old").why.contains("tmux 3.0a is too old"));
        let claude = profile(Some("claude"), "{}");
        let error = installed(&claude, &path("/nowhere")).expect_err("it is not there");
        assert!(error.why.contains("`claude`"), "{error}");
        assert!(error.hint.is_some_and(|hint| hint.contains("npm install")));
        assert_eq!(installed(&profile(None, "{}"), &path("/nowhere")), Ok(None));
        let assistant = profile(Some("runner"), "{}");
        assert_eq!(installed(&assistant, &path("/nowhere")), Ok(None), "it is built in");
        let python = profile(Some("runner"), r#"{"command": ["python3", "runner.py"]}"#);
        assert!(installed(&python, &path("/nowhere")).is_err());
    }
}
