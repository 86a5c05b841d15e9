//! `posthaste echo`: the agent of CAO's provider `mock_cli`, which answers each line.
//!
//! A worker with `stdin: mail`: one JSON object a line. It answers work with a result,
//! acks other mail, and writes every answer to its stdout as well.

use std::io::stdin;
use std::time::Duration;

use posthaste_api::client::ClientError;
use posthaste_api::inbox::SettleRequest;
use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_api::{Client, ErrorCode};
use serde::Deserialize;

use super::Session;
use crate::failure::{Failure, invalid};
use crate::output::Output;

/// Time before a hub that does not answer is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// A line of a worker's mail.
#[derive(Debug, Deserialize)]
struct Line {
    id: u64,
    from: String,
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

pub(super) async fn run(session: &Session, output: &mut Output) -> Result<(), Failure> {
    let client = session.client()?;
    // Nothing else is to be done meanwhile, so the wait for a line may block.
    for line in stdin().lines() {
        let line = line.map_err(|e| invalid(format!("stdin cannot be read: {e}")))?;
        let line: Line = serde_json::from_str(&line)
            .map_err(|e| invalid(format!("stdin brings mail, one JSON object a line: {e}")))?;
        let answer = echo(&line.message);
        output.raw(format!("{answer}\n").as_bytes())?;
        output.flush()?;
        answer_to(&client, &line, &answer).await?;
    }
    Ok(())
}

fn echo(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> MOCK: {line}")).collect();
    lines.join("\n")
}

/// Tells the hub, which may be starting anew just now.
async fn answer_to(client: &Client, line: &Line, answer: &str) -> Result<(), Failure> {
    loop {
        let told = match line.kind.as_str() {
            "directive" => {
                let result = SendRequest {
                    kind: Some("result".to_owned()),
                    in_reply_to: Some(MessageRef::Seq(line.id)),
                    // A line that comes again is answered once.
                    idempotency_key: Some(format!("echo {}", line.id)),
                    ..SendRequest::new(&line.from, answer)
                };
                client.send(&result).await.map(drop)
            }
            _ => {
                let ids = Some(vec![MessageRef::Seq(line.id)]);
                client.ack(&SettleRequest { ids, receipt: None }).await.map(drop)
            }
        };
        match told {
            Ok(()) => return Ok(()),
            Err(ClientError::Api(error)) if error.code != ErrorCode::Unavailable => {
                tracing::debug!(%error, "an answer was not taken");
                return Ok(());
            }
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_answered() {
        assert_eq!(echo("one"), "> MOCK: one");
        assert_eq!(echo("one\ntwo\n"), "> MOCK: one\n> MOCK: two");
        assert_eq!(echo(""), "");
    }
}
