//! Reads the TOML form and says exactly where it is wrong.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::draft::{Draft, HIDDEN};
use super::error::{ConfigError, SettingProblem};
use super::kind::Kind;
use super::variables::{Variable, variable, variables};
use super::{Source, rules};

/// Longest configuration file in bytes; all settings together need less than a hundredth.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file into a draft.
pub(super) fn read_into(draft: &mut Draft, path: &Path) -> Result<(), ConfigError> {
    let text = read(path)?;
    let syntax = |cause: &toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        line: line_of(&text, cause.span().map_or(0, |span| span.start)),
        reason: cause.message().to_owned(),
    };
    let values: Table = toml::from_str(&text).map_err(|cause| syntax(&cause))?;
    let places = DeTable::parse(&text).map_err(|cause| syntax(&cause))?;
    let mut reader = Reader { draft, path, text: &text, problems: Vec::new() };
    reader.sections(&values, places.get_ref());
    reader.rules();
    match reader.problems {
        problems if problems.is_empty() => Ok(()),
        problems => Err(ConfigError::Settings { problems }),
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |cause| ConfigError::Unreadable { path: path.to_owned(), cause };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(ConfigError::TooLong { path: path.to_owned(), max: MAX_FILE_BYTES });
    }
    Ok(text)
}

struct Reader<'a> {
    draft: &'a mut Draft,
    path: &'a Path,
    text: &'a str,
    problems: Vec<SettingProblem>,
}

impl Reader<'_> {
    fn sections(&mut self, values: &Table, places: &DeTable<'_>) {
        for (name, place) in places {
            let section = name.get_ref().as_ref();
            let line = line_of(self.text, name.span().start);
            if !variables().any(|row| row.path().0 == section) {
                self.problem(line, section, format!("is not a section; they are {}", sections()));
                continue;
            }
            match (values.get(section), place.get_ref()) {
                (Some(Value::Table(values)), DeValue::Table(places)) => {
                    self.section(section, values, places);
                }
                _ => self.problem(line, section, format!("is not a section: write [{section}]")),
            }
        }
    }

    fn section(&mut self, section: &str, values: &Table, places: &DeTable<'_>) {
        for (name, value) in values {
            let field = format!("{section}.{name}");
            let line = key_line(self.text, places, name);
            match variable(&field) {
                Some(row) => self.setting(row, value, line),
                None => self.problem(line, &field, unknown(section, name)),
            }
        }
    }

    fn setting(&mut self, row: &'static Variable, value: &Value, line: usize) {
        if row.kind.accepts(value) {
            let source = Source::File { path: self.path.to_owned(), line };
            self.draft.set(row, value.clone(), source);
        } else {
            let value =
                if matches!(row.kind, Kind::Secret) { HIDDEN.into() } else { value.to_string() };
            let reason = format!("= {value} is not {}", row.kind.toml_form());
            self.problem(line, row.field, reason);
        }
    }

    fn rules(&mut self) {
        for broken in rules::broken(self.draft) {
            let line = broken.rows.iter().find_map(|row| match self.draft.source(row) {
                Source::File { line, .. } => Some(line),
                _ => None,
            });
            if let (Some(line), Some(row)) = (line, broken.rows.first()) {
                self.problem(line, row.field, broken.reason);
            }
        }
    }

    fn problem(&mut self, line: usize, key: &str, reason: String) {
        let place = Some((self.path.to_owned(), line));
        self.problems.push(SettingProblem { place, key: key.to_owned(), reason });
    }
}

fn key_line(text: &str, places: &DeTable<'_>, key: &str) -> usize {
    places
        .keys()
        .find(|place| place.get_ref().as_ref() == key)
        .map_or(1, |place: &Spanned<_>| line_of(text, place.span().start))
}

/// The line of a byte position, counted from 1.
fn line_of(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|byte| *byte == b'\n').count()
}

fn sections() -> String {
    let mut names: Vec<&str> = variables().map(|row| row.path().0).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Names the key that was probably meant, or all there are.
fn unknown(section: &str, name: &str) -> String {
    let names: Vec<&str> = variables()
        .map(Variable::path)
        .filter(|path| path.0 == section)
        .map(|path| path.1)
        .collect();
    let alike = |other: &&&str| common_prefix(name, other) >= LIKELY_PREFIX;
    match names.iter().filter(alike).max_by_key(|other| common_prefix(name, other)) {
        Some(likely) => format!("is not a setting; {likely} is"),
        None => format!("is not a setting; [{section}] has {}", names.join(", ")),
    }
}

/// A key that begins like another is probably meant to be that one.
const LIKELY_PREFIX: usize = 4;

fn common_prefix(left: &str, right: &str) -> usize {
    left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count()
}
