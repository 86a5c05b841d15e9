//! JSON with comments, edited in its own syntax tree.

use jsonc_parser::cst::{CstArray, CstInputValue, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

use super::{Broken, Entry, at, is_ours, line_of};

/// Comments and trailing commas; no client reads anything looser.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The order in which people write these keys; other keys follow.
const ORDER: [&str; 9] =
    ["matcher", "type", "name", "command", "args", "url", "httpUrl", "headers", "hooks"];

struct File<'a> {
    text: &'a str,
    root: CstRootNode,
    changed: bool,
}

pub(super) fn put(text: &str, entries: &[Entry]) -> Result<Option<String>, Broken> {
    let mut file = File::read(text)?;
    for entry in entries {
        match entry {
            Entry::Key { path, value } => file.set(path, value)?,
            Entry::Item { list, mark, value } => file.set_item(list, mark, value)?,
            Entry::Whole { .. } => (),
        }
    }
    Ok(file.written())
}

pub(super) fn take(
    text: &str,
    before: &Value,
    entries: &[Entry],
) -> Result<Option<String>, Broken> {
    let mut file = File::read(text)?;
    for entry in entries {
        let removed = match entry {
            Entry::Key { path, .. } => match at(before, path) {
                Some(old) => {
                    file.set(path, old)?;
                    false
                }
                None => file.remove(path)?,
            },
            Entry::Item { list, mark, .. } => file.remove_items(list, mark)?,
            Entry::Whole { .. } => false,
        };
        if removed {
            file.tidy(entry.path(), before)?;
        }
    }
    Ok(file.written())
}

pub(super) fn value(text: &str) -> Result<Value, Broken> {
    let file = File::read(text)?;
    Ok(file.root.to_serde_value().unwrap_or_else(|| Value::Object(Map::new())))
}

impl<'a> File<'a> {
    fn read(text: &'a str) -> Result<Self, Broken> {
        let root = CstRootNode::parse(text, &OPTIONS)
            .map_err(|e| Broken { line: e.line_display(), why: e.kind().to_string() })?;
        if root.value().is_some() && root.object_value().is_none() {
            let why = "an object was expected, `{ … }`".to_owned();
            return Err(Broken { line: 1, why });
        }
        one_line_each(text)?;
        Ok(Self { text, root, changed: false })
    }

    fn written(self) -> Option<String> {
        self.changed.then(|| {
            let mut text = self.root.to_string();
            if self.text.trim().is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text
        })
    }

    fn set(&mut self, path: &[String], value: &Value) -> Result<(), Broken> {
        let Some((name, parents)) = path.split_last() else { return Ok(()) };
        let parent = self.make(parents)?;
        match self.member(&parent, name)? {
            Some(prop) if said(&prop).as_ref() == Some(value) => return Ok(()),
            Some(prop) => prop.set_value(input(value)),
            None => drop(parent.append(name, input(value))),
        }
        self.changed = true;
        Ok(())
    }

    fn set_item(&mut self, list: &[String], mark: &str, value: &Value) -> Result<(), Broken> {
        let Some((name, parents)) = list.split_last() else { return Ok(()) };
        let parent = self.make(parents)?;
        let array = match self.member(&parent, name)? {
            Some(prop) => prop.array_value().ok_or_else(|| self.wrong(name, "a list"))?,
            None => {
                self.changed = true;
                drop(parent.append(name, input(&Value::Array(vec![value.clone()]))));
                return Ok(());
            }
        };
        let ours = ours(&array, mark);
        if ours.len() == 1 && ours[0].to_serde_value().as_ref() == Some(value) {
            return Ok(());
        }
        self.changed = true;
        let place = ours.first().and_then(|first| first.element_index());
        ours.into_iter().for_each(|item| item.remove());
        match place {
            Some(place) => array.insert(place, input(value)),
            None => array.append(input(value)),
        };
        Ok(())
    }

    /// Removes the property at this path; returns whether there was one.
    fn remove(&mut self, path: &[String]) -> Result<bool, Broken> {
        let Some((name, parents)) = path.split_last() else { return Ok(false) };
        if let Some(parent) = self.find(parents)?
            && let Some(prop) = self.member(&parent, name)?
        {
            prop.remove();
            self.changed = true;
            return Ok(true);
        }
        Ok(false)
    }

    fn remove_items(&mut self, list: &[String], mark: &str) -> Result<bool, Broken> {
        let Some((name, parents)) = list.split_last() else { return Ok(false) };
        let mut removed = false;
        if let Some(parent) = self.find(parents)?
            && let Some(array) = self.member(&parent, name)?.and_then(|prop| prop.array_value())
        {
            for item in ours(&array, mark) {
                item.remove();
                removed = true;
            }
        }
        self.changed |= removed;
        Ok(removed)
    }

    /// Removes objects and lists along this path that are empty and are not in `before`.
    fn tidy(&mut self, path: &[String], before: &Value) -> Result<(), Broken> {
        for depth in (1..=path.len()).rev() {
            let path = &path[..depth];
            let (name, parents) = path.split_last().expect("at least one");
            let Some(parent) = self.find(parents)? else { continue };
            let Some(prop) = self.member(&parent, name)? else { continue };
            let empty = match said(&prop) {
                Some(Value::Object(fields)) => fields.is_empty(),
                Some(Value::Array(items)) => items.is_empty(),
                _ => false,
            };
            if empty && at(before, path).is_none() {
                prop.remove();
                self.changed = true;
            }
        }
        Ok(())
    }

    fn find(&self, path: &[String]) -> Result<Option<CstObject>, Broken> {
        let Some(mut object) = self.root.object_value() else { return Ok(None) };
        for name in path {
            let Some(prop) = self.member(&object, name)? else { return Ok(None) };
            object = prop.object_value().ok_or_else(|| self.wrong(name, "an object"))?;
        }
        Ok(Some(object))
    }

    fn make(&mut self, path: &[String]) -> Result<CstObject, Broken> {
        let mut object = self.root.object_value_or_set();
        for name in path {
            object = match self.member(&object, name)? {
                Some(prop) => prop.object_value().ok_or_else(|| self.wrong(name, "an object"))?,
                None => {
                    self.changed = true;
                    object.append(name, CstInputValue::Object(Vec::new())).object_value_or_set()
                }
            };
        }
        Ok(object)
    }

    /// Returns the property of this name. Refuses an object that has the name twice,
    /// because parsers disagree on which of the two counts.
    fn member(&self, object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, Broken> {
        let named = |prop: &CstObjectProp| prop.decoded_name().is_some_and(|own| own == name);
        let mut found: Vec<_> = object.properties().into_iter().filter(named).collect();
        if found.len() > 1 {
            let why = format!("`{name}` stands there {} times", found.len());
            return Err(Broken { line: line_of(self.text, name), why });
        }
        Ok(found.pop())
    }

    fn wrong(&self, name: &str, wanted: &str) -> Broken {
        let why = format!("`{name}` should be {wanted}");
        Broken { line: line_of(self.text, name), why }
    }
}

#[cfg(test)]
pub(super) fn has_object(text: &str) -> bool {
    let text = text.trim_start_matches(super::MARK);
    File::read(text).is_ok_and(|file| file.root.object_value().is_some())
}

/// Refuses a string that contains a line ending: the parser accepts one and no client
/// does, and an edit of the line endings would change the string.
fn one_line_each(text: &str) -> Result<(), Broken> {
    let options = CollectOptions { tokens: true, ..CollectOptions::default() };
    let read = parse_to_ast(text, &options, &OPTIONS);
    let tokens = read.ok().and_then(|read| read.tokens).unwrap_or_default();
    let mut strings = tokens.iter().filter(|token| matches!(token.token, Token::String(_)));
    let broken = strings.find(|token| {
        let written = &text[token.range.start..token.range.end];
        written.contains(['\n', '\r'])
    });
    match broken {
        None => Ok(()),
        Some(token) => {
            let line = 1 + text[..token.range.start].matches('\n').count();
            Err(Broken { line, why: "a text goes on beyond the end of its line".to_owned() })
        }
    }
}

fn said(prop: &CstObjectProp) -> Option<Value> {
    prop.value().and_then(|node| node.to_serde_value())
}

fn ours(array: &CstArray, mark: &str) -> Vec<jsonc_parser::cst::CstNode> {
    let ours = |node: &jsonc_parser::cst::CstNode| {
        node.to_serde_value().is_some_and(|item| is_ours(&item, mark))
    };
    array.elements().into_iter().filter(ours).collect()
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(truth) => CstInputValue::Bool(*truth),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            let rank = |name: &str| ORDER.iter().position(|known| *known == name);
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| rank(name).unwrap_or(ORDER.len()));
            let field = |(name, value): (&String, &Value)| (name.clone(), input(value));
            CstInputValue::Object(fields.into_iter().map(field).collect())
        }
    }
}
