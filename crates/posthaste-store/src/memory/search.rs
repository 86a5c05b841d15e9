//! Profiles, and the search for them.

use posthaste_core::address::Name;
use posthaste_core::profiles::{Profile, ProfilePage};

use super::kept::Kept;

impl Kept {
    pub(super) fn profile(&self, name: &Name) -> Option<Profile> {
        self.profiles.get(name).map(|(_, profile)| (**profile).clone())
    }

    pub(super) fn profile_page(&self, skip: u64, most: u32) -> ProfilePage {
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let page = self.profiles.values().skip(skip).take(most as usize);
        ProfilePage {
            items: page.map(|(_, profile)| without_prompt(profile)).collect(),
            total: self.profiles.len() as u64,
        }
    }

    pub(super) fn search(&self, words: &str, most: u32) -> Vec<Profile> {
        let words = words.to_lowercase();
        let fits = |p: &Profile| {
            words.split_whitespace().any(|word| p.template.name.as_str().contains(word))
        };
        let found = self.profiles.values().map(|(_, p)| p).filter(|p| fits(p));
        found.take(most as usize).map(|p| without_prompt(p)).collect()
    }
}

fn without_prompt(profile: &Profile) -> Profile {
    let mut shown = profile.clone();
    shown.template.system_prompt = String::new();
    shown
}
