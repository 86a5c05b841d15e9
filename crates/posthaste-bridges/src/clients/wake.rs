//! The profile that wakes a conversation whose window is closed: the hub resumes it in a
//! process of its own.

use std::path::{Path, PathBuf};

use super::{Client, ClientEnv, Edit};
use crate::edit::{Entry, Form};
use crate::shell;

/// How a program resumes a conversation without a window.
pub struct Resume {
    /// The folder of its conversations.
    pub transcripts: PathBuf,
    /// The name of a conversation's file, as `find` takes it: `$key` is the conversation.
    pub named: &'static str,
    /// The words after the program; `$key` is the conversation, `$say` the prompt.
    pub words: &'static str,
    /// The variable that names the program's own folder.
    pub variable: &'static str,
}

/// How every such file begins. A file of the user's own does not.
const MARK: &str = "---\n# posthaste: ";

const SAY: &str = "Mail waits for you in your Posthaste mailbox, and your user is away. Read it \
    with the posthaste tool check_inbox unless you see it here already, deal with it, and finish.";

/// Returns whether a file of this text may be replaced.
pub fn is_ours(text: &str) -> bool {
    text.trim().is_empty() || text.starts_with(MARK)
}

/// Returns the edit that writes the profile of this name to `file`; `None` if the program
/// cannot resume a conversation without its window.
pub fn wake(
    client: &dyn Client,
    env: &ClientEnv<'_>,
    name: &str,
    program: &str,
    file: &Path,
) -> Option<Edit> {
    let resume = client.resume(env)?;
    let text = profile(client, &resume, env, name, program);
    let entries = vec![Entry::Whole { mark: MARK.to_owned(), text }];
    Some(Edit { files: vec![file.to_owned()], form: Form::Text, entries, unwanted: Vec::new() })
}

fn profile(
    client: &dyn Client,
    resume: &Resume,
    env: &ClientEnv<'_>,
    name: &str,
    program: &str,
) -> String {
    let Resume { transcripts, named, words, variable } = resume;
    let (short, title) = (client.name(), client.title());
    let quoted = |text: &str| shell::line([text]);
    let own = (env.variable)(variable)
        .map(|folder| {
            format!("  export {variable}={}\n", quoted(&env.project.join(folder).to_string_lossy()))
        })
        .unwrap_or_default();
    let (folder, program, say) =
        (quoted(&transcripts.to_string_lossy()), quoted(program), quoted(SAY));
    format!(
        "{MARK}`posthaste connect {short} --wake` wrote this file, and\n\
         # `posthaste connect {short} --undo` removes it.\n\
         name: {name}\n\
         description: {title}, in windows of its user\n\
         # Never beside an open window.\n\
         wake_when: away\n\
         wake: |\n\
         \x20 # A conversation is resumed in the folder that it is about.\n\
         \x20 set -eu\n\
         \x20 key=${{POSTHASTE_KEY:-}}\n\
         \x20 case $key in ''|*[!0-9A-Za-z-]*) echo 'this agent has no conversation'; exit 1;; esac\n\
         {own}\
         \x20 file=$(find {folder} -name \"{named}\" -print | head -n 1)\n\
         \x20 place=$(grep -o -m 1 '\"cwd\":\"[^\"\\]*\"' \"$file\" | head -n 1 | cut -d '\"' -f 4)\n\
         \x20 [ -n \"$place\" ] || {{ echo \"no conversation $key in\" {folder}; exit 1; }}\n\
         \x20 cd \"$place\"\n\
         \x20 unset POSTHASTE_INSTANCE POSTHASTE_KEY\n\
         \x20 say={say}\n\
         \x20 exec {program} {words}\n\
         ---\n"
    )
}
