//! Tests of the changes that an edit makes, and of all that it must leave alone.

use proptest::prelude::*;
use serde_json::json;

use super::*;

pub(super) fn ours() -> Vec<Entry> {
    vec![
        Entry::key(&["mcpServers", "posthaste"], json!({ "command": "/bin/p", "args": ["mcp"] })),
        Entry::Item {
            list: vec!["hooks".into(), "Stop".into()],
            mark: " hook stop".into(),
            value: json!({ "hooks": [{ "type": "command", "command": "/bin/p hook stop" }] }),
        },
    ]
}

pub(super) fn table() -> Vec<Entry> {
    vec![Entry::key(&["mcp_servers", "posthaste"], json!({ "command": "/bin/p", "args": ["mcp"] }))]
}

#[track_caller]
fn put_json(text: &str) -> String {
    put(Form::Json, text, &ours()).expect("it is JSON")
}

#[test]
fn an_empty_file_becomes_one_that_holds_ours_alone() {
    let text = put_json("");
    assert!(text.starts_with("{\n  \"mcpServers\": {\n    \"posthaste\": {\n"), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
    assert_eq!(put_json("{}"), text.trim_end());
    let text = put(Form::Toml, "", &table()).expect("TOML");
    assert_eq!(text, "[mcp_servers.posthaste]\ncommand = \"/bin/p\"\nargs = [\"mcp\"]\n");
}

#[test]
fn comments_order_and_indentation_of_others_stay() {
    let text = "// mine\n{\n\t\"z\": 1, // last\n\t/* b */ \"a\": [1,2,  3],\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"}, // theirs\n\t},\n}\n// end\n";
    let new = put_json(text);
    for line in text.lines() {
        assert!(new.lines().any(|own| own == line), "{line:?} is gone from\n{new}");
    }
    assert!(new.contains("\n\t\t\"posthaste\": {\n\t\t\t\"command\": \"/bin/p\",\n"), "{new}");
    assert_eq!(take(Form::Json, &new, text, &ours()).expect("JSON"), text);

    let text =
        "# mine\nmodel = \"x\" # y\n\n[mcp_servers.other] # theirs\ncommand   =   'x'\n\n# end\n";
    let new = put(Form::Toml, text, &table()).expect("TOML");
    for line in text.lines() {
        assert!(new.lines().any(|own| own == line), "{line:?} is gone from\n{new}");
    }
    assert_eq!(take(Form::Toml, &new, text, &table()).expect("TOML"), text);
}

#[test]
fn the_mark_at_the_beginning_and_the_ends_of_lines_stay() {
    let text = "\u{feff}{\r\n  \"a\": 1\r\n}\r\n";
    let new = put_json(text);
    assert!(new.starts_with("\u{feff}{\r\n"), "{new:?}");
    assert_eq!(new.matches('\n').count(), new.matches("\r\n").count(), "{new:?}");
    assert_eq!(take(Form::Json, &new, text, &ours()).expect("JSON"), text);

    // A file has two byte order marks when two programs each wrote one.
    let text = "\u{feff}\u{feff}a = 1\r\n[b]\r\nc = 2\r\n";
    let new = put(Form::Toml, text, &table()).expect("TOML");
    assert!(new.starts_with(text), "{new:?}");
    assert_eq!(new.matches('\n').count(), new.matches("\r\n").count(), "{new:?}");
    assert_eq!(take(Form::Toml, &new, text, &table()).expect("TOML"), text);
}

#[test]
fn twice_is_once() {
    for text in ["", "{}", "{\"a\":1}", "{ // x\n \"hooks\": { \"Stop\": [] } }\n"] {
        let once = put_json(text);
        assert_eq!(put_json(&once), once);
        assert_eq!(holds(Form::Json, &once, &ours()), Ok(true));
        assert_eq!(holds(Form::Json, text, &ours()), Ok(false));
    }
    let once = put(Form::Toml, "a = 1\n", &table()).expect("TOML");
    assert_eq!(put(Form::Toml, &once, &table()).expect("TOML"), once);
}

#[test]
fn an_older_entry_of_ours_is_replaced_where_it_stands() {
    let old = r#"{
  "hooks": {
    "Stop": [
      { "hooks": [{ "command": "/old/p hook stop" }] },
      { "hooks": [{ "command": "theirs hook stopping" }] }
    ]
  },
  "mcpServers": { "posthaste": { "command": "/old/p" }, "z": 1 }
}"#;
    let value = value(Form::Json, &put_json(old)).expect("JSON");
    let stop = at(&value, &["hooks", "Stop"]).and_then(Value::as_array).expect("a list");
    assert_eq!(stop.len(), 1, "both carry the mark here: {stop:?}");
    assert_eq!(value["mcpServers"]["posthaste"]["command"], "/bin/p");
    assert_eq!(value["mcpServers"]["z"], 1);
}

#[test]
fn an_item_that_also_runs_somebody_elses_command_is_theirs() {
    let text = r#"{"hooks": {"Stop": [{"hooks": [{"command": "/bin/p hook stop"}, {"command": "say done"}]}]}}"#;
    let new = value(Form::Json, &put_json(text)).expect("JSON");
    assert_eq!(new["hooks"]["Stop"].as_array().map(Vec::len), Some(2));
    let left = take(Form::Json, &put_json(text), text, &ours()).expect("JSON");
    assert_eq!(value(Form::Json, &left), value(Form::Json, text));
}

#[test]
fn what_stood_in_our_place_comes_back() {
    let before = "{\"mcpServers\": {\"posthaste\": {\"command\": \"mine\"}}}";
    let left = take(Form::Json, &put_json(before), before, &ours()).expect("JSON");
    assert_eq!(value(Form::Json, &left), value(Form::Json, before));
    let before = "[mcp_servers.posthaste]\ncommand = \"mine\"\n";
    let new = put(Form::Toml, before, &table()).expect("TOML");
    let left = take(Form::Toml, &new, before, &table()).expect("TOML");
    assert_eq!(value(Form::Toml, &left), value(Form::Toml, before));
}

#[test]
fn where_nothing_is_ours_nothing_is_taken() {
    for text in ["{\"mcpServers\": {}, \"hooks\": {\"Stop\": []}}", "{}", ""] {
        assert_eq!(take(Form::Json, text, "", &ours()).expect("JSON"), text);
    }
    let text = "[mcp_servers]\n";
    assert_eq!(take(Form::Toml, text, "", &table()).expect("TOML"), text);
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_its_line() {
    for (form, text, line) in [
        (Form::Json, "{\n  \"a\": 1,\n  b: 2\n}", 3),
        (Form::Json, "{\n  \"a\": 1", 1),
        (Form::Json, "{\n \"a\": 1\n \"b\": 2\n}", 2),
        (Form::Json, "[1]", 1),
        (Form::Json, "{\n\"a\": \"b\nc\"}", 2),
        (Form::Json, "{\n\"mcpServers\": [] }", 2),
        (Form::Json, "{\n\"hooks\": {\n\"Stop\": {}}}", 3),
        (Form::Json, "{\"x\": 1,\n\"mcpServers\": {},\n\"mcpServers\": {}}", 2),
        (Form::Toml, "a = 1\nb = \n", 2),
        (Form::Toml, "a = 1\nmcp_servers = 3\n", 2),
    ] {
        let entries = if form == Form::Json { ours() } else { table() };
        let broken = put(form, text, &entries).expect_err(text);
        assert_eq!(broken.line, line, "{text}: {broken}");
        assert!(!broken.why.is_empty() && !broken.why.contains('\n'), "{broken}");
    }
}

/// Generates JSON with unusual white space and comments.
fn odd_json() -> impl Strategy<Value = String> {
    let gap = prop_oneof![
        4 => Just(""), 3 => Just(" "), 2 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\t"),
        1 => Just(" // c \"}{\n"), 1 => Just("/* ] */"), 1 => Just("\n\n    "),
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("-1.5e3".to_owned()),
        Just(r#""a\"\u00e9 // no""#.to_owned()),
        Just("true".to_owned()),
    ];
    let value = leaf.prop_recursive(3, 24, 4, move |inner| {
        let gap = prop_oneof![3 => Just(""), 2 => Just(" "), 2 => Just("\n  "), 1 => Just("/*x*/")];
        let field = (0..9u8, inner.clone(), gap.clone(), gap.clone());
        prop_oneof![
            (prop::collection::vec((inner, gap.clone()), 0..4), any::<bool>()).prop_map(
                |(items, comma)| {
                    let all: Vec<_> =
                        items.iter().map(|(item, gap)| format!("{gap}{item}{gap}")).collect();
                    let end = if comma && !all.is_empty() { "," } else { "" };
                    format!("[{}{end}]", all.join(","))
                }
            ),
            prop::collection::btree_map(0..9u8, field, 0..4).prop_map(|fields| {
                let field = |(name, (_, value, a, b)): (&u8, &(u8, String, &str, &str))| {
                    format!("{a}\"k{name}\"{b}:{a}{value}{b}")
                };
                format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
            }),
        ]
    });
    let name =
        prop_oneof![Just("a"), Just("mcpServers"), Just("hooks"), Just("z y"), Just("posthaste"),];
    let object = prop_oneof![
        2 => Just("{}".to_owned()),
        1 => Just("{ \"Stop\" : [ ] }".to_owned()),
        1 => Just("{\n  // none\n}".to_owned()),
    ];
    let fields = prop::collection::btree_map(name, (value, object, gap.clone(), gap.clone()), 0..5);
    (fields, gap, any::<bool>(), any::<bool>()).prop_map(|(fields, end, mark, comma)| {
        let all: Vec<String> = fields
            .into_iter()
            .map(|(name, (value, object, a, b))| {
                let value = if ["mcpServers", "hooks"].contains(&name) { object } else { value };
                format!("{a}\"{name}\"{b}:{a}{value}{b}")
            })
            .collect();
        let comma = if comma && !all.is_empty() { "," } else { "" };
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{end}{{{}{comma}{end}}}{end}", all.join(","))
    })
}

fn odd_toml() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# a comment\n"),
        Just("\n"),
        Just("  \t\n"),
        Just("[x.y] # c\n"),
        Just("[[list]]\nn = 1\n"),
        Just("[mcp_servers.other]\ncommand = 'c'\n"),
        Just("[ spaced . out ]\nv = { a = 1, b = [ 1,2 , ] }\n"),
        Just("[m]\ntext = \"\"\"\nline [x]\r\n  two\"\"\"\n"),
        Just("[crlf]\r\na = 0x1F\r\n"),
        Just("[mcp_servers]\n"),
        Just("[mcp_servers.other.env]\nA = \"b\"\n"),
    ];
    let head = prop_oneof![Just(""), Just("model = \"m\" # k\n"), Just("a.b = 1\r\n")];
    (head, prop::collection::hash_set(line, 0..7), any::<bool>()).prop_map(|(head, lines, cut)| {
        let text: String = std::iter::once(head).chain(lines).collect();
        if cut { text.trim_end().to_owned() } else { text }
    })
}

proptest! {
    #[test]
    fn odd_json_keeps_its_meaning_and_gets_ours_once(text in odd_json()) {
        let old = value(Form::Json, &text).expect("the test writes JSON");
        let new = put(Form::Json, &text, &ours()).expect("readable");
        prop_assert_eq!(put(Form::Json, &new, &ours()).expect("readable"), new.clone());
        let left = take(Form::Json, &new, &text, &ours()).expect("readable");
        prop_assert_eq!(value(Form::Json, &left).expect("readable"), old, "{}", new);
        let comments = |text: &str| text.matches("// c").count() + text.matches("/*").count();
        prop_assert_eq!(comments(&new), comments(&text), "{}", new);
        prop_assert_eq!(new.starts_with('\u{feff}'), text.starts_with('\u{feff}'));
    }

    #[test]
    fn odd_toml_keeps_its_meaning_its_lines_and_gets_ours_once(text in odd_toml()) {
        let Ok(old) = value(Form::Toml, &text) else { return Ok(()) };
        let new = put(Form::Toml, &text, &table()).expect("readable");
        prop_assert_eq!(put(Form::Toml, &new, &table()).expect("readable"), new.clone());
        let mut lines = new.lines();
        for line in text.lines() {
            prop_assert!(lines.any(|own| own == line), "{:?} is gone from\n{}", line, new);
        }
        let left = take(Form::Toml, &new, &text, &table()).expect("readable");
        prop_assert_eq!(value(Form::Toml, &left).expect("readable"), old);
    }
}
