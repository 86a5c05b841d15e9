//! A user's service of systemd.

use std::path::{Path, PathBuf};

use posthaste_api::{ApiError, ErrorCode};

use super::{Job, Manager, WITHOUT, ask, tell};

const UNIT: &str = "posthaste.service";

pub(super) struct Systemd {
    program: PathBuf,
    file: PathBuf,
}

impl Systemd {
    /// Makes the service; `config` is the user's folder for configuration.
    pub(super) fn new(config: &Path) -> Self {
        Self { program: "systemctl".into(), file: config.join("systemd/user").join(UNIT) }
    }

    fn tell(&self, words: &[&str]) -> Result<(), ApiError> {
        tell(&self.program, &[&["--user"], words].concat())
    }
}

impl Manager for Systemd {
    fn name(&self) -> &'static str {
        "systemd"
    }

    fn file(&self) -> &Path {
        &self.file
    }

    fn text(&self, job: &Job) -> String {
        let words: Vec<String> = std::iter::once(word(&job.program))
            .chain(job.args.iter().map(|arg| word(&arg.replace('$', "$$"))))
            .collect();
        let path = job.path.as_ref().map(|path| {
            format!(
                "# Workers find the programs that you find.\nEnvironment={}\n",
                word(&format!("PATH={path}"))
            )
        });
        format!(
            "[Unit]\n\
             Description=Posthaste, the post office for AI agents\n\
             Documentation=man:posthaste(1)\n\
             \n\
             [Service]\n\
             Type=exec\n\
             ExecStart={}\n\
             {}\
             # A hub that was stopped in order ends with 0 and stays down.\n\
             Restart=on-failure\n\
             RestartSec=1\n\
             # The hub ends its workers itself; they outlive a hub that was killed.\n\
             KillMode=process\n\
             TimeoutStopSec=60\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            words.join(" "),
            path.unwrap_or_default(),
        )
    }

    fn check(&self) -> Result<(), ApiError> {
        let ended = ask(&self.program, &["--user", "show-environment"])?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = said.trim().lines().next().unwrap_or("it did not say why").to_owned();
        let told = format!("systemd does not run for this user: {said}");
        Err(ApiError::new(ErrorCode::Unavailable, told).hint(WITHOUT))
    }

    fn enable(&self) -> Result<(), ApiError> {
        self.tell(&["daemon-reload"])?;
        self.tell(&["enable", UNIT])
    }

    fn disable(&self) -> Result<(), ApiError> {
        self.tell(&["disable", "--now", UNIT])
    }

    fn forget(&self) -> Result<(), ApiError> {
        self.tell(&["daemon-reload"])
    }

    fn start(&self) -> Result<(), ApiError> {
        self.tell(&["start", UNIT]).map_err(|error| error.hint(self.log(Path::new(""))))
    }

    fn stop(&self) -> Result<(), ApiError> {
        self.tell(&["stop", UNIT])
    }

    fn is_active(&self) -> bool {
        let ended = ask(&self.program, &["--user", "is-active", "--quiet", UNIT]);
        ended.is_ok_and(|ended| ended.status.success())
    }

    fn log(&self, _folder: &Path) -> String {
        format!("journalctl --user -u {UNIT}")
    }

    fn advice(&self) -> Option<&'static str> {
        Some("To keep it when you log out: loginctl enable-linger")
    }
}

/// Returns one word of a unit: quoted where needed, with nothing that systemd replaces.
fn word(text: &str) -> String {
    let text = text.replace('%', "%%");
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%$".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    let escaped = text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            program: "/home/me/.local/bin/posthaste".into(),
            args: vec!["up".into(), "--data".into(), "/srv/my mail/100%/$x".into()],
            path: Some("/home/me/bin:/usr/bin".into()),
            log: "/srv/hub.log".into(),
        }
    }

    #[test]
    fn a_unit_runs_the_hub_with_its_folder_and_the_users_path() {
        let systemd = Systemd::new(Path::new("/home/me/.config"));
        assert_eq!(systemd.file(), Path::new("/home/me/.config/systemd/user/posthaste.service"));
        let text = systemd.text(&job());
        for line in [
            r#"ExecStart=/home/me/.local/bin/posthaste up --data "/srv/my mail/100%%/$$x""#,
            "Environment=PATH=/home/me/bin:/usr/bin",
            "Restart=on-failure",
            "KillMode=process",
            "WantedBy=default.target",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
        let bare = systemd.text(&Job { path: None, ..job() });
        assert!(!bare.contains("Environment"), "{bare}");
    }

    #[test]
    fn a_word_of_a_unit_means_what_it_says() {
        assert_eq!(word("up"), "up");
        assert_eq!(word(""), "\"\"");
        assert_eq!(word(r#"a "b" \c"#), r#""a \"b\" \\c""#);
        assert_eq!(word("50%;x"), "\"50%%;x\"");
        assert_eq!(word("two\nlines"), "\"two\\nlines\"");
    }
}
