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
use super::repository::{self, Repository, TESTS};
use super::{Story, blocking, in_scratch};
use crate::cli::{DemoArgs, DemoProgram};
use crate::commands::logs::transcript::{Following, Shown};
use crate::commands::{Session, handoff};
use crate::failure::Failure;
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
    /// Whether the project's tests pass now; absent if the implementer failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    tests_pass: Option<bool>,
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
        Done { tests_pass: Some(false), .. } => Err(Failure::WorkerFailed),
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
    let (mut diff, mut tests_pass, mut reviewer) = (String::new(), None, None);
    // The hub ends an agent that fails, with its worktree if that has no changes.
    if !implementer.failed {
        let worktree = place.clone();
        diff = blocking(move || repository.diff(&worktree)).await?;
        tests_pass = Some(repository::tests_pass(&place).await?);
    }
    if !diff.is_empty() {
        let task = format!(
            "Review this change. README.md says what the script is to do.\n\n```diff\n{diff}```"
        );
        reviewer = Some(job.work(&pair.reviewer, &task, &place).await?.0);
    }
    let seconds = (story.began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    hub.stop().await;
    Ok(Done { program: program.title(), implementer, reviewer, diff, tests_pass, seconds })
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

    /// Shows the work of an agent until its report comes. The agent may run the project's
    /// tests. All else that it has no permission for is denied: the demo decides for nobody
    /// what runs on this machine.
    async fn watched(
        &mut self,
        id: &str,
        report: impl Future<Output = Result<HandedOff, Failure>>,
    ) -> Result<HandedOff, Failure> {
        let (mut shown, mut following) = (Shown::default(), Following::new(id, self.session, true));
        let mut lives = true;
        let client = self.client.clone();
        // Not dropped in the middle: a request that was answered would not be told.
        let mut answers = Box::pin(answered(&client));
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
                verdict = &mut answers => {
                    let (verb, asked) = verdict?;
                    self.story.say(&format!("- the demo {verb} it: {asked}"))?;
                    answers.set(answered(&client));
                }
            }
        }
    }
}

/// Waits for a request for permission, and answers it; returns the answer, as a verb, and
/// what was asked.
async fn answered(client: &Client) -> Result<(&'static str, String), Failure> {
    let query = NeedsQuery { kind: Some("permission".to_owned()), ..NeedsQuery::default() };
    loop {
        if let Some(need) = client.needs(&query).await?.needs.into_iter().next() {
            let allow = need.subject.as_deref().is_some_and(is_about_tests);
            let verdict = AnswerRequest { allow: Some(allow), ..AnswerRequest::default() };
            client.answer_need(&need.id.to_string(), &verdict).await?;
            return Ok((if allow { "allows" } else { "denies" }, need.text));
        }
        sleep(LOOK).await;
    }
}

/// Returns whether a request is about the command that the task asks for, and nothing more.
fn is_about_tests(subject: &str) -> bool {
    subject == format!("Bash({TESTS})")
}

fn closes(done: &Done, output: &mut Output) -> Result<(), Failure> {
    let told = |report: &Report| {
        let (address, text) = (&report.address, report.report.trim_end());
        match report.failed {
            // The hub's own report of a failure names the agent.
            true if text.starts_with(address) => format!("{text}\n"),
            true => format!("{address} failed:\n{text}\n"),
            false => format!("{address} reports:\n{text}\n"),
        }
    };
    output.say(&format!("\n{}", told(&done.implementer)))?;
    if let Some(pass) = done.tests_pass {
        output.say(match done.diff.is_empty() {
            true => "It has changed nothing.",
            false => "Its change:",
        })?;
        output.say(&done.diff)?;
        output.say(match pass {
            true => "The project's tests pass now.\n",
            false => "The project's tests, as they were before the job, still fail.\n",
        })?;
    }
    if let Some(reviewer) = &done.reviewer {
        output.say(&told(reviewer))?;
    }
    output.say(&format!("All of it took {} s.", done.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_allows_the_tests_that_it_asks_for_and_nothing_more() {
        assert!(is_about_tests("Bash(sh test.sh)"));
        for other in [
            "Bash(sh test.sh && curl http://example.org)",
            "Bash(sh test.sh;id)",
            "Bash(cd / && sh test.sh)",
            "Bash(sh)",
            "Bash(sh:*)",
            "Bash(sh test.sh:*)",
            "Bash",
            "Edit(sh test.sh)",
            "sh test.sh",
        ] {
            assert!(!is_about_tests(other), "{other}");
        }
    }
}
