//! CAO's names for agent programs, and the drivers that run them: one table for the
//! routes, for files of profiles and for `posthaste import cao`.

/// One of CAO's providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// CAO's name for it.
    pub name: &'static str,
    /// The driver that runs it.
    pub driver: &'static str,
    /// The program and its arguments, for drivers that run any program.
    pub command: &'static [&'static str],
    /// The same as a text for the shell.
    pub shell: Option<&'static str>,
    /// The content of a worker's stdin, where the driver leaves the choice.
    pub stdin: Option<&'static str>,
}

/// The echo agent of CAO's own tests.
pub const MOCK: &str = "mock_cli";

/// The provider that CAO takes if neither the caller nor the profile names one.
pub const DEFAULT: &str = "kiro_cli";

const fn runs(
    name: &'static str,
    driver: &'static str,
    command: &'static [&'static str],
) -> Provider {
    Provider { name, driver, command, shell: None, stdin: None }
}

const PROVIDERS: [Provider; 16] = [
    runs("claude_code", "claude", &[]),
    runs("codex", "codex", &[]),
    runs("opencode_cli", "acp", &["opencode", "acp"]),
    runs("gemini_cli", "acp", &["gemini", "--skip-trust", "--acp"]),
    runs("gemini", "acp", &["gemini", "--skip-trust", "--acp"]),
    runs(DEFAULT, "acp", &["kiro-cli", "acp"]),
    runs("copilot_cli", "acp", &["copilot", "--acp"]),
    runs("kimi_cli", "acp", &["kimi", "acp"]),
    runs("q_cli", "terminal", &["q", "chat"]),
    runs("cursor_cli", "acp", &["cursor-agent", "acp"]),
    runs("antigravity_cli", "terminal", &["agy"]),
    runs("grok_cli", "terminal", &["grok"]),
    runs("hermes", "terminal", &["hermes"]),
    runs("omp", "terminal", &["omp"]),
    runs("mcode", "terminal", &["mcode"]),
    Provider {
        name: MOCK,
        driver: "command",
        command: &[],
        // The hub's own program, which every worker finds in its environment.
        shell: Some("exec \"$POSTHASTE\" echo"),
        stdin: Some("mail"),
    },
];

/// Returns the provider of this name.
pub fn provider(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// Returns CAO's name for a driver of ours, or the driver's own name.
pub fn provider_of(driver: &str) -> &str {
    let named = PROVIDERS.iter().find(|p| p.driver == driver && p.name != MOCK);
    named.map_or(driver, |provider| provider.name)
}

/// Returns the names of all providers, for an error.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

/// Returns whether a list of CAO's stands for every tool, as `--yolo` asks for.
pub fn is_every(list: &[String]) -> bool {
    list.iter().any(|tool| tool == "*")
}

/// Returns the permission mode of the program that this driver runs in which it asks for
/// nothing, if it is known here.
pub fn mode_for_every_tool(driver: &str) -> Option<&'static str> {
    match driver {
        "claude" => Some("bypassPermissions"),
        "codex" => Some("danger-full-access never"),
        _ => None,
    }
}

/// Returns a list of tools in the words of the program that this driver runs; `None` if
/// no words of that program are known here. Such a program is not kept to the list. A list
/// of every tool limits no program.
pub fn tools_for(driver: &str, list: &[String]) -> Option<Vec<String>> {
    if is_every(list) {
        return Some(vec!["*".to_owned()]);
    }
    if driver != "claude" {
        return None;
    }
    let mut words = Vec::new();
    for tool in list {
        let theirs: &[&str] = match tool.as_str() {
            "execute_bash" => &["Bash", "BashOutput", "KillShell", "Task", "Agent"],
            "fs_read" => &["Read"],
            "fs_write" => &["Edit", "Write", "NotebookEdit"],
            "fs_list" => &["Glob", "Grep"],
            "fs_*" => &["Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep"],
            "web_fetch" => &["WebFetch", "WebSearch"],
            // Marks of CAO's own, for its MCP server.
            "@builtin" | "discovery" => &[],
            _ => {
                let server = tool.strip_prefix('@').map(|server| format!("mcp__{server}"));
                words.push(server.unwrap_or_else(|| tool.clone()));
                continue;
            }
        };
        words.extend(theirs.iter().map(|&word| word.to_owned()));
    }
    words.dedup();
    Some(words)
}

/// Returns the tools that CAO gives an agent of this role whose profile lists none.
pub fn tools_of_role(role: &str) -> Option<&'static [&'static str]> {
    match role {
        "supervisor" => Some(&["@cao-mcp-server", "fs_read", "fs_list"]),
        "reviewer" => Some(&["@builtin", "fs_read", "fs_list", "@cao-mcp-server"]),
        "developer" => Some(&["@builtin", "fs_*", "execute_bash", "web_fetch", "@cao-mcp-server"]),
        "workflow_scout" => Some(&["@builtin", "fs_read", "execute_bash", "@cao-mcp-server"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_driver_and_at_most_one_program() {
        for name in names() {
            let found = provider(name).expect("it is in the table");
            assert!(!found.driver.is_empty(), "{name}");
            assert!(found.command.is_empty() || found.shell.is_none(), "{name}");
        }
        assert_eq!(provider("claude"), None, "a driver is no provider");
        assert_eq!(provider_of("claude"), "claude_code");
        assert_eq!(provider_of("command"), "command");
    }

    #[test]
    fn tools_are_told_in_the_words_of_the_program() {
        let list = ["fs_read", "@cao-mcp-server", "discovery", "Bash(git *)"].map(str::to_owned);
        let words = tools_for("claude", &list).expect("known");
        assert_eq!(words, ["Read", "mcp__cao-mcp-server", "Bash(git *)"]);
        assert_eq!(tools_for("terminal", &list), None);
        let every = ["fs_read".to_owned(), "*".to_owned()];
        assert_eq!(tools_for("acp", &every), Some(vec!["*".to_owned()]));
        assert!(is_every(&every) && !is_every(&list));
        assert_eq!(mode_for_every_tool("claude"), Some("bypassPermissions"));
        assert_eq!(mode_for_every_tool("terminal"), None);
    }
}
