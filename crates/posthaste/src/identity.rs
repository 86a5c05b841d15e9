//! The tokens in the data folder of the hub on this machine.
//!
//! ```text
//! <data>/operator.token         its reader is the operator
//! <data>/join.token             its reader may join as an agent
//! <data>/identities/alice.json  the identity of `--as alice`; alice@avalon.json likewise;
//!                               `keyring` has the others there
//! <data>/hub.json               the address of the running hub
//! ```
//!
//! Every file is readable by its owner alone, and no `Debug` shows a token.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use posthaste_api::instances::Joined;
use posthaste_api::{ApiError, ErrorCode};
use posthaste_core::address::{AddressError, DEFAULT_TEAM, Name};
use posthaste_store::FolderLock;
use serde::{Deserialize, Serialize};

use crate::failure::{invalid, machine};
use crate::private;

const YOURS: &str = "check that the folder is yours and writable, and that its disk is not full";

/// The shortest text that the hub accepts as a secret.
const MIN_TOKEN: usize = 16;

/// A secret. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Token(String);

impl Token {
    /// Makes a token of 256 random bits.
    pub(crate) fn random() -> Self {
        let bytes: [u8; 32] = rand::random();
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The two tokens that belong to the hub and not to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Key {
    Join,
    Operator,
}

impl Key {
    fn file(self) -> &'static str {
        match self {
            Self::Join => "join.token",
            Self::Operator => "operator.token",
        }
    }

    /// The name in `posthaste token`.
    fn word(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Join => "join token",
            Self::Operator => "operator's token",
        })
    }
}

/// The agent that `--as` names: `alice`, or `alice@avalon` for one that joined a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acting {
    name: Name,
    team: Option<Name>,
}

impl Acting {
    /// Makes the name; the default team is left out.
    pub(crate) fn new(name: Name, team: Option<Name>) -> Self {
        Self { name, team: team.filter(|team| team.as_str() != DEFAULT_TEAM) }
    }

    /// Parses the name as a person writes it.
    pub(crate) fn read(text: &str) -> Result<Self, ApiError> {
        match text.split_once('@') {
            Some((agent, team)) => Ok(Self::new(name(agent)?, Some(name(team)?))),
            None => Ok(Self::new(name(text)?, None)),
        }
    }

    /// Returns the command by which the agent joins.
    pub(crate) fn joins(&self) -> String {
        match &self.team {
            Some(team) => format!("posthaste join {} --team {team}", self.name),
            None => format!("posthaste join {}", self.name),
        }
    }
}

impl fmt::Display for Acting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.team {
            Some(team) => write!(f, "{}@{team}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// Reads an agent's or a team's name as a person writes it.
pub(crate) fn name(text: &str) -> Result<Name, ApiError> {
    text.parse().map_err(|e: AddressError| {
        let told = invalid(format!("`{text}` is not a name: {}", e.why));
        match e.suggestion {
            Some(meant) => told.hint(format!("did you mean `{meant}`?")),
            None => told.hint("a name looks like `alice` or `code-reviewer2`"),
        }
    })
}

/// The identity of `--as NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) instance: String,
    pub(crate) address: String,
    pub(crate) token: Token,
}

impl From<&Joined> for Identity {
    fn from(joined: &Joined) -> Self {
        Self {
            instance: joined.instance.clone(),
            address: joined.address.clone(),
            token: joined.token.clone().into(),
        }
    }
}

/// The address of the running hub, as the hub recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) pid: u32,
    /// The configuration file that it read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn make(&self) -> Result<(), ApiError> {
        private::folder(&self.0).map_err(|e| {
            machine("make the folder", &self.0, e).hint("name another one with --data")
        })
    }

    /// Returns the hub's token, which is made on first use and never overwritten.
    pub(crate) fn key_or_new(&self, key: Key) -> Result<Token, ApiError> {
        let path = self.0.join(key.file());
        private::create(&path, line(&Token::random()).as_bytes())
            .map_err(|e| machine("write", &path, e).hint(YOURS))?;
        self.key(key)?.ok_or_else(|| self.no_key(key))
    }

    pub(crate) fn no_key(&self, key: Key) -> ApiError {
        machine("read", &self.0.join(key.file()), "there is no such file").hint(format!(
            "put it back, or make a new one with `posthaste token --new {}`",
            key.word()
        ))
    }

    /// Returns the hub's token, if a hub was ever started here.
    pub(crate) fn key(&self, key: Key) -> Result<Option<Token>, ApiError> {
        let path = self.0.join(key.file());
        let text = match private::read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            // A file that is not text holds no token.
            Err(e) if e.kind() == ErrorKind::InvalidData => String::new(),
            Err(e) => return Err(machine("read", &path, e).hint(YOURS)),
        };
        let text = text.trim();
        if text.len() < MIN_TOKEN || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(machine("use", &path, "this is not a token")
                .hint(format!("replace it with `posthaste token --new {}`", key.word())));
        }
        Ok(Some(Token(text.to_owned())))
    }

    /// Replaces a token. A running hub keeps the old one until it is told to read its
    /// tokens again.
    pub(crate) fn put_key(&self, key: Key, token: &Token) -> Result<(), ApiError> {
        self.make()?;
        let path = self.0.join(key.file());
        private::write(&path, line(token).as_bytes())
            .map_err(|e| machine("write", &path, e).hint(YOURS))
    }

    /// Returns an identity. A name without a team also means the agent of a team, if no
    /// other has the name.
    pub(crate) fn identity(&self, acting: &Acting) -> Result<Identity, ApiError> {
        self.found(acting).map(|(_, who)| who)
    }

    /// Returns the same, with the whole name under which it is kept.
    pub(crate) fn found(&self, acting: &Acting) -> Result<(Acting, Identity), ApiError> {
        if let Some(who) = self.kept(acting)? {
            return Ok((acting.clone(), who));
        }
        let missing = || {
            let told = format!("nobody has joined as {acting} from here");
            ApiError::new(ErrorCode::NotFound, told)
        };
        match self.in_teams(acting).as_slice() {
            [] => Err(missing().hint(acting.joins())),
            [one] => match self.kept(one)? {
                Some(who) => Ok((one.clone(), who)),
                None => Err(missing().hint(acting.joins())),
            },
            several => {
                let names: Vec<String> = several.iter().map(Acting::to_string).collect();
                Err(missing().hint(format!("which one: {}?", names.join(", "))))
            }
        }
    }

    /// Returns the identity kept under exactly this name.
    pub(crate) fn kept(&self, acting: &Acting) -> Result<Option<Identity>, ApiError> {
        let path = self.identity_file(acting);
        let text = private::read(&path).map_err(|e| machine("read", &path, e))?;
        let read = |text: String| {
            serde_json::from_str(&text).map_err(|e| {
                machine("read", &path, e).hint(format!("write it anew with `{}`", acting.joins()))
            })
        };
        text.map(read).transpose()
    }

    /// Returns those of the same name that joined with a team, if this name has none.
    fn in_teams(&self, acting: &Acting) -> Vec<Acting> {
        if acting.team.is_some() {
            return Vec::new();
        }
        let files = fs::read_dir(self.identities()).into_iter().flatten().flatten();
        let names = files.filter_map(|file| {
            let file = file.file_name();
            let other = Acting::read(file.to_str()?.strip_suffix(".json")?).ok()?;
            (other.name == acting.name && other.team.is_some()).then_some(other)
        });
        let mut names: Vec<Acting> = names.collect();
        names.sort_by_key(Acting::to_string);
        names
    }

    pub(crate) fn keep_identity(&self, acting: &Acting, who: &Identity) -> Result<(), ApiError> {
        let path = self.identity_file(acting);
        let text = serde_json::to_string_pretty(who).expect("an identity has only text fields");
        private::folder(&self.identities())
            .and_then(|()| private::write(&path, text.as_bytes()))
            .map_err(|e| machine("write", &path, e))
    }

    pub(crate) fn forget_identity(&self, acting: &Acting) -> Result<(), ApiError> {
        let path = self.identity_file(acting);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(machine("remove", &path, e)),
            _ => Ok(()),
        }
    }

    /// Returns the record of the hub that runs on this folder. A program that listens
    /// where a hub was killed is not the hub, also while the next hub starts.
    pub(crate) fn running(&self) -> Option<Running> {
        let by_holder = |hub: &Running| FolderLock::holder(&self.0) == Some(hub.pid);
        self.announced().filter(|hub| self.has_hub() && by_holder(hub))
    }

    /// Returns whether a hub runs on this folder: it holds the lock.
    pub(crate) fn has_hub(&self) -> bool {
        FolderLock::is_held(&self.0)
    }

    /// Returns the record of a hub, which may have died since. A file that cannot be read
    /// counts as absent.
    pub(crate) fn announced(&self) -> Option<Running> {
        let text = private::read(&self.hub_file()).ok()??;
        serde_json::from_str(&text).ok()
    }

    pub(crate) fn announce(&self, hub: &Running) -> Result<(), ApiError> {
        let text = serde_json::to_string(hub).expect("an address and a number are JSON");
        private::write(&self.hub_file(), text.as_bytes())
            .map_err(|e| machine("write", &self.hub_file(), e).hint(YOURS))
    }

    /// Removes the record of [`Self::announce`], unless another hub has written its own
    /// since.
    pub(crate) fn withdraw(&self, hub: &Running) {
        if self.announced().as_ref() == Some(hub) {
            let _ = fs::remove_file(self.hub_file());
        }
    }

    fn hub_file(&self) -> PathBuf {
        self.0.join("hub.json")
    }

    /// Returns the folder of the agents' credentials.
    pub(crate) fn identities(&self) -> PathBuf {
        self.0.join("identities")
    }

    /// Returns the file of an identity. A name has no slash and no dot, so it is safe in
    /// a path.
    fn identity_file(&self, acting: &Acting) -> PathBuf {
        self.identities().join(format!("{acting}.json"))
    }
}

fn line(token: &Token) -> String {
    format!("{}\n", token.reveal())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, DataFolder) {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let folder = DataFolder::new(scratch.path().join("data"));
        folder.make().expect("made");
        (scratch, folder)
    }

    fn alice() -> Acting {
        Acting::read("alice").expect("a good name")
    }

    #[test]
    fn the_tokens_are_made_once_and_differ() {
        let (_scratch, folder) = folder();
        assert!(folder.key(Key::Join).expect("no error").is_none());
        let join = folder.key_or_new(Key::Join).expect("made");
        let operator = folder.key_or_new(Key::Operator).expect("made");
        assert!(join != operator);
        assert_eq!(join.reveal().len(), 64);
        assert!(folder.key_or_new(Key::Join).expect("kept") == join);
        let new = Token::random();
        folder.put_key(Key::Join, &new).expect("written");
        assert!(new != join && folder.key_or_new(Key::Join).expect("kept") == new);
    }

    #[test]
    fn an_empty_token_file_never_becomes_an_empty_password() {
        let (_scratch, folder) = folder();
        let texts: [&[u8]; 5] =
            [b"", b"\n", b"short", b"two words that are long enough", &[0xff; 40]];
        for text in texts {
            fs::write(folder.path().join("operator.token"), text).expect("written");
            let error = folder.key_or_new(Key::Operator).expect_err("refused");
            assert!(error.hint.expect("a hint").contains("--new operator"), "{text:?}");
        }
    }

    #[test]
    fn whoever_has_not_joined_is_told_how() {
        let (_scratch, folder) = folder();
        let error = folder.identity(&alice()).expect_err("unknown");
        assert_eq!(error.code, ErrorCode::NotFound);
        assert_eq!(error.hint.as_deref(), Some("posthaste join alice"));
        let who = Identity {
            instance: "a3f7b2c1".into(),
            address: "alice.a3f7b2c1@main".into(),
            token: Token::random(),
        };
        folder.keep_identity(&alice(), &who).expect("kept");
        assert!(folder.identity(&alice()).expect("known") == who);
        folder.forget_identity(&alice()).expect("forgotten");
        folder.forget_identity(&alice()).expect("twice is fine");
        assert!(folder.identity(&alice()).is_err());
    }

    #[test]
    fn a_name_alone_means_the_only_one_of_that_name_and_never_another() {
        let (_scratch, folder) = folder();
        let acting = |text: &str| Acting::read(text).expect("a good name");
        let keep = |text: &str| {
            let (instance, token) = ("a3f7b2c1".to_owned(), Token::random());
            let who = Identity { instance, address: text.to_owned(), token };
            folder.keep_identity(&acting(text), &who).expect("kept");
        };
        let found = |text: &str| folder.identity(&acting(text)).map(|who| who.address);
        keep("w1@blue");
        assert_eq!(found("w1").expect("the only one"), "w1@blue");
        keep("w1@green");
        let error = found("w1").expect_err("which?");
        assert_eq!(error.hint.as_deref(), Some("which one: w1@blue, w1@green?"));
        keep("w1");
        assert_eq!(found("w1").expect("its own"), "w1");
        assert_eq!(found("w1@main").expect("the usual team"), "w1");
        assert_eq!(found("w1@blue").expect("its own"), "w1@blue");
        let error = found("w1@red").expect_err("unknown");
        assert_eq!(error.hint.as_deref(), Some("posthaste join w1 --team red"));
    }

    #[test]
    fn a_hub_takes_back_only_its_own_announcement() {
        let (_scratch, folder) = folder();
        let old = Running { url: "http://127.0.0.1:1".into(), pid: 1, config: None };
        let pid = std::process::id();
        let new = Running { url: "http://127.0.0.1:2".into(), pid, config: None };
        folder.announce(&old).expect("said");
        folder.announce(&new).expect("said");
        folder.withdraw(&old);
        assert_eq!(folder.announced(), Some(new.clone()));
        assert_eq!(folder.running(), None, "nobody holds the folder");
        let lock = FolderLock::take(folder.path()).expect("free");
        assert_eq!(folder.running(), Some(new.clone()));
        folder.announce(&old).expect("said");
        assert_eq!(folder.running(), None, "a hub that holds the folder no more has said it");
        folder.announce(&new).expect("said");
        drop(lock);
        folder.withdraw(&new);
        assert_eq!(folder.announced(), None);
    }

    #[test]
    fn a_token_is_never_printed() {
        let token = Token::from("geheim-geheim-geheim".to_owned());
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
