//! Reading JSON from outside: a value together with the path that leads to it.
//!
//! I1  No accessor panics; an error names the path, what was expected and what was found.
//! I2  Nothing is allocated for a path before an error needs its text.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::sabotage;

/// A value inside a JSON text, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) value: &'a Value,
    at: At<'a>,
}

#[derive(Clone, Copy)]
enum At<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl<'a> Node<'a> {
    /// The whole text.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, at: At::Root }
    }

    /// Where this stands, as in `buffers[3].addr`.
    pub(crate) fn path(&self) -> String {
        self.at.to_string()
    }

    /// Checks that this is an object.
    pub(crate) fn object(&self) -> Result<&'a serde_json::Map<String, Value>, ShapeError> {
        self.value.as_object().ok_or_else(|| self.wrong_type("an object"))
    }

    /// The field of this object, if it is there and not null.
    pub(crate) fn field<'b>(&'b self, name: &'b str) -> Option<Node<'b>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Node { value, at: At::Key(&self.at, name) })
    }

    /// The field of this object.
    pub(crate) fn required<'b>(&'b self, name: &'b str) -> Result<Node<'b>, ShapeError> {
        self.field(name)
            .ok_or_else(|| ShapeError::Missing { path: At::Key(&self.at, name).to_string() })
    }

    /// The elements of this array, of which there may be `limit`.
    pub(crate) fn elements<'b>(
        &'b self,
        limit: usize,
    ) -> Result<impl ExactSizeIterator<Item = Node<'b>>, ShapeError> {
        let array = self.value.as_array().ok_or_else(|| self.wrong_type("an array"))?;
        if array.len() > limit {
            return Err(ShapeError::TooMany { path: self.path(), count: array.len(), limit });
        }
        let element = |(index, value)| Node { value, at: At::Index(&self.at, index) };
        Ok(array.iter().enumerate().map(element))
    }

    /// This text, of at most `limit` bytes.
    pub(crate) fn text(&self, limit: usize) -> Result<&'a str, ShapeError> {
        let Some(text) = self.value.as_str() else {
            assert!(!sabotage::is_off("json-shape"), "a field has the wrong JSON type");
            return Err(self.wrong_type("a string"));
        };
        if text.len() > limit {
            return Err(ShapeError::TooLong { path: self.path(), bytes: text.len(), limit });
        }
        Ok(text)
    }

    /// This text, which must not be empty.
    pub(crate) fn non_empty_text(&self, limit: usize) -> Result<&'a str, ShapeError> {
        let text = self.text(limit)?;
        if text.is_empty() {
            return Err(ShapeError::Empty { path: self.path() });
        }
        Ok(text)
    }

    /// This whole number between 0 and `max`, which must fit in `N`.
    pub(crate) fn number<N: TryFrom<u64>>(&self, max: u64) -> Result<N, ShapeError> {
        let whole = |number: &serde_json::Number| number.is_u64() || number.is_i64();
        let number = self.value.as_number().filter(|number| whole(number));
        let number = number.ok_or_else(|| self.wrong_type("a whole number"))?;
        let fitting = number.as_u64().filter(|number| *number <= max);
        fitting.and_then(|number| N::try_from(number).ok()).ok_or_else(|| ShapeError::OutOfRange {
            path: self.path(),
            value: number.to_string(),
            max,
        })
    }

    /// This number, which must not be 0.
    pub(crate) fn non_zero(&self) -> Result<u64, ShapeError> {
        match self.number(u64::MAX)? {
            0 => Err(ShapeError::Zero { path: self.path() }),
            number => Ok(number),
        }
    }

    /// This boolean.
    pub(crate) fn boolean(&self) -> Result<bool, ShapeError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("a boolean"))
    }

    /// The error that this has another type than `expected`.
    pub(crate) fn wrong_type(&self, expected: &'static str) -> ShapeError {
        ShapeError::WrongType { path: self.path(), expected, found: kind_of(self.value) }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, name) => f.write_str(name),
            Self::Key(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// What is wrong with the shape of a JSON text, and where.
///
/// A path such as `buffers[3].addr` names the field; the root's path is empty.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A value has another type.
    #[error("{} is {found}, expected {expected}", shown(path))]
    WrongType {
        /// The field.
        path: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A field is absent or null.
    #[error("{} is missing", shown(path))]
    Missing {
        /// The field.
        path: String,
    },
    /// A number is negative or too large.
    #[error("{} is {value}, expected 0 to {max}", shown(path))]
    OutOfRange {
        /// The field.
        path: String,
        /// The number as written.
        value: String,
        /// The largest allowed.
        max: u64,
    },
    /// A text that must say something is empty.
    #[error("{} is empty", shown(path))]
    Empty {
        /// The field.
        path: String,
    },
    /// A number that must not be 0 is 0.
    #[error("{} is 0", shown(path))]
    Zero {
        /// The field.
        path: String,
    },
    /// A text is too long.
    #[error("{} has {bytes} bytes, at most {limit} are allowed", shown(path))]
    TooLong {
        /// The field.
        path: String,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A list is too long.
    #[error("{} has {count} entries, at most {limit} are allowed", shown(path))]
    TooMany {
        /// The field.
        path: String,
        /// How many entries it has.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A text does not have the form that the field needs.
    #[error("{} has a bad value: {reason}", shown(path))]
    BadText {
        /// The field.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl ShapeError {
    /// The field that is wrong; empty for the root.
    pub fn path(&self) -> &str {
        match self {
            Self::WrongType { path, .. }
            | Self::Missing { path }
            | Self::OutOfRange { path, .. }
            | Self::Empty { path }
            | Self::Zero { path }
            | Self::TooLong { path, .. }
            | Self::TooMany { path, .. }
            | Self::BadText { path, .. } => path,
        }
    }
}

/// Compact JSON of a value whose serialisation cannot fail: structs of this crate have string
/// keys and no failing fields.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain structs with string keys always serialise")
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "the root" } else { path }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
