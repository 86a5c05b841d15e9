//! `docs/reference`: made from the code, and compared with it by a test.
//!
//! When a page is stale, `POSTHASTE_UPDATE=1 cargo test -p posthaste reference` writes it
//! again.

mod rest;

use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory;
use posthaste_api::ErrorCode;
use serde_json::Value;

use crate::cli::Cli;
use crate::failure::Failure;

/// Every exit status of the command line.
const EXITS: [(u8, &str); 12] = [
    (0, "It was done."),
    (1, "A fault: of the hub, of the machine, or of the program itself."),
    (2, "The command line is wrong, or a setting, an address or a file that it names."),
    (3, "There is nobody and nothing of that name, or the recipient has ended."),
    (4, "Not as things are: something is taken, full, too much at once, or over already."),
    (5, "No hub answers, it cannot keep mail just now, or the port of `up` is somebody else's."),
    (6, "No token, a wrong one, or one that may not do this."),
    (7, "`inbox`: no mail came within the time."),
    (8, "`inbox --wait-for`, `handoff`: not everybody has reported yet; the work goes on."),
    (
        9,
        "`inbox --wait-for`, `handoff`: all who were waited for have reported, and a worker failed. \
         `demo --with`: an agent failed, or the tests that it was to mend still fail.",
    ),
    (130, "Ctrl-C."),
    (141, "Whoever read stdout has closed it."),
];

/// Wide enough for every line of the help, and the same everywhere.
const WIDTH: usize = 100;

#[expect(clippy::disallowed_methods, reason = "how a person asks for new pages")]
fn should_update() -> bool {
    std::env::var_os("POSTHASTE_UPDATE").is_some()
}

fn check(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if should_update() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, page).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/reference/{name} is stale: POSTHASTE_UPDATE=1 cargo test -p posthaste reference"
    );
}

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let mut page = String::from(
        "# The command line\n\nMade from the program itself; `posthaste help` says the same.\n",
    );
    let mut root = Cli::command().term_width(WIDTH);
    root.build();
    chapters(&mut root, "posthaste", &mut page);
    check("cli.md", &page);
}

fn chapters(command: &mut clap::Command, name: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for inner in command.get_subcommands_mut() {
        if inner.is_hide_set() || inner.get_name() == "help" {
            continue;
        }
        let name = format!("{name} {}", inner.get_name());
        chapters(inner, &name, page);
    }
}

#[test]
fn the_reference_of_errors_is_up_to_date() {
    let mut page = String::from(
        "# Errors\n\nEvery error answer is `{\"error\": {\"code\", \"message\", \"hint\", \"details\"}}`. \
         Programs build on the code; the exit status is that of the command line, \
         [explained below](#exit-status).\n\n\
         | Code | HTTP | Exit | What it means |\n| --- | --- | --- | --- |\n",
    );
    for code in ErrorCode::ALL {
        let (word, status, exit) = (code.as_str(), code.status(), code.exit());
        let _ = writeln!(page, "| `{word}` | {status} | {exit} | {} |", code.meaning());
    }
    page.push_str(
        "\n## Exit status\n\nWhat a script can build on. Only 0 says that all was done; \
         `up` says it, too, when the hub of this very folder runs already and is the one that \
         was asked for. After 7, 8 and 9 the answer stands on stdout all the same.\n\n\
         | Exit | What it means |\n| --- | --- |\n",
    );
    for (exit, meaning) in EXITS {
        let _ = writeln!(page, "| {exit} | {meaning} |");
    }
    check("errors.md", &page);
}

#[test]
fn every_exit_status_stands_in_the_reference_and_no_other() {
    let others = [
        Failure::NoMail,
        Failure::Incomplete,
        Failure::WorkerFailed,
        Failure::Interrupted,
        Failure::Unheard,
    ];
    let errors = ErrorCode::ALL.iter().map(|code| code.exit());
    let mut real: Vec<u8> = errors.chain(others.iter().map(Failure::exit)).chain([0]).collect();
    real.sort_unstable();
    real.dedup();
    assert_eq!(EXITS.map(|(exit, _)| exit).to_vec(), real);
    // A script must be able to tell them apart.
    let own: std::collections::BTreeSet<u8> = others.iter().map(Failure::exit).collect();
    assert_eq!(own.len(), others.len());
    assert!(ErrorCode::ALL.iter().all(|code| !own.contains(&code.exit())));
}

#[test]
fn the_reference_of_mcp_tools_is_up_to_date() {
    let mut page = String::from(
        "# MCP tools\n\nMade from the program itself; `tools/list` shows the same. \
         The native tools are what every client gets; a dialect (`/mcp?dialect=NAME`, \
         `posthaste mcp --dialect NAME`) lists its own instead.\n\n\
         ## What every model is told\n\n```text\n",
    );
    let _ = writeln!(page, "{}\n```", posthaste_server::mcp_instructions());
    for (dialect, tools) in posthaste_server::mcp_reference() {
        let _ = writeln!(page, "\n## {dialect}");
        for tool in tools {
            let _ =
                writeln!(page, "\n### {}\n\n{}", text(&tool["name"]), text(&tool["description"]));
            let schema = &tool["inputSchema"];
            let needed: Vec<_> = list(&schema["required"]).filter_map(Value::as_str).collect();
            let properties = schema["properties"].as_object().expect("properties");
            let given = properties.iter().map(|(name, about)| {
                let needed = if needed.contains(&name.as_str()) { " (needed)" } else { "" };
                (format!("{name}{needed}"), text(&about["type"]), text(&about["description"]))
            });
            table(&mut page, "Parameter", given.collect());
        }
    }
    check("mcp.md", &page);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn table(page: &mut String, head: &str, rows: Vec<(String, String, String)>) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n| {head} | Kind | |\n| --- | --- | --- |");
    for (name, kind, told) in rows {
        let told = told.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(page, "| `{name}` | {kind} | {told} |");
    }
}
