//! A small tree of XML elements, read with limits. No entity is expanded but the five of XML.

use std::collections::BTreeMap;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use thiserror::Error;

/// Longest XML text that is read, in bytes.
pub const MAX_XML_BYTES: usize = 64 << 20;
/// Most elements of one document; a large server has some ten thousand.
const MAX_ELEMENTS: usize = 200_000;
/// Deepest nesting; lstopo's own files stay below 40.
const MAX_DEPTH: usize = 200;
/// Most attributes of one element.
const MAX_ATTRIBUTES: usize = 64;

/// An element with what is in it.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    attributes: BTreeMap<String, String>,
    pub(crate) children: Vec<Self>,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.attribute(name)?.trim().parse().ok()
    }

    pub(crate) fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// Why a text is no machine in XML.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XmlError {
    /// More than [`MAX_XML_BYTES`].
    #[error("the XML text has {bytes} bytes, at most {MAX_XML_BYTES} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is no well-formed XML.
    #[error("the text is no XML, at byte {position}")]
    Syntax {
        /// Where, in bytes.
        position: u64,
        /// What is wrong there.
        #[source]
        source: quick_xml::Error,
    },
    /// It ends within an element, or has no element.
    #[error("the XML text ends too early")]
    Unfinished,
    /// More elements, attributes or levels than any machine needs.
    #[error("the XML text has too many {what}, at byte {position}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// Where, in bytes.
        position: u64,
    },
    /// The first element is not the one of such a file.
    #[error("the first element is <{found}>, expected <{expected}>")]
    WrongRoot {
        /// Its name, cut to 40 characters.
        found: String,
        /// What it would have to be.
        expected: &'static str,
    },
    /// lstopo writes versions 2 and 3; this is another.
    #[error("version \"{version}\" of lstopo's format is not known, export it as version 2 or 3")]
    Version {
        /// What the file says, cut to 40 characters.
        version: String,
    },
}

pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Reads a document and gives its first element.
pub(crate) fn parse(text: &str) -> Result<Element, XmlError> {
    if text.len() > MAX_XML_BYTES {
        return Err(XmlError::TooLong { bytes: text.len() });
    }
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Element> = Vec::new();
    let mut n_elements = 0_usize;
    loop {
        let position = reader.buffer_position();
        let event = reader.read_event().map_err(|source| XmlError::Syntax { position, source })?;
        let too_many = |what| XmlError::TooMany { what, position };
        let closed = match event {
            Event::Start(start) => {
                open.push(element(&start, position)?);
                None
            }
            Event::Empty(start) => Some(element(&start, position)?),
            Event::End(_) => open.pop(),
            Event::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text.xml10_content());
                }
                continue;
            }
            Event::Eof => return Err(XmlError::Unfinished),
            _ => continue,
        };
        n_elements += 1;
        if n_elements > 2 * MAX_ELEMENTS {
            return Err(too_many("elements"));
        }
        if open.len() > MAX_DEPTH {
            return Err(too_many("levels"));
        }
        match (closed, open.last_mut()) {
            (Some(element), Some(parent)) => parent.children.push(element),
            (Some(element), None) => return Ok(element),
            (None, _) => {}
        }
    }
}

fn element(start: &BytesStart<'_>, position: u64) -> Result<Element, XmlError> {
    let syntax = |source: quick_xml::Error| XmlError::Syntax { position, source };
    let mut attributes = BTreeMap::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|source| syntax(source.into()))?;
        if attributes.len() == MAX_ATTRIBUTES {
            return Err(XmlError::TooMany { what: "attributes", position });
        }
        let value = attribute.normalized_value(XmlVersion::default()).map_err(syntax)?;
        let name = attribute.key.as_ref().to_owned();
        attributes.insert(name, value.into_owned());
    }
    let name = start.name().as_ref().to_owned();
    Ok(Element { name, attributes, ..Element::default() })
}
