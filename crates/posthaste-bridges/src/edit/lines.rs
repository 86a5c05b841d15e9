//! Lines of `key=value`. A key that the owner has set keeps the owner's value.

use serde_json::{Map, Value};

use super::Entry;

pub(super) fn put(text: &str, entries: &[Entry]) -> Option<String> {
    let mut new = text.to_owned();
    for (key, value) in settings(entries) {
        if value_of(&new, key).is_none() {
            if !new.is_empty() && !new.ends_with('\n') {
                new.push('\n');
            }
            new.push_str(&format!("{key}={value}\n"));
        }
    }
    (new != text).then_some(new)
}

/// Removes the lines that equal ours, except for keys that were in the file before.
pub(super) fn take(text: &str, before: &Value, entries: &[Entry]) -> Option<String> {
    let ours = |line: &&str| {
        settings(entries)
            .any(|(key, value)| before.get(key).is_none() && setting(line) == Some((key, value)))
    };
    let kept: String = text.split_inclusive('\n').filter(|line| !ours(line)).collect();
    (kept != text).then_some(kept)
}

pub(super) fn value(text: &str) -> Value {
    let pairs = text.lines().filter_map(setting);
    let pairs = pairs.map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn settings(entries: &[Entry]) -> impl Iterator<Item = (&str, &str)> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Key { path, value } => Some((path.first()?.as_str(), value.as_str()?)),
        _ => None,
    })
}

fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().filter_map(setting).find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn setting(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ours() -> Vec<Entry> {
        vec![Entry::key(&["retries"], json!("0")), Entry::key(&["limit"], json!("9"))]
    }

    #[test]
    fn our_lines_are_added_once_and_taken_out_again() {
        for (text, new) in [
            ("", "retries=0\nlimit=9\n"),
            ("# retries=3\na=b", "# retries=3\na=b\nretries=0\nlimit=9\n"),
            ("retries = 3\n", "retries = 3\nlimit=9\n"),
        ] {
            let put_in = put(text, &ours()).expect("a change");
            assert_eq!(put_in, new);
            assert_eq!(put(&put_in, &ours()), None, "twice");
            let left = take(&put_in, &value(text), &ours()).expect("a change");
            assert_eq!(left.trim_end(), text.trim_end());
        }
        assert_eq!(take("retries=3\n", &json!({}), &ours()), None, "not ours");
        assert_eq!(take("retries=0\n", &value("retries=0\n"), &ours()), None, "there before");
    }
}
