//! `posthaste profiles`: lists, shows, loads and removes profiles.

mod check;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use posthaste_api::client::ClientError;
use posthaste_api::profiles::{
    ProfileErrors, ProfileFault, ProfileInput, ProfileSearch, ProfileView, Profiles, ProfilesQuery,
};
use posthaste_api::{Client, ErrorCode};
use posthaste_core::Limits;
use serde::Serialize;

use super::Session;
use crate::cli::{ProfilesArgs, ProfilesCommand};
use crate::failure::{Failure, invalid, machine};
use crate::output::Output;
use crate::paint::Tone;
use crate::profiles::file::{self, Fault, Parsed};
use crate::profiles::markdown_files;
use crate::table::Cell;

/// The largest page that the hub returns.
const PAGE: u32 = 100;

pub(super) async fn run(
    args: ProfilesArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    if let Some(ProfilesCommand::Check { folder }) = &args.command {
        return check::check(folder, output);
    }
    let client = session.client()?;
    match args.command {
        None if args.query.is_empty() => list(&client, output).await,
        None => search(&client, args.query.join(" "), args.limit, output).await,
        Some(ProfilesCommand::Show { name }) => show(&client, &name, output).await,
        Some(ProfilesCommand::Load { folder }) => load(&client, &folder, output).await,
        // Handled above, because it needs no hub.
        Some(ProfilesCommand::Check { .. }) => Ok(()),
        Some(ProfilesCommand::Remove { name }) => remove(&client, &name, output).await,
    }
}

/// Lists all profiles, and the files that could not be read.
async fn list(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let mut all = Profiles { items: Vec::new(), total: 0 };
    for page in 1.. {
        let query = ProfilesQuery { page: Some(page), page_size: Some(PAGE) };
        let found = client.profiles(&query).await?;
        let last = found.items.len() < PAGE as usize;
        all.items.extend(found.items);
        all.total = found.total;
        if last {
            break;
        }
    }
    let ProfileErrors { errors } = client.profile_errors().await?;
    if output.json() {
        #[derive(Serialize)]
        struct Listed {
            #[serde(flatten)]
            all: Profiles,
            errors: Vec<ProfileFault>,
        }
        return output.answer(&Listed { all, errors });
    }
    if all.items.is_empty() {
        output.say("there are no profiles yet")?;
        output.say("load some with: posthaste profiles load DIR")?;
    } else {
        show_table(&all.items, output)?;
    }
    for fault in errors {
        output.note(&fault.to_string());
    }
    Ok(())
}

async fn search(
    client: &Client,
    q: String,
    limit: Option<u32>,
    output: &mut Output,
) -> Result<(), Failure> {
    let found = client.search_profiles(&ProfileSearch { q, limit }).await?;
    if output.json() {
        return output.answer(&found);
    }
    match found.items.is_empty() {
        true => output.say("no profile fits these words"),
        false => show_table(&found.items, output),
    }
}

async fn show(client: &Client, name: &str, output: &mut Output) -> Result<(), Failure> {
    let profile = client.profile(name).await?;
    if output.json() {
        return output.answer(&profile);
    }
    let config = profile.config.as_ref().filter(|config| !config.is_empty());
    let config = config.map(|config| serde_json::Value::Object(config.clone()).to_string());
    // An empty list allows nothing, unlike a missing list.
    let listed = |list: &Option<Vec<String>>| {
        let list = list.as_ref()?;
        Some(if list.is_empty() { "none".to_owned() } else { list.join(", ") })
    };
    let lines = [
        ("name", Some(profile.name.clone())),
        ("title", profile.title.clone()),
        ("description", Some(one_line(&profile.description))),
        ("kind", Some(profile.kind.clone())),
        ("driver", profile.driver.clone()),
        ("tags", Some(profile.tags.join(", "))),
        ("tools", listed(&profile.tools)),
        ("allowed", listed(&profile.allowed_tools)),
        ("services", listed(&profile.services)),
        ("config", config),
        ("source", Some(profile.source.clone())),
        ("version", Some(profile.version.to_string())),
    ];
    for (word, value) in lines {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            output.say(&format!("{word:<12} {value}"))?;
        }
    }
    match profile.system_prompt.as_deref().map(str::trim).filter(|prompt| !prompt.is_empty()) {
        Some(prompt) => output.say(&format!("\n{prompt}")),
        None => Ok(()),
    }
}

async fn remove(client: &Client, name: &str, output: &mut Output) -> Result<(), Failure> {
    let removed = client.remove_profile(name).await?;
    if output.json() {
        return output.answer(&removed);
    }
    output.say(&format!("{} is removed", removed.name))?;
    let letters = match removed.waiting {
        0 => return Ok(()),
        1 => "one message waits".to_owned(),
        many => format!("{many} messages wait"),
    };
    output.note(&format!("{letters} for whoever next comes by that name"));
    Ok(())
}

#[derive(Default, Serialize)]
struct Summary {
    created: Vec<String>,
    updated: Vec<String>,
    unchanged: Vec<String>,
    failed: Vec<ProfileFault>,
    /// Profiles that were loaded, and from which no agent can be started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<ProfileFault>,
}

/// Returns the Markdown files of a folder; an error if there is none.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let files = markdown_files(folder).map_err(|e| match e.kind() {
        ErrorKind::NotFound => invalid(format!("there is no folder {}", folder.display()))
            .hint("name a folder of Markdown files"),
        ErrorKind::NotADirectory => invalid(format!("{} is not a folder", folder.display()))
            .hint("name the folder that the file is in"),
        _ => machine("read", folder, e),
    })?;
    if files.is_empty() {
        let told = format!("there is no Markdown file in {}", folder.display());
        return Err(invalid(told).hint("a profile is a file like reviewer.md").into());
    }
    Ok(files)
}

fn of_file(path: &Path, Fault { line, why, .. }: Fault) -> ProfileFault {
    ProfileFault { file: path.to_string_lossy().into_owned(), line, message: why }
}

async fn load(client: &Client, folder: &Path, output: &mut Output) -> Result<(), Failure> {
    let limit = Limits::default().profile_file_bytes;
    let mut summary = Summary::default();
    for path in files_of(folder)? {
        let parsed = match file::read(&path, limit) {
            Ok(parsed) => parsed,
            Err(fault) => {
                summary.failed.push(of_file(&path, fault));
                continue;
            }
        };
        let name = parsed.template.name.to_string();
        let loaded = load_one(client, &parsed).await;
        if loaded.is_ok() {
            summary.warnings.extend(parsed.not_startable().map(|fault| of_file(&path, fault)));
        }
        match loaded {
            Ok(Loaded::Created) => summary.created.push(name),
            Ok(Loaded::Updated) => summary.updated.push(name),
            Ok(Loaded::Unchanged) => summary.unchanged.push(name),
            Err(ClientError::Api(error)) if is_of_the_file(error.code) => {
                let field = error.details.as_ref().and_then(|d| d["field"].as_str());
                let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                let line = parsed.line_of(field.unwrap_or("name"));
                let why = format!("{}{hint}", error.message);
                let profile = Some(parsed.template.name.clone());
                summary.failed.push(of_file(&path, Fault { profile, line, why }));
            }
            Err(error) => return Err(error.into()),
        }
    }
    tell(&summary, output)
}

enum Loaded {
    Created,
    Updated,
    Unchanged,
}

async fn load_one(client: &Client, parsed: &Parsed) -> Result<Loaded, ClientError> {
    let input = ProfileInput::from(parsed.template.clone());
    let name = parsed.template.name.as_str();
    match client.profile(name).await {
        Ok(known) if known.input() == input => Ok(Loaded::Unchanged),
        Ok(known) => {
            let version = Some(known.version);
            client.put_profile(name, &ProfileInput { version, ..input }).await?;
            Ok(Loaded::Updated)
        }
        Err(ClientError::Api(error)) if error.code == ErrorCode::NotFound => {
            client.create_profile(&input).await?;
            Ok(Loaded::Created)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether the error concerns this file only, so that the next may succeed.
fn is_of_the_file(code: ErrorCode) -> bool {
    use ErrorCode::{BadRequest, Conflict, InvalidAddress, InvalidArgument, TooLarge};
    matches!(code, BadRequest | Conflict | InvalidAddress | InvalidArgument | TooLarge)
}

fn tell(summary: &Summary, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        output.answer(summary)?;
    } else {
        for (word, names) in [("created", &summary.created), ("updated", &summary.updated)] {
            for name in names {
                output.say(&format!("{word} {name}"))?;
            }
        }
        for (word, faults) in [("warning", &summary.warnings), ("failed ", &summary.failed)] {
            for fault in faults {
                output.say(&format!("{word} {fault}"))?;
            }
        }
        output.say(&format!(
            "{} created, {} updated, {} unchanged, {} failed",
            summary.created.len(),
            summary.updated.len(),
            summary.unchanged.len(),
            summary.failed.len()
        ))?;
    }
    match summary.failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Shown(ErrorCode::InvalidArgument)),
    }
}

const HEAD: [&str; 5] = ["NAME", "DRIVER", "DESCRIPTION", "TAGS", "SOURCE"];

fn show_table(profiles: &[ProfileView], output: &mut Output) -> Result<(), Failure> {
    let row = |p: &ProfileView| {
        let told = if p.description.trim().is_empty() {
            p.title.clone().unwrap_or_default()
        } else {
            p.description.clone()
        };
        [
            Cell::new(Tone::Who, &p.name),
            // An agent without a driver connects by itself.
            p.driver.as_deref().unwrap_or("external").into(),
            one_line(&told).into(),
            p.tags.join(", ").into(),
            Cell::new(Tone::Faint, one_line(&p.source)),
        ]
    };
    output.table(HEAD, 0, profiles.iter().map(row))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
