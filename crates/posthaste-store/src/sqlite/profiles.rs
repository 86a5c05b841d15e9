//! Profiles, and the search for them.

use posthaste_core::address::Name;
use posthaste_core::profiles::{Profile, ProfilePage, Source, Template};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::errors::ReadResult;
use super::reader::at_one_moment;
use super::rows::{Cells, Table};

/// Words of a query that are used. More would only make a search slow.
const MOST_WORDS: usize = 64;
/// A word that so many profiles have is common, and says little.
const COMMON: u32 = 1_000;

/// The table with all columns; a listing passes an empty text as the prompt.
macro_rules! profiles {
    ($prompt:literal) => {
        Table {
            name: "profiles",
            key: "name",
            columns: &[
                "name",
                "title",
                "description",
                "kind",
                "driver",
                "tags",
                "tools",
                "config",
                "source",
                "version",
                "created_at",
                "updated_at",
                "allowed_tools",
                "services",
                $prompt,
            ],
        }
    };
}

static WHOLE: Table = profiles!("system_prompt");
static LISTED: Table = profiles!("'' AS system_prompt");

/// Writes a new profile, or a new version of one.
pub(crate) fn write(db: &Connection, profile: &Profile) -> rusqlite::Result<()> {
    let t = &profile.template;
    let sql = "INSERT INTO profiles (name, title, description, kind, driver, system_prompt, tags, \
         tools, config, source, version, created_at, updated_at, allowed_tools, services) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
         ON CONFLICT (name) DO UPDATE SET title = excluded.title, \
         description = excluded.description, kind = excluded.kind, driver = excluded.driver, \
         system_prompt = excluded.system_prompt, tags = excluded.tags, tools = excluded.tools, \
         config = excluded.config, source = excluded.source, version = excluded.version, \
         created_at = excluded.created_at, updated_at = excluded.updated_at, \
         allowed_tools = excluded.allowed_tools, services = excluded.services";
    let list = |list: &Option<Vec<String>>| list.as_deref().map(list_text);
    db.prepare_cached(sql)?.execute(params![
        t.name.as_str(),
        t.title,
        t.description,
        t.kind.as_str(),
        t.driver,
        t.system_prompt,
        list_text(&t.tags),
        list(&t.tools),
        t.config,
        profile.source.as_str(),
        profile.version,
        profile.created_at.0,
        profile.updated_at.0,
        list(&t.allowed_tools),
        list(&t.services),
    ])?;
    Ok(())
}

pub(crate) fn remove(db: &Connection, name: &Name) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM profiles WHERE name = ?1")?.execute(params![name.as_str()])?;
    Ok(())
}

fn read(cells: &Cells<'_, '_>) -> ReadResult<Profile> {
    Ok(Profile {
        template: Template {
            name: cells.read("name", |name| Name::kept(name).ok())?,
            title: cells.get("title")?,
            description: cells.get("description")?,
            kind: cells.read("kind", |kind| kind.parse().ok())?,
            driver: cells.get("driver")?,
            tags: cells.read("tags", read_list)?,
            tools: cells.read_optional("tools", read_list)?,
            allowed_tools: cells.read_optional("allowed_tools", read_list)?,
            services: cells.read_optional("services", read_list)?,
            config: cells.get("config")?,
            system_prompt: cells.get("system_prompt")?,
        },
        source: Source::read(cells.text("source")?),
        version: cells.get("version")?,
        created_at: Timestamp(cells.get("created_at")?),
        updated_at: Timestamp(cells.get("updated_at")?),
    })
}

pub(crate) fn one(db: &Connection, name: &Name) -> ReadResult<Option<Profile>> {
    let mut select = db.prepare_cached(&WHOLE.select("WHERE name = ?1"))?;
    let mut rows = select.query(params![name.as_str()])?;
    rows.next()?.map(|row| read(&Cells::new(&WHOLE, row))).transpose()
}

fn listed(db: &Connection, sql: &str, params: impl rusqlite::Params) -> ReadResult<Vec<Profile>> {
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(&Cells::new(&LISTED, row))?);
    }
    Ok(found)
}

/// Returns a page and the total, both from one state of the database.
pub(crate) fn page(db: &Connection, skip: u64, most: u32) -> ReadResult<ProfilePage> {
    let sql = LISTED.select("ORDER BY name LIMIT ?1 OFFSET ?2");
    at_one_moment(db, || {
        let items = listed(db, &sql, params![most, skip])?;
        let total = db.query_row("SELECT count(*) FROM profiles", [], |row| row.get(0))?;
        Ok(ProfilePage { items, total })
    })
}

/// Returns the profiles that have these words, best first.
pub(crate) fn search(db: &Connection, text: &str, most: u32) -> ReadResult<Vec<Profile>> {
    let words = words(text);
    let Some(expression) = candidates(db, &words, most)? else { return Ok(Vec::new()) };
    // Rank by number first, so that only the shown profiles are read whole. A name says
    // most, then title and tags, then the description.
    let ranked = "(SELECT rowid AS found, bm25(profile_words, 8.0, 4.0, 1.0, 4.0) AS score \
         FROM profile_words WHERE profile_words MATCH ?1 ORDER BY score, found LIMIT ?2)";
    let sql = LISTED.select_from(&format!(
        "{ranked} CROSS JOIN profiles ON profiles.no = found ORDER BY score, name"
    ));
    listed(db, &sql, params![expression, most])
}

/// Returns a query for the profiles to rank. Ranking takes time for each profile that
/// fits, and a common word fits nearly all. So the query is the first that fills the
/// answer: profiles that have all the words; profiles that have a word that is not common;
/// profiles that have any word. For a single common word: profiles that have it in name,
/// title or tags.
fn candidates(db: &Connection, words: &[String], most: u32) -> rusqlite::Result<Option<String>> {
    let Some(last) = words.last() else { return Ok(None) };
    let unfinished = hits(db, last, most)? < most;
    let any = any_of(words, unfinished);
    if words.len() == 1 {
        // A word in a name or a tag says more than one in a description.
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
            // The common words still count for the rank.
            return Ok(Some(format!("({rare}) AND ({any})")));
        }
    }
    Ok(Some(any))
}

/// Counts the profiles that fit, up to `most`.
fn hits(db: &Connection, expression: &str, most: u32) -> rusqlite::Result<u32> {
    let sql = "SELECT count(*) FROM \
         (SELECT 1 FROM profile_words WHERE profile_words MATCH ?1 LIMIT ?2)";
    db.prepare_cached(sql)?.query_row(params![expression, most], |row| row.get(0))
}

/// Splits any text into words, each in quotes, so that none is an operator.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(MOST_WORDS).map(|word| format!("\"{word}\"")).collect()
}

/// Returns a query that one word satisfies; profiles with more words rank higher. If
/// `unfinished`, the last word also fits as the beginning of a longer one.
fn any_of(words: &[String], unfinished: bool) -> String {
    let all = words.join(" OR ");
    match words.last().filter(|_| unfinished) {
        Some(last) => format!("{all} OR {last}*"),
        None => all,
    }
}

/// Writes a list of texts as a JSON array.
fn list_text(list: &[String]) -> String {
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
