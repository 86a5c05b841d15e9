//! Profiles: their names and versions, and the rule for changing them.

use std::sync::Arc;

use super::Ledger;
use crate::address::{Mailbox, Name};
use crate::profiles::{Expect, PutProfile, Source};
use crate::registry::{AgentKind, RegistryError, nearest};
use crate::time::Timestamp;

/// The part of a profile that routing and the next write need. The rest is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProfile {
    pub kind: AgentKind,
    pub version: u64,
    pub source: Source,
    pub created_at: Timestamp,
}

/// A change of one profile, with the earlier state for an undo.
#[derive(Debug)]
pub struct ProfilePlan {
    pub name: Name,
    /// `None` if the profile is removed.
    pub after: Option<KnownProfile>,
    pub before: Option<KnownProfile>,
    /// Number of open deliveries in mailboxes of the name.
    pub waiting: usize,
}

impl Ledger {
    pub fn plan_put_profile(
        &mut self,
        put: &PutProfile,
        now: Timestamp,
    ) -> Result<ProfilePlan, RegistryError> {
        let name = &put.template.name;
        let before = self.profiles.get(name).cloned();
        match (&before, put.expect) {
            (None, Expect::Present | Expect::Version(_)) => return Err(self.no_profile(name)),
            (Some(_), Expect::Absent) => return Err(RegistryError::Exists(name.to_string())),
            (Some(known), _) => {
                may_change(name, known, &put.by)?;
                if let Expect::Version(seen) = put.expect
                    && seen != known.version
                {
                    let (name, current) = (name.to_string(), known.version);
                    return Err(RegistryError::Stale { name, current });
                }
            }
            (None, _) => {}
        }
        let after = KnownProfile {
            kind: put.template.kind,
            version: before.as_ref().map_or(1, |known| known.version + 1),
            source: put.by.clone(),
            created_at: before.as_ref().map_or(now, |known| known.created_at),
        };
        self.profiles.insert(name.clone(), after.clone());
        Ok(ProfilePlan { name: name.clone(), after: Some(after), before, waiting: 0 })
    }

    pub fn plan_remove_profile(
        &mut self,
        name: &Name,
        by: &Source,
    ) -> Result<ProfilePlan, RegistryError> {
        let before = self.profiles.get(name).cloned();
        let known = before.as_ref().ok_or_else(|| self.no_profile(name))?;
        may_change(name, known, by)?;
        let here = self.named.get(name).into_iter().flatten();
        let here = here.filter_map(|id| self.instances.get(id)).filter(|i| !i.status.has_ended());
        let active = here.count();
        if active > 0 {
            return Err(RegistryError::InUse { name: name.to_string(), active });
        }
        let of_name = |mailbox: &Mailbox| match mailbox {
            Mailbox::Name(n) | Mailbox::NameIn(n, _) => n == name,
            _ => false,
        };
        let waiting =
            self.boxes().filter(|(_, q)| of_name(&q.mailbox)).map(|(_, q)| q.unread).sum();
        self.profiles.remove(name);
        Ok(ProfilePlan { name: name.clone(), after: None, before, waiting })
    }

    pub fn undo_profile(&mut self, plan: &ProfilePlan) {
        match &plan.before {
            Some(before) => self.profiles.insert(plan.name.clone(), before.clone()),
            None => self.profiles.remove(&plan.name),
        };
    }

    pub fn profiles_of_files(&self) -> Vec<(Name, Arc<str>)> {
        let of_file = |(name, known): (&Name, &KnownProfile)| match &known.source {
            Source::File(file) => Some((name.clone(), Arc::clone(file))),
            Source::Api | Source::Join => None,
        };
        self.profiles.iter().filter_map(of_file).collect()
    }

    fn no_profile(&self, name: &Name) -> RegistryError {
        RegistryError::NotFound {
            what: "profile",
            name: name.to_string(),
            nearest: nearest(name.as_str(), self.profiles.keys().map(Name::as_str)),
        }
    }
}

/// A profile of a file may be changed by files, one of the API by the API; a profile that
/// a join made may be changed by both.
fn may_change(name: &Name, known: &KnownProfile, by: &Source) -> Result<(), RegistryError> {
    let name = || name.to_string();
    match (&known.source, by) {
        (Source::File(file), Source::Api | Source::Join) => {
            Err(RegistryError::InFile { name: name(), file: file.to_string() })
        }
        (Source::Api, Source::File(_)) => Err(RegistryError::Exists(name())),
        _ => Ok(()),
    }
}
