//! Workers with which the hub holds a conversation, in the words of Claude Code: scripts of
//! the shell that behave as no real program would.

mod floods;
mod going;
mod mail;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use posthaste_core::messaging::message::{
    Details, Draft, MessageRef, Principal, Priority, Receipt, Seq, Via,
};
use posthaste_core::needs::{Need, NeedId};
use posthaste_core::orchestration::{AgentsConfig, Assigned, TurnActivity};
use posthaste_core::ports::store::NeedsLook;
use posthaste_core::ports::{RecordState, TranscriptEntry, TranscriptKind};
use posthaste_core::registry::Status;
use serde_json::json;

use super::{Office, quick, until};

/// The words of the program. `next` hears a line, whose message is `$id`; all that it
/// heard is in the file `heard`.
pub(crate) const WORDS: &str = r#"
say() { printf '%s\n' "$1"; }
next() {
    IFS= read -r line || exit 0
    printf '%s\n' "$line" >> heard
    id=${line##*\"uuid\":\"}; id=${id%%\"*}
}
takes() { say "{\"type\":\"user\",\"isReplay\":true,\"uuid\":\"$id\",\"message\":{\"content\":\"\"}}"; }
speaks() { say "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}}"; }
begins() { takes; speaks working; }
ends() { say "{\"type\":\"result\",\"is_error\":false,\"result\":\"$1\",\"user_message_uuids\":[\"$id\"]}"; }
fails() { say "{\"type\":\"result\",\"is_error\":true,\"result\":\"$1\",\"user_message_uuids\":[\"$id\"]}"; }
asks() { say "{\"type\":\"control_request\",\"request_id\":\"$1\",\"request\":{\"subtype\":\"can_use_tool\",\"tool_name\":\"Bash\",\"input\":{\"command\":\"$2\"}}}"; }
cancels() { say "{\"type\":\"control_cancel_request\",\"request_id\":\"$1\"}"; }
waits() { until [ -e "$1" ]; do sleep 0.02; done; }
"#;

impl Office {
    /// A program that begins with the words of Claude Code. Each has a file of its own,
    /// because a shell reads its script bit by bit.
    fn program(&self, script: &str) -> PathBuf {
        let path = self.scratch.path().join(format!("program-{:x}", rand::random::<u64>()));
        fs::write(&path, format!("#!/bin/sh\n{WORDS}\n{script}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        path
    }

    /// A worker with this script, which was given `the task`.
    async fn talks(&self, script: &str) -> Assigned {
        let config = json!({ "command": ["/bin/sh", self.program(script)] });
        self.profile_of("talker", Some("claude"), config).await;
        let assigned = self.assign("talker", "the task").await.expect("assigned");
        // The next script takes the place of this one in the profile.
        until(|| self.status(&assigned) != Status::Starting).await;
        assigned
    }

    /// What the program has heard: one line for each message.
    fn heard(&self, of: &Assigned) -> Vec<String> {
        let text = fs::read_to_string(self.folder(of).join("work/heard")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn transcript(&self, of: &Assigned) -> Vec<TranscriptEntry> {
        let page = self.hub.transcript(of.instance.id, 0, usize::MAX).await.expect("readable");
        page.map(|page| page.entries).unwrap_or_default()
    }

    /// Whether the transcript has an entry of this kind with this text in it.
    async fn shows(&self, of: &Assigned, kind: TranscriptKind, text: &str) -> bool {
        let entries = self.transcript(of).await;
        entries.iter().any(|entry| entry.kind == kind && entry.text.contains(text))
    }

    async fn until_idle(&self, of: &Assigned) {
        until(|| self.hub.turn_activity(of.instance.id) == Some(TurnActivity::Idle)).await;
    }

    async fn writes(&self, to: &Assigned, text: &str, priority: Priority) -> Receipt {
        let to = to.instance.id.to_string().parse().expect("an address");
        let (from, details) = (Principal::Operator, Details { priority, ..Details::default() });
        let draft = Draft::new(from, to, text.into(), details, Via::Rest, self.hub.limits());
        self.hub.send(draft.expect("within the limits")).await.expect("accepted")
    }

    async fn state(&self, seq: Seq) -> RecordState {
        let record = self.hub.message(Principal::Operator, MessageRef::Seq(seq)).await;
        record.expect("a look").expect("kept").deliveries[0].state
    }

    async fn text(&self, seq: Seq) -> String {
        let record = self.hub.message(Principal::Operator, MessageRef::Seq(seq)).await;
        record.expect("a look").expect("kept").message.body.to_string()
    }

    async fn until_state(&self, seq: Seq, state: RecordState) {
        let mut events = self.hub.last_event();
        loop {
            events.borrow_and_update();
            let now = self.state(seq).await;
            if now == state {
                return;
            }
            let news = tokio::time::timeout(crate::world::PATIENCE, events.changed()).await;
            assert!(matches!(news, Ok(Ok(()))), "it stays {now:?}");
        }
    }

    async fn needs(&self) -> Vec<Need> {
        let (after, kind, most) = (NeedId(0), None, usize::MAX);
        let look = NeedsLook::After { after, kind, open_only: true, most };
        self.hub.needs(look).await.expect("a look")
    }
}

fn go(office: &Office, of: &Assigned, file: &str) {
    fs::write(office.folder(of).join("work").join(file), "").expect("written");
}

fn with_output(output_bytes: u64) -> AgentsConfig {
    AgentsConfig { output_bytes, ..quick() }
}
