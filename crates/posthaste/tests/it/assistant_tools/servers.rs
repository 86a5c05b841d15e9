//! MCP servers of profiles.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{KEY, Office, gone, has_python, number, runs};
use crate::world::{Ran, eventually};

fn profile(servers: Value) -> Value {
    json!({ "mcp_config": { "mcpServers": servers } })
}

fn call(tool: &str) -> (&str, Value) {
    (tool, json!({}))
}

#[test]
fn an_assistant_calls_the_tools_of_a_server_on_stdio() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = json!({ "small": office.server("stdio") });
    let calls = [
        call("mcp__small__pid"),
        call("mcp__small__environment"),
        call("mcp__small__fail"),
        call("mcp__small__picture"),
        call("mcp__small__flood"),
    ];
    office.assistant("asker", &profile(servers), &calls);
    office.open();
    let [pid, environment, fail, picture, flood] = &office.work("asker")[..] else {
        panic!("five results")
    };
    assert!(!pid.is_error && pid.text.starts_with("pid="), "{pid:?}");
    assert!(environment.text.lines().any(|name| name == "PATH"), "{environment:?}");
    for secret in [KEY, "POSTHASTE_TOKEN", "CAO_AUTH_LOCAL_TOKEN"] {
        assert!(!environment.text.contains(secret), "{secret}: {environment:?}");
    }
    assert!(fail.is_error && fail.text == "it does not work", "{fail:?}");
    assert!(!picture.is_error && picture.text.contains("image/png"), "{picture:?}");
    assert!(flood.text.len() < 20_000 && flood.text.contains("clipped"), "{}", flood.text.len());
}

#[test]
fn an_assistant_calls_the_tools_of_a_server_over_http() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let (server, port) = office.serve();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let servers = json!({
        "far": { "type": "http", "url": url, "headers": { "X-Key": "open sesame" } },
        "closed": { "type": "http", "url": url },
    });
    let calls = [
        call("mcp__far__pid"),
        call("mcp__closed__pid"),
        call("mcp__far__refuse"),
        call("mcp__far__refuse"),
        call("mcp__far__refuse"),
        call("mcp__far__refuse"),
        call("mcp__far__pid"),
        call("mcp__far__die"),
    ];
    office.assistant("asker", &profile(servers), &calls);
    office.open();
    let outcomes = office.work("asker");
    let [pid, closed, refused, .., again, died] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(refused.is_error && refused.text.contains("500"), "{refused:?}");
    assert_eq!(again.text, pid.text, "a refused call costs the server nothing");
    assert_eq!(pid.text, format!("pid={}", server.pid()), "{pid:?}");
    assert!(closed.is_error && closed.text.contains("the MCP server closed"), "{closed:?}");
    assert!(died.is_error && died.text.contains("far"), "{died:?}");
    assert!(office.has_note(&["note", "the MCP server closed"]));
}

#[test]
fn no_secret_of_a_server_over_http_is_in_a_result_or_a_note() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let (_server, port) = office.serve();
    let headers = json!({ "X-Key": "open sesame" });
    let at = |port: &str| format!("http://alice:geheim-1@127.0.0.1:{port}/mcp?key=geheim-2");
    let servers = json!({
        "far": { "type": "http", "url": at(&port), "headers": headers },
        // Nobody listens on a port that only root may take.
        "gone": { "type": "http", "url": at("1"), "headers": headers },
    });
    let calls = [call("mcp__far__echo"), call("mcp__far__die"), call("mcp__gone__pid")];
    office.assistant("asker", &profile(servers), &calls);
    office.open();
    let outcomes = office.work("asker");
    let [echo, died, gone] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(echo.is_error && echo.text.contains("you sent /mcp?[hidden]"), "{echo:?}");
    assert!(died.is_error && died.text.contains("far"), "{died:?}");
    assert!(gone.is_error && gone.text.contains("cannot be reached"), "{gone:?}");
    assert!(office.has_note(&["note", "the MCP server gone cannot be reached", "[hidden]"]));
    let transcript = office.newest().with_file_name("transcript");
    let transcript = std::fs::read_to_string(transcript).expect("a text");
    let results: String = outcomes.iter().map(|outcome| outcome.text.as_str()).collect();
    for secret in ["geheim", "open sesame", "YWxpY2U6Z2VoZWlt"] {
        assert!(!results.contains(secret), "{secret}: {results}");
        assert!(!transcript.contains(secret), "{secret}: {transcript}");
    }
}

#[test]
fn two_assistants_share_one_server_and_another_folder_has_its_own() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = || json!({ "small": office.server("stdio") });
    let (one, two, three) = (profile(servers()), profile(servers()), servers());
    office.assistant("one", &one, &[call("mcp__small__pid")]);
    office.assistant("two", &two, &[call("mcp__small__pid")]);
    office.assistant("three", &profile(three), &[call("mcp__small__pid")]);
    office.open();
    let mut pids = ["one", "two"].map(|name| office.work(name)[0].text.clone()).to_vec();
    pids.push(office.work_in("three", office.world.scratch())[0].text.clone());
    assert_eq!(pids[0], pids[1], "one server");
    assert_ne!(pids[0], pids[2], "another folder");
    let shared = number(&pids[0], "pid");
    assert!(runs(shared), "it waits for its next use");
    office.hub.take().expect("a hub").stop();
    gone(shared);
}

#[test]
fn a_server_that_ends_in_a_call_is_an_error_of_that_call_and_the_next_call_works() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = json!({ "small": office.server("stdio") });
    let calls = [call("mcp__small__pid"), call("mcp__small__die"), call("mcp__small__pid")];
    office.assistant("asker", &profile(servers), &calls);
    office.open();
    let [first, died, second] = &office.work("asker")[..] else { panic!("three results") };
    assert!(died.is_error && died.text.contains("exit code 3"), "{died:?}");
    assert!(died.text.contains("the last words"), "{died:?}");
    assert!(!second.is_error && first.text != second.text, "{first:?} {second:?}");
    assert!(office.has_note(&["note", "the MCP server small ended with exit code 3"]));
}

#[test]
fn a_server_that_is_killed_between_two_calls_is_started_again() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = || json!({ "small": office.server("stdio") });
    let (one, two) = (profile(servers()), profile(servers()));
    office.assistant("one", &one, &[call("mcp__small__child")]);
    office.assistant("two", &two, &[call("mcp__small__pid")]);
    office.open();
    let first = &office.work("one")[0].text;
    let (server, child) = (number(first, "pid"), number(first, "child"));
    kill_process(server, Signal::KILL).expect("it runs");
    gone(server);
    gone(child);
    let second = &office.work("two")[0];
    assert!(!second.is_error && number(&second.text, "pid") != server, "{second:?}");
}

#[test]
fn a_server_that_never_starts_costs_its_tools_and_nothing_else() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("server_start = \"2s\"");
    let servers = json!({
        "broken": office.server("broken"),
        "silent": office.server("silent"),
        "missing": { "command": "no-such-server-anywhere" },
        "posthaste": { "command": "posthaste", "args": ["mcp"] },
        "small": office.server("stdio"),
    });
    let calls = [
        call("mcp__broken__pid"),
        call("mcp__silent__pid"),
        call("mcp__missing__pid"),
        call("mcp__small__no_such_tool"),
        call("mcp__small__pid"),
    ];
    office.assistant("asker", &profile(servers), &calls);
    office.open();
    let outcomes = office.work("asker");
    let [broken, silent, missing, unknown, small] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(broken.is_error && broken.text.contains("exit code 4"), "{broken:?}");
    assert!(broken.text.contains("no licence was found"), "{broken:?}");
    assert!(silent.is_error && silent.text.contains("runner.server_start"), "{silent:?}");
    assert!(missing.is_error && missing.text.contains("no-such-server-anywhere"), "{missing:?}");
    assert!(unknown.is_error && unknown.text.contains("has no tool"), "{unknown:?}");
    assert!(!small.is_error, "{small:?}");
    assert!(office.has_note(&["note", "the MCP server broken", "no licence was found"]));
    assert!(office.has_note(&["note", "the MCP server silent"]));
    assert!(office.has_note(&["note", "posthaste is the hub itself"]));
}

#[test]
fn a_tool_of_an_odd_name_is_called_and_a_new_one_is_seen() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = json!({ "my files": office.server("stdio") });
    // The number is made from the names, and stays the same.
    let odd = "mcp__my_files__odd_name_x_20aacbef";
    office.assistant("asker", &profile(servers), &[call(odd)]);
    let plain = json!({ "small": office.server("stdio") });
    let calls =
        [call("mcp__small__another"), call("mcp__small__more"), call("mcp__small__another")];
    office.assistant("changer", &profile(plain), &calls);
    office.open();
    let odd = &office.work("asker")[0];
    assert_eq!(odd.text, "odd but called", "{odd:?}");
    let [before, _, after] = &office.work("changer")[..] else { panic!("three results") };
    assert!(before.is_error && before.text.contains("has no tool"), "{before:?}");
    assert_eq!(after.text, "the new one", "{after:?}");
}

#[test]
fn a_list_of_tools_limits_the_tools_of_servers() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = json!({ "small": office.server("stdio"), "other": office.server("stdio") });
    let mut limited = profile(servers);
    limited["tools"] = json!(["mcp__small__pid", "@other"]);
    let calls = [call("mcp__small__pid"), call("mcp__small__fail"), call("mcp__other__picture")];
    office.assistant("asker", &limited, &calls);
    office.open();
    let [listed, unlisted, whole] = &office.work("asker")[..] else { panic!("three results") };
    assert!(!listed.is_error, "{listed:?}");
    assert!(unlisted.is_error && unlisted.text.contains("does not allow"), "{unlisted:?}");
    assert!(!whole.is_error, "{whole:?}");
}

#[test]
fn an_assistant_that_outlives_a_killed_hub_calls_its_servers_through_the_next_one() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = json!({ "small": office.server("stdio") });
    let mut limited = profile(servers);
    limited["tools"] = json!(["@small"]);
    office.assistant("asker", &limited, &[]);
    let pid = json!({ "name": "mcp__small__pid" });
    let script = json!({ "steps": [
        { "call": [pid] }, { "call": [pid], "delay": "3s" }, { "say": "done" },
    ] });
    std::fs::write(office.world.scratch().join("asker.json"), script.to_string()).expect("written");
    office.open();
    office.begin("asker");
    eventually(|| office.outcomes().len() == 1);
    office.hub.take().expect("a hub").kill();
    office.open();
    eventually(|| office.outcomes().len() == 2);
    let [before, after] = &office.outcomes()[..] else { panic!("two results") };
    assert!(!before.is_error && !after.is_error && before.text != after.text, "{after:?}");
}

#[test]
fn a_server_that_nobody_needs_ends_and_the_next_call_starts_it() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("server_idle = \"200ms\"");
    let servers = || json!({ "small": office.server("stdio") });
    let (one, two) = (profile(servers()), profile(servers()));
    office.assistant("one", &one, &[call("mcp__small__child")]);
    office.assistant("two", &two, &[call("mcp__small__pid")]);
    office.open();
    let first = &office.work("one")[0].text;
    gone(number(first, "pid"));
    gone(number(first, "child"));
    assert!(!office.work("two")[0].is_error);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_whose_keeper_is_killed_leaves_no_process() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = || json!({ "small": office.server("stdio") });
    let (one, two) = (profile(servers()), profile(servers()));
    office.assistant("one", &one, &[call("mcp__small__child")]);
    office.assistant("two", &two, &[call("mcp__small__pid")]);
    office.open();
    let first = &office.work("one")[0].text;
    let (server, child) = (number(first, "pid"), number(first, "child"));
    let stat = std::fs::read_to_string(format!("/proc/{server}/stat")).expect("it runs");
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
    let keeper = parent.and_then(|pid| Pid::from_raw(pid.parse().ok()?)).expect("a number");
    assert_ne!(keeper.as_raw_nonzero().get().unsigned_abs(), office.hub_pid());
    kill_process(keeper, Signal::KILL).expect("it runs");
    gone(server);
    gone(child);
    assert!(!office.work("two")[0].is_error);
}

#[test]
fn a_server_that_ends_again_and_again_is_not_started_all_the_time() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = json!({ "small": office.server("stdio") });
    let calls: Vec<_> = (0..5).map(|_| call("mcp__small__die")).collect();
    office.assistant("asker", &profile(servers), &calls);
    office.open();
    let outcomes = office.work("asker");
    assert_eq!(outcomes.len(), 5);
    assert!(outcomes.iter().all(|outcome| outcome.is_error), "{outcomes:?}");
    let waits = outcomes.last().expect("five").text.contains("started again in");
    assert!(waits, "{outcomes:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_hub_leaves_no_process_of_a_server() {
    if !has_python() {
        return;
    }
    let mut office = Office::new("");
    let servers = json!({ "small": office.server("stdio") });
    office.assistant("asker", &profile(servers), &[call("mcp__small__child")]);
    office.open();
    let text = &office.work("asker")[0].text;
    let (server, child) = (number(text, "pid"), number(text, "child"));
    assert!(runs(server) && runs(child));
    office.hub.take().expect("a hub").kill();
    gone(server);
    gone(child);
}

/// Checks a folder with this profile.
fn check(office: &Office, text: &str) -> Ran {
    let folder = office.world.scratch().join("checked");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("asker.md"), text).expect("written");
    office.world.run(&["profiles", "check", folder.to_str().expect("a plain path")])
}

#[test]
fn a_profile_with_a_server_that_cannot_be_started_as_written_is_refused() {
    let office = Office::new("");
    for (server, why) in [
        (json!({}), "`command`"),
        (json!({ "command": "x", "url": "http://x" }), "not both"),
        (json!({ "type": "sse", "url": "http://x" }), "sse"),
        (json!({ "url": "file:///etc" }), "http://"),
        (json!({ "command": "x", "disabled": true }), "`disabled`"),
        (json!({ "command": "x", "env": { "A": "${HOME}" } }), "variable"),
    ] {
        let text = format!(
            "---\nname: asker\ndescription: x\ndriver: runner\nmcp_config: {}\n---\n",
            json!({ "mcpServers": { "bad": server } })
        );
        let ran = check(&office, &text);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(ran.code != Some(0) && said.contains(why) && said.contains("bad"), "{ran:?}");
    }
    let text = "---\nname: asker\ndescription: x\ndriver: runner\n\
                allowed_builtin_service_aliases: [shell, teleport]\n---\n";
    let ran = check(&office, text);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("`teleport`") && said.contains("assistant, workspace, shell"), "{ran:?}");
}
