//! How a worker is doing, for a person who waits for it.

use posthaste_api::Client;
use posthaste_api::work::{Assigned, OutputQuery};
use tokio::time::Instant;

use crate::output::Output;
use crate::when;

pub(super) struct Watch {
    client: Client,
    instance: String,
    address: String,
    began: Instant,
    status: String,
    /// How far its output was read, and what was in it.
    from: u64,
    lines: usize,
    last: String,
}

impl Watch {
    pub(super) fn new(client: Client, given: &Assigned) -> Self {
        Self {
            client,
            instance: given.instance.clone(),
            address: given.address.clone(),
            began: Instant::now(),
            status: given.status.clone(),
            from: 0,
            lines: 0,
            last: String::new(),
        }
    }

    /// Looks again, and tells. A hub that does not answer is no news.
    pub(super) async fn look(&mut self, output: &mut Output) {
        if let Ok(view) = self.client.instance(&self.instance).await {
            self.status = match view.activity.as_str() {
                "unknown" => view.status,
                activity => format!("{}, {}", view.status, activity.replace('_', " ")),
            };
        }
        let query = OutputQuery { from: Some(self.from), ..OutputQuery::default() };
        if let Ok(part) = self.client.output(&self.instance, &query).await {
            self.from = part.next;
            self.reads(&part.text);
        }
        output.progress(&self.line(self.began.elapsed().as_secs()));
    }

    fn reads(&mut self, text: &str) {
        self.lines += text.matches('\n').count();
        if let Some(last) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            self.last = last.trim().to_owned();
        }
    }

    fn line(&self, seconds: u64) -> String {
        let time = match when::how_long(seconds) {
            none if none.is_empty() => "0 s".to_owned(),
            time => time,
        };
        let lines = match self.lines {
            0 => String::new(),
            1 => ", 1 line".to_owned(),
            n => format!(", {n} lines"),
        };
        let last = if self.last.is_empty() { String::new() } else { format!(": {}", self.last) };
        format!("{time}  {} {}{lines}{last}", self.address, self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_sees_how_long_how_it_is_and_what_it_wrote_last() {
        let mut watch = Watch {
            client: Client::new("http://127.0.0.1:1").expect("a good address"),
            instance: "a3f7b2c1".into(),
            address: "worker.a3f7b2c1@main".into(),
            began: Instant::now(),
            status: "running, busy".into(),
            from: 0,
            lines: 0,
            last: String::new(),
        };
        assert_eq!(watch.line(0), "0 s  worker.a3f7b2c1@main running, busy");
        watch.reads("one\ntwo\n  thr");
        watch.reads("ee\n\n");
        assert_eq!(watch.line(75), "75 s  worker.a3f7b2c1@main running, busy, 4 lines: ee");
    }
}
