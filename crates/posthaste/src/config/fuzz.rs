//! Fuzzes the configuration file and the environment: the result is a configuration, or
//! an error that says what is wrong.

use posthaste_testkit::fuzz;

use super::tests::load;

const FILES: [&str; 4] = [
    "data = \"/tmp/x\"\n[server]\nlisten = \"127.0.0.1:9889\"\nhosts = [\"hub.example\"]\nhead_timeout = \"10s\"\n",
    "[limits]\nwait = \"10m\"\nmailbox_messages = 10000\nsweep = \"30s\"\npair_per_minute = 60\n",
    "[mcp]\npatience = \"50s\"\nanswer_chars = 10000\n[log]\nfilter = \"warn\"\nformat = \"json\"\n",
    "[queue]\nbackend = \"local\"\n[compat]\ncao = true\n[telemetry]\notlp = \"http://127.0.0.1:4318\"\nheaders = \"a=b\"\n",
];

const VALUES: [&str; 8] =
    ["30s", "10000", "true", "127.0.0.1:9889", "[\"a\"]", "1h 5m", "local", "{a=1}"];

const KEYS: [&str; 8] = [
    "POSTHASTE_LIMITS__WAIT",
    "POSTHASTE_SERVER__LISTEN",
    "POSTHASTE_SERVER__HOSTS",
    "POSTHASTE_SERVER__CONNECTIONS",
    "POSTHASTE_COMPAT__CAO",
    "POSTHASTE_QUEUE__BACKEND",
    "POSTHASTE_LOG__FILTER",
    "CAO_QUEUE_BACKEND",
];

fn is_configuration_or_clear(file: &[u8], vars: &[(&str, &str)]) {
    if let Err(error) = load(file, vars) {
        assert_eq!(error.code.exit(), 2, "{error:?}");
        let length = error.message.chars().count();
        assert!((1..=1_000).contains(&length), "{length} characters");
    }
}

#[test]
fn every_file_is_a_configuration_or_says_what_is_wrong() {
    for case in fuzz::cases(1_500, &FILES) {
        is_configuration_or_clear(&case.bytes, &[]);
    }
}

#[test]
fn every_variable_is_a_setting_or_says_what_is_wrong() {
    for mut case in fuzz::cases(1_500, &VALUES) {
        let value = case.text();
        is_configuration_or_clear(b"", &[(case.dice.pick::<&str>(&KEYS), &value)]);
    }
}

#[test]
fn a_setting_that_nests_a_hundred_thousand_times_is_refused() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        let told = load("", &[("POSTHASTE_SERVER__HOSTS", &deep)]).expect_err("no list of names");
        assert!(told.message.contains("server.hosts"), "{told}");
        load(format!("[server]\nhosts = {deep}\n"), &[]).expect_err("no list of names");
    }
}

#[test]
fn an_escape_after_a_letter_beyond_ascii_is_no_list_and_no_panic() {
    for value in ["[\"aw\u{fffd}\\\u{fffd}\"]", "[\"\u{e9}\u{e9}\\n.example\"]"] {
        let told = load("", &[("POSTHASTE_SERVER__HOSTS", value)]).expect_err("no list of names");
        assert!(told.message.contains("server.hosts"), "{told}");
    }
}
