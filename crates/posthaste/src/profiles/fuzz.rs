//! Fuzzes files of profiles: each is a profile, or a fault with its line.

use posthaste_testkit::fuzz;
use serde_json::{Map, Value};

use super::file::parse;

const FILES: [&str; 5] = [
    "---\nname: Reviewer\ntitle: The Reviewer\ndescription: |\n  reads\n  diffs\nkind: mechanical\ndriver: runner\ntags: [rust, review]\ntools: []\nconfig:\n  mcp_config: {a: 1}\n---\n\nYou review.\n---\nStill the prompt.\n",
    "---\r\nname: \"dev\"\r\nprovider: 'claude_code'\r\nallowedTools:\r\n  - x\r\n  - 1\r\ncapabilities: a, b\r\n---\r\nPrompt\r\n",
    "\u{feff}---\nname: anchors\nconfig:\n  base: &b {k: [1, 2]}\n  more: *b\n  <<: *b\n  when: 2026-01-01\n  big: 1e400\n  hex: 0xFF\n---\n",
    "---\n# nothing\n---\n",
    "---\nname: folded\ndescription: >-\n  a\n\n  b\nsystem_prompt: !!str 7\n\"quoted\": \"\\x41\\u263a\"\n? complex\n: value\n---\n",
];

#[test]
fn every_file_is_a_profile_or_names_the_line_that_is_wrong() {
    for case in fuzz::cases(4_000, &FILES) {
        let text = case.text();
        match parse(&text) {
            Ok(parsed) => {
                let config: Map<String, Value> =
                    serde_json::from_str(&parsed.template.config).expect("an object");
                assert!(!config.contains_key("name"));
                for field in ["name", "driver", "tools", "tags", "title", "system_prompt", "x"] {
                    let _ = parsed.line_of(field);
                }
            }
            Err(fault) => {
                let lines = 1 + text.matches('\n').count();
                assert!(fault.line.is_none_or(|line| (1..=lines).contains(&line)), "{fault:?}");
                assert!(!fault.why.is_empty(), "{fault:?}");
                assert!(fault.why.chars().count() < 500, "{} bytes", fault.why.len());
                assert!(!fault.why.contains('\n'), "{fault:?}");
            }
        }
    }
}

#[test]
fn a_few_lines_of_aliases_do_not_become_gigabytes() {
    let mut bomb =
        String::from("---\nname: bomb\nconfig:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let aliases = vec![format!("*a{}", n - 1); 9].join(", ");
        bomb.push_str(&format!("  a{n}: &a{n} [{aliases}]\n"));
    }
    bomb.push_str("---\n");
    let fault = parse(&bomb).expect_err("nine to the twelfth");
    assert!(!fault.why.is_empty() && fault.why.chars().count() < 500, "{fault:?}");
}

#[test]
fn front_matter_that_nests_a_hundred_thousand_times_is_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", "")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(parse(&format!("---\nname: deep\nconfig: {deep}\n---\n")).is_err(), "{open}");
    }
}
