//! The job: Posthaste's own pages, and the script that counts their words.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::PARTS;

/// The pages whose words are counted.
pub(super) const NAMES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "mcp.md", "connect.md"];

const TEXTS: [&str; 5] = [
    include_str!("../../../../../README.md"),
    include_str!("../../../../../ARCHITECTURE.md"),
    include_str!("../../../../../CONTRIBUTING.md"),
    include_str!("../../../../../docs/guide/mcp.md"),
    include_str!("../../../../../docs/guide/connect.md"),
];

/// The script of a worker: its task is the path of a page, its answer the number of
/// words. It reads slowly, so that there is something to see.
const SCRIPT: &str = r#"set -e
page=$(cat)
lines=$(wc -l < "$page")
step=$((lines / PARTS + 1))
from=1
words=0
while [ "$from" -le "$lines" ]; do
  upto=$((from + step - 1))
  words=$((words + $(sed -n "${from},${upto}p" "$page" | awk '{ n += NF } END { print n + 0 }')))
  echo "line $upto of $lines: $words words" >&2
  from=$((upto + 1))
  sleep "$PACE"
done
echo "$words"
"#;

/// Counts the words of a page in this process.
pub(super) fn words(name: &str) -> Option<usize> {
    let at = NAMES.iter().position(|known| *known == name)?;
    Some(TEXTS[at].split_whitespace().count())
}

/// Writes the pages, the script and the worker's profile where the hub finds them.
pub(super) fn write(folder: &Path, data: &Path, pace: Duration) -> io::Result<()> {
    let pages = folder.join("pages");
    fs::create_dir_all(&pages)?;
    for (name, text) in NAMES.iter().zip(TEXTS) {
        fs::write(pages.join(name), text)?;
    }
    let script = folder.join("count-words.sh");
    fs::write(&script, SCRIPT)?;
    let profiles = data.join("profiles");
    fs::create_dir_all(&profiles)?;
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    let profile = format!(
        "---\n\
         name: word-counter\n\
         description: counts the words of a page; a shell script, no model\n\
         kind: mechanical\n\
         driver: command\n\
         command: [/bin/sh, {}]\n\
         working_directory: {}\n\
         env: {{ PACE: \"{}\", PARTS: \"{PARTS}\" }}\n\
         tags: [demo, script]\n\
         ---\n",
        quoted(&script),
        quoted(&pages),
        pace.as_secs_f64(),
    );
    fs::write(profiles.join("word-counter.md"), profile)
}
