//! Makes the hub's profiles equal to the files of some folders.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_core::Hub;
use posthaste_core::address::Name;
use posthaste_core::profiles::{Expect, FileFault, PutProfile, Source, Template};
use posthaste_core::registry::RegistryError;
use tokio::task::JoinSet;

use super::file::{self, Fault, Parsed};

/// The folders of one hub, and the profiles that were last read there.
pub(super) struct Folders {
    pub(super) paths: Vec<PathBuf>,
    /// Files whose profiles are kept as they were read.
    kept: HashMap<Arc<str>, Template>,
}

/// The content of the folders at one time.
#[derive(Default)]
struct Look {
    files: BTreeMap<Arc<str>, Result<Parsed, Fault>>,
    /// Folders that cannot be read: their profiles are left alone.
    closed: Vec<(PathBuf, String)>,
}

impl Folders {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, kept: HashMap::new() }
    }

    /// Reads all files, writes changed profiles, removes profiles without a file, and
    /// reports faults. A file that broke leaves its profile as it was.
    pub(super) async fn sync(&mut self, hub: &Arc<Hub>) {
        let (paths, limit) = (self.paths.clone(), hub.limits().profile_file_bytes);
        let look = tokio::task::spawn_blocking(move || look(&paths, limit)).await;
        let Ok(look) = look else {
            return tracing::error!("the folders of profiles could not be read");
        };
        let closed = look.closed.iter();
        let mut faults: Vec<FileFault> =
            closed.map(|(path, why)| at(None, &path.to_string_lossy(), None, why)).collect();
        self.put(hub, &look, &mut faults).await;
        self.remove(hub, &look, &mut faults).await;
        faults.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));

        let before = hub.set_profile_faults(faults.clone());
        for fault in faults.iter().filter(|fault| !before.contains(fault)) {
            let FileFault { file, line, why, .. } = fault;
            tracing::warn!(%file, line, %why, "a file of profiles is wrong");
        }
    }

    /// Starts all writes before it awaits one, so that they share their flushes.
    async fn put(&mut self, hub: &Arc<Hub>, look: &Look, faults: &mut Vec<FileFault>) {
        let owners: HashMap<Name, Arc<str>> = hub.profiles_of_files().into_iter().collect();
        let mut first: HashMap<&Name, &Arc<str>> = HashMap::new();
        let mut writes = JoinSet::new();
        for (path, read) in &look.files {
            let parsed = match read {
                Ok(parsed) => parsed,
                Err(fault) => {
                    faults.push(at(fault.profile.clone(), path, fault.line, &fault.why));
                    continue;
                }
            };
            let name = &parsed.template.name;
            if let Some(other) = first.get(name) {
                let why = format!("name: {other} says `{name}` already");
                faults.push(at(None, path, parsed.line_of("name"), &why));
                continue;
            }
            first.insert(name, path);
            let name = &parsed.template.name;
            let faulty = |fault: Fault| at(Some(name.clone()), path, fault.line, &fault.why);
            faults.extend(parsed.not_startable().map(faulty));
            let known = self.kept.get(path) == Some(&parsed.template);
            if !known || owners.get(name) != Some(path) {
                writes.spawn(put_one(Arc::clone(hub), Arc::clone(path), parsed.clone()));
            }
        }
        while let Some(written) = writes.join_next().await {
            match written {
                Ok((path, parsed, Ok(()))) => {
                    self.kept.insert(path, parsed.template);
                }
                Ok((path, parsed, Err(error))) => {
                    self.kept.remove(&path);
                    let Fault { line, why, .. } = parsed.refused(&error);
                    faults.push(at(Some(parsed.template.name.clone()), &path, line, &why));
                }
                Err(panic) => tracing::error!(%panic, "a profile could not be kept"),
            }
        }
    }

    /// Removes profiles without a file. A profile with living agents stays, and the next
    /// sync tries again.
    async fn remove(&mut self, hub: &Hub, look: &Look, faults: &mut Vec<FileFault>) {
        for (name, file) in hub.profiles_of_files() {
            let says_so = match look.files.get(&file) {
                Some(Ok(parsed)) => parsed.template.name == name,
                // A broken file still keeps its profile.
                Some(Err(_)) => true,
                None => look.closed.iter().any(|(folder, _)| Path::new(&*file).starts_with(folder)),
            };
            if says_so {
                continue;
            }
            match hub.remove_profile(name.clone(), Source::File(Arc::clone(&file))).await {
                Ok(_) => {
                    self.kept.retain(|path, kept| *path != file || kept.name != name);
                    tracing::info!(%name, %file, "a profile is gone with its file");
                }
                Err(error) => {
                    let why = format!("it no longer says `{name}`, but {error}");
                    faults.push(at(None, &file, None, &why));
                }
            }
        }
    }
}

type Done = (Arc<str>, Parsed, Result<(), RegistryError>);

async fn put_one(hub: Arc<Hub>, path: Arc<str>, parsed: Parsed) -> Done {
    let (template, by) = (parsed.template.clone(), Source::File(Arc::clone(&path)));
    // After a restart most files equal the known profiles.
    if let Ok(Some(known)) = hub.profile(&template.name).await
        && (&known.template, &known.source) == (&template, &by)
    {
        return (path, parsed, Ok(()));
    }
    let put = PutProfile { template, by, expect: Expect::Anything };
    let written = hub.put_profile(put).await.map(|_| ());
    (path, parsed, written)
}

fn at(profile: Option<Name>, file: &str, line: Option<usize>, why: &str) -> FileFault {
    FileFault { profile, file: file.to_owned(), line, why: why.to_owned() }
}

fn look(paths: &[PathBuf], limit: usize) -> Look {
    let mut look = Look::default();
    for folder in paths {
        match markdown_files(folder) {
            Ok(files) => {
                for file in files {
                    let path: Arc<str> = file.to_string_lossy().into();
                    look.files.entry(path).or_insert_with(|| file::read(&file, limit));
                }
            }
            Err(e) => look.closed.push((folder.clone(), format!("the folder cannot be read: {e}"))),
        }
    }
    look
}

/// Returns the files of a folder that may be profiles, by name. A file that begins with a
/// dot is a half-written or backup copy.
pub(crate) fn markdown_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let markdown = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
        // A dangling link is reported when it is read.
        let folder = match std::fs::metadata(&path) {
            Ok(is) => !is.is_file(),
            Err(e) => e.kind() == ErrorKind::NotFound && !path.is_symlink(),
        };
        if markdown && !hidden && !folder {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
