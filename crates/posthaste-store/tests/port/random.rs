//! Plausible changes, chosen at random and always the same.

mod people;
mod world;

pub(crate) use self::world::World;

const WORDS: [&str; 12] = [
    "rust",
    "Rust",
    "review",
    "reviewer",
    "tests",
    "the",
    "a",
    "über",
    "naïve",
    "data-base",
    "42",
    "Zürich",
];

/// Numbers that look random.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("an index")
    }

    fn small(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(end.into())).expect("a small number")
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.index(list.len())).cloned()
    }

    pub(crate) fn minutes(&mut self, end: u64) -> i64 {
        self.below(end).cast_signed()
    }

    /// Up to so many words.
    pub(crate) fn text(&mut self, most: usize) -> String {
        let count = self.index(most + 1);
        let words: Vec<&str> = (0..count).map(|_| WORDS[self.index(WORDS.len())]).collect();
        words.join(if self.one_in(3) { ", " } else { " " })
    }
}
