//! `posthaste doctor`: checks everything that a hub needs, and says in one sentence each
//! what is wrong and what to do. It changes nothing.

mod client;
mod disk;
mod folder;
mod hook_trip;
mod hook_trust;
mod hooks;
mod hub;
mod limits;
mod models;
mod programs;
mod trust;

use std::borrow::Cow;

use posthaste_api::{ApiError, ErrorCode};
use serde::Serialize;
use serde_json::json;

use crate::cli::{DoctorArgs, Global};
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};

/// The result of one check.
#[derive(Debug, Serialize)]
struct Check {
    name: Cow<'static, str>,
    status: Status,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The error code of the program if this is the first failure.
    #[serde(skip)]
    code: ErrorCode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Check {
    fn ok(name: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, message.into(), None)
    }

    fn warn(
        name: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::new(name, Status::Warn, message.into(), Some(hint.into()))
    }

    fn fail(
        name: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::new(name, Status::Fail, message.into(), Some(hint.into()))
    }

    fn failed(name: impl Into<Cow<'static, str>>, error: ApiError) -> Self {
        let code = error.code;
        Self { code, ..Self::new(name, Status::Fail, error.message, error.hint) }
    }

    fn new(
        name: impl Into<Cow<'static, str>>,
        status: Status,
        message: String,
        hint: Option<String>,
    ) -> Self {
        Self { name: name.into(), status, message, hint, code: ErrorCode::Internal }
    }
}

pub(super) async fn run(
    args: &DoctorArgs,
    global: &Global,
    output: &mut Output,
) -> Result<(), Failure> {
    if let Some(client) = args.client {
        let checks = client::checks(client, args.scope.into(), global).await?;
        return verdict(&checks, output);
    }
    let data = config::data_folder(global);
    let (config, mut checks) = match Config::load(global, &args.up) {
        Ok(config) => {
            let file = config::file(global)?;
            let other = data.as_ref().ok().and_then(|data| hub::other_file(data, file.as_deref()));
            let fits = || Check::ok("configuration", "every key is known and fits");
            (config, vec![other.unwrap_or_else(fits)])
        }
        // The other checks use the default configuration.
        Err(error) => (Config::default(), vec![Check::failed("configuration", error)]),
    };
    match &data {
        Ok(data) => {
            checks.push(folder::folder(data));
            checks.push(folder::secrets(data));
            checks.push(trust::files(data));
            checks.push(trust::folders_above(data.path()));
            checks.extend(disk::checks(data.path()));
            checks.push(folder::database(data.path()));
            checks.push(hub::running(data).await);
            checks.push(hooks::lately(data.path()));
            checks.push(trust::network(config.server.listen, data));
            checks.push(trust::workers(&config.agents, data));
            checks.push(programs::of_profiles(&config, data).await);
        }
        Err(error) => checks.push(Check::failed("data folder", error.clone())),
    }
    checks.push(hub::port(config.server.listen).await);
    checks.push(limits::open_files(&config.server));
    checks.extend(models::checks(&config, data.as_ref().ok()).await);
    verdict(&checks, output)
}

fn verdict(checks: &[Check], output: &mut Output) -> Result<(), Failure> {
    show(checks, output)?;
    match checks.iter().find(|check| check.status == Status::Fail) {
        Some(first) => Err(Failure::Shown(first.code)),
        None => Ok(()),
    }
}

fn show(checks: &[Check], output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        let ok = checks.iter().all(|check| check.status != Status::Fail);
        return output.answer(&json!({ "ok": ok, "checks": checks }));
    }
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for Check { name, status, message, hint, .. } in checks {
        let advice = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let told = Text::new().add(Tone::of_state(status.word()), format!("{:4}", status.word()));
        output.paint(&told.plain(format!("  {name:width$}  {message}{advice}")))?;
    }
    Ok(())
}
