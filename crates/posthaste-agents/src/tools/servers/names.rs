//! The names of the tools of MCP servers.
//!
//! A model calls the tool `read` of the server `files` as `mcp__files__read`. Providers take
//! at most 64 letters, digits, `_` and `-`; every other name is mended, and ends with a
//! number that is made from the whole name, so that no two tools have the same.

/// The prefix of every tool of an MCP server.
pub(crate) const PREFIX: &str = "mcp__";
/// Stands between the server and its tool.
const BETWEEN: &str = "__";
/// Number of characters that providers take.
const LONGEST: usize = 64;

/// Returns the name of a tool for the model.
pub(crate) fn named(server: &str, tool: &str) -> String {
    let plain = format!("{PREFIX}{server}{BETWEEN}{tool}");
    // The first `__` ends the name of a plain server.
    let is_plain_server =
        !server.contains(BETWEEN) && !server.starts_with('_') && !server.ends_with('_');
    let is_plain = is_plain_server
        && !server.is_empty()
        && !tool.is_empty()
        && plain.len() <= LONGEST
        && plain.chars().all(is_allowed);
    match is_plain {
        true => plain,
        false => with_number(&plain, number(server, tool)),
    }
}

/// Returns another name for a tool whose name is taken.
pub(crate) fn another(server: &str, tool: &str, time: u32) -> String {
    let plain = format!("{PREFIX}{server}{BETWEEN}{tool}");
    with_number(&plain, number(server, tool).wrapping_add(time))
}

/// Returns the name of a server as it stands in the names of its tools.
pub(crate) fn begins(server: &str) -> String {
    format!("{PREFIX}{}{BETWEEN}", mended(server))
}

fn with_number(plain: &str, number: u32) -> String {
    let kept: String = mended(plain).chars().take(LONGEST - 9).collect();
    format!("{kept}_{number:08x}")
}

fn mended(name: &str) -> String {
    name.chars().map(|one| if is_allowed(one) { one } else { '_' }).collect()
}

fn is_allowed(one: char) -> bool {
    one.is_ascii_alphanumeric() || one == '_' || one == '-'
}

/// Returns the same number for the same names on every machine (FNV-1a).
fn number(server: &str, tool: &str) -> u32 {
    let bytes = server.bytes().chain([0]).chain(tool.bytes());
    bytes.fold(0x811c_9dc5, |sum: u32, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_plain_name_stays_as_it_is() {
        assert_eq!(named("files", "read_file"), "mcp__files__read_file");
        assert_eq!(named("my-files", "_read"), "mcp__my-files___read");
    }

    #[test]
    fn odd_names_are_mended_and_no_two_tools_share_one() {
        let long = "x".repeat(200);
        let odd = [
            ("files", "read file"),
            ("files", "read/file"),
            ("files", "lesen_ä"),
            ("files", ""),
            ("", "read"),
            ("files", &*long),
            (&*long, "read"),
            ("a__b", "c"),
            ("a", "b__c"),
            ("a_", "b"),
            ("a", "_b"),
            ("files", "\n\0"),
        ];
        let names: HashSet<String> = odd.iter().map(|(server, tool)| named(server, tool)).collect();
        assert_eq!(names.len(), odd.len(), "{names:?}");
        for name in &names {
            assert!(name.len() <= LONGEST && name.chars().all(is_allowed), "{name}");
        }
        assert_eq!(named("files", "read file"), named("files", "read file"), "always the same");
        assert_ne!(another("files", "read", 1), another("files", "read", 2));
    }
}
