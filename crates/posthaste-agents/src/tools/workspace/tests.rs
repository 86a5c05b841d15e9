use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A workspace beside a file that is outside.
struct Desk {
    scratch: TempDir,
    workspace: Workspace,
}

impl Desk {
    fn new() -> Self {
        Self::of("desk", |_| HubFiles::default())
    }

    /// A workspace at this place of the scratch folder, beside these files of a hub.
    fn of(place: &str, hub: impl Fn(&Path) -> HubFiles) -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(scratch.path().join(place)).expect("made");
        fs::write(scratch.path().join("secret"), "a secret").expect("written");
        let (root, hub) = (scratch.path().join(place), hub(scratch.path()));
        let workspace = Workspace::new(root, hub, 0o027, 10_000);
        Self { scratch, workspace }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.workspace.root.join(path)
    }

    fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        self.workspace.call(tool, arguments, &CancellationToken::new())
    }

    fn read(&self, path: &str) -> Result<String, String> {
        self.call("read_file", json!({ "path": path }))
    }

    fn write(&self, path: &str, content: &str) -> Result<String, String> {
        self.call("write_file", json!({ "path": path, "content": content }))
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).expect("there").permissions().mode() & 0o7777
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).expect("a text")
    }
}

#[test]
fn a_file_is_written_read_and_edited() {
    let desk = Desk::new();
    desk.write("a/b/notes.txt", "one\ntwo\nthree").expect("written");
    assert_eq!(desk.read("a/b/notes.txt").expect("read"), "one\ntwo\nthree\n");
    assert_eq!(desk.read("./a/../a/b/notes.txt").expect("read"), "one\ntwo\nthree\n");
    let whole = desk.at("a/b/notes.txt");
    assert!(desk.read(whole.to_str().expect("plain")).is_ok(), "its full path");
    let edit = |old: &str, new: &str| {
        desk.call("edit_file", json!({ "path": "a/b/notes.txt", "old": old, "new": new }))
    };
    edit("two", "2").expect("edited");
    assert_eq!(desk.text("a/b/notes.txt"), "one\n2\nthree", "no newline was added at the end");
    assert!(edit("", "x").expect_err("nothing").contains("empty"));
    assert!(edit("four", "x").expect_err("missing").contains("does not stand there"));
    assert!(edit("e", "x").expect_err("three times").contains("3 times"));
    assert_eq!(desk.text("a/b/notes.txt"), "one\n2\nthree");
}

#[test]
fn a_file_that_is_written_again_keeps_its_permissions() {
    let desk = Desk::new();
    // The last one has more than the umask of any process leaves.
    for mode in [0o700, 0o644, 0o666] {
        desk.write("run.sh", "one").expect("written");
        fs::set_permissions(desk.at("run.sh"), fs::Permissions::from_mode(mode)).expect("set");
        desk.write("run.sh", "two").expect("written");
        assert_eq!((desk.text("run.sh"), desk.mode("run.sh")), ("two".to_owned(), mode));
        desk.call("edit_file", json!({ "path": "run.sh", "old": "two", "new": "three" }))
            .expect("edited");
        assert_eq!(desk.mode("run.sh"), mode);
    }
    assert_eq!(fs::read_dir(desk.at("")).expect("a folder").count(), 1, "nothing is left over");
}

#[test]
fn new_files_and_folders_have_the_permissions_of_those_that_the_user_makes() {
    let desk = Desk::new();
    desk.write("a/b/file", "one").expect("written");
    assert_eq!(["a", "a/b", "a/b/file"].map(|path| desk.mode(path)), [0o750, 0o750, 0o640]);
    fs::set_permissions(desk.at("a"), fs::Permissions::from_mode(0o2700)).expect("set");
    desk.write("a/c/file", "one").expect("written");
    assert_eq!(desk.mode("a"), 0o2700, "a folder that is there stays as it is");
    assert_eq!(desk.mode("a/c") & 0o777, 0o750);
}

/// The files of a hub whose data folder lies in the working directory, and its models' keys.
fn hub_in(scratch: &Path) -> HubFiles {
    let data = scratch.join("desk/.local/data");
    let agents = data.join("agents");
    fs::create_dir_all(agents.join("a3f7b2c1/work")).expect("made");
    fs::write(data.join("operator.token"), "a secret").expect("written");
    fs::write(scratch.join("desk/real.key"), "a secret").expect("written");
    symlink("real.key", scratch.join("desk/linked.key")).expect("linked");
    let keys = vec![scratch.join("desk/linked.key"), scratch.join("desk/not-yet.key")];
    HubFiles { data, agents, keys }
}

#[test]
fn what_belongs_to_the_hub_is_closed_within_the_working_directory_too() {
    let desk = Desk::of("desk", hub_in);
    symlink(".local/data", desk.at("data")).expect("linked");
    symlink(".local", desk.at("up")).expect("linked");
    symlink("real.key", desk.at("other.key")).expect("linked");
    let of_hub = [
        ".local/data/operator.token",
        ".local/data/new/file",
        ".local/../.local/data/agents/a3f7b2c1/work/file",
        "data/operator.token",
        "up/data/operator.token",
        "real.key",
        "linked.key",
        "other.key",
        "not-yet.key",
    ];
    for path in of_hub {
        let calls = [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "mine" })),
            ("edit_file", json!({ "path": path, "old": "secret", "new": "mine" })),
            ("list_files", json!({ "path": path })),
            ("search", json!({ "path": path, "query": "secret" })),
        ];
        for (tool, arguments) in calls {
            let why = desk.call(tool, arguments).expect_err(path);
            assert!(why.contains("belongs to the hub"), "{tool} {path}: {why}");
        }
    }
    for path in [".local/data", "data", "up/data", ".local/data/agents"] {
        let why = desk.call("list_files", json!({ "path": path })).expect_err(path);
        assert!(why.contains("belongs to the hub"), "{path}: {why}");
    }
    desk.write(".local/mine", "no secre").expect("beside the data folder");
    let listed = desk.call("list_files", json!({ "depth": 9 })).expect("listed");
    assert_eq!(listed, ".local/\n.local/mine\ndata\nlinked.key\nother.key\nup");
    let found = desk.call("search", json!({ "query": "a secret" })).expect("searched");
    assert_eq!(found, "(nothing found)");
    assert_eq!(desk.text(".local/data/operator.token"), "a secret");
    assert!(!desk.at(".local/data/new").exists() && !desk.at("not-yet.key").exists());
}

#[test]
fn what_git_keeps_for_itself_is_read_and_never_written() {
    let desk = Desk::new();
    fs::create_dir(desk.at(".git")).expect("made");
    fs::write(desk.at(".git/config"), "[core]\n").expect("written");
    symlink(".git", desk.at("linked")).expect("linked");
    assert_eq!(desk.read(".git/config").expect("read"), "[core]\n");
    let of_git = [
        ".git/config",
        ".git/info/attributes",
        "linked/config",
        "linked/hooks/post-checkout",
        "sub/.git",
        "sub/.git/config",
        "sub/.GIT/config",
        "sub/../.git/config",
    ];
    for path in of_git {
        let why = desk.write(path, "[core]\nfsmonitor = ./tool\n").expect_err(path);
        assert!(why.contains("belongs to git"), "{path}: {why}");
    }
    let edit = json!({ "path": "linked/config", "old": "core", "new": "filter" });
    let why = desk.call("edit_file", edit).expect_err("of git");
    assert!(why.contains("belongs to git"), "{why}");
    assert_eq!(desk.text(".git/config"), "[core]\n");
    assert!(!desk.at("sub").exists() && !desk.at(".git/info").exists());
    desk.write(".gitignore", "target\n").expect("the user's own");
}

#[test]
fn a_worker_may_use_its_own_directory_in_the_data_folder_and_no_other_part_of_it() {
    let own = Desk::of("desk/.local/data/agents/a3f7b2c1/work", hub_in);
    own.write("notes/today", "fine").expect("written");
    assert_eq!(own.read("notes/today").expect("read"), "fine\n");
    assert_eq!(own.call("list_files", json!({})).expect("listed"), "notes/\nnotes/today");
    for place in [".local/data", ".local/data/agents", ".local/data/agents/a3f7b2c1"] {
        let desk = Desk::of(&format!("desk/{place}"), hub_in);
        let why = desk.call("list_files", json!({})).expect_err(place);
        assert_eq!(why, "the working directory belongs to the hub", "{place}");
        for tool in ["read_file", "list_files"] {
            let why = desk.call(tool, json!({ "path": "operator.token" })).expect_err(place);
            assert!(why.contains("belongs to the hub"), "{place}: {why}");
        }
    }
}

#[test]
fn a_listing_does_not_look_deeper_than_it_shows() {
    let desk = Desk::new();
    fs::create_dir_all(desk.at("a/b")).expect("made");
    fs::write(desk.at("c"), "").expect("written");
    for number in 0..=MOST_FILES {
        fs::write(desk.at(&format!("a/b/{number}")), "").expect("written");
    }
    let listed = desk.call("list_files", json!({ "depth": 2 })).expect("listed");
    assert_eq!(listed, "a/\na/b/\nc", "and nothing was left out");
}

#[test]
fn a_part_of_a_file_is_read_by_its_lines() {
    let desk = Desk::new();
    let lines: Vec<String> = (1..=5000).map(|number| format!("line {number}")).collect();
    desk.write("long", &lines.join("\n")).expect("written");
    let part = |offset: usize, limit: usize| {
        desk.call("read_file", json!({ "path": "long", "offset": offset, "limit": limit }))
    };
    assert_eq!(part(2, 2).expect("read"), "line 2\nline 3\n");
    assert_eq!(part(5000, 9).expect("read"), "line 5000\n");
    let first = desk.read("long").expect("read");
    assert!(first.len() < 11_000 && first.contains("[5000 lines in all; go on with offset="));
    for offset in [5001, 1_000_000, usize::MAX] {
        let beyond = part(offset, 1).expect_err("beyond the end");
        assert!(beyond.contains("5000 lines"), "{beyond}");
    }
    desk.write("wide", &"x".repeat(50_000)).expect("written");
    let wide = desk.read("wide").expect("read");
    assert!(wide.len() < 11_000 && wide.starts_with("xxx"), "{} bytes", wide.len());
    desk.write("empty", "").expect("written");
    assert_eq!(desk.read("empty").expect("read"), "(the file is empty)");
}

#[test]
fn no_path_leads_out_of_the_working_directory() {
    let desk = Desk::new();
    let outside = desk.scratch.path().join("secret");
    let outside = outside.to_str().expect("plain");
    symlink("../secret", desk.at("link")).expect("linked");
    symlink(outside, desk.at("whole")).expect("linked");
    symlink("..", desk.at("up")).expect("linked");
    symlink("/proc/self", desk.at("proc")).expect("linked");
    let paths = [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        outside,
        "link",
        "whole",
        "up/secret",
        "proc/environ",
        "..",
        "/",
    ];
    for path in paths {
        let why = desk.read(path).expect_err(path);
        assert!(why.contains("out"), "{path}: {why}");
        let args = json!({ "path": path, "old": "a", "new": "b" });
        assert!(desk.call("edit_file", args).is_err(), "{path}");
        assert!(desk.write(path, "mine").is_err(), "{path}");
    }
    assert!(desk.write("up/new", "mine").is_err());
    assert!(desk.write("up/new/deep", "mine").is_err());
    for path in ["..", "up", "/"] {
        assert!(desk.call("list_files", json!({ "path": path })).is_err(), "{path}");
        let args = json!({ "path": path, "query": "secret" });
        assert!(desk.call("search", args).is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(outside).expect("there"), "a secret");
    assert_eq!(fs::read_dir(desk.scratch.path()).expect("a folder").count(), 2);
    let found = desk.call("search", json!({ "query": "a secret" })).expect("searched");
    assert_eq!(found, "(nothing found)");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_becomes_a_link_at_the_moment_leads_nowhere() {
    let desk = Desk::new();
    fs::create_dir(desk.scratch.path().join("other")).expect("made");
    fs::write(desk.scratch.path().join("other/file"), "a secret").expect("written");
    fs::create_dir(desk.at("folder")).expect("made");
    fs::write(desk.at("folder/file"), "mine").expect("written");
    let (link, folder) = (desk.at("link"), desk.at("folder"));
    symlink("../other", &link).expect("linked");
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            for _ in 0..2_000 {
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &folder, CWD, &link, swap).expect("swapped");
            }
        });
        while !swaps.is_finished() {
            let read = desk.read("folder/file");
            assert!(read.as_ref().is_ok_and(|text| text == "mine\n") || read.is_err(), "{read:?}");
            let _ = desk.write("folder/new", "mine");
            let _ = desk.write("folder/more/new", "mine");
        }
    });
    let other = fs::read_dir(desk.scratch.path().join("other")).expect("a folder");
    assert_eq!(other.count(), 1, "nothing was written outside");
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_within_the_working_directory_is_followed_when_read() {
    let desk = Desk::new();
    desk.write("real/file", "inside").expect("written");
    symlink("real", desk.at("folder")).expect("linked");
    symlink("real/file", desk.at("file")).expect("linked");
    assert_eq!(desk.read("folder/file").expect("read"), "inside\n");
    assert_eq!(desk.read("file").expect("read"), "inside\n");
    let why = desk.write("file", "new").expect_err("a link is no regular file");
    assert!(why.contains("no regular file"), "{why}");
    desk.write("folder/new", "more").expect("written");
    assert_eq!(desk.text("real/new"), "more");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_text_file_is_refused_and_never_waited_for() {
    let desk = Desk::new();
    let fifo = rustix::fs::FileType::Fifo;
    mknodat(CWD, desk.at("fifo"), fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(desk.at("socket")).expect("a socket");
    fs::create_dir(desk.at("folder")).expect("made");
    for path in ["fifo", "socket", "folder"] {
        assert!(desk.read(path).is_err(), "{path}");
        assert!(desk.write(path, "mine").is_err(), "{path}");
        assert!(fs::symlink_metadata(desk.at(path)).is_ok_and(|file| !file.is_file()), "{path}");
    }
    // Only root can make one.
    let device = rustix::fs::FileType::CharacterDevice;
    let zero = rustix::fs::makedev(1, 5);
    if mknodat(CWD, desk.at("zero"), device, Mode::from_raw_mode(0o600), zero).is_ok() {
        let why = desk.read("zero").expect_err("a device");
        assert!(why.contains("zero"), "{why}");
    }
    fs::write(desk.at("binary"), b"\xff\xfe\0\x01").expect("written");
    assert!(desk.read("binary").expect_err("binary").contains("no text in UTF-8"));
    let file = fs::File::create(desk.at("huge")).expect("made");
    file.set_len(100 << 20).expect("grown");
    let why = desk.read("huge").expect_err("too large");
    assert!(why.contains("too large"), "{why}");
    assert!(desk.call("search", json!({ "query": "x" })).is_ok(), "a search passes them by");
}

#[test]
fn names_in_every_script_and_deep_folders_work() {
    let desk = Desk::new();
    for path in ["größe ☃.txt", "目录/файл", "-rf", "a b/$(touch x)/`y`", "new\nline"] {
        desk.write(path, "ü").expect(path);
        assert_eq!(desk.read(path).expect(path), "ü\n");
    }
    let deep = vec!["d"; 100].join("/") + "/file";
    desk.write(&deep, "down here").expect("written");
    assert_eq!(desk.read(&deep).expect("read"), "down here\n");
    let found = desk.call("search", json!({ "query": "down here" })).expect("searched");
    assert!(found.contains(&format!("{deep}:1: down here")), "{found}");
    let long = "x".repeat(300);
    assert!(desk.write(&long, "x").is_err());
}

#[test]
fn a_wrong_argument_is_named() {
    let desk = Desk::new();
    for (tool, arguments, why) in [
        ("read_file", json!({}), "path"),
        ("read_file", json!({ "path": 7 }), "string"),
        ("read_file", json!({ "path": "a", "offset": -1 }), "-1"),
        ("read_file", json!({ "path": "a", "lines": 3 }), "lines"),
        ("read_file", json!({ "path": "a\0b" }), "zero byte"),
        ("write_file", json!({ "path": "", "content": "" }), "names no file"),
        ("write_file", json!({ "path": ".", "content": "" }), "names no file"),
        ("search", json!({ "query": "(", "regex": true }), "query"),
        ("delete_file", json!({}), "no tool delete_file"),
    ] {
        let error = desk.call(tool, arguments.clone()).expect_err(why);
        assert!(error.contains(why), "{tool} {arguments}: {error}");
    }
    assert!(desk.read("missing").expect_err("missing").contains("missing"));
}

#[test]
fn files_are_listed_and_searched_within_bounds() {
    let desk = Desk::new();
    for path in ["a.rs", "b/c.rs", "b/d/e/f.rs", "target/x"] {
        desk.write(path, "fn main() {}\n").expect("written");
    }
    fs::create_dir(desk.at(".git")).expect("made");
    fs::write(desk.at(".git/config"), "fn main() {}\n").expect("written");
    let listed = desk.call("list_files", json!({})).expect("listed");
    assert_eq!(listed, "a.rs\nb/\nb/c.rs\nb/d/\nb/d/e/");
    let listed = desk.call("list_files", json!({ "path": "b", "depth": 1 })).expect("listed");
    assert_eq!(listed, "b/c.rs\nb/d/");
    let found = desk.call("search", json!({ "query": "fn main()", "path": "a.rs" }));
    assert_eq!(found.expect("searched"), "a.rs:1: fn main() {}");
    let found = desk.call("search", json!({ "query": "^fn \\w+", "regex": true, "path": "b" }));
    assert_eq!(found.expect("searched").lines().count(), 2);
    for number in 0..600 {
        fs::write(desk.at(&format!("file{number}")), "needle\n").expect("written");
    }
    for (tool, arguments) in [("list_files", json!({})), ("search", json!({ "query": "needle" }))] {
        let text = desk.call(tool, arguments).expect(tool);
        assert!(text.ends_with("[there is more]"), "{tool}");
        assert!(text.lines().count() <= MOST_LINES + 1, "{tool}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_read_or_written_is_named_with_the_reason() {
    // Nobody may make a file there, not even root.
    let workspace = Workspace::new("/sys".into(), HubFiles::default(), 0o022, 1_000);
    let call = |tool: &str, arguments: Value| {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        workspace.call(tool, arguments, &CancellationToken::new()).expect_err(tool)
    };
    let why = call("write_file", json!({ "path": "kernel/mine", "content": "x" }));
    assert!(why.contains("kernel/mine: "), "{why}");
    let why = call("write_file", json!({ "path": "new/mine", "content": "x" }));
    assert!(why.contains("new: "), "{why}");
    let why = call("read_file", json!({ "path": "missing" }));
    assert!(why.contains("missing: "), "{why}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_system_tells_of_its_processes_is_closed() {
    for (root, path) in
        [("/", "proc/self/environ"), ("/proc/self", "environ"), ("/proc", "version")]
    {
        let data = PathBuf::from("/nowhere/data");
        let hub = HubFiles { agents: data.join("agents"), data, keys: Vec::new() };
        let workspace = Workspace::new(root.into(), hub, 0o022, 1_000);
        let arguments = Map::from_iter([("path".to_owned(), path.into())]);
        let read = workspace.call("read_file", arguments, &CancellationToken::new());
        let why = read.expect_err(path);
        assert!(why.contains("processes is closed"), "{root} {path}: {why}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_that_is_changed_at_the_moment_does_not_open_the_files_of_the_hub() {
    let desk = Desk::of("desk", hub_in);
    fs::create_dir(desk.at("real")).expect("made");
    fs::write(desk.at("real/operator.token"), "mine").expect("written");
    symlink("real", desk.at("link")).expect("linked");
    symlink(".local/data", desk.at("other")).expect("linked");
    let (link, other) = (desk.at("link"), desk.at("other"));
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            for _ in 0..4_000 {
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &link, CWD, &other, swap).expect("swapped");
            }
        });
        while !swaps.is_finished() {
            let read = desk.read("link/operator.token");
            assert!(read.as_ref().is_ok_and(|text| text == "mine\n") || read.is_err(), "{read:?}");
            let _ = desk.write("link/new", "mine");
        }
    });
    assert!(!desk.at(".local/data/new").exists());
}
