//! The command line of a keeper: written by the hub, read by the keeper.

use std::ffi::OsString;
use std::time::Duration;

use crate::settings::Stdin;

/// Number of words before the program.
const FIRST: usize = 7;

/// The instructions for a keeper. Other users can see these words, so they contain no
/// task, no token and no id of an instance: those stand in the worker's folder, in which
/// the keeper is started, and in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// Number of bytes kept of the worker's stdout, and of its stderr.
    pub output_bytes: u64,
    /// The time between the request to end and the kill.
    pub grace: Duration,
    /// The longest time that the worker may run.
    pub most: Duration,
    pub manners: Manners,
    pub stdin: Stdin,
    /// The owner of the worker's pipes, if it runs as another user.
    pub owner: Option<Owner>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// The user and the group that own a file or a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// Process settings that the hub changed for itself, and that a worker gets as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// The permissions that new files do not get.
    pub umask: u32,
    /// Soft limit of open files.
    pub open_files: Option<u64>,
}

impl Manners {
    pub(super) fn words(self) -> [OsString; 2] {
        let files = self.open_files.map_or("-".to_owned(), |n| n.to_string());
        [format!("{:03o}", self.umask).into(), files.into()]
    }

    pub(super) fn read(umask: &str, files: &str) -> Result<Self, String> {
        let mask = u32::from_str_radix(umask, 8).ok().filter(|mask| *mask <= 0o777);
        Ok(Self {
            umask: mask.ok_or_else(|| format!("`{umask}` is not a mask"))?,
            open_files: match files {
                "-" => None,
                _ => Some(files.parse().map_err(|_| format!("`{files}` is not a number"))?),
            },
        })
    }
}

impl Keep {
    pub fn words(&self) -> Vec<OsString> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut words: Vec<OsString> = vec![
            self.output_bytes.to_string().into(),
            millis(self.grace).to_string().into(),
            millis(self.most).to_string().into(),
        ];
        words.extend(self.manners.words());
        words.extend([
            match self.stdin {
                Stdin::Task => "task",
                Stdin::Mail => "mail",
                Stdin::Session => "session",
                Stdin::Terminal => "terminal",
            }
            .into(),
            self.owner
                .map_or("-".to_owned(), |owner| format!("{}:{}", owner.uid, owner.gid))
                .into(),
        ]);
        words.extend(self.command.iter().cloned());
        words
    }

    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let words: Vec<OsString> = words.into_iter().collect();
        if words.len() <= FIRST {
            return Err("this command is for the hub, which starts it for each worker".into());
        }
        let text = |at: usize| words[at].to_str().unwrap_or_default();
        let number = |at: usize| -> Result<u64, String> {
            text(at).parse().map_err(|_| format!("`{}` is not a number", text(at)))
        };
        Ok(Self {
            output_bytes: number(0)?,
            grace: Duration::from_millis(number(1)?),
            most: Duration::from_millis(number(2)?),
            manners: Manners::read(text(3), text(4))?,
            stdin: match text(5) {
                "task" => Stdin::Task,
                "mail" => Stdin::Mail,
                "session" => Stdin::Session,
                "terminal" => Stdin::Terminal,
                other => {
                    return Err(format!("`{other}` is neither task, mail, session nor terminal"));
                }
            },
            owner: match text(6) {
                "-" => None,
                pair => Some(owner(pair).ok_or_else(|| format!("`{pair}` is nobody"))?),
            },
            command: words[FIRST..].to_vec(),
        })
    }
}

fn owner(pair: &str) -> Option<Owner> {
    let (uid, gid) = pair.split_once(':')?;
    Some(Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hub_writes_the_keeper_reads() {
        let keep = Keep {
            output_bytes: 8 << 20,
            grace: Duration::from_secs(10),
            most: Duration::from_secs(86_400),
            manners: Manners { umask: 0o022, open_files: Some(1024) },
            stdin: Stdin::Mail,
            owner: Some(Owner { uid: 65534, gid: 65533 }),
            command: vec!["/bin/sh".into(), "-c".into(), "--help; echo -x".into()],
        };
        assert_eq!(Keep::read(keep.words()), Ok(keep.clone()));
        let other = Keep { manners: Manners { umask: 0, open_files: None }, owner: None, ..keep };
        assert_eq!(Keep::read(other.words()), Ok(other));
    }

    #[test]
    fn whoever_tries_it_by_hand_is_told_what_it_is_for() {
        let error = Keep::read([]).expect_err("nothing to do");
        assert!(error.contains("for the hub"), "{error}");
        let words = ["many", "1", "1", "022", "-", "task", "-", "true"].map(OsString::from);
        assert!(Keep::read(words).expect_err("no number").contains("`many`"));
        let words = ["1", "1", "1", "9", "-", "task", "-", "true"].map(OsString::from);
        assert!(Keep::read(words).expect_err("no mask").contains("`9`"));
        let words = ["1", "1", "1", "022", "-", "task", "7", "true"].map(OsString::from);
        assert!(Keep::read(words).expect_err("no owner").contains("`7`"));
    }
}
