//! Profiles by name and number, and the search for them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use posthaste_core::address::Name;
use posthaste_core::ledger::KnownProfile;
use posthaste_core::profiles::{Profile, ProfilePage, Template};

use super::words::{self, Column, Index, Phrase};

/// Words of a query that are used. More would only make a search slow.
const MOST_WORDS: usize = 64;
/// A word that so many profiles have is common, and says little.
const COMMON: usize = 1_000;

#[derive(Clone, Default)]
pub(super) struct Profiles {
    by_name: BTreeMap<Name, u64>,
    /// By row number, which orders equally good finds.
    rows: BTreeMap<u64, Arc<Profile>>,
    index: Index,
}

impl Profiles {
    pub(super) fn write(&mut self, profile: Arc<Profile>) {
        let name = &profile.template.name;
        let next = self.rows.last_key_value().map_or(1, |(no, _)| no + 1);
        let no = *self.by_name.entry(name.clone()).or_insert(next);
        if let Some(before) = self.rows.get(&no) {
            self.index.remove(no, &columns(&before.template));
        }
        self.index.add(no, &columns(&profile.template));
        self.rows.insert(no, profile);
    }

    pub(super) fn remove(&mut self, name: &Name) {
        let no = self.by_name.remove(name);
        if let Some((no, profile)) = no.and_then(|no| self.rows.remove_entry(&no)) {
            self.index.remove(no, &columns(&profile.template));
        }
    }

    pub(super) fn known(&self) -> Vec<(Name, KnownProfile)> {
        let all = self.by_name.iter().filter_map(|(name, no)| Some((name, self.rows.get(no)?)));
        all.map(|(name, profile)| {
            let known = KnownProfile {
                kind: profile.template.kind,
                version: profile.version,
                source: profile.source.clone(),
                created_at: profile.created_at,
            };
            (name.clone(), known)
        })
        .collect()
    }

    pub(super) fn one(&self, name: &Name) -> Option<Profile> {
        let no = self.by_name.get(name)?;
        self.rows.get(no).map(|profile| (**profile).clone())
    }

    pub(super) fn page(&self, skip: u64, most: u32) -> ProfilePage {
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let page = self.by_name.values().skip(skip).take(most as usize);
        ProfilePage {
            items: page.filter_map(|no| self.shown(*no)).collect(),
            total: self.rows.len() as u64,
        }
    }

    pub(super) fn search(&self, text: &str, most: u32) -> Vec<Profile> {
        let most = most as usize;
        let Some(query) = self.query(&words_of(text), most) else { return Vec::new() };
        let mut best = self.index.rank(&query.phrases, &query.rows);
        best.truncate(most);
        let mut found: Vec<(f64, Profile)> =
            best.into_iter().filter_map(|(score, no)| Some((score, self.shown(no)?))).collect();
        found.sort_by(|(a, one), (b, other)| {
            b.total_cmp(a).then_with(|| one.template.name.cmp(&other.template.name))
        });
        found.into_iter().map(|(_, profile)| profile).collect()
    }

    fn shown(&self, no: u64) -> Option<Profile> {
        let mut shown = (**self.rows.get(&no)?).clone();
        shown.template.system_prompt = String::new();
        Some(shown)
    }

    /// Selects the profiles to rank, because a common word fits nearly all of them. Takes
    /// the first choice that fills the answer: profiles that have all the words; profiles
    /// that have a word that is not common; profiles that have any word. For a single
    /// common word: profiles that have it in name, title or tags. The last word also fits
    /// as the beginning of a longer one, unless enough profiles have it as a whole.
    fn query(&self, words: &[String], most: usize) -> Option<Query> {
        let whole: Vec<Phrase> = words.iter().map(|word| Phrase::whole(word)).collect();
        let hits: Vec<HashSet<u64>> = whole.iter().map(|word| self.index.having(word)).collect();
        let (last, last_hits) = (whole.last()?, hits.last()?);
        let mut any = whole.clone();
        if last_hits.len() < most {
            any.push(last.beginning());
        }
        if let [only] = &whole[..] {
            let named = only.within(&[Column::Name, Column::Title, Column::Tags]);
            let rows = self.index.having(&named);
            if last_hits.len() >= COMMON && rows.len() >= most {
                return Some(Query { phrases: vec![named], rows });
            }
            return Some(self.any_of(any));
        }
        let mut every = hits[0].clone();
        every.retain(|no| hits.iter().all(|rows| rows.contains(no)));
        if every.len() >= most {
            return Some(Query { phrases: whole, rows: every });
        }
        let is_rare = |i: &usize| hits[*i].len() < COMMON;
        let rare: Vec<usize> = (0..words.len()).filter(is_rare).collect();
        if !rare.is_empty() && rare.len() < words.len() {
            let rows: HashSet<u64> = rare.iter().flat_map(|i| &hits[*i]).copied().collect();
            if rows.len() >= most {
                // The common words still count for the rank.
                let rare = rare.into_iter().map(|i| whole[i].clone());
                return Some(Query { phrases: rare.chain(any).collect(), rows });
            }
        }
        Some(self.any_of(any))
    }

    fn any_of(&self, phrases: Vec<Phrase>) -> Query {
        let rows = phrases.iter().flat_map(|phrase| self.index.having(phrase)).collect();
        Query { phrases, rows }
    }
}

/// Profiles to be ranked, and the phrases that rank them.
struct Query {
    phrases: Vec<Phrase>,
    rows: HashSet<u64>,
}

/// Splits any text into words.
fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(MOST_WORDS).flat_map(words::tokens).collect()
}

/// Returns the searched columns of a profile.
fn columns(template: &Template) -> [String; 4] {
    [
        template.name.to_string(),
        template.title.clone().unwrap_or_default(),
        template.description.clone(),
        template.tags.join(" "),
    ]
}
