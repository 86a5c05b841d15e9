//! The record of a connection: the options wanted, and every file as it was before.
//!
//! ```text
//! <data>/connections/claude-user-1f2e3d4c/record.json
//! <data>/connections/claude-user-1f2e3d4c/0-settings.json   the file as it was
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_bridges::clients::{Client, Scope};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files::{Change, meant, missing_above};
use super::wish::{Ground, Wish};
use crate::failure::{Failure, machine};
use crate::identity::DataFolder;
use crate::private;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) client: String,
    /// The folder in which it was connected.
    pub(crate) project: PathBuf,
    pub(crate) connected_at: String,
    pub(crate) wish: Wish,
    pub(crate) files: Vec<Kept>,
    /// Names that the hub knows because of this connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) made_names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) path: PathBuf,
    /// The text before; `None` if there was no file.
    pub(crate) before: Option<String>,
    /// The digest of the text that we wrote.
    pub(crate) written: String,
    /// Folders that were created for the file.
    pub(crate) made: Vec<PathBuf>,
}

impl Record {
    pub(crate) fn new(
        client: &dyn Client,
        wish: &Wish,
        ground: &Ground,
        changes: &[Change],
        known: Option<Self>,
    ) -> Self {
        let made = |path: &Path| match known.as_ref().and_then(|record| record.kept(path)) {
            Some(kept) => kept.made.clone(),
            None => missing_above(path),
        };
        let there = changes.iter().filter_map(|change| Some((change, change.new.as_deref()?)));
        let files = there.map(|(change, new)| Kept {
            path: change.path.clone(),
            before: change.before.clone(),
            written: digest(new),
            made: made(&change.path),
        });
        let scope = if wish.scope == "project" { Scope::Project } else { Scope::User };
        Self {
            id: id(client, scope, ground),
            client: client.name().to_owned(),
            project: ground.project.clone(),
            connected_at: jiff::Timestamp::now().to_string(),
            wish: wish.clone(),
            files: files.collect(),
            made_names: known.as_ref().map(|record| record.made_names.clone()).unwrap_or_default(),
        }
    }

    pub(crate) fn kept(&self, path: &Path) -> Option<&Kept> {
        self.files.iter().find(|kept| kept.path == path)
    }

    /// Writes the record before any file is changed, so that every change can be undone.
    pub(crate) fn keep(&self, data: &DataFolder, changes: &[Change]) -> Result<(), Failure> {
        let folder = folder(data).join(&self.id);
        private::folder(&folder).map_err(|e| machine("make the folder", &folder, e))?;
        for (number, change) in changes.iter().enumerate() {
            let name = change.path.file_name().unwrap_or_default().to_string_lossy();
            let backup = folder.join(format!("{number}-{name}"));
            if let Some(before) = &change.before {
                private::write(&backup, before.as_bytes())
                    .map_err(|e| machine("write", &backup, e))?;
            }
        }
        self.save(data)
    }

    pub(crate) fn save(&self, data: &DataFolder) -> Result<(), Failure> {
        let path = folder(data).join(&self.id).join("record.json");
        let text = serde_json::to_string_pretty(self).expect("text and paths are JSON");
        private::write(&path, text.as_bytes()).map_err(|e| machine("write", &path, e).into())
    }

    /// Returns the name of the program's agents.
    pub(crate) fn agent(&self) -> &str {
        self.wish.name.as_deref().unwrap_or(&self.client)
    }

    pub(crate) fn find(
        data: &DataFolder,
        client: &dyn Client,
        scope: Scope,
        ground: &Ground,
    ) -> Result<Option<Self>, Failure> {
        read(&folder(data).join(id(client, scope, ground)).join("record.json"))
    }

    pub(crate) fn all(data: &DataFolder) -> Result<Vec<Self>, Failure> {
        let Ok(entries) = fs::read_dir(folder(data)) else { return Ok(Vec::new()) };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let records = paths.iter().map(|path| read(&path.join("record.json")));
        Ok(records.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    pub(crate) fn forget(&self, data: &DataFolder) -> Result<(), Failure> {
        let folder = folder(data).join(&self.id);
        fs::remove_dir_all(&folder).map_err(|e| machine("remove", &folder, e).into())
    }
}

pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<Option<Record>, Failure> {
    let text = private::read(path).map_err(|e| machine("read", path, e))?;
    let read = text.map(|text| serde_json::from_str(&text)).transpose();
    read.map_err(|e| machine("read", path, e).into())
}

fn folder(data: &DataFolder) -> PathBuf {
    data.path().join("connections")
}

/// Returns the id of the record: one for each file that lists servers.
fn id(client: &dyn Client, scope: Scope, ground: &Ground) -> String {
    let file = meant(&client.servers(scope, &ground.env()).files);
    let digest = digest(&file.to_string_lossy());
    format!("{}-{}-{}", client.name(), scope.as_str(), &digest[..8])
}
