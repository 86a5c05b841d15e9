//! Finds a program before anything is started.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use posthaste_core::ports::LaunchError;
use rustix::fs::{Access, access};

/// Instructions to install the programs that agents use.
const INSTALL: [(&str, &str); 18] = [
    ("claude", "npm install -g @anthropic-ai/claude-code"),
    ("codex", "npm install -g @openai/codex"),
    ("gemini", "npm install -g @google/gemini-cli"),
    ("opencode", "npm install -g opencode-ai"),
    ("copilot", "npm install -g @github/copilot"),
    ("qwen", "npm install -g @qwen-code/qwen-code"),
    ("claude-agent-acp", "npm install -g @agentclientprotocol/claude-agent-acp"),
    ("codex-acp", "npm install -g @agentclientprotocol/codex-acp"),
    ("kiro-cli", "install Kiro's command line as https://kiro.dev/docs/cli says"),
    ("kimi", "uv tool install kimi-cli"),
    ("python3", "install Python with your system's packages, for example apt install python3"),
    ("node", "install Node.js with your system's packages, for example apt install nodejs"),
    ("git", "install it with your system's packages, for example apt install git"),
    ("tmux", "install it with your system's packages, for example apt install tmux"),
    ("jq", "install it with your system's packages, for example apt install jq"),
    ("setpriv", "install util-linux with your system's packages"),
    ("getent", "install it with your system's packages: it belongs to its C library"),
    ("uv", "install it with your system's packages, or pip install uv"),
];

/// Returns the absolute path of a program: with a slash, relative to the folder of its
/// profile; else from the folders of `path`. Never searches the working directory: the
/// caller who assigns work names that directory, and may have put a program there.
pub(crate) fn find(
    program: &str,
    beside: Option<&Path>,
    path: Option<&OsStr>,
) -> Result<PathBuf, LaunchError> {
    if program.contains('/') {
        let whole = beside.map_or_else(|| program.into(), |folder| folder.join(program));
        return match (whole.is_absolute(), is_program(&whole)) {
            (true, true) => Ok(whole),
            (true, false) if whole.is_file() => Err(LaunchError {
                why: format!("{} may not be executed", whole.display()),
                hint: Some(format!("chmod +x {}", whole.display())),
                key: None,
            }),
            (true, false) => Err(missing(&whole.to_string_lossy())),
            (false, _) => Err(LaunchError::new(
                format!("`{program}` is relative, and its profile stands in no file"),
                "give its full path, or keep the profile in a file with the program beside it",
            )),
        };
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let found = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(program));
    found.into_iter().find(|whole| is_program(whole)).ok_or_else(|| missing(program))
}

/// Returns the absolute path of a program in the folders of `path`. The error says how to
/// install it.
pub fn find_program(program: &str, path: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    find(program, None, path)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Adds to the error of a missing program what else may be wrong if the hub does not find
/// it: its user may have it, in a folder that the hub does not search.
pub(crate) fn asked_of_hub(mut error: LaunchError) -> LaunchError {
    let installs = |hint: &str| INSTALL.iter().any(|(_, how)| *how == hint);
    if let Some(hint) = error.hint.as_mut().filter(|hint| installs(hint)) {
        hint.push_str("; if you have it, start the hub again from a shell that finds it");
    }
    error
}

fn missing(program: &str) -> LaunchError {
    let known = INSTALL.iter().find(|(name, _)| *name == program);
    let hint = match known {
        Some((_, how)) => (*how).to_owned(),
        None if program.contains('/') => "install it there, or correct the path".to_owned(),
        None => "install it, or give its full path; the hub looks in the folders of its own PATH"
            .to_owned(),
    };
    LaunchError {
        why: format!("the program `{program}` is not there"),
        hint: Some(hint),
        key: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path_or_beside_its_profile() {
        let path = Some(OsStr::new("relative:/nowhere:/usr/bin:/bin"));
        let sh = find("sh", None, path).expect("every machine has it");
        assert!(sh.is_absolute());
        assert_eq!(find("/bin/sh", None, None).expect("there"), Path::new("/bin/sh"));
        assert_eq!(
            find("./sh", Some(Path::new("/bin")), None).expect("there"),
            Path::new("/bin/./sh")
        );
        assert!(find("./sh", None, path).is_err());
        assert!(find("sh", None, None).is_err());
    }

    #[test]
    fn a_missing_program_is_named_with_the_way_to_get_it() {
        let error = find("codex", None, Some(OsStr::new("/nowhere"))).expect_err("not there");
        assert!(error.why.contains("`codex`"), "{error}");
        assert!(error.hint.as_ref().is_some_and(|hint| hint.ends_with("@openai/codex")));
        let hint = asked_of_hub(error).hint.expect("a hint");
        assert!(hint.contains("npm install") && hint.contains("start the hub again"), "{hint}");
        for adapter in ["claude-agent-acp", "codex-acp"] {
            let error = find(adapter, None, None).expect_err("not there");
            assert!(error.hint.expect("a hint").contains(adapter));
        }
        let error = find("frobnicate", None, None).expect_err("not there");
        assert!(error.hint.expect("a hint").contains("full path"));
        let error = find("/etc/passwd", None, None).expect_err("no program");
        assert!(error.hint.expect("a hint").contains("chmod"));
    }
}
