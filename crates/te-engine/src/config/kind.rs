//! What a setting may be, and the one reader of its text form.
//!
//! Numbers are strict: the whole text, ASCII digits only, in range; no sign, blank, unit or other
//! base. Words for on and off are taken in any case. Text from outside is bounded in length and
//! free of control characters.

use std::fmt;
use std::net::IpAddr;

use te_metadata::{MAX_NIC_ADDRESSES, NicAddress};
use te_topology::NicName;
use toml::Value;

/// What a setting may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// On or off in words. `by_presence`: its `MC_` variable has this meaning whenever it is
    /// there, even empty or "0".
    Switch { by_presence: Option<bool> },
    /// A whole number.
    Integer(Integer),
    /// One of a few whole numbers.
    Choice { numbers: &'static [i64], unit: &'static str },
    /// One of a few words, written as here.
    Word { words: &'static [&'static str], any_case: bool },
    /// Text as it comes.
    Text,
    /// Text that is never shown.
    Secret,
    /// A file or directory.
    Path,
    /// An IP address without brackets.
    Address,
    /// Names, separated by commas.
    Names,
    /// At most eight addresses of NICs, with their weights, separated by commas; one bad entry voids
    /// all.
    NicAddresses,
    /// Numbers from 0 to 255 for NICs, as `mlx5_0=3`, separated by commas; one bad entry voids all.
    NicIndices,
    /// Port numbers, separated by commas; one bad entry voids all.
    Ports,
}

/// The bounds of a whole number, both included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Integer {
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) unit: &'static str,
    /// What 0 means where it stands outside of or on the edge of the range; 0 is taken then.
    pub(crate) zero: Option<&'static str>,
    /// A value below the minimum becomes the minimum instead of being refused.
    pub(crate) raise: bool,
}

/// What reading a text gave.
#[derive(Debug, PartialEq)]
pub(crate) enum Reading {
    /// A value in range.
    Taken(Value),
    /// A value that had to be lifted to the minimum.
    Raised(Value),
    /// Nothing usable.
    Refused,
}

/// Longest text value in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 4096;

/// Most entries of a list.
const MAX_ENTRIES: usize = 256;

/// Most entries of a list of NICs.
const MAX_NIC_INDICES: usize = 64;

impl Kind {
    /// Reads the text of a variable.
    pub(crate) fn read(&self, text: &str) -> Reading {
        if let Self::Integer(integer) = self {
            return integer.read(text);
        }
        match self.read_plain(text) {
            Some(value) => Reading::Taken(value),
            None => Reading::Refused,
        }
    }

    /// Whether a value of the TOML form, or one that a program set, may stand.
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Switch { .. }, Value::Boolean(_)) => true,
            (Self::Integer(integer), Value::Integer(number)) => integer.contains(*number),
            (Self::Choice { numbers, .. }, Value::Integer(number)) => numbers.contains(number),
            (Self::Word { words, .. }, Value::String(text)) => words.contains(&text.as_str()),
            (Self::Text | Self::Secret, Value::String(text)) => is_plain(text),
            (Self::Path, Value::String(text)) => is_plain(text) && !text.is_empty(),
            (Self::Address, Value::String(text)) => text.parse::<IpAddr>().is_ok(),
            (Self::Names, Value::Array(entries)) => {
                entries.len() <= MAX_ENTRIES && entries.iter().all(is_name)
            }
            (Self::NicAddresses, Value::Array(entries)) => {
                entries.len() <= MAX_NIC_ADDRESSES && entries.iter().all(is_nic_address)
            }
            (Self::NicIndices, Value::Array(entries)) => {
                let is_one = |entry: &Value| entry.as_str().is_some_and(|e| nic_index(e).is_some());
                entries.len() <= MAX_NIC_INDICES && entries.iter().all(is_one)
            }
            (Self::Ports, Value::Array(entries)) => {
                entries.len() <= MAX_ENTRIES && entries.iter().all(is_port)
            }
            _ => false,
        }
    }

    /// The unit, or nothing.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Integer(integer) => integer.unit,
            Self::Choice { unit, .. } => unit,
            _ => "",
        }
    }

    /// What 0 means, where it means something of its own.
    pub(crate) fn zero(&self) -> Option<&'static str> {
        match self {
            Self::Integer(integer) => integer.zero,
            _ => None,
        }
    }

    /// What may stand in a TOML file, as the end of "is not …".
    pub(crate) fn toml_form(&self) -> String {
        match self {
            Self::Switch { .. } => "true or false".to_owned(),
            Self::Names => "a list of names".to_owned(),
            Self::NicAddresses => "a list of at most 8 IP addresses with weights".to_owned(),
            Self::NicIndices => "a list of at most 64 numbers for NICs".to_owned(),
            Self::Ports => "a list of port numbers from 0 to 65535".to_owned(),
            Self::Word { words, .. } => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                alternatives(&quoted)
            }
            other => other.to_string(),
        }
    }

    fn read_plain(&self, text: &str) -> Option<Value> {
        match self {
            Self::Switch { .. } => switch(text).map(Value::Boolean),
            Self::Integer(_) => None,
            Self::Choice { numbers, .. } => numbers
                .iter()
                .find(|number| number.to_string() == text)
                .map(|number| Value::Integer(*number)),
            Self::Word { words, any_case } => words
                .iter()
                .find(|word| **word == text || (*any_case && word.eq_ignore_ascii_case(text)))
                .map(|word| Value::String((*word).to_owned())),
            Self::Text | Self::Secret | Self::Path => {
                is_plain(text).then(|| Value::String(text.to_owned()))
            }
            Self::Address => {
                text.parse::<IpAddr>().ok().map(|address| Value::String(address.to_string()))
            }
            Self::Names => names(text),
            Self::NicAddresses => nic_addresses(text),
            Self::NicIndices => nic_indices(text),
            Self::Ports => ports(text),
        }
    }
}

impl Integer {
    fn read(&self, text: &str) -> Reading {
        let Some(number) = digits(text) else {
            return Reading::Refused;
        };
        if self.contains(number) {
            return Reading::Taken(Value::Integer(number));
        }
        if self.raise && number < self.min {
            return Reading::Raised(Value::Integer(self.min));
        }
        Reading::Refused
    }

    fn contains(&self, number: i64) -> bool {
        (self.min..=self.max).contains(&number) || (number == 0 && self.zero.is_some())
    }
}

impl fmt::Display for Kind {
    /// What may be written, as the end of "is not …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch { .. } => f.write_str("1, true, yes, on, 0, false, no or off"),
            Self::Integer(integer) => {
                write!(f, "a whole number from {} to {}", integer.min, integer.max)?;
                match integer.zero {
                    Some(meaning) => write!(f, ", 0 for {meaning}"),
                    None => Ok(()),
                }
            }
            Self::Choice { numbers, .. } => f.write_str(&alternatives(numbers)),
            Self::Word { words, .. } => f.write_str(&alternatives(words)),
            Self::Text | Self::Secret => {
                write!(f, "text of at most {MAX_TEXT_BYTES} plain characters")
            }
            Self::Path => f.write_str("a path"),
            Self::Address => f.write_str("an IP address"),
            Self::Names => f.write_str("names separated by commas"),
            Self::NicAddresses => f.write_str(
                "at most 8 IP addresses separated by commas, as 10.1.0.7 or with a weight 10.1.0.7*25",
            ),
            Self::NicIndices => f.write_str(
                "numbers from 0 to 255 for at most 64 NICs separated by commas, as mlx5_0=3,mlx5_1=5",
            ),
            Self::Ports => f.write_str("port numbers from 0 to 65535 separated by commas"),
        }
    }
}

/// A whole number of ASCII digits and nothing else.
fn digits(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn switch(text: &str) -> Option<bool> {
    let is = |word: &&str| text.eq_ignore_ascii_case(word);
    if ["1", "true", "yes", "on"].iter().any(is) {
        return Some(true);
    }
    ["0", "false", "no", "off"].iter().any(is).then_some(false)
}

fn is_plain(text: &str) -> bool {
    text.len() <= MAX_TEXT_BYTES && !text.contains(char::is_control)
}

fn names(text: &str) -> Option<Value> {
    let entries: Vec<Value> =
        text.split(',').map(|name| Value::String(name.trim().to_owned())).collect();
    let value = Value::Array(entries);
    Kind::Names.accepts(&value).then_some(value)
}

fn ports(text: &str) -> Option<Value> {
    let entries: Option<Vec<Value>> =
        text.split(',').map(|port| digits(port.trim()).map(Value::Integer)).collect();
    let value = Value::Array(entries?);
    Kind::Ports.accepts(&value).then_some(value)
}

fn nic_addresses(text: &str) -> Option<Value> {
    let entries = text.split(',').map(|one| Value::String(one.trim().to_owned())).collect();
    let value = Value::Array(entries);
    Kind::NicAddresses.accepts(&value).then_some(value)
}

fn nic_indices(text: &str) -> Option<Value> {
    let entries = text.split(',').map(|one| Value::String(one.trim().to_owned())).collect();
    let value = Value::Array(entries);
    Kind::NicIndices.accepts(&value).then_some(value)
}

/// The NIC and the number of an entry such as `mlx5_0=3`.
pub(super) fn nic_index(text: &str) -> Option<(NicName, u8)> {
    let (name, number) = text.rsplit_once('=')?;
    let number = digits(number.trim())?;
    Some((NicName::parse(name.trim()).ok()?, u8::try_from(number).ok()?))
}

fn is_nic_address(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<NicAddress>().is_ok())
}

fn is_name(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !name.is_empty() && is_plain(name) && !name.contains(','))
}

fn is_port(value: &Value) -> bool {
    value.as_integer().is_some_and(|port| (0..=0xffff).contains(&port))
}

fn alternatives<T: ToString>(entries: &[T]) -> String {
    let texts: Vec<String> = entries.iter().map(ToString::to_string).collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => texts.concat(),
    }
}
