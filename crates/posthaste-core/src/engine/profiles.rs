//! Profiles: written through the ledger, read from the store.

use futures_util::FutureExt;

use super::commands::profiles::{Put, Remove};
use super::people::stopping;
use super::{Engine, Started};
use crate::address::Name;
use crate::ports::StoreError;
use crate::profiles::{Profile, ProfilePage, PutProfile, Source, Written};
use crate::registry::RegistryError;

impl Engine {
    /// Writes a profile in one group. Of two writers that saw the same version one is
    /// refused. A profile of a file is changed by its file alone, and a file never
    /// replaces a profile of the API.
    pub fn put_profile(&self, put: PutProfile) -> Started<Written, RegistryError> {
        let answer = self.shared.line.push(|tx| Put::new(put, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    /// Removes a profile; refused while an instance of it has not ended. Mail that waits
    /// for its name stays, and is counted in the answer.
    pub fn remove_profile(&self, name: Name, by: Source) -> Started<usize, RegistryError> {
        let answer = self.shared.line.push(|tx| Remove::new(name, by, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    pub async fn profile(&self, name: Name) -> Result<Option<Profile>, StoreError> {
        self.shared.store.profile(name).await
    }

    /// Lists profiles by name, without prompts; `total` is right also beyond the end.
    pub async fn profiles(&self, skip: u64, most: u32) -> Result<ProfilePage, StoreError> {
        self.shared.store.profiles(skip, most).await
    }

    /// Finds profiles, best first. Any text is a valid query; one that fits nothing finds
    /// nothing.
    pub async fn search_profiles(
        &self,
        words: String,
        most: u32,
    ) -> Result<Vec<Profile>, StoreError> {
        self.shared.store.search(words, most).await
    }
}
