//! The credentials with which agents of this machine join: their keys and secrets.
//!
//! ```text
//! <data>/identities/<64 hex digits>.json   one for each hub, name and team; and one for
//!                                          each key that a conversation or a user named
//! <data>/identities/.lock                  held while one of them is read and changed
//! ```
//!
//! A secret is written before it is sent to the hub, so processes that start at the same
//! time, and one that is killed between the two steps, join as the same agent.
//!
//! A program whose conversations have no name is known by its process while it runs, and
//! by its folder when it comes back: see [`choose`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use posthaste_api::ApiError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::machine;
use crate::identity::{Identity, Token};
use crate::private;

/// The time for which a change waits for others, which take a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);

/// The longest key that every hub accepts.
const LONGEST_KEY: usize = 200;

/// The owner of credentials: the hub, the name and the team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Empty for the hub of the data folder, on any address.
    pub(crate) hub: String,
    pub(crate) agent: String,
    pub(crate) team: String,
}

/// Selects one agent of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    /// The agent with this key.
    Keyed(String),
    /// The agent of this program.
    Running(Program),
}

/// A running program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its process: pid and start time.
    pub(crate) process: String,
    pub(crate) folder: PathBuf,
    /// The program does not want to continue the agent that was in its folder.
    pub(crate) new: bool,
}

/// The credentials of an agent, and its identity since its last join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credentials {
    pub(crate) key: String,
    pub(crate) secret: Token,
    /// The folder of a program that is known by its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
    /// The process that uses or used them; for a key, the last one whose hook did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<String>,
    /// The time at which that process began to use a key, in milliseconds of Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) joined: Option<Identity>,
}

/// The result of a search for credentials.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    These(Credentials),
    /// Several agents were in the folder of the program and are away.
    Several(Vec<Credentials>),
}

/// The content of one file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) owner: Owner,
    pub(crate) credentials: Vec<Credentials>,
}

/// Tells whether a process runs.
pub(crate) type Runs = fn(&str) -> bool;

#[derive(Debug, Clone)]
pub(crate) struct Keyring {
    folder: PathBuf,
    runs: Runs,
}

impl Keyring {
    pub(crate) fn new(folder: PathBuf, runs: Runs) -> Self {
        Self { folder, runs }
    }

    /// Returns the credentials of a key; new ones if it has none.
    pub(crate) fn keyed(&self, owner: &Owner, key: &str) -> Result<Credentials, ApiError> {
        self.change(owner, &Which::Keyed(key.to_owned()), |all| {
            if all.is_empty() {
                all.push(Credentials::new(key.to_owned(), None));
            }
            all[0].clone()
        })
    }

    /// Returns the credentials of a running program.
    pub(crate) fn running(&self, owner: &Owner, program: &Program) -> Result<Found, ApiError> {
        self.change(owner, &Which::Running(program.clone()), |all| {
            match choose(all, program, self.runs) {
                Choice::Take(at) => Found::These(take(&mut all[at], program)),
                Choice::New => Found::These(add(all, program)),
                Choice::Several(which) => {
                    Found::Several(which.into_iter().map(|at| all[at].clone()).collect())
                }
            }
        })
    }

    /// Returns credentials for a program in whose folder several agents are away: new
    /// ones, unless only one is left meanwhile.
    pub(crate) fn another(
        &self,
        owner: &Owner,
        program: &Program,
    ) -> Result<Credentials, ApiError> {
        self.change(owner, &Which::Running(program.clone()), |all| {
            match choose(all, program, self.runs) {
                Choice::Take(at) => take(&mut all[at], program),
                Choice::New | Choice::Several(_) => add(all, program),
            }
        })
    }

    /// Stores the identity that the agent got by its join.
    pub(crate) fn joined(
        &self,
        owner: &Owner,
        which: &Which,
        secret: &Token,
        joined: Identity,
    ) -> Result<(), ApiError> {
        self.change(owner, which, |all| {
            if let Some(one) = all.iter_mut().find(|one| one.secret == *secret) {
                one.joined = Some(joined.clone());
            }
        })
    }

    /// Records the process whose hook used a key, so that the bridge of that process
    /// finds it. `begins` marks the start of a session.
    pub(crate) fn used(
        &self,
        owner: &Owner,
        which: &Which,
        token: &Token,
        (process, begins): (&str, bool),
    ) -> Result<(), ApiError> {
        let now = now();
        self.change(owner, which, |all| {
            let with = |one: &&mut Credentials| one.is_joined_with(token);
            if let Some(one) = all.iter_mut().find(with)
                && (begins || one.process.as_deref() != Some(process))
            {
                (one.process, one.since) = (Some(process.to_owned()), Some(now));
            }
        })
    }

    /// Returns the credentials with which a process has joined. Writes nothing.
    pub(crate) fn joined_by(
        &self,
        owner: &Owner,
        which: &Which,
        process: &str,
    ) -> Option<Credentials> {
        let record = read(&self.folder.join(file_name(owner, which))).ok().flatten()?;
        record.credentials.into_iter().find(|one| one.is_joined_by(process))
    }

    /// Does the same for a process with several keys: returns those of the session that
    /// began last, if that was at this time (in milliseconds of Unix time) or later.
    pub(crate) fn last_joined_by(
        &self,
        owner: &Owner,
        process: &str,
        earliest: u64,
    ) -> Option<Credentials> {
        let of_owner = self.records().filter(|record| record.owner == *owner);
        let all = of_owner.flat_map(|record| record.credentials);
        let of_process = all.filter(|one| {
            one.process.as_deref() == Some(process) && one.since.is_some_and(|at| at >= earliest)
        });
        of_process.max_by_key(|one| one.since).filter(|one| one.joined.is_some())
    }

    /// Returns the time at which credentials were last written.
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        fs::metadata(&self.folder).ok()?.modified().ok()
    }

    /// Forgets a token that the hub does not know.
    pub(crate) fn expire(
        &self,
        owner: &Owner,
        which: &Which,
        token: &Token,
    ) -> Result<(), ApiError> {
        self.change(owner, which, |all| {
            for one in all {
                // Another process may have joined again meanwhile.
                one.joined = one.joined.take().filter(|me| me.token != *token);
            }
        })
    }

    /// Forgets credentials that the hub does not know any more.
    pub(crate) fn forget(
        &self,
        owner: &Owner,
        which: &Which,
        secrets: &[Token],
    ) -> Result<(), ApiError> {
        self.change(owner, which, |all| all.retain(|one| !secrets.contains(&one.secret)))
    }

    /// Removes the credentials of a key, and returns them.
    pub(crate) fn take(&self, owner: &Owner, key: &str) -> Result<Option<Credentials>, ApiError> {
        self.change(owner, &Which::Keyed(key.to_owned()), Vec::pop)
    }

    /// Returns the identity that has this token.
    pub(crate) fn whose(&self, token: &str) -> Option<Identity> {
        let mut all = self.records().flat_map(|record| record.credentials);
        all.find_map(|one| one.joined.filter(|me| me.token.reveal() == token))
    }

    fn records(&self) -> impl Iterator<Item = Record> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths.into_iter().filter_map(|path| read(&path).ok().flatten())
    }

    /// Returns the folders in which several agents are away, with these agents.
    pub(crate) fn several(&self) -> Vec<(PathBuf, Vec<Credentials>)> {
        let mut found = Vec::new();
        for record in self.records() {
            let mut folders: Vec<&PathBuf> =
                record.credentials.iter().filter_map(|one| one.folder.as_ref()).collect();
            folders.sort();
            folders.dedup();
            for folder in folders {
                let away = |one: &&Credentials| {
                    one.folder.as_ref() == Some(folder) && !one.is_held(self.runs)
                };
                let away: Vec<_> = record.credentials.iter().filter(away).cloned().collect();
                if away.len() > 1 {
                    found.push((folder.clone(), away));
                }
            }
        }
        found
    }

    /// Reads a file, changes it, and writes it under the lock. Does not wait if
    /// nothing has to be changed. Removes a file without credentials.
    fn change<T>(
        &self,
        owner: &Owner,
        which: &Which,
        change: impl Fn(&mut Vec<Credentials>) -> T,
    ) -> Result<T, ApiError> {
        let path = self.folder.join(file_name(owner, which));
        let fails = |what: &str| {
            let (what, path) = (what.to_owned(), path.clone());
            move |e: io::Error| machine(&what, &path, e)
        };
        let look = || -> Result<(T, Option<Vec<Credentials>>), ApiError> {
            let kept = read(&path).map_err(fails("read"))?;
            let before = kept.map(|record| record.credentials).unwrap_or_default();
            let mut after = before.clone();
            let made = change(&mut after);
            Ok((made, (after != before).then_some(after)))
        };
        if let (made, None) = look()? {
            return Ok(made);
        }
        private::folder(&self.folder).map_err(fails("make the folder of"))?;
        let _lock = self.lock().map_err(fails("lock"))?;
        let (made, after) = look()?;
        let Some(after) = after else { return Ok(made) };
        if after.is_empty() {
            fs::remove_file(&path).map_err(fails("remove"))?;
            return Ok(made);
        }
        let record = Record { owner: owner.clone(), credentials: after };
        let text = serde_json::to_string_pretty(&record).map_err(|e| machine("write", &path, e))?;
        private::write(&path, text.as_bytes()).map_err(fails("write"))?;
        Ok(made)
    }

    fn lock(&self) -> io::Result<File> {
        let path = self.folder.join(".lock");
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(e)) => return Err(e),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(io::Error::other("another process does not let go of it"));
                }
                Err(TryLockError::WouldBlock) => sleep(PAUSE),
            }
        }
    }
}

impl Credentials {
    fn new(key: String, program: Option<&Program>) -> Self {
        Self {
            key,
            secret: Token::random(),
            folder: program.map(|program| program.folder.clone()),
            process: program.map(|program| program.process.clone()),
            since: None,
            joined: None,
        }
    }

    fn is_joined_with(&self, token: &Token) -> bool {
        self.joined.as_ref().is_some_and(|me| me.token == *token)
    }

    fn is_joined_by(&self, process: &str) -> bool {
        self.joined.is_some() && self.process.as_deref() == Some(process)
    }

    fn is_held(&self, runs: Runs) -> bool {
        self.process.as_deref().is_some_and(runs)
    }
}

/// The choice of a program's credentials.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Take(usize),
    New,
    Several(Vec<usize>),
}

/// Chooses the credentials that the process uses already; else those of the one program
/// that ended in its folder. Credentials of another running program are never taken.
fn choose(all: &[Credentials], program: &Program, runs: Runs) -> Choice {
    let same = |one: &Credentials| one.process.as_ref() == Some(&program.process);
    if let Some(at) = all.iter().position(same) {
        return Choice::Take(at);
    }
    if program.new {
        return Choice::New;
    }
    let here = |one: &Credentials| one.folder.as_ref() == Some(&program.folder);
    let away = all.iter().enumerate().filter(|(_, one)| here(one) && !one.is_held(runs));
    let away: Vec<usize> = away.map(|(at, _)| at).collect();
    match away[..] {
        [] => Choice::New,
        [at] => Choice::Take(at),
        _ => Choice::Several(away),
    }
}

fn take(one: &mut Credentials, program: &Program) -> Credentials {
    one.process = Some(program.process.clone());
    one.clone()
}

fn add(all: &mut Vec<Credentials>, program: &Program) -> Credentials {
    let new = Credentials::new(key_in(&program.folder), Some(program));
    all.push(new.clone());
    new
}

/// Returns the milliseconds of Unix time.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Makes a unique key that shows a person the folder of its agent.
fn key_in(folder: &Path) -> String {
    let random = format!("#{:08x}", rand::random::<u32>());
    let folder = folder.to_string_lossy();
    let room = LONGEST_KEY - "folder:".len() - random.len();
    let skip = folder.chars().count().saturating_sub(room);
    let end: String = folder.chars().filter(|c| !c.is_control()).skip(skip).collect();
    format!("folder:{end}{random}")
}

/// Returns a file name that is safe for any key, and longer than any agent's name.
fn file_name(owner: &Owner, which: &Which) -> String {
    let Owner { hub, agent, team } = owner;
    let key = match which {
        Which::Keyed(key) => Some(key.as_str()),
        Which::Running(_) => None,
    };
    let mut hash = Sha256::new();
    for part in [hub.as_str(), agent, team].into_iter().chain(key) {
        // The length of each part, so that no two lists have the same digest.
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}.json")
}

/// Reads a file; one that is not ours, or is damaged, counts as empty.
fn read(path: &Path) -> io::Result<Option<Record>> {
    match private::read(path) {
        Ok(text) => Ok(text.and_then(|text| serde_json::from_str(&text).ok())),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests;
