//! README and guides, pasted from top to bottom by somebody new.
//!
//! Every `sh` block of every page runs, in the order of the pages, in one home that was
//! empty before, in one shell for each page. What a page shows as the output of a block is
//! compared with what the block printed. A page says what is special in a comment that
//! readers of the page do not see, on the line before the block:
//!
//! | Comment | What it means |
//! | --- | --- |
//! | `<!-- not run: why -->` | needs something that a test has not |
//! | `<!-- run as: command -->` | asks at a terminal; the test runs this instead |
//! | `<!-- file: path -->` | the reader saves this block as that file |
//! | `<!-- prints -->` | what the block before it printed |

mod markdown;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};

use markdown::Part;
use shell::{Home, Shell};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The README, then the guides by their names.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let guides = fs::read_dir(root.join("docs/guide")).expect("guides");
    let mut pages: Vec<PathBuf> = guides.flatten().map(|entry| entry.path()).collect();
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.sort();
    pages.insert(0, root.join("README.md"));
    pages
}

/// What went wrong on a page, in a home that earlier pages may have used.
fn follow(home: &Home, name: &str, text: &str) -> Vec<String> {
    let mut shell = Shell::new(home);
    let (mut faults, mut printed) = (Vec::new(), String::new());
    for block in markdown::blocks(text) {
        let place = format!("{name}:{}", block.line);
        match block.part {
            Part::Skipped(why) if why.is_empty() => {
                faults.push(format!("{place}: a block that is not run says why"));
            }
            Part::Skipped(_) => (),
            Part::File(path) => shell.save(&path, &block.text),
            Part::Prints => {
                let (shown, was) = (shell.neutral(&block.text), shell.neutral(&printed));
                if shown != was {
                    faults.push(format!("{place}: the page shows\n{shown}\nand it was\n{was}"));
                }
            }
            Part::Run(script) if script.contains("| head") => {
                faults.push(format!("{place}: `head` stops reading, and its writer may fail"));
            }
            Part::Run(script) => match shell.run(&script) {
                Ok(ran) => {
                    if !ran.failed.is_empty() {
                        let failed = ran.failed.join("`, `");
                        faults.push(format!("{place}: `{failed}` failed\n{}{}", ran.out, ran.err));
                    }
                    printed = ran.out;
                }
                Err(why) => {
                    // Nothing can be said of what follows.
                    faults.push(format!("{place}: {why}"));
                    return faults;
                }
            },
        }
    }
    if shell.run("test -z \"$POSTHASTE_TOKEN\"").is_ok_and(|ran| !ran.failed.is_empty()) {
        faults.push(format!("{name}: whoever goes on in this shell acts as somebody else"));
    }
    faults
}

#[test]
fn every_block_of_the_readme_and_the_guides_runs_in_order_in_a_fresh_home() {
    let home = shell::fresh_home(Path::new(ROOT));
    let mut faults = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let name = page.file_name().expect("a name").to_string_lossy();
        faults.extend(follow(&home, &name, &text));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn a_page_whose_line_fails_or_that_shows_another_output_is_found() {
    let home = shell::fresh_home(Path::new(ROOT));
    let faults = |text: &str| follow(&home, "page", text);
    assert_eq!(faults("```sh\nX=1\n```\n\n```sh\ntest \"$X\" = 1\n```\n"), Vec::<String>::new());
    let found = faults("```sh\ntrue\nposthaste nonsense\ntrue\n```\n");
    assert!(found.len() == 1 && found[0].contains("`posthaste nonsense` failed"), "{found:?}");
    let found = faults("```sh\necho $(false; echo 1) | grep 2 | cat\n```\n");
    assert!(!found.is_empty());
    let shows = "```sh\necho three\n```\n\n<!-- prints -->\n```text\nfour\n```\n";
    assert_eq!(faults(shows).len(), 1);
    assert_eq!(faults(&shows.replace("four", "three")), Vec::<String>::new());
    assert_eq!(faults("<!-- not run: -->\n```sh\nfalse\n```\n").len(), 1);
    assert_eq!(faults("<!-- not run: it fails -->\n```sh\nfalse\n```\n"), Vec::<String>::new());
    let found = faults("```sh\nexport POSTHASTE_TOKEN=secret\n```\n");
    assert!(found.len() == 1 && found[0].contains("acts as somebody else"), "{found:?}");
    assert_eq!(faults("```sh\nseq 100000 | head -n 1\n```\n").len(), 1);
    let file = "<!-- file: a/b.md -->\n```markdown\nhello\n```\n\n```sh\ngrep hello a/b.md\n```\n";
    assert_eq!(faults(file), Vec::<String>::new());
}
