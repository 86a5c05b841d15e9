//! Profiles on disk, and the search for them.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use posthaste_core::address::Name;
use posthaste_core::ports::{Profiles, Started, StoreError};
use posthaste_core::profiles::{Profile, ProfilePage, PutProfile, Source, Template, Written};
use posthaste_core::registry::RegistryError;
use posthaste_core::time::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{SqliteStore, ops, stopping};

/// Words of a query that count. More would only make a search slow.
const MOST_WORDS: usize = 64;
/// A word that so many profiles have says little.
const COMMON: u32 = 1_000;

/// All columns but the prompt, which comes last.
const HEAD: &str = "p.name, p.title, p.description, p.kind, p.driver, p.tags, p.tools, p.config, \
    p.source, p.version, p.created_at, p.updated_at, p.allowed_tools, p.services";

impl Profiles for SqliteStore {
    fn put_profile(&self, put: PutProfile) -> Started<Written, RegistryError> {
        let answer = self.shared.commands.push(|tx| ops::profiles::Put::new(put, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    fn remove_profile(&self, name: Name, by: Source) -> Started<usize, RegistryError> {
        let answer = self.shared.commands.push(|tx| ops::profiles::Remove::new(name, by, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    fn profile(&self, name: Name) -> BoxFuture<'_, Result<Option<Profile>, StoreError>> {
        self.shared.readers.query(move |db| one(db, &name)).boxed()
    }

    fn profiles(&self, skip: u64, most: u32) -> BoxFuture<'_, Result<ProfilePage, StoreError>> {
        self.shared.readers.query(move |db| page(db, skip, most)).boxed()
    }

    fn search_profiles(
        &self,
        words: String,
        most: u32,
    ) -> BoxFuture<'_, Result<Vec<Profile>, StoreError>> {
        self.shared.readers.query(move |db| search(db, &words, most)).boxed()
    }

    fn profiles_of_files(&self) -> Vec<(Name, Arc<str>)> {
        self.shared.ledger.lock().profiles_of_files()
    }
}

/// Returns when the profile was first kept.
pub(crate) fn upsert(db: &Connection, row: impl Params) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO profiles (name, title, description, kind, driver, system_prompt, tags, \
         tools, config, source, version, created_at, updated_at, allowed_tools, services) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14) \
         ON CONFLICT (name) DO UPDATE SET title = excluded.title, \
         description = excluded.description, kind = excluded.kind, driver = excluded.driver, \
         system_prompt = excluded.system_prompt, tags = excluded.tags, tools = excluded.tools, \
         config = excluded.config, source = excluded.source, version = excluded.version, \
         updated_at = excluded.updated_at, allowed_tools = excluded.allowed_tools, \
         services = excluded.services \
         RETURNING created_at";
    db.prepare_cached(sql)?.query_row(row, |row| row.get(0))
}

fn profile(row: &Row<'_>) -> rusqlite::Result<Profile> {
    let bad = |at: usize, why: String| {
        rusqlite::Error::FromSqlConversionFailure(at, Type::Text, why.into())
    };
    let list = |at: usize, text: &str| read_list(text).ok_or_else(|| bad(at, text.to_owned()));
    let name = row.get_ref(0)?.as_str()?;
    let optional = |at: usize| {
        let text: Option<String> = row.get(at)?;
        text.map(|text| list(at, &text)).transpose()
    };
    Ok(Profile {
        template: Template {
            name: Name::kept(name).map_err(|_| bad(0, name.to_owned()))?,
            title: row.get(1)?,
            description: row.get(2)?,
            kind: row.get_ref(3)?.as_str()?.parse().unwrap_or_default(),
            driver: row.get(4)?,
            tags: list(5, row.get_ref(5)?.as_str()?)?,
            tools: optional(6)?,
            allowed_tools: optional(12)?,
            services: optional(13)?,
            config: row.get(7)?,
            system_prompt: row.get(14)?,
        },
        source: Source::read(row.get_ref(8)?.as_str()?),
        version: row.get(9)?,
        created_at: Timestamp(row.get(10)?),
        updated_at: Timestamp(row.get(11)?),
    })
}

fn one(db: &Connection, name: &Name) -> rusqlite::Result<Option<Profile>> {
    let sql = format!("SELECT {HEAD}, p.system_prompt FROM profiles p WHERE p.name = ?1");
    db.prepare_cached(&sql)?.query_row(params![name.as_str()], profile).optional()
}

/// One statement, so that page and total are of the same moment.
fn page(db: &Connection, skip: u64, most: u32) -> rusqlite::Result<ProfilePage> {
    let sql = format!(
        "SELECT {HEAD}, '', (SELECT count(*) FROM profiles) FROM (SELECT 1) \
         LEFT JOIN (SELECT * FROM profiles ORDER BY name LIMIT ?1 OFFSET ?2) p ORDER BY p.name"
    );
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![most, skip])?;
    let mut page = ProfilePage { items: Vec::new(), total: 0 };
    while let Some(row) = rows.next()? {
        page.total = row.get(15)?;
        // Beyond the end there is the total and nothing else.
        if row.get::<_, Option<String>>(0)?.is_some() {
            page.items.push(profile(row)?);
        }
    }
    Ok(page)
}

fn search(db: &Connection, text: &str, most: u32) -> rusqlite::Result<Vec<Profile>> {
    let words = words(text);
    let Some(expression) = candidates(db, &words, most)? else { return Ok(Vec::new()) };
    // Ranked by number first: only what is shown is read whole. A name says most,
    // then what it is filed under, then what is told about it.
    let sql = format!(
        "SELECT {HEAD}, '' FROM (SELECT rowid AS no, \
         bm25(profile_words, 8.0, 4.0, 1.0, 4.0) AS score FROM profile_words \
         WHERE profile_words MATCH ?1 ORDER BY score, no LIMIT ?2) AS found \
         JOIN profiles p ON p.no = found.no ORDER BY found.score, p.name"
    );
    db.prepare_cached(&sql)?.query_map(params![expression, most], profile)?.collect()
}

/// What is worth ranking. To rank takes time for each profile that fits, and a
/// common word fits nearly all. So, where that is enough to fill the answer: those
/// that have all the words; else those that have one that is not common; else all
/// that have any. Of one common word alone: those that bear it.
fn candidates(db: &Connection, words: &[String], most: u32) -> rusqlite::Result<Option<String>> {
    let Some(last) = words.last() else { return Ok(None) };
    let unfinished = hits(db, last, most)? < most;
    let any = any_of(words, unfinished);
    if words.len() == 1 {
        // In a name or a tag it says more than anywhere else.
        let named = format!("{{name title tags}} : {last}");
        let enough = hits(db, last, COMMON)? >= COMMON && hits(db, &named, most)? >= most;
        return Ok(Some(if enough { named } else { any }));
    }
    let every = words.join(" AND ");
    if hits(db, &every, most)? >= most {
        return Ok(Some(every));
    }
    let mut rare = Vec::new();
    for word in words {
        if hits(db, word, COMMON)? < COMMON {
            rare.push(word.clone());
        }
    }
    if !rare.is_empty() && rare.len() < words.len() {
        let rare = rare.join(" OR ");
        if hits(db, &rare, most)? >= most {
            // The common words count for the rank.
            return Ok(Some(format!("({rare}) AND ({any})")));
        }
    }
    Ok(Some(any))
}

/// How many profiles fit, counted up to `most`.
fn hits(db: &Connection, expression: &str, most: u32) -> rusqlite::Result<u32> {
    let sql = "SELECT count(*) FROM \
         (SELECT 1 FROM profile_words WHERE profile_words MATCH ?1 LIMIT ?2)";
    db.prepare_cached(sql)?.query_row(params![expression, most], |row| row.get(0))
}

/// Any text as words, each in quotes, so that none is an operator.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(MOST_WORDS).map(|word| format!("\"{word}\"")).collect()
}

/// One word is enough, more rank higher. The last may be the beginning of a longer
/// one, unless enough have it as a whole.
fn any_of(words: &[String], unfinished: bool) -> String {
    let all = words.join(" OR ");
    match words.last().filter(|_| unfinished) {
        Some(last) => format!("{all} OR {last}*"),
        None => all,
    }
}

/// A JSON array of texts.
pub(crate) fn list_text(list: &[String]) -> String {
    serde_json::Value::from(list).to_string()
}

fn read_list(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_good_query() {
        let read = |text: &str| any_of(&words(text), true);
        assert_eq!(read("rust rev"), r#""rust" OR "rev" OR "rev"*"#);
        assert_eq!(any_of(&words("rust rev"), false), r#""rust" OR "rev""#);
        assert_eq!(
            read("a AND NOT (b* OR \"c\") NEAR/2 name:d -e^f"),
            r#""a" OR "AND" OR "NOT" OR "b" OR "OR" OR "c" OR "NEAR" OR "2" OR "name" OR "d" OR "e" OR "f" OR "f"*"#
        );
        for nothing in ["", "  ", "\"", "*", "-- ;", "🦀", "\u{0}", "()"] {
            assert!(words(nothing).is_empty(), "{nothing:?}");
        }
        assert_eq!(words(&"word ".repeat(10_000)).len(), MOST_WORDS);
    }
}
