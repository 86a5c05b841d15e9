//! Compares the index with FTS5.

use rusqlite::{Connection, params};

use super::*;

fn fts5() -> Connection {
    let db = Connection::open_in_memory().expect("a database");
    let table = "CREATE VIRTUAL TABLE docs USING fts5(name, title, description, tags, \
        tokenize = 'unicode61 remove_diacritics 2'); \
        CREATE VIRTUAL TABLE words USING fts5vocab(docs, instance);";
    db.execute_batch(table).expect("a table");
    db
}

fn insert(db: &Connection, row: u64, columns: &[String; 4]) {
    let [name, title, description, tags] = columns;
    db.execute(
        "INSERT INTO docs (rowid, name, title, description, tags) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![row, name, title, description, tags],
    )
    .expect("a row");
}

#[test]
fn letters_of_european_alphabets_are_folded_as_fts5_folds_them() {
    let db = fts5();
    let ranges = [0x21..0x250_u32, 0x300..0x332, 0x386..0x3f0, 0x400..0x528, 0x1e00..0x1f00];
    let letters = ranges.into_iter().flatten().filter_map(char::from_u32);
    // FTS5 takes characters for letters that its Unicode version does not define.
    let known = letters.filter(|c| c.is_ascii() || c.is_alphanumeric() || is_mark(*c));
    let texts: Vec<String> = known.map(|c| format!("a{c}b {c}")).collect();
    for (row, text) in (1..).zip(&texts) {
        let columns = [text.clone(), String::new(), String::new(), String::new()];
        insert(&db, row, &columns);
    }
    let mut select =
        db.prepare("SELECT term FROM words WHERE doc = ?1 ORDER BY offset").expect("a statement");
    let mut different = Vec::new();
    for (row, text) in (1_u64..).zip(&texts) {
        let theirs: Vec<String> = select
            .query_map(params![row], |row| row.get(0))
            .and_then(Iterator::collect)
            .expect("words");
        if theirs != tokens(text) {
            different.push((text, theirs, tokens(text)));
        }
    }
    assert!(different.is_empty(), "{} differ: {different:?}", different.len());
}

/// A generator of random numbers that always gives the same ones.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % most
    }

    fn text(&mut self, most: usize) -> String {
        const VOCABULARY: [&str; 14] = [
            "rust",
            "Rust",
            "rustic",
            "review",
            "reviewer",
            "Übersicht",
            "über",
            "test",
            "tests",
            "a",
            "the",
            "naïve",
            "42",
            "data-base",
        ];
        let count = self.below(most + 1);
        let words: Vec<&str> =
            (0..count).map(|_| VOCABULARY[self.below(VOCABULARY.len())]).collect();
        words.join([" ", ", ", "/"][self.below(3)])
    }
}

/// Writes the phrase as a query of FTS5.
fn expression(phrase: &Phrase) -> String {
    let names: Vec<String> =
        phrase.columns.iter().map(|c| format!("{c:?}").to_lowercase()).collect();
    let star = if phrase.begins { "*" } else { "" };
    format!("({{{}}} : \"{}\"{star})", names.join(" "), phrase.word)
}

#[test]
fn rows_are_ranked_as_fts5_ranks_them() {
    let (db, mut index, mut dice) = (fts5(), Index::default(), Dice(7));
    let mut rows = BTreeMap::new();
    for row in 1..=200 {
        let columns = [dice.text(2), dice.text(4), dice.text(20), dice.text(5)];
        insert(&db, row, &columns);
        index.add(row, &columns);
        rows.insert(row, columns);
    }
    for row in (1..=200).step_by(3) {
        db.execute("DELETE FROM docs WHERE rowid = ?1", params![row]).expect("removed");
        index.remove(row, &rows[&row]);
    }
    let sql = "SELECT bm25(docs, 8.0, 4.0, 1.0, 4.0) AS score, rowid FROM docs \
        WHERE docs MATCH ?1 ORDER BY score, rowid";
    let mut select = db.prepare(sql).expect("a statement");
    let mut compared = 0;
    for _ in 0..200 {
        let mut phrases = Vec::new();
        for word in tokens(&dice.text(4)) {
            let phrase = Phrase::whole(&word);
            match dice.below(4) {
                0 => phrases.push(phrase.beginning()),
                1 => phrases.push(phrase.within(&[Column::Name, Column::Title, Column::Tags])),
                2 => phrases.extend([phrase.beginning(), phrase]),
                _ => phrases.push(phrase),
            }
        }
        if phrases.is_empty() {
            continue;
        }
        let any: HashSet<u64> = phrases.iter().flat_map(|phrase| index.having(phrase)).collect();
        let expressions: Vec<String> = phrases.iter().map(expression).collect();
        let theirs: Vec<(f64, u64)> = select
            .query_map(params![expressions.join(" OR ")], |row| {
                Ok((-row.get::<_, f64>(0)?, row.get(1)?))
            })
            .and_then(Iterator::collect)
            .expect("a rank");
        assert_eq!(index.rank(&phrases, &any), theirs, "{expressions:?}");
        compared += theirs.len();
    }
    assert!(compared > 5_000, "{compared}");
}

#[test]
fn an_index_from_which_everything_was_removed_holds_nothing() {
    let (mut index, mut dice) = (Index::default(), Dice(1));
    let texts: Vec<[String; 4]> =
        (0..50).map(|_| [dice.text(3), dice.text(3), dice.text(3), dice.text(3)]).collect();
    (0..).zip(&texts).for_each(|(row, columns)| index.add(row, columns));
    (0..).zip(&texts).for_each(|(row, columns)| index.remove(row, columns));
    assert!(index.words.is_empty() && index.lengths.is_empty() && index.total_length == 0);
}
