//! A real little job: an agent of the user's own program mends a fault, and another one
//! reviews the change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use posthaste_api::Client;
use posthaste_api::needs::{AnswerRequest, NeedsQuery};
use posthaste_api::profiles::ProfileInput;
use posthaste_api::work::{AssignRequest, HandedOff};
use posthaste_core::profiles::Template;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::programs::Pair;
use super::repository::{Repository, TESTS};
use super::{Story, blocking, in_scratch};
use crate::cli::{DemoArgs, DemoProgram};
use crate::commands::logs::transcript::{Following, Shown};
use crate::commands::{Session, handoff};
use crate::failure::{Failure, internal};
use crate::identity::DataFolder;
use crate::output::Output;
use crate::when;

/// The time between two looks for requests for permission.
const LOOK: Duration = Duration::from_millis(500);
/// The time that the hub may take to end an agent whose time is up.
const GRACE: Duration = Duration::from_secs(60);

/// The result of the job, for programs.
#[derive(Debug, Serialize)]
struct Done {
    program: &'static str,
    implementer: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    reviewer: Option<Report>,
    diff: String,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    address: String,
    /// The answer of the agent, or why it has none.
    report: String,
    failed: bool,
}

pub(super) async fn run(
    program: DemoProgram,
    args: &DemoArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let timeout = args.timeout;
    let pair = Pair::of(program, timeout)?;
    let done = in_scratch(args.keep, output, async |folder, output| {
        let mut story = Story::new(output);
        story.say(&opens(program, timeout))?;
        play(program, &pair, timeout, folder, &mut story).await
    })
    .await?;
    match output.json() {
        true => output.answer(&done)?,
        false => closes(&done, output)?,
    }
    output.flush()?;
    match &done {
        Done { implementer, .. } if implementer.failed => Err(Failure::WorkerFailed),
        Done { reviewer: Some(reviewer), .. } if reviewer.failed => Err(Failure::WorkerFailed),
        Done { reviewer: None, .. } => Err(internal("the agent has changed nothing").into()),
        _ => Ok(()),
    }
}

fn opens(program: DemoProgram, timeout: Duration) -> String {
    format!(
        "{} gets a real little job: one agent mends a fault, and another one reviews the change.\n\
         This asks its model, with your own login, and may cost a little money.\n\
         The hub, the repository and the agents' files are the demo's own, and are removed at its end.\n\
         Each agent may work for {} at most; Ctrl-C ends everything.\n",
        program.title(),
        when::how_long(timeout.as_secs()),
    )
}

async fn play(
    program: DemoProgram,
    pair: &Pair,
    timeout: Duration,
    folder: &Path,
    story: &mut Story<'_>,
) -> Result<Done, Failure> {
    let (data, scratch) = (folder.join("data"), folder.to_owned());
    let repository = blocking(move || Repository::make(&scratch)).await?;
    story.tells(&format!("a git repository with a small fault: {}", repository.path.display()))?;
    let hub = story.hub(&data).await?;
    let (acting, token) = (None, None);
    let session =
        Session { folder: DataFolder::new(data), hub: Some(hub.url.clone()), acting, token };
    let mut job = Job { session: &session, client: session.client()?, timeout, story };

    let task = format!(
        "`{TESTS}` fails. Find out why, mend the script and not its test, and run `{TESTS}` again."
    );
    let (implementer, place) = job.work(&pair.implementer, &task, &repository.path).await?;
    let diff = blocking(move || repository.diff(&place).map(|diff| (diff, place)));
    let (diff, place) = diff.await?;
    let reviewer = match implementer.failed || diff.is_empty() {
        true => None,
        false => {
            let task = format!(
                "Review this change. README.md says what the script is to do.\n\n```diff\n{diff}```"
            );
            Some(job.work(&pair.reviewer, &task, &place).await?.0)
        }
    };
    let seconds = (story.began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    hub.stop().await;
    Ok(Done { program: program.title(), implementer, reviewer, diff, seconds })
}

struct Job<'a, 'b> {
    session: &'a Session,
    client: Client,
    timeout: Duration,
    story: &'a mut Story<'b>,
}

impl Job<'_, '_> {
    /// Gives this task to a new agent, shows its work, and returns its report and the
    /// folder in which it worked.
    async fn work(
        &mut self,
        template: &Template,
        task: &str,
        folder: &Path,
    ) -> Result<(Report, PathBuf), Failure> {
        self.client.create_profile(&ProfileInput::from(template.clone())).await?;
        let name = template.name.to_string();
        let request = AssignRequest {
            agent: name.clone(),
            message: task.to_owned(),
            working_directory: Some(folder.to_string_lossy().into_owned()),
            idempotency_key: Some(name),
            ..AssignRequest::default()
        };
        let given = self.client.assign(&request).await?;
        self.story.tells(&format!("{} begins; what it does:\n", given.address))?;
        let deadline = Instant::now() + self.timeout + GRACE;
        let report = handoff::report(self.session, self.client.clone(), request, deadline);
        let answer = self.watched(&given.instance, report).await?;
        let seen = self.client.instance(&given.instance).await?;
        let place = seen.working_directory.map_or_else(|| folder.to_owned(), PathBuf::from);
        let failed = answer.status != "complete";
        self.story.say("")?;
        self.story.tells(match failed {
            true => "it has failed",
            false => "it has reported",
        })?;
        let report = answer.result.or(answer.note).unwrap_or_default();
        Ok((Report { address: given.address, report, failed }, place))
    }

    /// Shows the work of an agent until its report comes. What the agent has no permission
    /// for is denied: the demo decides for nobody what runs on this machine.
    async fn watched(
        &mut self,
        id: &str,
        report: impl Future<Output = Result<HandedOff, Failure>>,
    ) -> Result<HandedOff, Failure> {
        let (mut shown, mut following) = (Shown::default(), Following::new(id, self.session, true));
        let mut lives = true;
        let client = self.client.clone();
        // Not dropped in the middle: a request that was denied would not be told.
        let mut denies = Box::pin(denied(&client));
        tokio::pin!(report);
        loop {
            tokio::select! {
                answer = &mut report => return answer,
                seen = following.next(), if lives => {
                    let seen = seen?;
                    if !self.story.output.json() {
                        lives = shown.see(seen, self.story.output)?;
                    }
                }
                asked = &mut denies => {
                    self.story.say(&format!("- the demo denies it: {}", asked?))?;
                    denies.set(denied(&client));
                }
            }
        }
    }
}

/// Waits for a request for permission, and denies it; returns what was asked.
async fn denied(client: &Client) -> Result<String, Failure> {
    let query = NeedsQuery { kind: Some("permission".to_owned()), ..NeedsQuery::default() };
    loop {
        if let Some(need) = client.needs(&query).await?.needs.into_iter().next() {
            let verdict = AnswerRequest { allow: Some(false), ..AnswerRequest::default() };
            client.answer_need(&need.id.to_string(), &verdict).await?;
            return Ok(need.text);
        }
        sleep(LOOK).await;
    }
}

fn closes(done: &Done, output: &mut Output) -> Result<(), Failure> {
    let told = |report: &Report| {
        let word = if report.failed { "failed" } else { "reports" };
        format!("{} {word}:\n{}\n", report.address, report.report.trim_end())
    };
    output.say(&format!("\n{}", told(&done.implementer)))?;
    output.say(match done.diff.is_empty() {
        true => "It has changed nothing.",
        false => "Its change:",
    })?;
    output.say(&done.diff)?;
    if let Some(reviewer) = &done.reviewer {
        output.say(&told(reviewer))?;
    }
    output.say(&format!("All of it took {} s.", done.seconds))
}
