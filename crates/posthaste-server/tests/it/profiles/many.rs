//! Two thousand profiles whose authors mean no good, and queries to match.

use posthaste_api::profiles::{ProfileInput, ProfileSearch, ProfilesQuery};
use posthaste_api::{Client, ErrorCode};

use super::{found, named};
use crate::house::{House, OPERATOR, refusal};

const MANY: usize = 2_000;

/// What search engines, shells, pages and terminals trip over.
const HOSTILE: [&str; 24] = [
    "\"",
    "\"\"",
    "'",
    "''",
    "; DROP TABLE profiles; --",
    "a\" OR \"b",
    "* OR *",
    "NEAR(a b, 2)",
    "name:mason",
    "{name tags} : x",
    "-x",
    "^x",
    "(((",
    ")))",
    "AND",
    "OR NOT AND",
    "\\",
    "%_%",
    "<script>alert(1)</script>",
    "\u{1b}[2J",
    "\u{202e}txt",
    "\u{0}",
    "🦀🦀",
    "ﷺ ǅ ⅷ ½ ̈ ٣",
];

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn text(&mut self, most: u64) -> String {
        let length = self.next() % most;
        (0..length)
            .map(|_| match self.next() % 4 {
                0 => char::from(32 + (self.next() % 95) as u8),
                1 => ['"', '*', '(', ')', ':', '^', '-', '+', ' '][(self.next() % 9) as usize],
                2 => char::from_u32((self.next() % 0x3000) as u32).unwrap_or('x'),
                _ => char::from_u32((self.next() % 0x0011_0000) as u32).unwrap_or('🦀'),
            })
            .collect()
    }
}

async fn fill(house: &House) {
    let operator = house.operator();
    let mut dice = Dice(42);
    let inputs: Vec<ProfileInput> = (0..MANY)
        .map(|n| {
            let hostile = HOSTILE[n % HOSTILE.len()];
            let tag: String = hostile.chars().filter(|c| !c.is_control()).collect();
            let tags = Some(tag).filter(|tag| !tag.trim().is_empty()).into_iter().collect();
            let description = format!("{hostile} number{n} {}", dice.text(60));
            ProfileInput { description, tags, ..named(&format!("agent-{n}")) }
        })
        .collect();
    for part in inputs.chunks(200) {
        let made = part.iter().cloned().map(|input| {
            let operator: Client = operator.clone();
            tokio::spawn(async move { operator.create_profile(&input).await })
        });
        for made in made.collect::<Vec<_>>() {
            made.await.expect("no panic").expect("created");
        }
    }
}

#[tokio::test]
async fn two_thousand_hostile_profiles_are_listed_and_found_each() {
    let house = House::new().await;
    fill(&house).await;
    let operator = house.operator();

    let mut seen = Vec::new();
    for page in 1..=21 {
        let query = ProfilesQuery { page: Some(page), page_size: Some(100) };
        let found = operator.profiles(&query).await.expect("a page");
        assert_eq!(found.total, MANY as u64);
        seen.extend(found.items.into_iter().map(|item| item.name));
    }
    assert_eq!(seen.len(), MANY);
    assert!(seen.is_sorted(), "by name, none twice");
    for n in (0..MANY).step_by(97) {
        assert_eq!(found(&operator, &format!("\"number{n}\" (*")).await[0], format!("agent-{n}"));
    }
}

#[tokio::test]
async fn no_query_is_an_error() {
    let house = House::new().await;
    fill(&house).await;
    let operator = house.operator();
    let mut dice = Dice(7);
    let long = ["word ".repeat(2_000), "(\"".repeat(2_000), "x".repeat(10_000)];
    let random: Vec<String> = (0..300).map(|_| dice.text(80)).collect();
    let single: Vec<String> =
        (0..=0x2ff_u32).filter_map(char::from_u32).map(String::from).collect();
    let queries = HOSTILE.iter().map(|q| (*q).to_owned()).chain(long).chain(random).chain(single);
    for q in queries {
        let query = ProfileSearch { q: q.clone(), limit: Some(3) };
        let hits = operator.search_profiles(&query).await;
        assert!(hits.is_ok_and(|hits| hits.items.len() <= 3), "{q:?}");
    }
    for nothing in ["", "q=", "q=%20", "q=%22", "q=zzzzzz"] {
        let call = format!("GET /v1/profiles/search?{nothing}");
        let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
        assert_eq!((status, answer["items"].as_array().map(Vec::len)), (200, Some(0)), "{nothing}");
    }
    let (status, _) = house.call("GET /v1/profiles/search?q=%ff", Some(OPERATOR), "").await;
    assert_eq!(status, 400, "what is no text is no query");
}

#[tokio::test]
async fn hostile_names_are_refused_and_change_nothing() {
    let house = House::new().await;
    let operator = house.operator();
    let mut dice = Dice(3);
    let random: Vec<String> = (0..200).map(|_| format!("!{}", dice.text(40))).collect();
    let hostile = HOSTILE.iter().filter(|text| !["AND"].contains(text)).map(|t| (*t).to_owned());
    for name in hostile.chain(random).chain(["../../etc/passwd".into(), "x".repeat(5_000)]) {
        let error = refusal(operator.create_profile(&named(&name)).await);
        assert_eq!(error.code, ErrorCode::InvalidAddress, "{name:?}: {error:?}");
        let told = operator.put_profile(&name, &ProfileInput::default()).await;
        assert!((400..500).contains(&refusal(told).code.status()), "{name:?}");
        let told = operator.remove_profile(&name).await;
        assert!((400..500).contains(&refusal(told).code.status()), "{name:?}");
    }
    assert_eq!(operator.profiles(&ProfilesQuery::default()).await.expect("a list").total, 0);
}
