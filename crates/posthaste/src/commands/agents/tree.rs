//! The agents and their parents, as a tree.

use std::collections::{BTreeMap, HashSet};

use posthaste_api::instances::InstanceView;

use crate::commands::poll::state;
use crate::when;

/// Draws each agent below its parent; the human's own workers below `human`.
pub(super) fn tree(found: &[InstanceView], now: jiff::Timestamp) -> String {
    let here: HashSet<&str> = found.iter().map(|agent| agent.instance.as_str()).collect();
    let mut below: BTreeMap<Option<&str>, Vec<&InstanceView>> = BTreeMap::new();
    for agent in found {
        let parent = agent.parent.as_deref().filter(|parent| here.contains(parent));
        below.entry(parent).or_default().push(agent);
    }
    for list in below.values_mut() {
        list.sort_by(|a, b| (&a.created_at, &a.instance).cmp(&(&b.created_at, &b.instance)));
    }
    let top = below.get(&None).cloned().unwrap_or_default();
    let (workers, guests): (Vec<_>, Vec<_>) =
        top.into_iter().partition(|agent| agent.session.is_some());
    let mut lines = Vec::new();
    let mut draw = Drawing { below: &below, now, lines: &mut lines };
    if !workers.is_empty() {
        draw.lines.push("human".to_owned());
        draw.children(&workers, "");
    }
    for guest in guests {
        draw.agent(guest, "", "", "");
    }
    lines.join("\n")
}

struct Drawing<'a> {
    below: &'a BTreeMap<Option<&'a str>, Vec<&'a InstanceView>>,
    now: jiff::Timestamp,
    lines: &'a mut Vec<String>,
}

impl Drawing<'_> {
    fn agent(&mut self, agent: &InstanceView, margin: &str, branch: &str, stem: &str) {
        // One line, also if a label contains line breaks.
        let label = agent.label.as_ref().map(|label| format!("  [{label}]")).unwrap_or_default();
        let age = when::ago(&agent.created_at, self.now);
        let line = format!("{}  {}{label}  {age}", agent.address, state(agent));
        self.lines.push(format!("{margin}{branch}{}", line.replace(['\n', '\t'], " ")));
        // No agent is its own ancestor: a parent was here before its child.
        if let Some(children) = self.below.get(&Some(agent.instance.as_str())) {
            self.children(children, &format!("{margin}{stem}"));
        }
    }

    fn children(&mut self, children: &[&InstanceView], margin: &str) {
        for (n, child) in children.iter().enumerate() {
            match n + 1 == children.len() {
                true => self.agent(child, margin, "└─ ", "   "),
                false => self.agent(child, margin, "├─ ", "│  "),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(id: &str, name: &str, parent: Option<&str>, session: Option<&str>) -> InstanceView {
        let view = serde_json::json!({
            "instance": id, "address": format!("{name}.{id}@main"), "agent": name, "team": "main",
            "kind": "external", "status": "running", "activity": "busy", "parent": parent,
            "session": session, "thread_id": "t-12345678", "unread": 0,
            "created_at": format!("2026-03-04T11:59:{id}Z"), "last_seen": "2026-03-04T12:00:00Z",
        });
        serde_json::from_value(view).expect("an instance")
    }

    #[test]
    fn everybody_stands_under_whom_they_work_for() {
        let now = "2026-03-04T12:00:00Z".parse().expect("a time");
        let mut boss = agent("10", "boss", None, None);
        boss.activity = "unknown".into();
        let mut part = agent("20", "worker", Some("10"), Some("10"));
        part.label = Some("part\n1".into());
        let found = [
            agent("40", "writer", None, Some("human")),
            agent("30", "worker", Some("10"), Some("10")),
            boss,
            part,
            agent("50", "helper", Some("20"), Some("10")),
            agent("51", "orphan", Some("99"), Some("human")),
        ];
        assert_eq!(
            tree(&found, now),
            "human\n\
             ├─ writer.40@main  running, busy  20 s ago\n\
             └─ orphan.51@main  running, busy  9 s ago\n\
             boss.10@main  running  50 s ago\n\
             ├─ worker.20@main  running, busy  [part 1]  40 s ago\n\
             │  └─ helper.50@main  running, busy  10 s ago\n\
             └─ worker.30@main  running, busy  30 s ago"
        );
    }
}
