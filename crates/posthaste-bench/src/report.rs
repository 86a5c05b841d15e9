//! One table for people, one file for programs.

use std::fmt::Write;

use anyhow::Context;
use serde_json::{Value, json};

use crate::compare::{self, Comparison};
use crate::output;
use crate::rounds::Sheet;
use crate::settings::Settings;
use crate::stats;
use crate::targets::{MEASURES, Measure};

pub(crate) fn print(settings: &Settings, sheet: &Sheet) -> anyhow::Result<()> {
    output::say(&table(sheet));
    if settings.against.is_some() {
        output::say(&comparisons(sheet));
    }
    output::say(&remarks(settings, sheet));
    if let Some(path) = &settings.json {
        let text = serde_json::to_string_pretty(&whole(settings, sheet))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A measure's value in each round that has one.
fn values(measure: &Measure, sheet: &Sheet) -> Vec<f64> {
    sheet.rounds.iter().filter_map(|round| measure.formula.of(round)).collect()
}

fn table(sheet: &Sheet) -> String {
    let mut lines = vec![
        ["", "measure", "median", "min - max", "must", "aim", "", "rounds"].map(str::to_owned),
    ];
    for measure in MEASURES {
        let values = values(measure, sheet);
        let (Some(median), Some((least, most))) = (stats::median(&values), stats::span(&values))
        else {
            continue;
        };
        let (must, aim) = measure.target.words();
        lines.push([
            measure.id.to_owned(),
            measure.what.to_owned(),
            short(median),
            format!("{} - {}", short(least), short(most)),
            must,
            aim,
            measure.target.judge(median).word().to_owned(),
            values.iter().map(|value| short(*value)).collect::<Vec<_>>().join(" "),
        ]);
    }
    columns(&lines)
}

/// This build of the hub beside the other.
fn comparisons(sheet: &Sheet) -> String {
    let head = ["", "measure", "this", "other", "this / other", "min - max", "", "rounds"];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(compare::all(sheet).iter().map(|comparison| comparison.line(short)));
    columns(&lines)
}

/// Lines of one table, the first of which is its head.
fn columns(lines: &[[String; 8]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            // Numbers stand at the right, words at the left.
            if (2..=5).contains(&column) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:width$}")
            }
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// Three digits are all that a noisy machine can promise.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn remarks(settings: &Settings, sheet: &Sheet) -> String {
    let pins = match settings.pins {
        Some(pins) => format!("server on core {}, load on core {}", pins.server, pins.load),
        None => "not pinned: ratios may be wrong by a factor of two".to_owned(),
    };
    let mut text = format!(
        "{} rounds of {} s; {pins}; hub: {}",
        sheet.rounds.len(),
        settings.seconds.as_secs_f64(),
        settings.hub_bin.display()
    );
    if let Some(other) = &settings.against {
        let _ = write!(text, "\nother hub: {}", other.display());
    }
    if let (Some(median), Some((least, most))) =
        (stats::median(&sheet.flushes), stats::span(&sheet.flushes))
    {
        let _ = write!(text, "\nflush around the runs: {median:.0} us ({least:.0} - {most:.0})");
    }
    if let Some(load) = sheet.load_before {
        let _ = write!(text, "; load average before: {load}");
    }
    if let (Some(median), Some((_, most))) =
        (stats::median(&sheet.others), stats::span(&sheet.others))
    {
        let (median, most) = (median * 100.0, most * 100.0);
        let _ = write!(text, "; others used {median:.0} % of the cores (up to {most:.0} %)");
    }
    for peer in &sheet.peers {
        let _ = write!(text, "\npeer: {peer}");
    }
    for flag in &sheet.flags {
        let _ = write!(text, "\nflag: {flag}");
    }
    text
}

fn whole(settings: &Settings, sheet: &Sheet) -> Value {
    let measures = MEASURES.iter().filter_map(|measure| {
        let values = values(measure, sheet);
        let median = stats::median(&values)?;
        let (must, aim) = measure.target.words();
        Some(json!({
            "id": measure.id,
            "measure": measure.what,
            "median": median,
            "rounds": values,
            "must": must,
            "aim": aim,
            "verdict": measure.target.judge(median).word(),
        }))
    });
    let compared = settings.against.as_ref().map(|other| {
        let compared: Vec<Value> = compare::all(sheet).iter().map(Comparison::json).collect();
        json!({ "hub": other, "measures": compared, "figures": sheet.other })
    });
    json!({
        "measures": measures.collect::<Vec<_>>(),
        "figures": sheet.rounds,
        "against": compared,
        "flags": sheet.flags,
        "peers": sheet.peers,
        "flush_us": sheet.flushes,
        "others": sheet.others,
        "load_before": sheet.load_before,
        "settings": {
            "hub": settings.hub_bin,
            "rounds": settings.rounds,
            "seconds": settings.seconds.as_secs_f64(),
            "pins": settings.pins.map(|pins| json!({"server": pins.server, "load": pins.load})),
            "messages": settings.messages,
            "waiting": settings.waiting,
            "pending": settings.pending,
            "backlog": settings.backlog,
            "profiles": settings.profiles,
            "agents": settings.agents,
            "hub_env": settings.hub_env,
        },
    })
}
