//! RabbitMQ as Debian packages it: one node of our own, on loopback.
//!
//! The package's service is left alone. Node, data, logs and the port mapper
//! (`epmd`) are ours: other ports, another folder, gone when the measure is over.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::time::{Instant, sleep};

use super::amqp::Channel;
use crate::child::Child;
use crate::procfs;
use crate::settings::Settings;

/// Not the wrapper in `/usr/sbin`, which changes the user and where logs go.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const EPMD: &str = "/usr/bin/epmd";
/// What a busy machine needs to start an Erlang system.
const PATIENCE: Duration = Duration::from_secs(90);

/// The node ends before its port mapper does.
pub(crate) struct Broker {
    node: Child,
    _epmd: Child,
    pub(crate) address: SocketAddr,
    /// What it says about itself, and what its acknowledgement means.
    pub(crate) words: String,
}

/// Whether the package is there; the error says how to get it.
pub(crate) fn installed() -> anyhow::Result<()> {
    present(Path::new(SERVER)).and_then(|()| present(Path::new(EPMD)))
}

fn present(program: &Path) -> anyhow::Result<()> {
    ensure!(
        program.is_file(),
        "RabbitMQ is not installed (there is no {}): run `scripts/bench-peers`, which installs Debian's rabbitmq-server",
        program.display()
    );
    Ok(())
}

impl Broker {
    pub(crate) async fn start(settings: &Settings, folder: &Path) -> anyhow::Result<Self> {
        installed()?;
        std::fs::create_dir_all(folder)?;
        let [amqp, distribution, mapper] = free_ports()?;
        let log = folder.join("said.log");
        let place = folder.to_str().context("a folder whose name is no text")?;
        let env = environment(place, amqp, distribution, mapper);

        let port = mapper.to_string();
        let args = ["-port", port.as_str(), "-address", "127.0.0.1"];
        let epmd = Child::spawn_logged(settings, Path::new(EPMD), &args, &env, &log)?;
        let mut node = Child::spawn_logged(settings, Path::new(SERVER), &[], &env, &log)?;

        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, amqp));
        let words = ready(&mut node, address).await.with_context(|| {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            let last: Vec<&str> = told.lines().rev().take(5).collect();
            format!("RabbitMQ did not start; its last words: {last:?}")
        })?;
        Ok(Self { node, _epmd: epmd, address, words })
    }

    /// Of the Erlang system, which does all the work.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        procfs::cpu(self.node.pid())
    }
}

/// Waits until it takes connections, and returns its words.
async fn ready(node: &mut Child, address: SocketAddr) -> anyhow::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        ensure!(!node.has_ended()?, "it ended");
        let refused = match Channel::open(address).await {
            Ok(channel) => {
                return Ok(format!(
                    "{}: one node, quorum queue, persistent messages, confirmed after the flush of its log",
                    channel.server
                ));
            }
            Err(error) => error,
        };
        if Instant::now() >= deadline {
            bail!("not ready after {} s: {refused:#}", PATIENCE.as_secs());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Everything that would otherwise come from the machine's own installation.
fn environment(folder: &str, amqp: u16, distribution: u16, mapper: u16) -> Vec<(String, String)> {
    let at = |name: &str| format!("{folder}/{name}");
    [
        ("RABBITMQ_NODENAME", "posthaste-bench@localhost".to_owned()),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODE_PORT", amqp.to_string()),
        ("RABBITMQ_DIST_PORT", distribution.to_string()),
        ("RABBITMQ_MNESIA_BASE", at("mnesia")),
        ("RABBITMQ_LOG_BASE", at("log")),
        ("RABBITMQ_PID_FILE", at("pid")),
        // None of these files is there: every setting has its default.
        ("RABBITMQ_CONFIG_FILE", at("none.conf")),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", at("none.config")),
        ("RABBITMQ_CONF_ENV_FILE", at("none.env")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", at("none.plugins")),
        (
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false".to_owned(),
        ),
        ("ERL_EPMD_PORT", mapper.to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        // Where Erlang keeps the secret between its nodes.
        ("HOME", folder.to_owned()),
        // The script becomes the server, so that the child's id is the server's.
        ("detached", "true".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Ports that nobody uses at this moment.
fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let held: Vec<TcpListener> = (0..N)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .context("no free port")?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_package_is_an_error_that_says_how_to_get_it() {
        let error = present(Path::new("/nowhere/rabbitmq-server")).expect_err("not there");
        let told = error.to_string();
        assert!(told.contains("/nowhere/rabbitmq-server"), "{told}");
        assert!(told.contains("scripts/bench-peers"), "{told}");
    }

    #[test]
    fn ports_that_are_given_together_differ() {
        let [a, b, c] = free_ports().expect("three");
        assert!(a != b && b != c && a != c);
    }
}
