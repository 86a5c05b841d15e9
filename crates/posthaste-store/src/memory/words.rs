//! An index of words, ranked as SQLite's FTS5 does it: BM25 over four columns of different
//! weight, words folded as its tokenizer `unicode61 remove_diacritics 2` does.
//!
//! The letters of European alphabets are folded alike. Elsewhere a few things differ: a
//! character is part of a word if Rust says that it is alphanumeric. The tokenizer knows an
//! older Unicode: it takes characters that came later (many emoji) for letters, and takes
//! the vowel signs of Indic scripts for none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

const K1: f64 = 1.2;
const B: f64 = 0.75;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    Title,
    Description,
    Tags,
}

impl Column {
    const ALL: [Self; 4] = [Self::Name, Self::Title, Self::Description, Self::Tags];

    /// A name says most, then title and tags, then the description.
    fn weight(self) -> f64 {
        match self {
            Self::Name => 8.0,
            Self::Title | Self::Tags => 4.0,
            Self::Description => 1.0,
        }
    }
}

/// A word to look for.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    word: String,
    /// Longer words that begin with `word` fit, too.
    begins: bool,
    columns: Vec<Column>,
}

impl Phrase {
    pub(super) fn whole(word: &str) -> Self {
        Self { word: word.to_owned(), begins: false, columns: Column::ALL.to_vec() }
    }

    pub(super) fn beginning(&self) -> Self {
        Self { begins: true, ..self.clone() }
    }

    pub(super) fn within(&self, columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), ..self.clone() }
    }
}

/// The number of occurrences of a word in each column of a row.
type Occurrences = [u32; 4];

#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    words: BTreeMap<String, BTreeMap<u64, Occurrences>>,
    /// Number of words in each row.
    lengths: HashMap<u64, u64>,
    total_length: u64,
}

impl Index {
    pub(super) fn add(&mut self, row: u64, columns: &[String; 4]) {
        let mut length = 0;
        for (column, text) in columns.iter().enumerate() {
            for word in tokens(text) {
                self.words.entry(word).or_default().entry(row).or_default()[column] += 1;
                length += 1;
            }
        }
        self.lengths.insert(row, length);
        self.total_length += length;
    }

    /// Removes a row with the columns that it was added with.
    pub(super) fn remove(&mut self, row: u64, columns: &[String; 4]) {
        for word in columns.iter().flat_map(|text| tokens(text)) {
            if let Some(rows) = self.words.get_mut(&word) {
                rows.remove(&row);
                if rows.is_empty() {
                    self.words.remove(&word);
                }
            }
        }
        self.total_length -= self.lengths.remove(&row).unwrap_or(0);
    }

    /// Returns the rows that have this word.
    pub(super) fn having(&self, phrase: &Phrase) -> HashSet<u64> {
        self.frequencies(phrase).into_keys().collect()
    }

    /// Counts this word in each row; an occurrence counts as much as its column weighs.
    fn frequencies(&self, phrase: &Phrase) -> HashMap<u64, f64> {
        let begin = self.words.range::<str, _>((Bound::Included(&*phrase.word), Bound::Unbounded));
        let fits = |word: &str| match phrase.begins {
            true => word.starts_with(&phrase.word),
            false => word == phrase.word,
        };
        let mut found = HashMap::new();
        for (_, rows) in begin.take_while(|(word, _)| fits(word)) {
            for (row, occurrences) in rows {
                let times = |column: &Column| f64::from(occurrences[*column as usize]);
                let weight: f64 = phrase.columns.iter().map(|c| times(c) * c.weight()).sum();
                if weight > 0.0 {
                    *found.entry(*row).or_default() += weight;
                }
            }
        }
        found
    }

    /// Returns these rows with their scores, best first, then by number.
    pub(super) fn rank(&self, phrases: &[Phrase], rows: &HashSet<u64>) -> Vec<(f64, u64)> {
        let terms: Vec<_> = phrases.iter().map(|phrase| self.frequencies(phrase)).collect();
        let terms: Vec<_> = terms.iter().map(|found| (self.rarity(found.len()), found)).collect();
        let count = self.lengths.len() as f64;
        let average = self.total_length as f64 / count;
        let score = |row: u64| -> f64 {
            let length = self.lengths.get(&row).copied().unwrap_or(0) as f64;
            let damping = K1 * (1.0 - B + B * length / average);
            let part = |(rarity, found): &(f64, &HashMap<u64, f64>)| {
                let times = found.get(&row).copied().unwrap_or(0.0);
                rarity * (times * (K1 + 1.0) / (times + damping))
            };
            terms.iter().map(part).sum()
        };
        let mut ranked: Vec<(f64, u64)> = rows.iter().map(|row| (score(*row), *row)).collect();
        ranked.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(one.cmp(other)));
        ranked
    }

    /// Returns the weight of a word that `having` rows have; it is always above zero.
    fn rarity(&self, having: usize) -> f64 {
        let others = (self.lengths.len() - having) as f64;
        let rarity = ((others + 0.5) / (having as f64 + 0.5)).ln();
        if rarity > 0.0 { rarity } else { 1e-6 }
    }
}

/// Returns the words of a text, folded.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || !word.is_empty() && is_mark(c) {
            word.extend(fold(c));
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Returns whether `c` is a mark that belongs to the letter before it.
fn is_mark(c: char) -> bool {
    let marks = [0x0802_9fdf_u32, 0x0003_61f8];
    let Some(place) = u32::from(c).checked_sub(0x300) else { return false };
    marks.get(place as usize / 32).is_some_and(|bits| bits >> (place % 32) & 1 == 1)
}

/// Returns the letter in lower case and without marks; `None` for a mark.
fn fold(c: char) -> Option<char> {
    let lower = match c {
        // The same letters in another shape.
        'ς' => 'σ',
        'ϐ' => 'β',
        'ϑ' => 'θ',
        'ϕ' => 'φ',
        'ϖ' => 'π',
        'µ' => 'μ',
        'ſ' | 'ẛ' => 's',
        _ => c.to_lowercase().next().unwrap_or(c),
    };
    let code = u32::from(lower);
    if !(0x80..0x1_0000).contains(&code) {
        return Some(lower);
    }
    let next = MARKED.partition_point(|(first, ..)| u32::from(*first) <= code);
    match next.checked_sub(1).and_then(|at| MARKED.get(at)) {
        Some((first, more, plain)) if code <= u32::from(*first) + u32::from(*more) => *plain,
        _ => Some(lower),
    }
}

/// Letters with marks: the first letter, the number of letters that follow it, and the
/// letter without the mark (`None` for a mark alone). From SQLite's table
/// `fts5_remove_diacritic`.
#[rustfmt::skip]
const MARKED: [(u16, u8, Option<char>); 125] = [
    (0x00e0, 5, Some('a')), (0x00e7, 0, Some('c')), (0x00e8, 3, Some('e')), (0x00ec, 3, Some('i')),
    (0x00f1, 0, Some('n')), (0x00f2, 4, Some('o')), (0x00f9, 3, Some('u')), (0x00fd, 0, Some('y')),
    (0x00ff, 0, Some('y')), (0x0101, 4, Some('a')), (0x0107, 6, Some('c')), (0x010f, 0, Some('d')),
    (0x0113, 6, Some('e')), (0x011b, 0, Some('e')), (0x011d, 6, Some('g')), (0x0125, 0, Some('h')),
    (0x0129, 7, Some('i')), (0x0135, 0, Some('j')), (0x0137, 0, Some('k')), (0x013a, 4, Some('l')),
    (0x0144, 4, Some('n')), (0x014d, 4, Some('o')), (0x0155, 4, Some('r')), (0x015b, 6, Some('s')),
    (0x0163, 2, Some('t')), (0x0169, 6, Some('u')), (0x0171, 2, Some('u')), (0x0175, 0, Some('w')),
    (0x0177, 0, Some('y')), (0x017a, 4, Some('z')), (0x01a1, 0, Some('o')), (0x01b0, 0, Some('u')),
    (0x01ce, 0, Some('a')), (0x01d0, 0, Some('i')), (0x01d2, 0, Some('o')), (0x01d4, 0, Some('u')),
    (0x01d6, 6, Some('u')), (0x01df, 0, Some('a')), (0x01e7, 0, Some('g')), (0x01e9, 0, Some('k')),
    (0x01eb, 0, Some('o')), (0x01ed, 0, Some('o')), (0x01f0, 0, Some('j')), (0x01f5, 0, Some('g')),
    (0x01f9, 0, Some('n')), (0x01fb, 0, Some('a')), (0x0201, 2, Some('a')), (0x0205, 2, Some('e')),
    (0x0209, 2, Some('i')), (0x020d, 2, Some('o')), (0x0211, 2, Some('r')), (0x0215, 2, Some('u')),
    (0x0219, 0, Some('s')), (0x021b, 0, Some('t')), (0x021f, 0, Some('h')), (0x0227, 0, Some('a')),
    (0x0229, 0, Some('e')), (0x022b, 2, Some('o')), (0x022f, 0, Some('o')), (0x0231, 0, Some('o')),
    (0x0233, 0, Some('y')), (0x0300, 4, None), (0x0306, 6, None), (0x030f, 0, None),
    (0x0311, 0, None), (0x031b, 0, None), (0x0323, 5, None), (0x032d, 1, None), (0x0330, 1, None),
    (0x1e01, 0, Some('a')), (0x1e03, 4, Some('b')), (0x1e09, 0, Some('c')), (0x1e0b, 6, Some('d')),
    (0x1e13, 0, Some('d')), (0x1e15, 2, Some('e')), (0x1e19, 2, Some('e')), (0x1e1d, 0, Some('e')),
    (0x1e1f, 0, Some('f')), (0x1e21, 0, Some('g')), (0x1e23, 6, Some('h')), (0x1e2b, 0, Some('h')),
    (0x1e2d, 0, Some('i')), (0x1e2f, 0, Some('i')), (0x1e31, 4, Some('k')), (0x1e37, 0, Some('l')),
    (0x1e39, 0, Some('l')), (0x1e3b, 2, Some('l')), (0x1e3f, 4, Some('m')), (0x1e45, 6, Some('n')),
    (0x1e4d, 6, Some('o')), (0x1e55, 2, Some('p')), (0x1e59, 2, Some('r')), (0x1e5d, 0, Some('r')),
    (0x1e5f, 0, Some('r')), (0x1e61, 2, Some('s')), (0x1e65, 4, Some('s')), (0x1e6b, 6, Some('t')),
    (0x1e73, 4, Some('u')), (0x1e79, 2, Some('u')), (0x1e7d, 2, Some('v')), (0x1e81, 6, Some('w')),
    (0x1e89, 0, Some('w')), (0x1e8b, 2, Some('x')), (0x1e8f, 0, Some('y')), (0x1e91, 4, Some('z')),
    (0x1e96, 0, Some('h')), (0x1e97, 0, Some('t')), (0x1e98, 0, Some('w')), (0x1e99, 0, Some('y')),
    (0x1ea1, 2, Some('a')), (0x1ea5, 6, Some('a')), (0x1ead, 6, Some('a')), (0x1eb5, 2, Some('a')),
    (0x1eb9, 4, Some('e')), (0x1ebf, 6, Some('e')), (0x1ec7, 0, Some('e')), (0x1ec9, 2, Some('i')),
    (0x1ecd, 2, Some('o')), (0x1ed1, 6, Some('o')), (0x1ed9, 6, Some('o')), (0x1ee1, 2, Some('o')),
    (0x1ee5, 2, Some('u')), (0x1ee9, 6, Some('u')), (0x1ef1, 0, Some('u')), (0x1ef3, 6, Some('y')),
];

#[cfg(test)]
mod tests;
