//! A scanner of XML tags that shares nothing with the product: good for files that are known to be
//! well formed, with one attribute value never holding `>`.

use std::collections::BTreeMap;

/// An element with its ancestors.
#[derive(Debug, Clone)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Positions of the elements around it, the outermost first.
    pub(crate) around: Vec<usize>,
}

impl Tag {
    pub(crate) fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// All elements in the order in which they begin.
pub(crate) fn scan(text: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for part in without_comments(text).split('<').skip(1) {
        let Some((inside, _)) = part.split_once('>') else { continue };
        if inside.starts_with(['?', '!']) {
            continue;
        }
        if inside.starts_with('/') {
            open.pop();
            continue;
        }
        let name = inside.split([' ', '/', '\n']).next().unwrap().to_owned();
        tags.push(Tag { name, attributes: attributes(inside), around: open.clone() });
        if !inside.ends_with('/') {
            open.push(tags.len() - 1);
        }
    }
    tags
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((front, comment)) = rest.split_once("<!--") {
        kept.push_str(front);
        rest = comment.split_once("-->").unwrap().1;
    }
    kept + rest
}

fn attributes(inside: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = inside;
    while let Some((front, back)) = rest.split_once("=\"") {
        let name = front.rsplit([' ', '\n']).next().unwrap();
        let (value, after) = back.split_once('"').unwrap();
        found.insert(name.to_owned(), value.to_owned());
        rest = after;
    }
    found
}
