//! Requests that say two things about where they go or where they come from.

use crate::house::{House, OPERATOR};

async fn status(house: &House, target: &str, headers: &[&str]) -> u16 {
    let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!("{target} HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\n{lines}\r\n");
    house.raw(head).await.0
}

#[tokio::test]
async fn a_request_names_one_host_and_it_is_ours() {
    let house = House::new().await;
    for (target, hosts) in [
        ("GET /v1/teams", &["Host: localhost", "Host: evil.example"][..]),
        ("GET /v1/teams", &["Host: evil.example", "Host: localhost"]),
        ("GET /v1/teams", &["Host: localhost", "Host: 127.0.0.1"]),
        ("GET http://evil.example/v1/teams", &["Host: localhost"]),
        ("GET http://localhost@evil.example/v1/teams", &["Host: localhost"]),
        ("GET http://localhost/v1/teams", &["Host: evil.example"]),
        ("GET /v1/teams", &["Host: localhost."]),
        ("GET /v1/teams", &["Host: 0177.0.0.1"]),
        ("GET /v1/teams", &["Host: 2130706433"]),
        ("GET /v1/teams", &["Host: [::ffff:10.0.0.1]"]),
    ] {
        assert_eq!(status(&house, target, hosts).await, 403, "{target} {hosts:?}");
    }
    for (target, host) in [
        ("GET http://localhost/v1/teams", "Host: localhost"),
        ("GET http://127.0.0.1:9889/v1/teams", "Host: LOCALHOST:9889"),
    ] {
        assert_eq!(status(&house, target, &[host]).await, 200, "{target} {host}");
    }
}

#[tokio::test]
async fn a_page_of_another_program_is_not_ours_because_it_is_called_localhost() {
    let house = House::new().await;
    for origins in [
        &["Origin: tauri://localhost"][..],
        &["Origin: capacitor://localhost"],
        &["Origin: file://localhost"],
        &["Origin: http://localhost:3000", "Origin: http://evil.example"],
        &["Origin: http://evil.example", "Origin: http://localhost:3000"],
    ] {
        let headers = [&["Host: localhost"], origins].concat();
        assert_eq!(status(&house, "GET /v1/teams", &headers).await, 403, "{origins:?}");
    }
    for origin in ["Origin: http://localhost:3000", "Origin: https://127.0.0.1"] {
        let headers = ["Host: localhost", origin];
        assert_eq!(status(&house, "GET /v1/teams", &headers).await, 200, "{origin}");
    }
}

#[tokio::test]
async fn an_act_from_elsewhere_is_refused_whatever_the_browser_calls_it() {
    let house = House::new().await;
    for sites in [
        &["Sec-Fetch-Site: cross-site"][..],
        &["Sec-Fetch-Site: Cross-Site"],
        &["Sec-Fetch-Site: some-new-word"],
        &["Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"],
        &["Sec-Fetch-Site: \u{e9}"],
    ] {
        let headers = [&["Host: localhost", "Content-Length: 0"], sites].concat();
        assert_eq!(status(&house, "POST /v1/stop", &headers).await, 403, "{sites:?}");
    }
    for site in ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"] {
        let headers = ["Host: localhost", "Content-Length: 0", site];
        assert_eq!(status(&house, "POST /v1/stop", &headers).await, 200, "{site}");
    }
}
