//! Names of places where memory lives, as buffers and matrices carry them.
//!
//! I1  Parsing never fails and printing gives back the very text that was parsed: a name that has
//!     a known form but not its canonical spelling (`cpu:01`) stays an ordinary name.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::NumaNode;

/// Where a range of memory lives.
///
/// ```
/// use te_topology::{MemoryLocation, NumaNode};
///
/// let location: MemoryLocation = "cpu:1".parse().unwrap();
/// assert_eq!(location, MemoryLocation::Cpu(NumaNode::new(1)));
/// assert_eq!(location.to_string(), "cpu:1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryLocation {
    /// `*`: anywhere, or not known.
    Any,
    /// `cpu:<node>`: host memory of one NUMA node.
    Cpu(NumaNode),
    /// `<kind>:<index>`: memory of an accelerator.
    Device {
        /// The vendor's prefix.
        kind: DeviceKind,
        /// The accelerator's number, counted by its driver.
        index: u32,
    },
    /// `segments:<page>:<n0>,<n1>,…`: equal parts, part `i` on node `n_i`.
    Segments {
        /// Bytes of a page, as the publisher wrote it.
        page_size: u64,
        /// One node per part; empty means that nothing is known.
        nodes: Vec<NumaNode>,
    },
    /// Any other text, kept as it is.
    Other(String),
}

impl MemoryLocation {
    /// Whether this says nothing about the place: `*`, or parts without nodes.
    pub fn is_wildcard(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Segments { nodes, .. } => nodes.is_empty(),
            _ => false,
        }
    }

    /// The parts of a buffer of `length` bytes at this location: offset, length and location of each,
    /// in order, none of them empty.
    ///
    /// [`Self::Segments`] is cut into equal parts, the last of which has the rest; without nodes, or
    /// with more nodes than bytes, it says nothing and is [`Self::Any`]. Every other location is one
    /// part.
    pub fn parts(&self, length: u64) -> Vec<(u64, u64, Self)> {
        let Self::Segments { nodes, .. } = self else {
            return vec![(0, length, self.clone())];
        };
        let n_parts = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
        let size = length.checked_div(n_parts).filter(|size| *size > 0);
        let Some(size) = size else { return vec![(0, length, Self::Any)] };
        let mut parts: Vec<(u64, u64, Self)> = Vec::with_capacity(nodes.len());
        for (at, node) in (0..).zip(nodes) {
            let offset = at * size;
            let end = if at + 1 == n_parts { length } else { offset + size };
            parts.push((offset, end - offset, Self::Cpu(*node)));
        }
        parts
    }

    /// The location of the byte at `offset` in a buffer of `length` bytes at this location: that of
    /// the part of [`Self::parts`] which has it. Allocates nothing.
    pub fn at(&self, length: u64, offset: u64) -> Cow<'_, Self> {
        let Self::Segments { nodes, .. } = self else { return Cow::Borrowed(self) };
        let n_parts = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
        let size = length.checked_div(n_parts).filter(|size| *size > 0);
        let place = size.and_then(|size| usize::try_from((offset / size).min(n_parts - 1)).ok());
        match place.and_then(|place| nodes.get(place)) {
            Some(node) => Cow::Owned(Self::Cpu(*node)),
            None => Cow::Owned(Self::Any),
        }
    }

    fn parse_known(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        let (prefix, rest) = text.split_once(':')?;
        match prefix {
            "cpu" => canonical(rest).map(|n| Self::Cpu(NumaNode::new(n))),
            "segments" => parse_segments(rest),
            _ => {
                let kind = DeviceKind::from_prefix(prefix)?;
                canonical(rest).map(|index| Self::Device { kind, index })
            }
        }
    }
}

impl From<&str> for MemoryLocation {
    fn from(text: &str) -> Self {
        Self::parse_known(text).unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

impl FromStr for MemoryLocation {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::from(text))
    }
}

impl fmt::Display for MemoryLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Cpu(node) => write!(f, "cpu:{node}"),
            Self::Device { kind, index } => write!(f, "{}:{index}", kind.prefix()),
            Self::Segments { page_size, nodes } => {
                write!(f, "segments:{page_size}:")?;
                for (position, node) in nodes.iter().enumerate() {
                    let comma = if position == 0 { "" } else { "," };
                    write!(f, "{comma}{node}")?;
                }
                Ok(())
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Serialize for MemoryLocation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The kinds of accelerators that have a prefix of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DeviceKind {
    /// `cuda:`
    Cuda,
    /// `musa:`
    Musa,
    /// `hip:`
    Hip,
    /// `maca:`
    Maca,
    /// `mlu:`
    Mlu,
    /// `supa:`
    Supa,
    /// `npu:`
    Npu,
}

impl DeviceKind {
    const ALL: [Self; 7] =
        [Self::Cuda, Self::Musa, Self::Hip, Self::Maca, Self::Mlu, Self::Supa, Self::Npu];

    /// The text before the colon.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Musa => "musa",
            Self::Hip => "hip",
            Self::Maca => "maca",
            Self::Mlu => "mlu",
            Self::Supa => "supa",
            Self::Npu => "npu",
        }
    }

    fn from_prefix(prefix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.prefix() == prefix)
    }
}

fn parse_segments(rest: &str) -> Option<MemoryLocation> {
    let (page, list) = rest.split_once(':')?;
    let page_size = canonical(page)?;
    let nodes = if list.is_empty() {
        Vec::new()
    } else {
        list.split(',').map(|n| canonical(n).map(NumaNode::new)).collect::<Option<_>>()?
    };
    Some(MemoryLocation::Segments { page_size, nodes })
}

/// A decimal number in its only canonical spelling: no sign, no leading zero.
fn canonical<N: FromStr>(text: &str) -> Option<N> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let spelled = text == "0" || !text.starts_with('0');
    if digits && spelled { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: MemoryLocation) {
        let parsed = MemoryLocation::from(text);
        assert_eq!(parsed, expected, "{text}");
        assert_eq!(parsed.to_string(), text);
    }

    fn other(text: &str) {
        check(text, MemoryLocation::Other(text.to_owned()));
    }

    /// C10: every form is recognised and prints as it was written.
    #[test]
    fn c10_known_forms_are_recognised() {
        let node = NumaNode::new;
        check("*", MemoryLocation::Any);
        check("cpu:0", MemoryLocation::Cpu(node(0)));
        check("cpu:17", MemoryLocation::Cpu(node(17)));
        for kind in DeviceKind::ALL {
            let text = format!("{}:3", kind.prefix());
            check(&text, MemoryLocation::Device { kind, index: 3 });
        }
        check(
            "segments:4096:0,1,1",
            MemoryLocation::Segments { page_size: 4096, nodes: vec![node(0), node(1), node(1)] },
        );
    }

    /// C11: malformed text is an ordinary name.
    #[test]
    fn c11_everything_else_is_an_ordinary_name() {
        for text in [
            "",
            "cpu",
            "cpu:",
            "cpu:x",
            "cpu:-1",
            "cpu:+1",
            "cpu:01",
            "cpu: 1",
            "cpu:99999999999",
            "gpu:0",
            "CPU:0",
            "cuda:1:2",
            "segments",
            "segments:4096",
            "segments:x:0",
            "segments:4096:0,",
            "segments:4096:,",
            "127.0.0.1:12001",
            "**",
        ] {
            other(text);
        }
    }

    #[test]
    fn c11_segments_without_nodes_count_as_a_wildcard() {
        let none = MemoryLocation::Segments { page_size: 4096, nodes: vec![] };
        check("segments:4096:", none.clone());
        assert!(none.is_wildcard());
        assert!(MemoryLocation::Any.is_wildcard());
        assert!(!MemoryLocation::from("segments:4096:0").is_wildcard());
        assert!(!MemoryLocation::from("cpu:0").is_wildcard());
    }

    /// C11: equal parts, the last one with the rest; nothing to go by is a wildcard.
    #[test]
    fn c11_segments_are_equal_parts() {
        let parts = |text: &str, length| {
            let parts = MemoryLocation::from(text).parts(length).into_iter();
            parts.map(|(at, n, location)| (at, n, location.to_string())).collect::<Vec<_>>()
        };
        let part = |at, n, text: &str| (at, n, text.to_owned());
        let three = "segments:4096:0,1,0";
        let expected = [part(0, 33, "cpu:0"), part(33, 33, "cpu:1"), part(66, 34, "cpu:0")];
        assert_eq!(parts(three, 100), expected);
        assert_eq!(parts(three, 2), [part(0, 2, "*")], "more nodes than bytes");
        assert_eq!(parts("segments:4096:", 100), [part(0, 100, "*")]);
        assert_eq!(parts("cuda:3", 100), [part(0, 100, "cuda:3")]);
        assert_eq!(parts(three, u64::MAX).len(), 3);
    }

    /// C11: a byte is where the part is that has it.
    #[test]
    fn c11_a_byte_is_where_its_part_is() {
        let texts = ["segments:4096:0,1,0", "segments:4096:", "cuda:3", "*", "segments:1:2"];
        for (text, length) in texts.into_iter().flat_map(|text| [(text, 100), (text, 2)]) {
            let location = MemoryLocation::from(text);
            for (first, len, part) in location.parts(length) {
                for offset in [first, first + len - 1] {
                    assert_eq!(*location.at(length, offset), part, "{text} {offset} of {length}");
                }
            }
        }
    }

    proptest! {
        // Seeds of failures are printed; a counter-proof shall not write files.
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_survives_parse_and_print(text in "\\PC*") {
            prop_assert_eq!(MemoryLocation::from(text.as_str()).to_string(), text);
        }

        #[test]
        fn near_misses_survive_parse_and_print(text in "(cpu|cuda|segments)?:?[0-9+,:-]{0,12}") {
            prop_assert_eq!(MemoryLocation::from(text.as_str()).to_string(), text);
        }
    }
}
