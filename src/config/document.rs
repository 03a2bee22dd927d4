//! TOML files read key by key, each with its line.
//!
//! Owns the one way in which this room reads TOML: a section hands out the
//! keys that its reader asks for, and whatever is left when the reader is
//! done is an unknown key. So a key that nobody reads is refused, and every
//! refusal names file, line and key. It knows no key by itself and touches no
//! file.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Place};
use super::values::parse_word;
use super::{ValueError, scope};

/// The text of a file and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    file: PathBuf,
    text: String,
}

impl Source {
    pub(crate) fn new(file: &Path, text: &str) -> Self {
        Self {
            file: file.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Parses the text into its outermost section.
    pub(crate) fn parse(&self) -> Result<Section<'_>, ConfigError> {
        let table = DeTable::parse(&self.text).map_err(|error| ConfigError::Key {
            place: self.place(error.span().unwrap_or_default(), ""),
            expected: format!("TOML: {}", error.message().replace('\n', "; ")),
            hint: String::new(),
        })?;
        let span = table.span();
        Ok(Section::new(self, String::new(), span, table.into_inner()))
    }

    fn place(&self, span: Range<usize>, key: &str) -> Place {
        let before = self.text.as_bytes().iter().take(span.start);
        Place {
            file: self.file.clone(),
            line: 1 + before.filter(|byte| **byte == b'\n').count(),
            key: key.to_owned(),
        }
    }
}

/// One table of a file; keys are taken out of it.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    source: &'a Source,
    path: String,
    span: Range<usize>,
    entries: Vec<Entry<'a>>,
    asked: Vec<&'static str>,
}

#[derive(Debug)]
struct Entry<'a> {
    name: String,
    at: Range<usize>,
    item: Item<'a>,
}

/// One value of a file.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    source: &'a Source,
    path: String,
    span: Range<usize>,
    value: DeValue<'a>,
}

fn join(path: &str, name: &str) -> String {
    let plain = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let name = if plain {
        name.to_owned()
    } else {
        format!("{name:?}")
    };
    if path.is_empty() {
        name
    } else {
        format!("{path}.{name}")
    }
}

impl<'a> Section<'a> {
    fn new(source: &'a Source, path: String, span: Range<usize>, table: DeTable<'a>) -> Self {
        let entries = table
            .into_iter()
            .map(|(name, value)| {
                let key_path = join(&path, name.get_ref());
                Entry {
                    at: name.span(),
                    name: name.into_inner().into_owned(),
                    item: Item {
                        source,
                        path: key_path,
                        span: value.span(),
                        value: value.into_inner(),
                    },
                }
            })
            .collect();
        Self {
            source,
            path,
            span,
            entries,
            asked: Vec::new(),
        }
    }

    /// Takes the value of a key out.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Item<'a>> {
        self.asked.push(key);
        let at = self.entries.iter().position(|entry| entry.name == key)?;
        Some(self.entries.swap_remove(at).item)
    }

    /// Takes the value of a key that must be there.
    pub(crate) fn require(&mut self, key: &'static str) -> Result<Item<'a>, ConfigError> {
        self.take(key).ok_or_else(|| ConfigError::Key {
            place: self.source.place(self.span.clone(), &join(&self.path, key)),
            expected: "a value, but the key is missing".to_owned(),
            hint: format!("add `{key} = …`"),
        })
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigError> {
        self.take(key).map(|item| item.text()).transpose()
    }

    pub(crate) fn texts(&mut self, key: &'static str) -> Result<Vec<String>, ConfigError> {
        self.take(key)
            .map_or_else(|| Ok(Vec::new()), |item| item.texts())
    }

    pub(crate) fn globs(&mut self, key: &'static str) -> Result<Vec<String>, ConfigError> {
        let Some(item) = self.take(key) else {
            return Ok(Vec::new());
        };
        let globs = item.texts()?;
        scope::check_globs(key, &globs).map_err(|error| item.refused(&error))?;
        Ok(globs)
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        self.take(key).map(|item| item.flag()).transpose()
    }

    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(item) = self.take(key) else {
            return Ok(None);
        };
        let text = item.text()?;
        parse_word(key, &text, words)
            .map(Some)
            .map_err(|error| item.refused(&error))
    }

    /// A table beneath this one; an empty one where the key is missing.
    pub(crate) fn section(&mut self, key: &'static str) -> Result<Section<'a>, ConfigError> {
        match self.take(key) {
            Some(item) => item.section(),
            None => Ok(Section::new(
                self.source,
                join(&self.path, key),
                self.span.clone(),
                DeTable::new(),
            )),
        }
    }

    /// The tables of an array of tables, in their order.
    pub(crate) fn sections(&mut self, key: &'static str) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some(item) = self.take(key) else {
            return Ok(Vec::new());
        };
        let wrong = item.wrong(&format!("an array of tables, `[[{key}]]`"));
        let DeValue::Array(array) = item.value else {
            return Err(wrong);
        };
        let mut sections = Vec::new();
        for (at, value) in array.into_iter().enumerate() {
            let element = Item {
                source: item.source,
                path: format!("{}[{at}]", item.path),
                span: value.span(),
                value: value.into_inner(),
            };
            sections.push(element.section()?);
        }
        Ok(sections)
    }

    /// Every key that is left with its value, as in a table of names.
    pub(crate) fn into_items(self) -> Vec<(String, Item<'a>)> {
        let mut entries = self.entries;
        entries.sort_by_key(|entry| entry.at.start);
        entries
            .into_iter()
            .map(|entry| (entry.name, entry.item))
            .collect()
    }

    /// Refuses a key that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), ConfigError> {
        let Some(left) = self.entries.iter().min_by_key(|entry| entry.at.start) else {
            return Ok(());
        };
        let known: Vec<String> = self.asked.iter().map(|key| format!("`{key}`")).collect();
        Err(ConfigError::Key {
            place: self.source.place(left.at.clone(), &left.item.path),
            expected: format!("a known key: {}", known.join(", ")),
            hint: format!("remove or correct `{}`", left.name),
        })
    }

    /// An error about the section as a whole.
    pub(crate) fn wrong(&self, expected: &str) -> ConfigError {
        ConfigError::Key {
            place: self.source.place(self.span.clone(), &self.path),
            expected: expected.to_owned(),
            hint: String::new(),
        }
    }
}

impl<'a> Item<'a> {
    /// An error about this value.
    pub(crate) fn wrong(&self, expected: &str) -> ConfigError {
        ConfigError::Key {
            place: self.place(),
            expected: expected.to_owned(),
            hint: String::new(),
        }
    }

    /// The same error with file and line.
    pub(crate) fn refused(&self, error: &ValueError) -> ConfigError {
        self.wrong(&format!("{}, found {}", error.expected, error.found))
    }

    pub(crate) fn place(&self) -> Place {
        self.source.place(self.span.clone(), &self.path)
    }

    pub(crate) fn text(&self) -> Result<String, ConfigError> {
        match &self.value {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong(&format!("a string, found {}", self.kind()))),
        }
    }

    pub(crate) fn texts(&self) -> Result<Vec<String>, ConfigError> {
        let wrong = || self.wrong(&format!("a list of strings, found {}", self.kind()));
        let DeValue::Array(array) = &self.value else {
            return Err(wrong());
        };
        array
            .iter()
            .map(|value| match value.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                _ => Err(wrong()),
            })
            .collect()
    }

    pub(crate) fn flag(&self) -> Result<bool, ConfigError> {
        match &self.value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.wrong(&format!("`true` or `false`, found {}", self.kind()))),
        }
    }

    /// The digits of a whole number, for a parser that knows its range.
    pub(crate) fn digits(&self) -> Option<String> {
        match &self.value {
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.as_str().to_owned(), |number| number.to_string())
                .into(),
            _ => None,
        }
    }

    /// A number as it was written, decimals included.
    pub(crate) fn number(&self) -> Option<String> {
        match &self.value {
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => self.digits(),
        }
    }

    /// Whether it is a table.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub(crate) fn section(self) -> Result<Section<'a>, ConfigError> {
        let wrong = self.wrong(&format!("a table, found {}", self.kind()));
        match self.value {
            DeValue::Table(table) => Ok(Section::new(self.source, self.path, self.span, table)),
            _ => Err(wrong),
        }
    }

    /// What it is, with its value where that is short.
    pub(crate) fn kind(&self) -> String {
        match &self.value {
            DeValue::String(text) => format!("the string {text:?}"),
            DeValue::Integer(number) => format!("the number {number}"),
            DeValue::Float(number) => format!("the number {number}"),
            DeValue::Boolean(flag) => format!("`{flag}`"),
            DeValue::Datetime(instant) => format!("the instant {instant}"),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        }
    }
}
