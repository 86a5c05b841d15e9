//! TOML, edited in its own syntax tree. Our entries are tables.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::{Broken, Entry, at, line_of};

pub(super) fn put(text: &str, entries: &[Entry]) -> Result<Option<String>, Broken> {
    let mut document = read(text)?;
    let mut changed = false;
    for entry in entries {
        if let Entry::Key { path, value } = entry {
            changed |= set(text, &mut document, path, value)?;
        }
    }
    Ok(changed.then(|| document.to_string()))
}

pub(super) fn take(
    text: &str,
    before: &Value,
    entries: &[Entry],
) -> Result<Option<String>, Broken> {
    let mut document = read(text)?;
    let mut changed = false;
    for entry in entries {
        if let Entry::Key { path, .. } = entry {
            changed |= match at(before, path) {
                Some(old) => set(text, &mut document, path, old)?,
                None => remove(&mut document, path, before),
            };
        }
    }
    Ok(changed.then(|| document.to_string()))
}

pub(super) fn value(text: &str) -> Result<Value, Broken> {
    Ok(table_value(read(text)?.as_table()))
}

fn read(text: &str) -> Result<DocumentMut, Broken> {
    text.parse().map_err(|e: toml_edit::TomlError| {
        let place = e.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..place].iter().filter(|byte| **byte == b'\n').count();
        let why = match e.message().trim() {
            "" => "this is not TOML".to_owned(),
            why => why.replace('\n', ", "),
        };
        Broken { line, why }
    })
}

fn set(
    text: &str,
    document: &mut DocumentMut,
    path: &[String],
    value: &Value,
) -> Result<bool, Broken> {
    let Some((name, parents)) = path.split_last() else { return Ok(false) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for part in parents {
        let made = || {
            Item::Table({
                let mut table = Table::new();
                table.set_implicit(true);
                table
            })
        };
        let item = table.entry(part).or_insert_with(made);
        let wrong =
            Broken { line: line_of(text, part), why: format!("`{part}` should be a table") };
        table = item.as_table_like_mut().ok_or(wrong)?;
    }
    if table.get(name).and_then(item_value).as_ref() == Some(value) {
        return Ok(false);
    }
    let mut ours = item(value);
    if let (Some(Item::Table(old)), Item::Table(new)) = (table.get(name), &mut ours) {
        *new.decor_mut() = old.decor().clone();
        if let Some(place) = old.position() {
            new.set_position(place);
        }
    }
    table.insert(name, ours);
    Ok(true)
}

/// Removes the key, and the tables above it that are empty now and are not in `before`.
fn remove(document: &mut DocumentMut, path: &[String], before: &Value) -> bool {
    let mut removed = false;
    for depth in (1..=path.len()).rev() {
        let (name, parents) = path[..depth].split_last().expect("at least one");
        let mut table: Option<&mut dyn TableLike> = Some(document.as_table_mut());
        for part in parents {
            table = table.and_then(|t| t.get_mut(part)).and_then(Item::as_table_like_mut);
        }
        let Some(table) = table else { break };
        let gone = match table.get(name) {
            Some(_) if depth == path.len() => true,
            Some(item) => {
                item.as_table_like().is_some_and(|t| t.is_empty())
                    && at(before, &path[..depth]).is_none()
            }
            None => false,
        };
        if !gone {
            break;
        }
        table.remove(name);
        removed = true;
    }
    removed
}

fn item(value: &Value) -> Item {
    match value {
        Value::Object(fields) => {
            let mut table = Table::new();
            for (name, value) in fields {
                if let Some(value) = plain(value) {
                    table.insert(name, Item::Value(value));
                }
            }
            Item::Table(table)
        }
        other => plain(other).map_or(Item::None, Item::Value),
    }
}

/// Converts a value to TOML, which has no null.
fn plain(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().filter_map(plain).collect::<Array>().into(),
        Value::Object(fields) => {
            let mut table = InlineTable::new();
            for (name, value) in fields {
                if let Some(value) = plain(value) {
                    table.insert(name, value);
                }
            }
            table.into()
        }
    })
}

fn item_value(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(plain_value(value)),
        Item::Table(table) => Some(table_value(table)),
        Item::ArrayOfTables(tables) => Some(tables.iter().map(|t| table_value(t)).collect()),
    }
}

fn table_value(table: &dyn TableLike) -> Value {
    let field = |(name, item): (&str, &Item)| Some((name.to_owned(), item_value(item)?));
    Value::Object(table.iter().filter_map(field).collect::<Map<_, _>>())
}

fn plain_value(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => Value::String(text.value().clone()),
        Toml::Integer(number) => (*number.value()).into(),
        Toml::Float(number) => (*number.value()).into(),
        Toml::Boolean(truth) => (*truth.value()).into(),
        Toml::Datetime(time) => Value::String(time.value().to_string()),
        Toml::Array(items) => items.iter().map(plain_value).collect(),
        Toml::InlineTable(table) => table_value(table),
    }
}
