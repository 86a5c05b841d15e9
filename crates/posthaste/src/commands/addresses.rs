//! The addresses behind ids: people read addresses, and the hub writes ids.

use std::collections::HashMap;

use posthaste_api::Client;
use posthaste_core::address::{InstanceId, Mailbox};

/// Addresses that were looked up, once each.
#[derive(Default)]
pub(super) struct Addresses(HashMap<InstanceId, String>);

impl Addresses {
    /// Adds an address that an answer contained.
    pub(super) fn know(&mut self, id: &str, address: &str) {
        if let Ok(id) = id.parse() {
            self.0.insert(id, address.to_owned());
        }
    }

    /// Looks up the instances that these ids and mailboxes name. An instance that cannot
    /// be looked up is shown by its id.
    pub(super) async fn learn<'a>(
        &mut self,
        client: &Client,
        words: impl IntoIterator<Item = &'a str>,
    ) {
        for id in words.into_iter().filter_map(instance) {
            if self.0.contains_key(&id) {
                continue;
            }
            let known = client.instance(&id.to_string()).await.map(|view| view.address);
            self.0.insert(id, known.unwrap_or_else(|_| id.to_string()));
        }
    }

    /// Returns an id or a mailbox in the form that people write.
    pub(super) fn shown(&self, word: &str) -> String {
        if let Some(id) = instance(word) {
            return self.0.get(&id).cloned().unwrap_or_else(|| id.to_string());
        }
        match word.parse() {
            Ok(Mailbox::Name(name)) => name.to_string(),
            Ok(Mailbox::NameIn(name, team)) => format!("{name}@{team}"),
            Ok(Mailbox::Anyone) => "@anyone".to_owned(),
            Ok(Mailbox::AnyoneIn(team)) => format!("@anyone@{team}"),
            Ok(Mailbox::Human | Mailbox::Instance(_)) | Err(_) => word.to_owned(),
        }
    }
}

fn instance(word: &str) -> Option<InstanceId> {
    match word.parse() {
        Ok(Mailbox::Instance(id)) => Some(id),
        _ => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_and_a_mailbox_are_shown_as_people_write_them() {
        let mut addresses = Addresses::default();
        addresses.know("a3f7b2c1", "bob.a3f7b2c1@main");
        for (word, told) in [
            ("a3f7b2c1", "bob.a3f7b2c1@main"),
            ("i.a3f7b2c1", "bob.a3f7b2c1@main"),
            ("i.00000001", "00000001"),
            ("n.bob", "bob"),
            ("n.bob@avalon", "bob@avalon"),
            ("any", "@anyone"),
            ("any@avalon", "@anyone@avalon"),
            ("human", "human"),
            ("alice.0000000a@main", "alice.0000000a@main"),
        ] {
            assert_eq!(addresses.shown(word), told);
        }
    }
}
