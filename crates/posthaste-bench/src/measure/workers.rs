//! What a worker costs the hub: from the assign to the report, for a program that
//! does nothing.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http::Conn;
use crate::hub::Hub;
use crate::requests;
use crate::rounds::Found;
use crate::settings::Settings;

/// Workers that are not counted: programs and pages are read for the first time.
const WARM_UP: usize = 5;
/// Workers that are.
const COUNT: usize = 100;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let mut conn = Conn::open(hub.address).await?;
    let profile = json!({
        "name": "nobody", "driver": "command", "config": { "command": ["/bin/true"] },
    });
    let put = requests::post("/v1/profiles", &hub.operator, &profile.to_string());
    let answer = conn.call(&put).await?;
    ensure!(answer.status == 201, answer.unexpected());
    work(&hub, &mut conn, WARM_UP).await?;
    hub.quiet().await?;

    let (cpu, began) = (hub.cpu()?, Instant::now());
    work(&hub, &mut conn, COUNT).await?;
    let took = began.elapsed().as_secs_f64();
    let cpu = (hub.cpu()? - cpu).as_secs_f64();
    Ok(vec![("workers.hub_ms", cpu * 1e3 / COUNT as f64), ("workers.per_s", COUNT as f64 / took)])
}

/// Gives out work and gathers every report.
async fn work(hub: &Hub, conn: &mut Conn, count: usize) -> anyhow::Result<()> {
    let task = json!({ "agent": "nobody", "message": "nothing" }).to_string();
    let assign = requests::post("/v1/assign", &hub.operator, &task);
    for _ in 0..count {
        let answer = conn.call(&assign).await?;
        ensure!(answer.status == 201, answer.unexpected());
    }
    let gather = "/v1/inbox?wait_for=all&timeout=120&ack=auto";
    let answer = conn.call(&requests::get(gather, &hub.operator)).await?;
    ensure!(answer.status == 200, answer.unexpected());
    let inbox: Value = serde_json::from_slice(answer.body).context("an inbox")?;
    let reports = inbox["messages"].as_array().map_or(0, Vec::len);
    let status = &inbox["status"];
    ensure!(status == "complete" && reports == count, "{reports} of {count} reported: {status}");
    let well = |message: &Value| message["type"] == "result";
    let good = inbox["messages"].as_array().is_some_and(|all| all.iter().all(well));
    ensure!(good, "a worker failed: {}", inbox["messages"][0]);
    Ok(())
}
