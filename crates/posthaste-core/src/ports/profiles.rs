//! What the core asks of a store about profiles.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Started, StoreError};
use crate::address::Name;
use crate::profiles::{Profile, ProfilePage, PutProfile, Source, Written};
use crate::registry::RegistryError;

/// What an agent of a name is.
pub trait Profiles: Send + Sync {
    /// Decides and writes in one transaction. Of two writers who saw the same
    /// version one is refused. What stands in a file is changed by its file alone,
    /// and a file never replaces what came through the API.
    fn put_profile(&self, put: PutProfile) -> Started<Written, RegistryError>;

    /// Refused while an instance of it has not ended. Mail that waits for its name
    /// stays, and is counted in the answer.
    fn remove_profile(&self, name: Name, by: Source) -> Started<usize, RegistryError>;

    fn profile(&self, name: Name) -> BoxFuture<'_, Result<Option<Profile>, StoreError>>;

    /// By name, without prompts; `total` is right also beyond the end.
    fn profiles(&self, skip: u64, most: u32) -> BoxFuture<'_, Result<ProfilePage, StoreError>>;

    /// Best first. Any text is a good query; one that fits nothing finds nothing.
    fn search_profiles(
        &self,
        words: String,
        most: u32,
    ) -> BoxFuture<'_, Result<Vec<Profile>, StoreError>>;

    /// Which profile stands in which file.
    fn profiles_of_files(&self) -> Vec<(Name, Arc<str>)>;
}
