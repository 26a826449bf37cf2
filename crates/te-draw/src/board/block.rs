//! A bar and what hangs on it, in as many rows as the width asks for.

use super::spot;
use crate::ink::Ink;
use crate::metrics::Face;
use crate::scene::{Area, Scene};

/// A bar that others hang on.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) lines: Vec<(String, Face, Ink)>,
    pub(super) fill: Ink,
    pub(super) edge: Ink,
    pub(super) key: String,
    pub(super) details: Vec<String>,
}

/// Between two things of a row.
pub(super) const GAP: i32 = 12;
/// Between a bar and the first row, and between rows.
const DROP: i32 = 14;
/// Room for the line along the left edge.
const INDENT: i32 = 14;
/// Narrowest bar.
const MIN_WIDTH: i32 = 150;
const PADDING: i32 = 8;

/// Lays out a bar and its children; without a bar there are only children.
pub(super) fn block(bar: Option<&Bar>, children: Vec<Scene>, budget: i32) -> Scene {
    let mut rows = rows(&children, budget);
    let indent = if bar.is_some() && rows.len() > 1 { INDENT } else { 0 };
    if indent > 0 {
        rows = self::rows(&children, budget - indent);
    }
    let widest = rows.iter().map(|row| row.w).max().unwrap_or(0);
    let width = (indent + widest).max(bar.map_or(0, |_| MIN_WIDTH));
    let mut scene = Scene::of_size(width, 0);
    let top = bar.map(|bar| bar.drawn(width));
    let mut hung = Scene::default();
    let mut y = top.as_ref().map_or(0, |top| top.h + DROP);
    let mut children = children.into_iter();
    for (at, row) in rows.iter().enumerate() {
        let mut x = if indent == 0 { (width - row.w) / 2 } else { indent };
        let from = if at == 0 { y - DROP } else { y - DROP / 2 };
        for child in children.by_ref().take(row.n) {
            let middle = x + child.w / 2;
            if bar.is_some() {
                scene.line((middle, from), (middle, y));
            }
            let step = child.w + GAP;
            hung.put(x, y, child);
            if bar.is_some() && at > 0 {
                scene.line((INDENT / 2, from), (middle, from));
            }
            x += step;
        }
        if bar.is_some() && at > 0 && at + 1 == rows.len() {
            let foot = top.as_ref().map_or(0, |top| top.h);
            scene.line((INDENT / 2, foot), (INDENT / 2, from));
        }
        y += row.h + DROP;
    }
    scene.put(0, 0, top.unwrap_or_default());
    scene.put(0, 0, hung);
    scene
}

impl Bar {
    fn drawn(&self, width: i32) -> Scene {
        let mut scene = Scene::default();
        let mut texts = Scene::default();
        let mut y = PADDING / 2 + 1;
        for (text, face, ink) in &self.lines {
            for line in face.wrap(text, width - 2 * PADDING, MOST_LINES) {
                texts.text((PADDING, y + face.line_height() / 2), &line, *face, *ink);
                y += face.line_height();
            }
        }
        let area = Area::new(0, 0, width, y + PADDING / 2);
        scene.boxed(area, self.fill, self.edge);
        scene.put(0, 0, texts);
        (scene.w, scene.h) = (area.w, area.h);
        scene.spots.push(spot(area, &self.key, self.details.clone()));
        scene
    }
}

/// Most lines of one fact in a bar.
const MOST_LINES: usize = 4;

struct Row {
    n: usize,
    w: i32,
    h: i32,
}

/// As few rows as the budget allows, all about as wide.
fn rows(children: &[Scene], budget: i32) -> Vec<Row> {
    let fewest = packed(children, budget);
    let widest = children.iter().map(|child| child.w).max().unwrap_or(0);
    let narrower = (widest..budget).step_by(8).map(|limit| packed(children, limit));
    let mut fitting = narrower.filter(|rows| rows.len() <= fewest.len());
    fitting.next().unwrap_or(fewest)
}

fn packed(children: &[Scene], limit: i32) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for child in children {
        match rows.last_mut() {
            Some(row) if row.w + GAP + child.w <= limit => {
                row.n += 1;
                row.w += GAP + child.w;
                row.h = row.h.max(child.h);
            }
            _ => rows.push(Row { n: 1, w: child.w, h: child.h }),
        }
    }
    rows
}
