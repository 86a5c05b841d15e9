//! Checks that the programs of the profiles are installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use posthaste_agents::installed;
use posthaste_api::Client;
use posthaste_api::profiles::{ProfileView, ProfilesQuery};
use posthaste_core::profiles::{Profile, Source, Template};
use posthaste_core::registry::AgentKind;
use posthaste_core::{Limits, Timestamp};

use super::Check;
use crate::config::{self, Config};
use crate::identity::{DataFolder, Key};
use crate::profiles::{file, markdown_files};

const PROGRAMS: &str = "programs";

/// The largest page of profiles.
const PAGE: u32 = 100;

/// Looks for the program of every profile: of those that the hub has, or without a hub of
/// those in its folders.
pub(super) async fn of_profiles(config: &Config, data: &DataFolder) -> Check {
    let profiles = match of_hub(data).await {
        Some(profiles) => profiles,
        None => of_folders(config, data),
    };
    let environment = config::whole_environment();
    let (mut there, mut missing) = (BTreeSet::new(), BTreeMap::<_, Vec<String>>::new());
    for profile in &profiles {
        match installed(profile, &environment) {
            Ok(Some(program)) => {
                there.extend(program.file_name().map(|name| name.to_string_lossy().into_owned()));
            }
            Ok(None) => {}
            // The fault of a profile is told by `posthaste profiles`.
            Err(error) if error.key.is_some() => {}
            Err(error) => {
                let who = missing.entry((error.why, error.hint)).or_default();
                who.push(profile.template.name.to_string());
            }
        }
    }
    told(there, missing)
}

fn told(
    there: BTreeSet<String>,
    missing: BTreeMap<(String, Option<String>), Vec<String>>,
) -> Check {
    if !missing.is_empty() {
        let faults = missing.iter().map(|((why, _), who)| format!("{why} ({})", who.join(", ")));
        let hints = missing.keys().filter_map(|(_, hint)| hint.clone());
        let (faults, hints): (Vec<_>, Vec<_>) = (faults.collect(), hints.collect());
        return Check::warn(PROGRAMS, faults.join("; "), hints.join("; "));
    }
    let there: Vec<String> = there.into_iter().collect();
    Check::ok(
        PROGRAMS,
        match there.is_empty() {
            true => "no profile needs one".to_owned(),
            false => format!("those of all profiles are there: {}", there.join(", ")),
        },
    )
}

/// Returns the profiles of the hub that runs on this folder.
async fn of_hub(data: &DataFolder) -> Option<Vec<Profile>> {
    let (hub, token) = (data.running()?, data.key(Key::Operator).ok()??);
    let client = Client::new(&hub.url).ok()?.with_token(token.reveal());
    let (mut found, mut page) = (Vec::new(), 1);
    loop {
        let query = ProfilesQuery { page: Some(page), page_size: Some(PAGE) };
        let items = client.profiles(&query).await.ok()?.items;
        if items.is_empty() {
            return Some(found);
        }
        for listed in items.iter().filter(|listed| listed.driver.is_some()) {
            found.extend(profile(client.profile(&listed.name).await.ok()?));
        }
        page += 1;
    }
}

fn profile(view: ProfileView) -> Option<Profile> {
    let source = match view.source.as_str() {
        "api" | "join" => Source::Api,
        file => Source::File(file.into()),
    };
    let template = Template {
        driver: view.driver,
        tools: view.tools,
        allowed_tools: view.allowed_tools,
        services: view.services,
        config: serde_json::Value::Object(view.config?).to_string(),
        ..Template::new(view.name.parse().ok()?, AgentKind::External)
    };
    Some(of(template, source))
}

fn of(template: Template, source: Source) -> Profile {
    let (version, now) = (0, Timestamp(0));
    Profile { template, source, version, created_at: now, updated_at: now }
}

/// Returns the profiles that a hub would read from its folders.
fn of_folders(config: &Config, data: &DataFolder) -> Vec<Profile> {
    let mut folders = vec![data.path().join("profiles")];
    folders.extend(config.profiles.folders());
    let files = folders.iter().filter_map(|folder| markdown_files(folder).ok()).flatten();
    let limit = Limits::default().profile_file_bytes;
    let read = |path: &Path| {
        let template = file::read(path, limit).ok()?.template;
        Some(of(template, Source::File(path.to_string_lossy().into())))
    };
    files.filter_map(|path| read(&path)).collect()
}
