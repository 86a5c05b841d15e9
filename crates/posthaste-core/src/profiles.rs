//! Profiles: the description of an agent, before an instance of that name is here.
//!
//! A profile comes through the API, from a file that an operator keeps, or by itself when
//! an agent joins under a new name. Its `source` says which, and decides who may change
//! it: a profile of a file is changed in the file.

use std::fmt;
use std::sync::Arc;

use crate::address::Name;
use crate::hub::Hub;
use crate::limits::Limits;
use crate::ports::StoreError;
use crate::registry::{AgentKind, RegistryError};
use crate::time::Timestamp;

/// Names that stand for calls under `/v1/profiles/`.
const TAKEN: [&str; 2] = ["errors", "search"];

/// The description of an agent of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub name: Name,
    /// Its name for people.
    pub title: Option<String>,
    pub description: String,
    pub kind: AgentKind,
    /// The driver that runs it; `None`, or `external`: it comes by itself.
    pub driver: Option<String>,
    pub system_prompt: String,
    pub tags: Vec<String>,
    /// Tools that it is given; `None` leaves that to the program that runs it.
    pub tools: Option<Vec<String>>,
    /// Tools that it may use without being asked; `None` as above.
    pub allowed_tools: Option<Vec<String>>,
    /// Built-in services that it may call; `None` is none beyond the core.
    pub services: Option<Vec<String>>,
    /// A JSON object, as text.
    pub config: String,
}

impl Template {
    /// Makes the template of an agent of which only name and kind are known.
    pub fn new(name: Name, kind: AgentKind) -> Self {
        Self {
            name,
            title: None,
            description: String::new(),
            kind,
            driver: None,
            system_prompt: String::new(),
            tags: Vec::new(),
            tools: None,
            allowed_tools: None,
            services: None,
            config: "{}".into(),
        }
    }

    /// Checks that the template is within the limits.
    pub fn check(&self, limits: &Limits) -> Result<(), RegistryError> {
        if TAKEN.contains(&self.name.as_str()) {
            let why = format!("`{}` stands for a call of the API", self.name);
            return Err(RegistryError::Invalid { field: "name", why });
        }
        let title = limits.profile_title_chars;
        for (field, text) in [("title", &self.title), ("driver", &self.driver)] {
            if let Some(text) = text {
                word(field, text, title, "profile_title_chars")?;
            }
        }
        let chars = self.description.chars().count();
        at_most(
            "description",
            chars,
            limits.profile_description_chars,
            "characters",
            "profile_description_chars",
        )?;
        let bytes = self.system_prompt.len();
        at_most(
            "system_prompt",
            bytes,
            limits.profile_prompt_bytes,
            "bytes",
            "profile_prompt_bytes",
        )?;
        at_most(
            "config",
            self.config.len(),
            limits.profile_config_bytes,
            "bytes",
            "profile_config_bytes",
        )?;
        let lists = [
            ("tags", Some(&self.tags)),
            ("tools", self.tools.as_ref()),
            ("allowed_tools", self.allowed_tools.as_ref()),
            ("allowed_builtin_service_aliases", self.services.as_ref()),
        ];
        for (field, list) in lists.into_iter().filter_map(|(field, list)| Some((field, list?))) {
            at_most(field, list.len(), limits.profile_tags, "entries", "profile_tags")?;
            for entry in list {
                word(field, entry, limits.profile_tag_chars, "profile_tag_chars")?;
            }
        }
        Ok(())
    }
}

fn at_most(
    field: &'static str,
    has: usize,
    limit: usize,
    unit: &str,
    key: &str,
) -> Result<(), RegistryError> {
    if has <= limit {
        return Ok(());
    }
    let why = format!("it has {has} {unit}, and limits.{key} allows {limit}");
    Err(RegistryError::Invalid { field, why })
}

/// Checks that a text is one line and not empty.
fn word(
    field: &'static str,
    text: &str,
    limit: usize,
    key: &'static str,
) -> Result<(), RegistryError> {
    let wrong = |why: &str| Err(RegistryError::Invalid { field, why: why.to_owned() });
    if text.trim().is_empty() {
        return wrong("an entry is empty");
    }
    if text.chars().any(char::is_control) {
        return wrong("it has a control character");
    }
    at_most(field, text.chars().count(), limit, "characters", key)
}

/// The origin of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Api,
    /// An agent joined under a new name.
    Join,
    /// The file that holds it.
    File(Arc<str>),
}

impl Source {
    pub fn read(text: &str) -> Self {
        match text {
            "api" => Self::Api,
            "join" => Self::Join,
            file => Self::File(file.into()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Api => "api",
            Self::Join => "join",
            Self::File(file) => file,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A profile as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub template: Template,
    pub source: Source,
    /// Grows by one with each change.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The condition for writing a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Anything,
    /// The name is new.
    Absent,
    /// The profile exists.
    Present,
    /// The profile still has the version that the writer saw.
    Version(u64),
}

/// A request to write a profile.
#[derive(Debug, Clone)]
pub struct PutProfile {
    pub template: Template,
    /// `Api` or a file.
    pub by: Source,
    pub expect: Expect,
}

/// The result of a write.
#[derive(Debug, Clone)]
pub struct Written {
    pub profile: Profile,
    pub created: bool,
}

/// A page of profiles by name, without their prompts.
#[derive(Debug, Clone)]
pub struct ProfilePage {
    pub items: Vec<Profile>,
    pub total: u64,
}

/// A file that cannot be a profile, or that no agent can be started from, with the
/// reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    /// The profile that it was to be, as far as the file or its name tells.
    pub profile: Option<Name>,
    pub file: String,
    pub line: Option<usize>,
    pub why: String,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.why),
            None => write!(f, "{}: {}", self.file, self.why),
        }
    }
}

impl Hub {
    /// Writes a profile. Mail for its name is accepted from then on.
    pub async fn put_profile(&self, put: PutProfile) -> Result<Written, RegistryError> {
        put.template.check(&self.limits)?;
        self.engine.put_profile(put).await
    }

    /// Removes a profile that no living instance has, and counts the mail that waits for
    /// its name. That mail stays: the next instance of the name reads it.
    pub async fn remove_profile(&self, name: Name, by: Source) -> Result<usize, RegistryError> {
        self.engine.remove_profile(name, by).await
    }

    pub async fn profile(&self, name: &Name) -> Result<Option<Profile>, StoreError> {
        self.engine.profile(name.clone()).await
    }

    /// Returns a page of profiles. `page` counts from 1.
    pub async fn profiles(&self, page: u32, size: u32) -> Result<ProfilePage, StoreError> {
        let skip = u64::from(page.saturating_sub(1)) * u64::from(size);
        self.engine.profiles(skip, size).await
    }

    /// Returns the profiles that fit the words best, best first, without their prompts.
    pub async fn search_profiles(
        &self,
        words: String,
        limit: u32,
    ) -> Result<Vec<Profile>, StoreError> {
        self.engine.search_profiles(words, limit).await
    }

    /// Returns the profiles of files, with their files.
    pub fn profiles_of_files(&self) -> Vec<(Name, Arc<str>)> {
        self.engine.ledger(|l| l.profiles_of_files())
    }

    /// Returns the faults of the files of profiles, as of the last look.
    pub fn profile_faults(&self) -> Vec<FileFault> {
        self.profile_faults.lock().clone()
    }

    /// Returns the fault of the file that should have held this profile.
    pub fn fault_of(&self, name: &Name) -> Option<FileFault> {
        fault_of(&self.profile_faults.lock(), name)
    }

    /// Sets the faults, and returns the earlier ones.
    pub fn set_profile_faults(&self, faults: Vec<FileFault>) -> Vec<FileFault> {
        std::mem::replace(&mut *self.profile_faults.lock(), faults)
    }
}

pub(crate) fn fault_of(faults: &[FileFault], name: &Name) -> Option<FileFault> {
    faults.iter().find(|fault| fault.profile.as_ref() == Some(name)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mason() -> Template {
        Template::new("mason".parse().expect("a name"), AgentKind::External)
    }

    fn refused(template: &Template) -> String {
        template.check(&Limits::default()).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused_with_the_name_of_the_limit() {
        assert_eq!(mason().check(&Limits::default()), Ok(()));
        let long = "x".repeat(1 << 20);
        let told = refused(&Template { system_prompt: long.clone(), ..mason() });
        assert!(told.contains("limits.profile_prompt_bytes"), "{told}");
        let told = refused(&Template { description: long.clone(), ..mason() });
        assert!(told.contains("limits.profile_description_chars"), "{told}");
        let told = refused(&Template { title: Some(long.clone()), ..mason() });
        assert!(told.contains("limits.profile_title_chars"), "{told}");
        let told = refused(&Template { tags: vec![long.clone()], ..mason() });
        assert!(told.contains("limits.profile_tag_chars"), "{told}");
        let told = refused(&Template { tools: Some(vec!["x".into(); 1000]), ..mason() });
        assert!(told.contains("tools") && told.contains("limits.profile_tags"), "{told}");
        let told = refused(&Template { allowed_tools: Some(vec![long.clone()]), ..mason() });
        assert!(told.contains("allowed_tools"), "{told}");
        let told = refused(&Template { services: Some(vec![String::new()]), ..mason() });
        assert!(told.contains("allowed_builtin_service_aliases"), "{told}");
        let told = refused(&Template { config: long, ..mason() });
        assert!(told.contains("limits.profile_config_bytes"), "{told}");
    }

    #[test]
    fn a_tag_says_something_on_one_line() {
        for bad in ["", "  ", "two\nlines", "\u{0}"] {
            refused(&Template { tags: vec![bad.into()], ..mason() });
        }
        let called = |name: &str| Template::new(name.parse().expect("a name"), AgentKind::External);
        assert!(refused(&called("search")).contains("call of the API"));
        assert!(refused(&called("errors")).contains("call of the API"));
    }
}
