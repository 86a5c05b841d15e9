//! The hub as a service of systemd.
//!
//! Where tests run there is rarely a systemd for their user, and a test has no business in
//! that of a developer. So a script stands in for `systemctl`: it starts what the unit says,
//! and ends it. What it is told is what the real one is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::world::{BINARY, Ran, Started, World, eventually, skip};

/// Starts the unit in the background and remembers its process, as far as a hub needs it.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> "$HOME/told"
unit=$HOME/.config/systemd/user/posthaste.service
# One that has ended and that nobody has looked after does not live.
lives() {
    test -e "$HOME/main" || return 1
    case $(sed 's/.*) //' "/proc/$(cat "$HOME/main")/stat" 2>/dev/null) in
        '' | Z* | X*) return 1 ;;
    esac
}
case $* in
    *show-environment*) exit 0 ;;
    *is-active*) lives ;;
    *start*)
        eval "set -- $(sed -n 's/^ExecStart=//p' "$unit")"
        "$@" </dev/null >/dev/null 2>&1 &
        echo $! > "$HOME/main"
        ;;
    *stop* | *disable*)
        lives || exit 0
        kill "$(cat "$HOME/main")"
        while lives; do sleep 0.05; done
        ;;
esac
"#;

struct Machine(World);

impl Drop for Machine {
    fn drop(&mut self) {
        self.run(&["down"]);
    }
}

impl Machine {
    fn new(systemctl: Option<&str>) -> Self {
        let world = World::new();
        let bin = world.scratch().join("bin");
        fs::create_dir(&bin).expect("a folder");
        if let Some(script) = systemctl {
            fs::write(bin.join("systemctl"), script).expect("written");
            let all = fs::Permissions::from_mode(0o755);
            fs::set_permissions(bin.join("systemctl"), all).expect("set");
        }
        let config = world.scratch().join(".config/posthaste");
        fs::create_dir_all(&config).expect("a folder");
        let anywhere = "[server]\nlisten = '127.0.0.1:0'\n";
        fs::write(config.join("config.toml"), anywhere).expect("written");
        Self(world)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        let bin = self.0.scratch().join("bin");
        // What the script itself needs stands behind it.
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Started::new(self.command(args)).end()
    }

    #[track_caller]
    fn say(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    fn unit(&self) -> PathBuf {
        self.0.scratch().join(".config/systemd/user/posthaste.service")
    }

    fn told(&self) -> String {
        fs::read_to_string(self.0.scratch().join("told")).unwrap_or_default()
    }
}

fn on_linux() -> bool {
    if !cfg!(target_os = "linux") {
        skip("systemd is on Linux alone");
    }
    cfg!(target_os = "linux")
}

#[test]
fn what_a_service_would_be_is_printed_and_nothing_is_changed() {
    if !on_linux() {
        return;
    }
    let machine = Machine::new(Some(SYSTEMCTL));
    let text = machine.say(&["service", "install", "--print"]);
    let told = machine.say(&["service", "install", "--print", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("one line of JSON");
    let file = machine.unit().to_str().expect("a plain path").to_owned();
    assert_eq!(told, serde_json::json!({ "file": file, "text": text }));
    assert!(text.contains("ExecStart=") && !machine.unit().exists(), "{text}");
}

#[test]
fn a_service_is_installed_started_looked_at_stopped_and_removed() {
    if !on_linux() {
        return;
    }
    let machine = Machine::new(Some(SYSTEMCTL));
    machine.run(&["service", "start"]).failed(3, "not installed", "posthaste service install");

    let said = machine.say(&["service", "install"]);
    assert!(said.contains("posthaste.service") && said.contains("enable-linger"), "{said}");
    let unit = fs::read_to_string(machine.unit()).expect("a unit");
    let data = machine.0.data();
    // Quotes stand where a path has a space.
    let plain = unit.replace('"', "");
    let runs = format!("ExecStart={BINARY} up --data {}\n", data.display());
    assert!(plain.contains(&runs), "{unit}");
    assert!(plain.contains("/bin:/usr/bin:/bin\n"), "workers find what the user finds: {unit}");
    assert!(machine.told().contains("--user daemon-reload\n--user enable posthaste.service\n"));
    assert_eq!(machine.run(&["service", "status"]).code, Some(5));

    let said = machine.say(&["service", "start"]);
    assert!(said.contains("runs at http://127.0.0.1:") && said.contains("journalctl"), "{said}");
    machine.say(&["join", "bob"]);
    let said = machine.say(&["service", "status"]);
    assert!(said.contains("runs at http://127.0.0.1:"), "{said}");

    machine.say(&["service", "stop"]);
    assert!(!machine.0.file("hub.json").exists());
    assert_eq!(machine.run(&["service", "status"]).code, Some(5));

    let said = machine.say(&["service", "uninstall"]);
    assert!(said.contains("data folder stays") && data.exists(), "{said}");
    assert!(!machine.unit().exists());
    assert!(machine.told().ends_with("--user daemon-reload\n"), "{}", machine.told());
}

#[test]
fn installing_a_service_twice_changes_nothing_and_says_so() {
    if !on_linux() {
        return;
    }
    let machine = Machine::new(Some(SYSTEMCTL));
    machine.say(&["service", "install"]);
    let said = machine.say(&["service", "install"]);
    assert!(said.contains("installed already"), "{said}");
    let elsewhere = machine.0.scratch().join("else where");
    let elsewhere = elsewhere.to_str().expect("a plain path");
    let said = machine.say(&["service", "install", "--data", elsewhere]);
    assert!(said.contains("installed anew"), "{said}");
    let unit = fs::read_to_string(machine.unit()).expect("a unit");
    assert!(unit.contains(&format!("up --data \"{elsewhere}\"")), "{unit}");
}

#[test]
fn a_hub_that_runs_already_is_not_started_a_second_time_as_a_service() {
    if !on_linux() {
        return;
    }
    let machine = Machine::new(Some(SYSTEMCTL));
    machine.say(&["service", "install"]);
    machine.say(&["up", "--detach"]);
    machine.run(&["service", "start"]).failed(4, "not as a service", "posthaste down");
    assert!(!machine.told().contains("--user start"), "{}", machine.told());
}

#[test]
fn a_service_goes_down_with_posthaste_down_as_well() {
    if !on_linux() {
        return;
    }
    let machine = Machine::new(Some(SYSTEMCTL));
    machine.say(&["service", "install"]);
    machine.say(&["service", "start"]);
    machine.say(&["down"]);
    eventually(|| machine.run(&["service", "status"]).code == Some(5));
}

#[test]
fn without_systemd_nothing_is_written_and_the_advice_is_to_detach() {
    if !on_linux() {
        return;
    }
    let none = Machine::new(None);
    let mut command = none.command(&["service", "install"]);
    command.env("PATH", none.0.scratch().join("bin"));
    Started::new(command).end().failed(5, "no `systemctl`", "posthaste up --detach");
    assert!(!none.unit().exists());

    let bus = "#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n";
    let broken = Machine::new(Some(bus));
    let ran = broken.run(&["service", "install"]);
    ran.failed(5, "No medium found", "posthaste up --detach");
    assert!(!broken.unit().exists());
}

#[test]
fn a_service_can_be_printed_where_there_is_no_systemd() {
    if !on_linux() {
        return;
    }
    let machine = Machine::new(None);
    let program = "/usr/local/bin/posthaste";
    let text = machine.say(&["service", "install", "--print", "--program", program]);
    assert!(text.contains(&format!("ExecStart={program} up")), "{text}");
    assert!(text.contains("[Install]") && !machine.unit().exists(), "{text}");
}
