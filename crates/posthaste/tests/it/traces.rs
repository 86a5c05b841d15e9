//! Traces by OTLP, as a collector receives them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use posthaste_testkit::excerpt::places;
use serde_json::Value;

use crate::world::{Hub, World, eventually};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A collector on loopback that keeps what it is sent.
struct Collector {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heard);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || Self::serve(socket, &kept));
            }
        });
        Self { url, heard }
    }

    fn serve(socket: TcpStream, kept: &Mutex<Vec<String>>) {
        let mut reader = BufReader::new(socket);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                match reader.read_line(&mut head) {
                    Ok(1..) => (),
                    _ => return,
                }
            }
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.and_then(|n| n.parse().ok()).unwrap_or(0)];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            let body = String::from_utf8(body).expect("JSON is text");
            kept.lock().expect("no panic").push(format!("{head}{body}"));
            let ok =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
            if reader.get_mut().write_all(ok.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn heard(&self) -> String {
        self.heard.lock().expect("no panic").join("\n")
    }

    fn spans(&self) -> Vec<Value> {
        let heard = self.heard.lock().expect("no panic");
        let bodies = heard.iter().map(|text| text.split_once("\r\n\r\n").expect("a head").1);
        bodies
            .flat_map(|body| {
                let told: Value = serde_json::from_str(body).expect("JSON");
                let resource = &told["resourceSpans"][0];
                assert_eq!(resource["resource"]["attributes"][0]["key"], "service.name");
                resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
            })
            .collect()
    }

    fn span(&self, name: &str) -> Value {
        let found: Vec<_> = self.spans().into_iter().filter(|s| s["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}: {found:#?}");
        found[0].clone()
    }
}

/// Sends as this token's owner, in this trace.
fn send(hub: &Hub, token: &str, traceparent: &str, text: &str) {
    let body = format!("{{\"to\":\"bob\",\"message\":\"{text}\"}}");
    let mut socket = TcpStream::connect(format!("127.0.0.1:{}", hub.port())).expect("a hub");
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\ntraceparent: {traceparent}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).expect("sent");
    let mut reply = String::new();
    socket.read_to_string(&mut reply).expect("an answer");
    assert!(reply.starts_with("HTTP/1.1 201 "), "{reply}");
}

fn follow(world: &World, collector: &Collector) -> Hub {
    let text = format!(
        "[telemetry]\notlp = '{}'\nheaders = 'x-team=one,authorization=Bearer geheim'\n",
        collector.url
    );
    world.hub_with(&["--config", &world.config(&text)])
}

#[test]
fn a_messages_road_is_one_trace_that_continues_its_senders() {
    let (world, collector) = (World::new(), Collector::new());
    let hub = follow(&world, &collector);
    world.say(&["join", "bob"]);
    let token = world.say(&["join", "alice", "--print-token"]);
    send(&hub, token.trim(), &format!("00-{TRACE}-{SPAN}-01"), "xyzzy-the-body");
    assert!(world.say(&["inbox", "--as", "bob", "--batch-window", "0"]).contains("xyzzy"));
    eventually(|| world.json(&["agents"])["instances"][0]["unread"] == 0);
    hub.stop();

    let [send, append, lease, ack] = ["send", "append", "lease", "ack"].map(|n| collector.span(n));
    for span in [&send, &append, &lease, &ack] {
        assert_eq!(span["traceId"], TRACE, "{span}");
        let time = |key: &str| span[key].as_str().expect("a time").parse::<u128>().expect("nanos");
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
    }
    assert_eq!(send["parentSpanId"], SPAN);
    assert_eq!(append["parentSpanId"], send["spanId"]);
    assert_eq!(lease["parentSpanId"], send["spanId"]);
    assert_eq!(ack["parentSpanId"], lease["spanId"]);
    let heard = collector.heard();
    assert!(heard.contains("post /v1/traces") && heard.contains("authorization: bearer geheim"));
    for secret in ["xyzzy", token.trim()] {
        assert!(!heard.contains(secret), "{:?}", places(&heard, secret));
    }
}

#[test]
fn without_a_senders_trace_the_road_has_one_of_its_own_that_outlives_a_restart() {
    let (world, collector) = (World::new(), Collector::new());
    let hub = follow(&world, &collector);
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "hello"]);
    hub.stop();
    let hub = follow(&world, &collector);
    world.say(&["inbox", "--as", "bob", "--batch-window", "0"]);
    eventually(|| world.json(&["agents"])["instances"][0]["unread"] == 0);
    hub.stop();
    let send = collector.span("send");
    assert_eq!(send["parentSpanId"], "");
    for name in ["append", "lease", "ack"] {
        assert_eq!(collector.span(name)["traceId"], send["traceId"], "{name}");
    }
    assert_eq!(collector.span("lease")["parentSpanId"], send["spanId"]);
}

#[test]
fn a_sender_that_is_not_recorded_stays_so_and_nonsense_is_ignored() {
    let (world, collector) = (World::new(), Collector::new());
    let hub = follow(&world, &collector);
    world.say(&["join", "bob"]);
    let token = world.say(&["join", "alice", "--print-token"]);
    send(&hub, token.trim(), &format!("00-{TRACE}-{SPAN}-00"), "quiet");
    send(&hub, token.trim(), "nonsense", "loud");
    hub.stop();
    assert_ne!(collector.span("send")["traceId"], TRACE);
}

#[test]
fn the_standard_variable_names_the_collector() {
    let (world, collector) = (World::new(), Collector::new());
    let mut command = world.command(&["config", "telemetry.otlp", "--json"]);
    let output = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).output().expect("ran");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["value"], collector.url);
    assert_eq!(told["from"], "OTEL_EXPORTER_OTLP_ENDPOINT");
    let file = world.config("[telemetry]\notlp = 'https://collector'\n");
    let ran = world.run(&["up", "--listen", "127.0.0.1:0", "--config", &file]);
    ran.failed(2, "telemetry.otlp: `https://collector`", "http://127.0.0.1:4318");
}

#[test]
fn a_collector_that_is_gone_costs_no_mail_and_no_stop() {
    let world = World::new();
    let file = world.config("[telemetry]\notlp = 'http://127.0.0.1:1'\n");
    let hub = world.hub_with(&["--config", &file]);
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "hello"]);
    assert!(world.say(&["inbox", "--as", "bob", "--batch-window", "0"]).contains("hello"));
    let ran = hub.stop();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.err.matches("the collector of traces takes nothing").count(), 1, "{ran:?}");
}
