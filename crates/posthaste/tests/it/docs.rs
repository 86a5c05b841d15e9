//! The documentation of the interface, tried: its first exchange in a shell, its page in
//! a real browser.

use crate::world::{Started, World, lacks, quick, skip};

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rest.md");

#[test]
fn the_first_exchange_of_the_reference_can_be_pasted() {
    let world = World::new();
    let hub = world.hub();
    let reference = std::fs::read_to_string(REFERENCE).expect("the reference");
    let (_, after) = reference.split_once("## A first exchange").expect("the chapter");
    let (_, block) = after.split_once("```sh\n").expect("the block");
    let (block, _) = block.split_once("```").expect("its end");
    let here = "HUB=http://127.0.0.1:9889\n";
    assert!(block.contains(here), "{block}");
    let script = block.replace(here, &format!("HUB={}\n", hub.url));
    let binary = env!("CARGO_BIN_EXE_posthaste");
    let script = format!("set -eu\nposthaste() {{ {binary:?} \"$@\"; }}\n{script}");
    let mut shell = world.program("/bin/bash", &["-c", &script]);
    shell.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let ran = Started::new(shell).end();
    assert_eq!(ran.code, Some(0), "{ran:?}\n{script}");
    assert!(ran.out.contains("\"message\":\"hello\""), "{ran:?}");
    assert!(ran.out.ends_with("{\"acked\":1}"), "{ran:?}");
}

/// What a browser makes of a page of the hub; nothing where there is no browser.
fn in_a_browser(world: &World, url: &str) -> Option<String> {
    let places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let Some(browser) = places.into_iter().find(|place| std::path::Path::new(place).exists())
    else {
        match quick() {
            true => skip("the page at /docs is looked at in Chromium"),
            false => lacks("has no Chromium, which the page at /docs is looked at in"),
        }
        return None;
    };
    let profile = format!("--user-data-dir={}", world.scratch().join("browser").display());
    let flags = [
        "--headless",
        // Root may not use it, and the page is our own.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        &profile,
        // Until the page has come to rest, by its own clock.
        "--virtual-time-budget=10000",
        "--dump-dom",
        url,
    ];
    let mut command = world.program(browser, &flags);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let ran = Started::new(command).end();
    assert!(ran.out.contains("</html>"), "{ran:?}");
    Some(ran.out)
}

/// The start tag of the element with this id.
fn tag<'a>(page: &'a str, id: &str) -> &'a str {
    let at = page.find(&format!("id=\"{id}\"")).expect(id);
    let start = page[..at].rfind('<').expect("a tag");
    let end = at + page[at..].find('>').expect("its end");
    &page[start..end]
}

#[test]
fn the_page_introduces_itself_and_shows_an_example_and_the_errors_of_each_call() {
    let world = World::new();
    let hub = world.hub();
    let Some(page) = in_a_browser(&world, &format!("{}/docs", hub.url)) else { return };
    for word in ["Authorization: Bearer TOKEN", "A first exchange", "rate_limited", "Types"] {
        assert!(page.contains(word), "{word}");
    }
    let calls = page.split("<details").filter(|part| part.contains("class=\"method\""));
    let calls: Vec<&str> = calls.collect();
    assert!(calls.len() > 40, "{}", calls.len());
    for call in calls {
        let shows = |word: &str| assert!(call.contains(word), "{word} is not in {call}");
        shows("curl ");
        shows(">Errors<");
    }
    assert!(!tag(&page, "get_inbox").contains(" open"), "nothing is open that nobody asked for");
}

#[test]
fn a_link_to_a_call_opens_that_call_and_a_search_in_the_address_is_made() {
    let world = World::new();
    let hub = world.hub();
    let url = |rest: &str| format!("{}/docs{rest}", hub.url);
    let Some(page) = in_a_browser(&world, &url("#get_inbox")) else { return };
    assert!(tag(&page, "get_inbox").contains(" open"), "{}", tag(&page, "get_inbox"));
    assert!(!tag(&page, "post_messages").contains(" open"));
    let found = in_a_browser(&world, &url("?find=receipt+proves")).expect("a browser");
    assert!(!tag(&found, "get_inbox").contains(" hidden"));
    assert!(tag(&found, "get_teams").contains(" hidden"));
    assert!(tag(&found, "nothing").contains(" hidden"));
    let none = in_a_browser(&world, &url("?find=xyzzy")).expect("a browser");
    assert!(!tag(&none, "nothing").contains(" hidden"), "{}", tag(&none, "nothing"));
    assert!(none.contains("Nothing here has all of these words: xyzzy"));
}
