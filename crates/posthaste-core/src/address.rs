//! Addresses, and the mailboxes that they name.
//!
//! ```text
//! address  = "human" | selector [ "@" team ]
//! selector = "@anyone" | "@everyone" | name [ "." instance ] | instance
//! ```
//!
//! One grammar, one parser; `Display` prints what `FromStr` reads. This module does not
//! decide whether an address names an existing recipient: that is routing, inside the
//! append transaction.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use compact_str::{CompactString, ToCompactString};

use crate::hex;
use crate::messaging::message::Principal;

/// The team of instances that name none.
pub const DEFAULT_TEAM: &str = "main";

/// Maximum length of a profile or team name.
pub const MAX_NAME: usize = 48;

/// Words that have a meaning of their own in an address, and cannot be names.
pub const RESERVED: [&str; 7] =
    ["anyone", "everyone", "human", "dashboard", "user", "operator", "system"];

/// Minimum likeness of two words of which one is a slip of the other.
const SLIP: f64 = 0.7;

/// The names of the operator's mailbox.
const HUMAN: [&str; 4] = ["human", "dashboard", "user", "operator"];

/// The name of a profile or of a team: `[a-z][a-z0-9_-]{0,47}`, folded to lower
/// case, never a reserved word and never in the form of an instance id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a name that the hub itself has kept. A new name is checked when it comes,
    /// and not again when it is read: mail may wait for it.
    pub fn kept(text: &str) -> Result<Self, AddressError> {
        spelt(text, 0, text)
    }
}

impl FromStr for Name {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        name_at(text, 0, text).map_err(|error| {
            let meant = trimmed(text);
            error.asked(Asked::Name).suggesting(name_at(meant, 0, meant).ok())
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of one running or connected agent: 8 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u32);

impl FromStr for InstanceId {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let why = "an instance id has 8 hex digits";
        instance_of(text).ok_or_else(|| AddressError::new(text, 0, why).asked(Asked::Instance))
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
        read(text).map_err(|error| error.suggesting(meant(text)))
    }
}

fn read(text: &str) -> Result<Address, AddressError> {
    let fail = |at, why: &str| Err(AddressError::new(text, at, why));
    if text.is_empty() {
        return fail(0, "the address is empty");
    }
    if let Some(at) = text.find(|c: char| c.is_whitespace()) {
        return fail(at, "an address has no spaces");
    }

    if let Some(rest) = text.strip_prefix('@') {
        let (word, team) = split_team(text, rest, 1)?;
        return match word.to_ascii_lowercase().as_str() {
            "anyone" => Ok(Address::Anyone { team }),
            "everyone" => Ok(Address::Everyone { team }),
            "" => fail(1, "a name is missing after `@`"),
            _ => fail(1, "after a leading `@` only `anyone` or `everyone` can stand"),
        };
    }

    let (selector, team) = split_team(text, text, 0)?;
    if is_human(selector) {
        return match team {
            None => Ok(Address::Human),
            Some(_) => fail(selector.len(), "the operator has no team"),
        };
    }
    if let Some((name, instance)) = selector.split_once('.') {
        let at = name.len() + 1;
        if let Some(second) = instance.find('.') {
            return fail(at + second, "only one `.` can stand in an address");
        }
        let name = name_at(name, 0, text)?;
        return match instance_of(instance) {
            Some(instance) => Ok(Address::Exact { name: Some(name), instance, team }),
            None => fail(at, "after the `.` comes an instance id of 8 hex digits"),
        };
    }
    if let Some(instance) = instance_of(selector) {
        return Ok(Address::Exact { name: None, instance, team });
    }
    Ok(Address::Named { name: name_at(selector, 0, text)?, team })
}

/// Returns the address that was probably meant. It is made from the good parts of the
/// text, so it names nobody whom the text does not; `None` if a part is unreadable.
fn meant(text: &str) -> Option<Address> {
    let marked = text.trim_start_matches(|c| c != '@' && is_stray(c)).starts_with('@');
    let mut parts = text.split('@').map(trimmed).filter(|part| !part.is_empty());
    let selector = parts.next()?;
    let named = |part: &str| name_at(part, 0, part).ok();
    let team = match parts.next() {
        Some(team) => Some(named(team)?),
        None => None,
    };
    match selector.to_ascii_lowercase().as_str() {
        word if is_meant(word, "anyone", marked) => return Some(Address::Anyone { team }),
        word if is_meant(word, "everyone", marked) => return Some(Address::Everyone { team }),
        human if is_human(human) => return Some(Address::Human),
        _ => {}
    }
    if let Some(instance) = instance_of(selector) {
        return Some(Address::Exact { name: None, instance, team });
    }
    match selector.split_once('.') {
        Some((_, rest)) if rest.contains('.') => None,
        Some((name, rest)) => {
            let name = named(name)?;
            Some(match instance_of(rest) {
                Some(instance) => Address::Exact { name: Some(name), instance, team },
                None => Address::Named { name, team },
            })
        }
        // A bare `@avalon` is a team.
        None => {
            let name = named(selector)?;
            Some(match marked && team.is_none() {
                true => Address::Everyone { team: Some(name) },
                false => Address::Named { name, team },
            })
        }
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

/// A queue that an address names. Its `Display` is the key under which stores and brokers
/// know it.
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
    /// Returns the reader's own mailbox.
    pub fn of(reader: Principal) -> Self {
        reader.instance().map_or(Self::Human, Self::Instance)
    }

    /// Returns whether several readers share the mailbox: the first one takes each
    /// message.
    pub fn is_one_of(&self) -> bool {
        !matches!(self, Self::Human | Self::Instance(_))
    }

    /// Returns the key as text; most mail goes to an instance.
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
                Some((name, team)) => Ok(Self::NameIn(Name::kept(name)?, Name::kept(team)?)),
                None => Name::kept(rest).map(Self::Name),
            };
        }
        match key.split_once('@') {
            None if key == "human" => Ok(Self::Human),
            None if key == "any" => Ok(Self::Anyone),
            Some(("any", team)) => Name::kept(team).map(Self::AnyoneIn),
            _ => Err(AddressError::new(
                key,
                0,
                "a mailbox is human, any, any@team, n.name, n.name@team or i.instance",
            )
            .asked(Asked::Mailbox)),
        }
    }
}

/// The kind of text that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Address,
    Name,
    Instance,
    Mailbox,
}

impl Asked {
    fn as_str(self) -> &'static str {
        match self {
            Self::Address => "an address",
            Self::Name => "a name",
            Self::Instance => "an instance",
            Self::Mailbox => "a mailbox",
        }
    }
}

/// The fault of an address, or of a part of one, its position, and a suggestion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {}: {why} (position {at})", asked.as_str())]
pub struct AddressError {
    pub asked: Asked,
    /// The address as given, shortened when long.
    pub text: String,
    /// The character at which parsing stopped, counted from 0.
    pub at: usize,
    pub why: String,
    /// The text that was probably meant, of the same kind as what was asked for.
    pub suggestion: Option<String>,
}

impl AddressError {
    fn new(text: &str, byte: usize, why: &str) -> Self {
        let at = text.char_indices().take_while(|(i, _)| *i < byte).count();
        let shown: String = text.chars().take(120).collect();
        Self { asked: Asked::Address, text: shown, at, why: why.to_owned(), suggestion: None }
    }

    fn asked(self, asked: Asked) -> Self {
        Self { asked, ..self }
    }

    fn suggesting(self, meant: Option<impl fmt::Display>) -> Self {
        Self { suggestion: meant.map(|meant| meant.to_string()), ..self }
    }
}

/// Returns whether the word is the reserved one, or, after an `@`, a slip of it.
fn is_meant(word: &str, reserved: &str, marked: bool) -> bool {
    let alike = || strsim::normalized_damerau_levenshtein(word, reserved) >= SLIP;
    word == reserved || marked && alike()
}

fn is_human(word: &str) -> bool {
    HUMAN.iter().any(|human| word.eq_ignore_ascii_case(human))
}

/// Parses 8 hex digits, with or without `inst-`.
pub(crate) fn instance_of(text: &str) -> Option<InstanceId> {
    let digits = match text.split_at_checked(5) {
        Some((prefix, digits)) if prefix.eq_ignore_ascii_case("inst-") => digits,
        _ => text,
    };
    let plain = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok().map(InstanceId)).flatten()
}

/// Splits `selector@team`; `from` is the place of `rest` in the whole text.
fn split_team<'a>(
    whole: &str,
    rest: &'a str,
    from: usize,
) -> Result<(&'a str, Option<Name>), AddressError> {
    let Some((selector, team)) = rest.split_once('@') else { return Ok((rest, None)) };
    let at = from + selector.len() + 1;
    if let Some(extra) = team.find('@') {
        return Err(AddressError::new(whole, at + extra, "only one team can be named"));
    }
    if team.is_empty() {
        return Err(AddressError::new(whole, at, "a team is missing after `@`"));
    }
    Ok((selector, Some(name_at(team, at, whole)?)))
}

/// Parses a name at byte `at` of `whole`.
fn name_at(text: &str, at: usize, whole: &str) -> Result<Name, AddressError> {
    if RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Err(AddressError::new(whole, at, "this word is reserved"));
    }
    if instance_of(text).is_some() {
        return Err(AddressError::new(whole, at, "a name cannot look like an instance id"));
    }
    spelt(text, at, whole)
}

/// Parses a name by its letters alone.
fn spelt(text: &str, at: usize, whole: &str) -> Result<Name, AddressError> {
    let folded = text.to_ascii_lowercase();
    let fail = |offset: usize, why: &str| Err(AddressError::new(whole, at + offset, why));
    if folded.is_empty() {
        return fail(0, "a name is missing");
    }
    let tame = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let wrong = folded
        .char_indices()
        .find(|(i, c)| if *i == 0 { !c.is_ascii_lowercase() } else { !tame(*c) });
    if let Some((offset, c)) = wrong {
        if offset == 0 && tame(c) {
            return fail(offset, "a name begins with a letter");
        }
        return fail(offset, &format!("`{}` cannot stand in a name", c.escape_debug()));
    }
    if folded.len() > MAX_NAME {
        return fail(MAX_NAME, "a name has at most 48 characters");
    }
    Ok(Name(folded.into()))
}

/// Returns whether a character may surround a name without being part of it: quotes,
/// brackets, commas, spaces.
fn is_stray(c: char) -> bool {
    c.is_whitespace() || c.is_ascii_punctuation() && !matches!(c, '_' | '-')
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(is_stray)
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
            ("", 0, None),
            ("@", 1, None),
            ("@@", 2, None),
            ("@avalon", 1, Some("@everyone@avalon")),
            ("@mason@avalon", 1, Some("mason@avalon")),
            ("@mason.a3f7b2c1", 1, Some("mason.a3f7b2c1")),
            ("@human", 1, Some("human")),
            ("@everyon", 1, Some("@everyone")),
            ("@evreyone@avalon", 1, Some("@everyone@avalon")),
            ("@anyon", 1, Some("@anyone")),
            ("@none", 1, Some("@everyone@none")),
            ("@everyone.abc", 1, None),
            ("@anyone.764c1466", 1, None),
            ("everyone", 0, Some("@everyone")),
            ("anyone@avalon", 0, Some("@anyone@avalon")),
            ("system", 0, None),
            ("human@avalon", 5, Some("human")),
            ("mason.", 6, Some("mason")),
            ("mason.12", 6, Some("mason")),
            ("mason.12@avalon", 6, Some("mason@avalon")),
            (".a3f7b2c1", 0, Some("a3f7b2c1")),
            ("a.b.c", 3, None),
            ("mason@", 6, Some("mason")),
            ("mason@a@b", 7, Some("mason@a")),
            ("mason@@avalon", 6, Some("mason@avalon")),
            ("bob@deadbeef", 4, None),
            ("bob@-x", 4, None),
            ("mason@avalon.764c1466", 12, None),
            ("mason@inst-764C1466", 6, None),
            (" mason ", 0, Some("mason")),
            ("ma son", 2, None),
            ("bob,alice", 3, None),
            ("mason!", 5, Some("mason")),
            ("mason!@avalon", 5, Some("mason@avalon")),
            ("9lives", 0, None),
            ("größe", 2, None),
            ("ümit", 0, None),
        ];
        for (text, at, suggestion) in cases {
            let e = error(text);
            assert_eq!((e.at, e.suggestion.as_deref()), (at, suggestion), "{text}: {e}");
        }
        let long = format!("@{}", "a".repeat(60));
        assert_eq!(error(&long).suggestion, None);
    }

    #[test]
    fn what_is_no_name_is_answered_with_a_name_or_with_nothing() {
        let cases = [
            ("mason!", Some("mason")),
            ("human", None),
            ("anyone", None),
            ("deadbeef", None),
            ("my agent", None),
            ("@mason", Some("mason")),
            ("", None),
        ];
        for (text, suggestion) in cases {
            let e = text.parse::<Name>().expect_err("a bad name");
            assert_eq!(e.suggestion.as_deref(), suggestion, "{text}: {e}");
        }
        let e = "zzz".parse::<InstanceId>().expect_err("a bad id");
        assert_eq!(e.suggestion, None, "nobody has asked for an example");
    }

    #[test]
    fn a_name_never_looks_like_an_instance_or_a_reserved_word() {
        for id in ["deadbeef", "DEADBEEF", "inst-764c1466", "INST-764C1466", "Inst-764c1466"] {
            assert!(id.parse::<Name>().is_err(), "{id}");
            assert_eq!(id.parse::<InstanceId>().map(|id| id.text().len()), Ok(8), "{id}");
            assert!(matches!(parse(id), Address::Exact { name: None, .. }), "{id}");
            assert!(matches!(parse(&format!("mason.{id}")), Address::Exact { .. }), "{id}");
        }
        for word in RESERVED {
            assert!(word.parse::<Name>().is_err(), "{word}");
        }
        assert!("a".repeat(48).parse::<Name>().is_ok());
        assert!("a".repeat(49).parse::<Name>().is_err());
    }

    #[test]
    fn a_name_that_was_kept_under_older_rules_still_has_its_mailbox() {
        for key in ["n.inst-764c1466", "n.mason@inst-764c1466", "any@inst-764c1466"] {
            assert_eq!(key.parse::<Mailbox>().map(|m| m.to_string()).as_deref(), Ok(key));
        }
        assert!("n.".parse::<Mailbox>().is_err() && "n.a b".parse::<Mailbox>().is_err());
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

    /// Makes any text, and texts that are close to an address.
    fn any_text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[@.,!a-cA-C0-9_ -]{0,4}",
            "[a-f0-9]{8}",
            prop::sample::select(&["@", ".", "@everyone", "anyone", "human", "inst-", "ü"][..])
                .prop_map(str::to_owned),
        ];
        let near = proptest::collection::vec(part, 0..6).prop_map(|parts| parts.concat());
        prop_oneof!["\\PC{0,60}", near]
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
        fn a_suggestion_is_good_and_names_nobody_that_the_text_did_not(text in any_text()) {
            let folded = text.to_ascii_lowercase();
            if let Err(AddressError { suggestion: Some(meant), .. }) = text.parse::<Address>() {
                prop_assert_ne!(&meant, &text);
                let address = meant.parse::<Address>().expect("a suggestion is an address");
                for word in meant.split(['@', '.']).filter(|word| !word.is_empty()) {
                    let named = match address {
                        Address::Human => HUMAN.iter().any(|human| folded.contains(human)),
                        // A bare `@team` means everyone in it, `@everyon` everyone.
                        Address::Everyone { .. } => word == "everyone" || folded.contains(word),
                        Address::Anyone { .. } => word == "anyone" || folded.contains(word),
                        _ => folded.contains(word),
                    };
                    prop_assert!(named, "{text} is answered with {meant}");
                }
            }
            if let Err(AddressError { suggestion: Some(meant), .. }) = text.parse::<Name>() {
                prop_assert!(meant.parse::<Name>().is_ok() && folded.contains(&meant), "{meant}");
            }
            if let Err(error) = text.parse::<InstanceId>() {
                prop_assert_eq!(error.suggestion, None);
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
