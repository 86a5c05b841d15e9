//! A user's agent of launchd, on macOS.

use std::path::{Path, PathBuf};

use posthaste_api::ApiError;

use super::{Job, Manager, ask, tell};

const LABEL: &str = "posthaste";

pub(super) struct Launchd {
    program: PathBuf,
    file: PathBuf,
    /// The user's session in launchd, and the service in it.
    domain: String,
    target: String,
}

impl Launchd {
    pub(super) fn new(home: &Path) -> Self {
        let domain = format!("gui/{}", rustix::process::getuid().as_raw());
        Self {
            program: "launchctl".into(),
            file: home.join("Library/LaunchAgents").join(format!("{LABEL}.plist")),
            target: format!("{domain}/{LABEL}"),
            domain,
        }
    }

    fn tell(&self, words: &[&str]) -> Result<(), ApiError> {
        tell(&self.program, words)
    }

    fn is_loaded(&self) -> bool {
        ask(&self.program, &["print", &self.target]).is_ok_and(|ended| ended.status.success())
    }
}

impl Manager for Launchd {
    fn name(&self) -> &'static str {
        "launchd"
    }

    fn file(&self) -> &Path {
        &self.file
    }

    fn text(&self, job: &Job) -> String {
        let words = std::iter::once(&job.program).chain(&job.args);
        let words: String =
            words.map(|word| format!("    <string>{}</string>\n", escaped(word))).collect();
        let path = job.path.as_ref().map(|path| {
            let path = escaped(path);
            format!(
                "  <!-- Workers find the programs that you find. -->\n  \
                 <key>EnvironmentVariables</key>\n  <dict>\n    \
                 <key>PATH</key><string>{path}</string>\n  </dict>\n"
            )
        });
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
{}  <key>RunAtLoad</key><true/>
  <!-- A hub that was stopped in order ends with 0 and stays down. -->
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key><false/>
  </dict>
  <!-- The hub ends its workers itself; they outlive a hub that was killed. -->
  <key>AbandonProcessGroup</key><true/>
  <key>ExitTimeOut</key><integer>60</integer>
  <key>StandardOutPath</key><string>{log}</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"#,
            path.unwrap_or_default(),
            log = escaped(&job.log),
        )
    }

    fn check(&self) -> Result<(), ApiError> {
        ask(&self.program, &["print", &self.domain]).map(|_| ())
    }

    /// launchd reads the file from its folder when the user logs in.
    fn enable(&self) -> Result<(), ApiError> {
        self.tell(&["enable", &self.target])
    }

    fn disable(&self) -> Result<(), ApiError> {
        self.stop()?;
        self.tell(&["disable", &self.target])
    }

    fn forget(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// A loaded service runs, unless it was stopped since.
    fn start(&self) -> Result<(), ApiError> {
        match self.is_loaded() {
            true => self.tell(&["kickstart", &self.target]),
            false => self.tell(&["bootstrap", &self.domain, &self.file.to_string_lossy()]),
        }
    }

    fn stop(&self) -> Result<(), ApiError> {
        match self.is_loaded() {
            true => self.tell(&["bootout", &self.target]),
            false => Ok(()),
        }
    }

    fn is_active(&self) -> bool {
        let Ok(ended) = ask(&self.program, &["print", &self.target]) else { return false };
        let said = String::from_utf8_lossy(&ended.stdout);
        ended.status.success() && said.lines().any(|line| line.trim() == "state = running")
    }

    fn log(&self, folder: &Path) -> String {
        folder.join("hub.log").display().to_string()
    }

    fn advice(&self) -> Option<&'static str> {
        None
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn job() -> Job {
        Job {
            program: "/usr/local/bin/posthaste".into(),
            args: vec!["up".into(), "--data".into(), "/Users/me/R&D <mail>".into()],
            path: Some("/opt/bin:/usr/bin".into()),
            log: "/Users/me/hub.log".into(),
        }
    }

    #[test]
    fn a_plist_runs_the_hub_with_its_folder_and_the_users_path() {
        let launchd = Launchd::new(Path::new("/Users/me"));
        assert_eq!(launchd.file(), Path::new("/Users/me/Library/LaunchAgents/posthaste.plist"));
        let text = launchd.text(&job());
        for line in [
            "<string>/usr/local/bin/posthaste</string>",
            "<string>up</string>",
            "<string>/Users/me/R&amp;D &lt;mail&gt;</string>",
            "<key>PATH</key><string>/opt/bin:/usr/bin</string>",
            "<key>SuccessfulExit</key><false/>",
            "<key>StandardErrorPath</key><string>/Users/me/hub.log</string>",
        ] {
            assert!(text.lines().any(|known| known.trim() == line), "{line}: {text}");
        }
        for tag in ["dict", "array", "plist"] {
            let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
            assert_eq!(text.matches(&open).count(), text.matches(&close).count(), "{tag}");
        }
    }

    /// A stand-in for launchctl, which exists on macOS alone: it logs its arguments, and
    /// knows the service while a file exists.
    #[test]
    fn launchd_is_told_to_load_and_to_unload_the_service() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let place = |name: &str| scratch.path().join(name);
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> '{log}'\n\
             case $1 in\n\
             bootstrap) touch '{loaded}' ;;\n\
             bootout) rm '{loaded}' ;;\n\
             print) test -e '{loaded}' && echo 'state = running' ;;\n\
             esac\n",
            log = place("told").display(),
            loaded = place("loaded").display(),
        );
        fs::write(place("launchctl"), script).expect("written");
        fs::set_permissions(place("launchctl"), fs::Permissions::from_mode(0o755)).expect("set");
        let launchd =
            Launchd { program: place("launchctl"), ..Launchd::new(Path::new("/Users/me")) };

        launchd.enable().expect("enabled");
        assert!(!launchd.is_active());
        launchd.start().expect("started");
        assert!(launchd.is_active());
        launchd.start().expect("started again");
        launchd.disable().expect("disabled");
        assert!(!launchd.is_active());
        launchd.stop().expect("nothing to stop");

        let told = fs::read_to_string(place("told")).expect("told");
        let told: Vec<&str> = told.lines().filter(|line| !line.starts_with("print")).collect();
        let (domain, target) = (&launchd.domain, &launchd.target);
        assert_eq!(
            told,
            [
                format!("enable {target}"),
                format!("bootstrap {domain} /Users/me/Library/LaunchAgents/posthaste.plist"),
                format!("kickstart {target}"),
                format!("bootout {target}"),
                format!("disable {target}"),
            ]
        );
    }
}
