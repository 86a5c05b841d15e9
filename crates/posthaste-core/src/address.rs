//! Who a message is for, and which mailboxes that names.
//!
//! ```text
//! address  = "human" | selector [ "@" team ]
//! selector = "@anyone" | "@everyone" | name [ "." instance ] | instance
//! ```
//!
//! One grammar, one parser; `Display` prints what `FromStr` reads. Whether an
//! address names anybody is not decided here: that is routing, and it happens
//! inside the append transaction.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use compact_str::{CompactString, ToCompactString};

use crate::hex;
use crate::messaging::message::Principal;

/// The team of those who name none.
pub const DEFAULT_TEAM: &str = "main";

/// Longest profile or team name.
pub const MAX_NAME: usize = 48;

/// Words that an address gives a meaning of its own, so nobody may be called so.
pub const RESERVED: [&str; 7] =
    ["anyone", "everyone", "human", "dashboard", "user", "operator", "system"];

/// What the operator's mailbox is also called.
const HUMAN: [&str; 4] = ["human", "dashboard", "user", "operator"];

/// The name of a profile or of a team: `[a-z][a-z0-9_-]{0,47}`, folded to lower
/// case, never a reserved word and never in the form of an instance id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        name_at(text, 0, text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One running or connected agent: 8 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u32);

impl FromStr for InstanceId {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let digits = text.strip_prefix("inst-").unwrap_or(text);
        match instance_of(digits) {
            Some(id) => Ok(id),
            None => Err(AddressError::new(
                text,
                0,
                "an instance id has 8 hex digits",
                Some("a3f7b2c1".into()),
            )),
        }
    }
}

impl InstanceId {
    pub fn text(self) -> CompactString {
        hex::text::<8>("", self.0.into())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// An address as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// The operator, in any tab.
    Human,
    /// Exactly this instance; every part that is given must match.
    Exact { name: Option<Name>, instance: InstanceId, team: Option<Name> },
    /// The first instance of that name that reads.
    Named { name: Name, team: Option<Name> },
    /// The first non-mechanical instance that reads.
    Anyone { team: Option<Name> },
    /// Each instance that is starting or running, frozen at send.
    Everyone { team: Option<Name> },
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let fail = |at, why: &str, hint| Err(AddressError::new(text, at, why, hint));
        if text.is_empty() {
            return fail(0, "the address is empty", Some("@everyone".into()));
        }
        if let Some(at) = text.find(|c: char| c.is_whitespace()) {
            let joined: String = text.split_whitespace().collect();
            return fail(at, "an address has no spaces", Some(joined));
        }

        if let Some(rest) = text.strip_prefix('@') {
            let (word, team) = split_team(text, rest, 1)?;
            return match word.to_ascii_lowercase().as_str() {
                "anyone" => Ok(Self::Anyone { team }),
                "everyone" => Ok(Self::Everyone { team }),
                "" => fail(1, "a name is missing after `@`", Some("@everyone".into())),
                other => fail(
                    1,
                    "after a leading `@` only `anyone` or `everyone` can stand",
                    Some(match team {
                        Some(team) => format!("{other}@{team}"),
                        None => format!("@everyone@{other}"),
                    }),
                ),
            };
        }

        let (selector, team) = split_team(text, text, 0)?;
        let folded = selector.to_ascii_lowercase();
        if HUMAN.contains(&folded.as_str()) {
            return match team {
                None => Ok(Self::Human),
                Some(_) => fail(selector.len(), "the operator has no team", Some("human".into())),
            };
        }
        if let Some((name, instance)) = selector.split_once('.') {
            let at = name.len() + 1;
            if instance.contains('.') {
                let second = at + instance.find('.').unwrap_or(0);
                return fail(second, "only one `.` can stand in an address", tamed(&folded));
            }
            let name = name_at(name, 0, text)?;
            let digits = instance.strip_prefix("inst-").unwrap_or(instance);
            return match instance_of(digits) {
                Some(instance) => Ok(Self::Exact { name: Some(name), instance, team }),
                None => fail(
                    at,
                    "after the `.` comes an instance id of 8 hex digits",
                    Some(name.to_string()),
                ),
            };
        }
        let digits = selector.strip_prefix("inst-").unwrap_or(selector);
        if let Some(instance) = instance_of(digits) {
            return Ok(Self::Exact { name: None, instance, team });
        }
        Ok(Self::Named { name: name_at(selector, 0, text)?, team })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let team = match self {
            Self::Human => return f.write_str("human"),
            Self::Exact { name, instance, team } => {
                if let Some(name) = name {
                    name.fmt(f)?;
                    f.write_str(".")?;
                }
                instance.fmt(f)?;
                team
            }
            Self::Named { name, team } => {
                write!(f, "{name}")?;
                team
            }
            Self::Anyone { team } => {
                f.write_str("@anyone")?;
                team
            }
            Self::Everyone { team } => {
                f.write_str("@everyone")?;
                team
            }
        };
        match team {
            Some(team) => write!(f, "@{team}"),
            None => Ok(()),
        }
    }
}

/// A queue that an address names. Its `Display` is the key under which stores
/// and brokers know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mailbox {
    Human,
    Instance(InstanceId),
    Name(Name),
    NameIn(Name, Name),
    Anyone,
    AnyoneIn(Name),
}

impl Mailbox {
    /// The reader's own.
    pub fn of(reader: Principal) -> Self {
        reader.instance().map_or(Self::Human, Self::Instance)
    }

    /// One-of mail is claimed by the first reader; exact mail has one reader.
    pub fn is_one_of(&self) -> bool {
        !matches!(self, Self::Human | Self::Instance(_))
    }

    /// The key as text; most mail goes to an instance.
    pub fn text(&self) -> CompactString {
        match self {
            Self::Instance(id) => hex::text::<8>("i.", id.0.into()),
            _ => self.to_compact_string(),
        }
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Human => f.write_str("human"),
            Self::Instance(_) => f.write_str(&self.text()),
            Self::Name(name) => write!(f, "n.{name}"),
            Self::NameIn(name, team) => write!(f, "n.{name}@{team}"),
            Self::Anyone => f.write_str("any"),
            Self::AnyoneIn(team) => write!(f, "any@{team}"),
        }
    }
}

impl FromStr for Mailbox {
    type Err = AddressError;

    fn from_str(key: &str) -> Result<Self, AddressError> {
        if let Some(id) = key.strip_prefix("i.") {
            return id.parse().map(Self::Instance);
        }
        if let Some(rest) = key.strip_prefix("n.") {
            return match rest.split_once('@') {
                Some((name, team)) => Ok(Self::NameIn(name.parse()?, team.parse()?)),
                None => rest.parse().map(Self::Name),
            };
        }
        match key.split_once('@') {
            None if key == "human" => Ok(Self::Human),
            None if key == "any" => Ok(Self::Anyone),
            Some(("any", team)) => team.parse().map(Self::AnyoneIn),
            _ => Err(AddressError::new(
                key,
                0,
                "a mailbox is human, any, any@team, n.name, n.name@team or i.instance",
                None,
            )),
        }
    }
}

/// What is wrong with an address, where, and what was probably meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address: {why} (position {at})")]
pub struct AddressError {
    /// The address as given, shortened when long.
    pub text: String,
    /// The character at which reading stopped, counted from 0.
    pub at: usize,
    pub why: String,
    pub suggestion: Option<String>,
}

impl AddressError {
    fn new(text: &str, byte: usize, why: &str, suggestion: Option<String>) -> Self {
        let at = text.char_indices().take_while(|(i, _)| *i < byte).count();
        let shown: String = text.chars().take(120).collect();
        Self { text: shown, at, why: why.to_owned(), suggestion }
    }
}

fn instance_of(digits: &str) -> Option<InstanceId> {
    let plain = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok().map(InstanceId)).flatten()
}

/// Splits `selector@team`; `from` is where `rest` begins in the whole text.
fn split_team<'a>(
    whole: &str,
    rest: &'a str,
    from: usize,
) -> Result<(&'a str, Option<Name>), AddressError> {
    let Some((selector, team)) = rest.split_once('@') else { return Ok((rest, None)) };
    let at = from + selector.len() + 1;
    if let Some(extra) = team.find('@') {
        return Err(AddressError::new(
            whole,
            at + extra,
            "only one team can be named",
            Some(whole[..at + extra].to_owned()),
        ));
    }
    if team.is_empty() {
        return Err(AddressError::new(
            whole,
            at,
            "a team is missing after `@`",
            Some(whole[..at - 1].to_owned()),
        ));
    }
    Ok((selector, Some(name_at(team, at, whole)?)))
}

/// Reads a name that stands at byte `at` of `whole`.
fn name_at(text: &str, at: usize, whole: &str) -> Result<Name, AddressError> {
    let folded = text.to_ascii_lowercase();
    let fail = |offset: usize, why: &str, hint: Option<String>| {
        Err(AddressError::new(whole, at + offset, why, hint))
    };
    if folded.is_empty() {
        return fail(0, "a name is missing", None);
    }
    if RESERVED.contains(&folded.as_str()) {
        let meant = match folded.as_str() {
            word @ ("anyone" | "everyone") => Some(format!("@{word}")),
            "system" => None,
            _ => Some("human".to_owned()),
        };
        return fail(0, "this word is reserved", meant);
    }
    if instance_of(&folded).is_some() {
        return fail(0, "a name cannot look like an instance id", Some(format!("{folded}-agent")));
    }
    let tame = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let wrong = folded
        .char_indices()
        .find(|(i, c)| if *i == 0 { !c.is_ascii_lowercase() } else { !tame(*c) });
    if let Some((offset, c)) = wrong {
        let why = if offset == 0 && tame(c) {
            "a name begins with a letter".to_owned()
        } else {
            format!("`{}` cannot stand in a name", c.escape_debug())
        };
        return fail(offset, &why, tamed(&folded));
    }
    if folded.len() > MAX_NAME {
        return fail(MAX_NAME, "a name has at most 48 characters", Some(folded[..MAX_NAME].into()));
    }
    Ok(Name(folded.into()))
}

/// The nearest valid name to a bad one, if enough of it is left.
fn tamed(text: &str) -> Option<String> {
    let kept: String = text
        .chars()
        .map(|c| if c == ' ' || c == '.' || c == '/' { '-' } else { c })
        .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_' || *c == '-')
        .collect();
    let kept = kept.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let kept: String = kept.chars().take(MAX_NAME).collect();
    (!kept.is_empty() && kept.parse::<Name>().is_ok()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Address {
        text.parse().expect("a good address")
    }

    fn error(text: &str) -> AddressError {
        text.parse::<Address>().expect_err("a bad address")
    }

    fn name(text: &str) -> Name {
        text.parse().expect("a good name")
    }

    #[test]
    fn every_row_of_the_address_table_is_read() {
        let id = InstanceId(0xa3f7_b2c1);
        let (mason, avalon) = (name("mason"), name("avalon"));
        let exact = |name: Option<&Name>, team: Option<&Name>| Address::Exact {
            name: name.cloned(),
            instance: id,
            team: team.cloned(),
        };
        assert_eq!(parse("mason.a3f7b2c1@avalon"), exact(Some(&mason), Some(&avalon)));
        assert_eq!(parse("mason.a3f7b2c1"), exact(Some(&mason), None));
        assert_eq!(parse("a3f7b2c1"), exact(None, None));
        assert_eq!(parse("inst-A3F7B2C1"), exact(None, None));
        assert_eq!(parse("a3f7b2c1@avalon"), exact(None, Some(&avalon)));
        assert_eq!(parse("Mason"), Address::Named { name: mason.clone(), team: None });
        assert_eq!(
            parse("mason@avalon"),
            Address::Named { name: mason, team: Some(avalon.clone()) }
        );
        assert_eq!(parse("@anyone"), Address::Anyone { team: None });
        assert_eq!(parse("@anyone@avalon"), Address::Anyone { team: Some(avalon.clone()) });
        assert_eq!(parse("@everyone"), Address::Everyone { team: None });
        assert_eq!(parse("@Everyone@avalon"), Address::Everyone { team: Some(avalon) });
        for human in ["human", "dashboard", "user", "Operator"] {
            assert_eq!(parse(human), Address::Human);
        }
    }

    #[test]
    fn a_bad_address_says_where_and_what_was_meant() {
        let cases = [
            ("", 0, Some("@everyone")),
            ("@avalon", 1, Some("@everyone@avalon")),
            ("@mason@avalon", 1, Some("mason@avalon")),
            ("everyone", 0, Some("@everyone")),
            ("anyone@avalon", 0, Some("@anyone")),
            ("system", 0, None),
            ("human@avalon", 5, Some("human")),
            ("mason.", 6, Some("mason")),
            ("mason.12", 6, Some("mason")),
            (".a3f7b2c1", 0, None),
            ("a.b.c", 3, Some("a-b-c")),
            ("mason@", 6, Some("mason")),
            ("mason@a@b", 7, Some("mason@a")),
            ("ma son", 2, Some("mason")),
            ("mason!", 5, Some("mason")),
            ("9lives", 0, Some("lives")),
            ("größe", 2, Some("gre")),
            ("@", 1, Some("@everyone")),
        ];
        for (text, at, suggestion) in cases {
            let e = error(text);
            assert_eq!((e.at, e.suggestion.as_deref()), (at, suggestion), "{text}: {e}");
        }
    }

    #[test]
    fn a_name_never_looks_like_an_instance_or_a_reserved_word() {
        assert!("deadbeef".parse::<Name>().is_err());
        for word in RESERVED {
            assert!(word.parse::<Name>().is_err(), "{word}");
        }
        assert!("a".repeat(48).parse::<Name>().is_ok());
        assert!("a".repeat(49).parse::<Name>().is_err());
    }

    fn any_name() -> impl Strategy<Value = Name> {
        "[a-z][a-z0-9_-]{0,47}".prop_filter_map("reserved", |s| s.parse().ok())
    }

    fn any_address() -> impl Strategy<Value = Address> {
        let team = || proptest::option::of(any_name());
        prop_oneof![
            Just(Address::Human),
            (proptest::option::of(any_name()), any::<u32>(), team()).prop_map(
                |(name, id, team)| Address::Exact { name, instance: InstanceId(id), team }
            ),
            (any_name(), team()).prop_map(|(name, team)| Address::Named { name, team }),
            team().prop_map(|team| Address::Anyone { team }),
            team().prop_map(|team| Address::Everyone { team }),
        ]
    }

    #[test]
    fn two_dots_are_answered_with_a_name_that_works_or_with_none() {
        for (text, meant) in
            [("a.b.c", Some("a-b-c")), ("a/../b", Some("a----b")), ("..", None), ("9..", None)]
        {
            let told = error(text).suggestion;
            assert_eq!(told.as_deref(), meant, "{text}");
            assert!(told.is_none_or(|name| name.parse::<Address>().is_ok()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_display_prints_from_str_reads(address in any_address()) {
            prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }

        #[test]
        fn any_text_is_an_address_or_a_clear_error(text in "\\PC{0,60}") {
            match text.parse::<Address>() {
                Ok(address) => prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address)),
                Err(e) => {
                    prop_assert!(e.at <= text.chars().count());
                    prop_assert!(!e.why.is_empty());
                }
            }
        }

        #[test]
        fn near_misses_never_panic(text in "[@.a-f0-9A-Z_ -]{0,24}") {
            let _ = text.parse::<Address>();
            let _ = text.parse::<Mailbox>();
        }

        #[test]
        fn a_suggested_address_is_itself_good(text in "[@.a-z0-9 !]{1,20}") {
            if let Err(AddressError { suggestion: Some(meant), .. }) = text.parse::<Address>() {
                // One step of advice may lead to the next, but never in a circle.
                prop_assert_ne!(meant, text);
            }
        }

        #[test]
        fn a_mailbox_key_reads_back(id in any::<u32>(), n in any_name(), t in any_name()) {
            for mailbox in [
                Mailbox::Human, Mailbox::Anyone, Mailbox::Instance(InstanceId(id)),
                Mailbox::Name(n.clone()), Mailbox::NameIn(n, t.clone()), Mailbox::AnyoneIn(t),
            ] {
                prop_assert_eq!(mailbox.to_string().parse::<Mailbox>(), Ok(mailbox));
            }
        }
    }
}
