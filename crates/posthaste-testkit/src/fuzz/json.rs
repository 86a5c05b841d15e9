//! Changes the values of a JSON document so that it stays JSON.

use serde_json::{Map, Number, Value, json};

use super::Dice;

/// Replaces, removes, adds or wraps one value somewhere in the document.
pub(super) fn make_odd(dice: &mut Dice, value: &mut Value) {
    let inside = match value {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    if inside > 0 && !dice.one_in(4) {
        let chosen = dice.below(inside);
        return match value {
            Value::Object(fields) => field(dice, fields, chosen),
            Value::Array(items) => match dice.below(6) {
                0 => drop(items.remove(chosen)),
                1 => items.push(items[chosen].clone()),
                2 => *items = vec![items[chosen].clone(); 150],
                _ => make_odd(dice, &mut items[chosen]),
            },
            _ => {}
        };
    }
    *value = match dice.below(8) {
        0 => json!([value.take()]),
        1 => json!({ "value": value.take() }),
        _ => odd(dice),
    };
}

fn field(dice: &mut Dice, fields: &mut Map<String, Value>, chosen: usize) {
    let Some(name) = fields.keys().nth(chosen).cloned() else { return };
    match dice.below(8) {
        0 => drop(fields.remove(&name)),
        1 => {
            let value = fields.remove(&name).unwrap_or_default();
            fields.insert(text(dice), value);
        }
        2 => drop(fields.insert(text(dice), odd(dice))),
        _ => {
            if let Some(value) = fields.get_mut(&name) {
                make_odd(dice, value);
            }
        }
    }
}

/// Returns a value that no example has.
fn odd(dice: &mut Dice) -> Value {
    match dice.below(12) {
        0 => Value::Null,
        1 => json!(dice.one_in(2)),
        2 => json!([]),
        3 => json!({}),
        4 => deep(dice),
        5 | 6 => number(dice),
        _ => json!(text(dice)),
    }
}

fn number(dice: &mut Dice) -> Value {
    let floats = [0.5, -0.5, 1e18, -1e18, 1e308, -1e308, 5e-324];
    match dice.below(3) {
        0 => Number::from_f64(*dice.pick(&floats)).map_or(Value::Null, Value::Number),
        1 => json!(dice.pick(&[0, -1, 1, i64::MIN, i64::MAX, i64::from(u32::MAX) + 1])),
        _ => json!(dice.pick(&[u64::MAX, 1 << 63, 1 << 53, 86_400_000_000])),
    }
}

fn text(dice: &mut Dice) -> String {
    let texts = [
        "",
        " ",
        "\0",
        "\r\nX: y\r\n\r\n",
        "../../etc/passwd",
        "a/b",
        "%2e%2e%2f",
        "\u{1b}[2J\u{9b}31m",
        "\u{202e}\u{feff}\u{200b}",
        "@everyone",
        "@anyone@main",
        "human",
        "00000000",
        "t-00000000",
        "ffffffffffffffff",
        "18446744073709551616",
        "-1",
        "1e9",
        "null",
        "'; --",
        "<b>&amp;",
        "\u{10ffff}",
        "all",
    ];
    match dice.below(8) {
        0 => "x".repeat(*dice.pick(&[49, 129, 257, 5_000])),
        1 => "\u{1f980}".repeat(*dice.pick(&[1, 13, 65, 300])),
        _ => (*dice.pick(&texts)).to_owned(),
    }
}

/// Returns lists or objects, nested many times.
fn deep(dice: &mut Dice) -> Value {
    let objects = dice.one_in(2);
    (0..*dice.pick(&[3, 60, 120])).fold(Value::Null, |inner, _| match objects {
        true => json!({ "a": inner }),
        false => json!([inner]),
    })
}
