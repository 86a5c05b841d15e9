//! The options of a connection, and the folder of the caller.

use std::path::{Path, PathBuf};

use directories::BaseDirs;
use posthaste_bridges::clients::{self, Client, ClientEnv, Edit, HookLine, OURS, Scope, Server};
use posthaste_bridges::edit;
use serde::{Deserialize, Serialize};

use super::record::Record;
use super::{HIDDEN, files, proof};
use crate::cli::Global;
use crate::commands::Session;
use crate::config;
use crate::failure::{Failure, internal, invalid};

/// Variables that decide which folder is the hub's if no flag names it. Some clients pass
/// on none of them, so the resulting folder is written down as a flag.
const DECIDING: [&str; 3] = ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "POSTHASTE_CONFIG"];

/// The home and the current folder of the caller.
pub(crate) struct Ground {
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
}

impl Ground {
    pub(crate) fn here() -> Result<Self, Failure> {
        let home = BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
        let home = home.ok_or_else(|| invalid("there is no home folder"))?;
        let project = std::env::current_dir()
            .map_err(|e| internal(format!("the folder that this is in is not known: {e}")))?;
        Ok(Self { home, project })
    }

    pub(crate) fn env(&self) -> ClientEnv<'_> {
        ClientEnv { home: &self.home, project: &self.project, variable: &config::of_others }
    }
}

/// The options of a connection, apart from what is special about a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) scope: String,
    pub(crate) name: Option<String>,
    pub(crate) team: Option<String>,
    pub(crate) http: bool,
    pub(crate) hooks: bool,
    /// The program that clients start.
    pub(crate) program: PathBuf,
    /// The flags behind every command, which name the hub.
    pub(crate) options: Vec<String>,
    /// The profile that wakes its conversations, if that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wake: Option<Waking>,
}

/// A profile that wakes the conversations of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waking {
    pub(crate) file: PathBuf,
    /// The agent program.
    pub(crate) program: PathBuf,
}

impl Waking {
    /// Checks that the program can resume a conversation without its window.
    pub(crate) fn is_possible(client: &dyn Client, ground: &Ground) -> Result<(), Failure> {
        if client.resume(&ground.env()).is_some() {
            return Ok(());
        }
        let told = format!("{} cannot be woken in a process of its own", client.title());
        let hint = "leave out --wake; \"Waking an agent program\" in docs/guide/connect.md tells \
                    which programs can be woken, and how";
        Err(invalid(told).hint(hint).into())
    }

    /// Returns the profile of this name, for this program.
    pub(crate) fn new(name: &str, program: &Path, session: &Session) -> Result<Self, Failure> {
        if session.hub.is_some() {
            let told =
                "--wake writes a profile of the hub on this machine, and --hub names another";
            return Err(invalid(told).into());
        }
        let file = session.folder.path().join("profiles").join(format!("{name}.md"));
        if !clients::is_ours(&files::read(&file)?.unwrap_or_default()) {
            let told = format!("{} is a profile of your own", file.display());
            return Err(invalid(told)
                .hint("add a `wake` command there: nothing was changed")
                .into());
        }
        Ok(Self { file, program: program.to_owned() })
    }
}

impl Wish {
    fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        for (flag, value) in [("--name", &self.name), ("--team", &self.team)] {
            flags.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        flags.extend(self.options.iter().cloned());
        flags
    }

    /// Returns the command that a client starts.
    pub(crate) fn bridge(&self) -> Server {
        let args = std::iter::once("mcp".to_owned()).chain(self.flags()).collect();
        Server::Stdio { program: self.program.to_string_lossy().into_owned(), args }
    }

    /// Returns the way in which the client is to reach the hub. Over HTTP a token that
    /// works stays.
    pub(crate) async fn server(
        &self,
        client: &dyn Client,
        scope: Scope,
        ground: &Ground,
        session: &Session,
        known: Option<&Record>,
    ) -> Result<Server, Failure> {
        if !self.http {
            text(&self.program)?;
            return Ok(self.bridge());
        }
        let url = format!("{}/mcp", session.stranger()?.url());
        let same = known.is_some_and(|record| {
            (&record.wish.name, &record.wish.team) == (&self.name, &self.team)
        });
        if same
            && let Some(Server::Http { url: old, token }) = written(client, scope, ground)?
            && old == url
            && proof::over_http(&url, &token, session).await.is_ok()
        {
            return Ok(Server::Http { url, token });
        }
        Ok(Server::Http { url, token: HIDDEN.to_owned() })
    }

    pub(crate) fn edits(
        &self,
        client: &dyn Client,
        scope: Scope,
        ground: &Ground,
        server: &Server,
    ) -> Vec<Edit> {
        let (program, flags) = (self.program.to_string_lossy(), self.flags());
        let hook = HookLine { program: &program, flags: &flags };
        let env = ground.env();
        let mut edits = clients::plan(client, scope, &env, server, hook, self.hooks);
        edits.extend(self.wake.iter().filter_map(|wake| {
            let name = self.name.as_deref().unwrap_or_else(|| client.name());
            clients::wake(client, &env, name, &wake.program.to_string_lossy(), &wake.file)
        }));
        edits
    }
}

/// Returns our server as it stands in the client's file now.
pub(crate) fn written(
    client: &dyn Client,
    scope: Scope,
    ground: &Ground,
) -> Result<Option<Server>, Failure> {
    let servers = client.servers(scope, &ground.env());
    let path = files::meant(&servers.files);
    let Some(text) = files::read(&path)? else { return Ok(None) };
    let value = edit::value(servers.form, &text).map_err(|e| files::broken(&path, &e))?;
    Ok(edit::at(&value, &[servers.list, OURS]).and_then(Server::read))
}

/// Returns the flags that name the hub; none where every client's bridge finds it by
/// itself.
pub(crate) fn options(global: &Global, session: &Session) -> Result<Vec<String>, Failure> {
    let mut options = Vec::new();
    let folder = session.folder.path();
    let decided = DECIDING.iter().any(|name| config::of_others(name).is_some());
    let usual = config::default_data_folder().is_ok_and(|usual| usual == folder);
    if decided || !usual || global.config.is_some() {
        options.extend(["--data".to_owned(), text(folder)?]);
    }
    if let Some(hub) = &session.hub {
        options.extend(["--hub".to_owned(), hub.clone()]);
    }
    Ok(options)
}

/// Returns a path as text, for a file that another program reads.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| invalid(format!("{} is no text", path.display())).into())
}
