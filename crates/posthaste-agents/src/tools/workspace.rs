//! The service `workspace`: files inside the working directory of an assistant.
//!
//! Every path is resolved by the kernel below the directory (`inside.rs`), so neither `..`
//! nor a symbolic link leads out of it, also if it is put there at the very moment. What
//! belongs to the hub is closed also where it lies in the directory (`hub_files.rs`).

mod inside;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use posthaste_runner::protocol::ToolSpec;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::hub_files::{HubFiles, real};
use super::{read, spec};

pub(super) const NAME: &str = "workspace";

/// Number of files that a listing or a search looks at.
const MOST_FILES: usize = 20_000;
/// Number of lines that a listing or a search returns.
const MOST_LINES: usize = 500;
/// The largest file that is read whole, to be searched or edited.
const LARGEST: u64 = 8 * 1024 * 1024;
/// Number of bytes that one search reads.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// Folders that nobody means.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

pub(super) struct Workspace {
    root: PathBuf,
    hub: HubFiles,
    /// The permissions that new files do not get. The hub's own are stricter.
    umask: u32,
    /// Number of bytes of a file that one result shows.
    shown: usize,
}

pub(super) fn specs() -> Vec<ToolSpec> {
    let path = json!({ "type": "string", "description": "relative to the working directory" });
    vec![
        spec(
            "read_file",
            "Read a text file of the working directory.",
            json!({ "type": "object", "required": ["path"], "properties": {
                "path": path,
                "offset": { "type": "integer", "description": "the first line, from 1" },
                "limit": { "type": "integer", "description": "number of lines" } } }),
        ),
        spec(
            "write_file",
            "Write a whole text file in the working directory; folders are made.",
            json!({ "type": "object", "required": ["path", "content"], "properties": {
                "path": path, "content": { "type": "string" } } }),
        ),
        spec(
            "edit_file",
            "Replace one passage of a text file; `old` must stand there exactly once.",
            json!({ "type": "object", "required": ["path", "old", "new"], "properties": {
                "path": path, "old": { "type": "string" }, "new": { "type": "string" } } }),
        ),
        spec(
            "list_files",
            "List files and folders below a folder of the working directory.",
            json!({ "type": "object", "properties": { "path": path,
                "depth": { "type": "integer", "description": "default 3" } } }),
        ),
        spec(
            "search",
            "Find lines with a text in the files of the working directory.",
            json!({ "type": "object", "required": ["query"], "properties": {
                "query": { "type": "string" }, "path": path,
                "regex": { "type": "boolean", "description": "query is a regular expression" } } }),
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    path: String,
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditFile {
    path: String,
    old: String,
    new: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFiles {
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    depth: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    regex: bool,
}

impl Workspace {
    pub(super) fn new(root: PathBuf, hub: HubFiles, umask: u32, shown: usize) -> Self {
        Self { root, hub, umask, shown }
    }

    /// Calls a tool. A listing or a search ends early when nobody waits for it any more.
    pub(super) fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        stop: &CancellationToken,
    ) -> Result<String, String> {
        match tool {
            "read_file" => self.read_file(&read(arguments)?),
            "write_file" => {
                let WriteFile { path, content } = read(arguments)?;
                self.write(&self.inside(&path)?, &content)?;
                Ok(format!("{} bytes written to {path}", content.len()))
            }
            "edit_file" => self.edit(&read(arguments)?),
            "list_files" => self.list(read(arguments)?, stop),
            "search" => self.search(read(arguments)?, stop),
            other => Err(format!("the service workspace has no tool {other}")),
        }
    }

    /// Returns a path relative to the root. Paths that obviously leave it are refused in
    /// words; the kernel refuses the others.
    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        if path.contains('\0') {
            return Err("the path has a zero byte".to_owned());
        }
        let path = Path::new(path);
        let path = match path.strip_prefix(&self.root) {
            Ok(relative) => relative,
            Err(_) if path.is_absolute() => {
                return Err(format!("{} is outside the working directory", path.display()));
            }
            Err(_) => path,
        };
        let mut inside = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => inside.push(name),
                Component::CurDir => {}
                Component::ParentDir => {
                    if !inside.pop() {
                        return Err(format!("{} is outside the working directory", path.display()));
                    }
                }
                Component::RootDir | Component::Prefix(_) => {
                    return Err(format!("{} is outside the working directory", path.display()));
                }
            }
        }
        Ok(inside)
    }

    /// Refuses a path of the hub's, also one that leads there through links.
    fn not_the_hubs(&self, path: &Path) -> Result<(), String> {
        let whole = real(&self.root.join(path));
        let closed = self.hub.closed_to(&self.root);
        match closed.iter().any(|closed| whole.starts_with(closed)) {
            true if path.as_os_str().is_empty() => {
                Err("the working directory belongs to the hub".to_owned())
            }
            true => Err(format!("{} belongs to the hub", path.display())),
            false => Ok(()),
        }
    }

    /// Refuses to write to what git keeps for itself, also through links: git runs commands
    /// that its configuration names.
    fn not_of_git(&self, path: &Path) -> Result<(), String> {
        let (root, whole) = (real(&self.root), real(&self.root.join(path)));
        let inside = whole.strip_prefix(&root).unwrap_or(&whole);
        let is_git = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
        match path.components().chain(inside.components()).any(is_git) {
            true => Err(format!("{} belongs to git, and is only read", path.display())),
            false => Ok(()),
        }
    }

    /// Opens a path below the root.
    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, String> {
        self.not_the_hubs(path)?;
        let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.root, directory, Mode::empty())
            .map_err(|error| format!("the working directory cannot be opened: {error}"))?;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // Never waits for the other end of a pipe.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let open = inside::open(&root, path, flags)?;
        match inside::place_of(&open)? {
            // A link that was changed at the very moment leads elsewhere than its name did.
            Some(place) => self.not_the_hubs(&place).map(|()| open),
            None => Ok(open),
        }
    }

    /// Returns the content of a regular file, at most so many bytes.
    fn content(&self, path: &Path, most: u64) -> Result<(Vec<u8>, u64), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let file = File::from(self.open(path, OFlags::RDONLY)?);
        let about = file.metadata().map_err(|error| wrong(&error))?;
        if !about.is_file() {
            return Err(wrong(&"it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
        Ok((bytes, about.len()))
    }

    fn text(&self, path: &Path) -> Result<String, String> {
        let (bytes, length) = self.content(path, LARGEST)?;
        if length > LARGEST {
            return Err(format!("{} has {length} bytes: too large", path.display()));
        }
        String::from_utf8(bytes).map_err(|_| format!("{} is no text in UTF-8", path.display()))
    }

    fn read_file(&self, args: &ReadFile) -> Result<String, String> {
        let text = self.text(&self.inside(&args.path)?)?;
        let first = args.offset.unwrap_or(1).max(1);
        let lines: Vec<&str> = text.lines().collect();
        match lines.len() {
            0 => return Ok("(the file is empty)".to_owned()),
            all if first > all => {
                return Err(format!("{} has {all} lines, and offset={first} is beyond", args.path));
            }
            _ => {}
        }
        let (mut shown, mut number) = (String::new(), first);
        for line in lines.iter().skip(first - 1).take(args.limit.unwrap_or(usize::MAX)) {
            if shown.is_empty() && line.len() > self.shown {
                let end = (0..=self.shown).rev().find(|end| line.is_char_boundary(*end));
                let (part, rest) = line.split_at(end.unwrap_or(0));
                shown.push_str(&format!("{part}\n[{} more bytes in this line]\n", rest.len()));
                number += 1;
                break;
            }
            if shown.len() + line.len() > self.shown {
                break;
            }
            shown.push_str(line);
            shown.push('\n');
            number += 1;
        }
        let wanted = args
            .limit
            .map_or(lines.len(), |limit| (first - 1).saturating_add(limit).min(lines.len()));
        if number <= wanted {
            let all = lines.len();
            shown.push_str(&format!("[{all} lines in all; go on with offset={number}]"));
        }
        Ok(shown)
    }

    fn edit(&self, args: &EditFile) -> Result<String, String> {
        let path = self.inside(&args.path)?;
        let text = self.text(&path)?;
        match text.matches(args.old.as_str()).count() {
            _ if args.old.is_empty() => Err("`old` is empty".to_owned()),
            0 => Err(format!("{}: `old` does not stand there", args.path)),
            1 => {
                self.write(&path, &text.replacen(&args.old, &args.new, 1))?;
                Ok(format!("{} changed", args.path))
            }
            times => Err(format!("{}: `old` stands there {times} times: quote more", args.path)),
        }
    }

    /// Writes a file under another name, then gives it its own.
    fn write(&self, path: &Path, content: &str) -> Result<(), String> {
        let wrong = |error: Errno| format!("{}: {error}", path.display());
        let name = path.file_name().ok_or_else(|| "the path names no file".to_owned())?;
        self.not_the_hubs(path)?;
        self.not_of_git(path)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let folder = self.folder(parent)?;
        let kind = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let mode = match kind {
            Ok(known) if FileType::from_raw_mode(known.st_mode) != FileType::RegularFile => {
                return Err(format!("{}: it is no regular file", path.display()));
            }
            Ok(known) => Mode::from_raw_mode(known.st_mode & 0o777),
            Err(_) => Mode::from_raw_mode(0o666 & !self.umask),
        };
        let temporary = format!(".{:016x}.tmp", rand::random::<u64>());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&folder, &temporary, flags, private).map_err(wrong)?;
        let mut file = File::from(file);
        let written = file
            .write_all(content.as_bytes())
            .and_then(|()| Ok(rustix::fs::fchmod(&file, mode)?))
            .and_then(|()| file.sync_all());
        let moved = written
            .map_err(|error| format!("{}: {error}", path.display()))
            .and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, name).map_err(wrong));
        if moved.is_err() {
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        }
        moved
    }

    /// Opens a folder below the root, and makes what is missing of it.
    fn folder(&self, path: &Path) -> Result<OwnedFd, String> {
        let mut open = self.open(Path::new(""), OFlags::DIRECTORY)?;
        let mut upto = PathBuf::new();
        for part in path.components() {
            upto.push(part);
            let wrong = |error: Errno| format!("{}: {error}", upto.display());
            let made = match rustix::fs::mkdirat(&open, part.as_os_str(), Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(wrong(error)),
            };
            open = self.open(&upto, OFlags::DIRECTORY)?;
            if made {
                self.open_up(&open).map_err(wrong)?;
            }
        }
        Ok(open)
    }

    /// Gives a new folder the permissions of one that its user makes. The group that it
    /// hands down stays.
    fn open_up(&self, folder: &OwnedFd) -> rustix::io::Result<()> {
        let special = rustix::fs::fstat(folder)?.st_mode & 0o7000;
        rustix::fs::fchmod(folder, Mode::from_raw_mode(special | (0o777 & !self.umask)))
    }

    fn list(&self, args: ListFiles, stop: &CancellationToken) -> Result<String, String> {
        let start = self.inside(args.path.as_deref().unwrap_or(""))?;
        let mut lines = Vec::new();
        let depth = args.depth.unwrap_or(3).max(1);
        let cut = self.walk(&start, depth, stop, &mut |path, is_folder| {
            let slash = if is_folder { "/" } else { "" };
            lines.push(format!("{}{slash}", path.display()));
            Ok(lines.len() < MOST_LINES)
        })?;
        lines.sort();
        if cut {
            lines.push("[there is more]".to_owned());
        }
        Ok(if lines.is_empty() { "(nothing)".to_owned() } else { lines.join("\n") })
    }

    fn search(&self, args: Search, stop: &CancellationToken) -> Result<String, String> {
        let pattern = if args.regex { args.query.clone() } else { regex::escape(&args.query) };
        let pattern = regex::RegexBuilder::new(&pattern)
            .size_limit(1 << 20)
            .build()
            .map_err(|error| format!("query: {error}"))?;
        let start = self.inside(args.path.as_deref().unwrap_or(""))?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut look = |path: &Path, is_folder: bool| {
            if !is_folder && let Ok(text) = self.text(path) {
                bytes += text.len();
                for (number, line) in text.lines().enumerate() {
                    if pattern.is_match(line) {
                        let line = crate::conversation::one_line(line, 300);
                        found.push(format!("{}:{}: {line}", path.display(), number + 1));
                    }
                    if found.len() >= MOST_LINES {
                        return Ok(false);
                    }
                }
            }
            Ok(bytes < MOST_BYTES)
        };
        let is_file = self.content(&start, 0).is_ok();
        let cut = match is_file {
            true => look(&start, false).map(|goes_on: bool| !goes_on)?,
            false => self.walk(&start, usize::MAX, stop, &mut look)?,
        };
        if cut {
            found.push("[there is more]".to_owned());
        }
        Ok(if found.is_empty() { "(nothing found)".to_owned() } else { found.join("\n") })
    }

    /// Shows each file and folder below a folder, so many levels deep and without following
    /// links, until `look` says that it is enough. Returns whether something was left out.
    fn walk(
        &self,
        start: &Path,
        depth: usize,
        stop: &CancellationToken,
        look: &mut dyn FnMut(&Path, bool) -> Result<bool, String>,
    ) -> Result<bool, String> {
        let (place, closed) = (real(&self.root.join(start)), self.hub.closed_to(&self.root));
        let (mut folders, mut seen) = (vec![(start.to_owned(), 1)], 0);
        while let Some((folder, level)) = folders.pop() {
            let open = match self.open(&folder, OFlags::RDONLY | OFlags::DIRECTORY) {
                Ok(open) => open,
                Err(why) if folder == start => return Err(why),
                Err(_) => continue,
            };
            let entries = Dir::read_from(&open).map_err(|error| error.to_string())?;
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name == "." || name == ".." || SKIPPED.contains(&name.as_str()) {
                    continue;
                }
                let path = folder.join(&name);
                if closed.contains(&place.join(path.strip_prefix(start).unwrap_or(&path))) {
                    continue;
                }
                seen += 1;
                let is_folder = entry.file_type() == FileType::Directory;
                if stop.is_cancelled() || seen > MOST_FILES || !look(&path, is_folder)? {
                    return Ok(true);
                }
                if is_folder && level < depth {
                    folders.push((path, level + 1));
                }
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
