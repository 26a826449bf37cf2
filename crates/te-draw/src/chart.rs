//! Figures as lines over an axis: throughput by block size, and what else a measurement gives.
//!
//! I1  A figure that is not a number above zero has no place on a logarithmic axis and is left out.
//! I2  Series differ by colour and by the shape of their marks.

mod axis;
mod panel;

use crate::heat;
use crate::ink::Ink;
use crate::markup;
use crate::metrics::Face;
use crate::scene::{Area, Scene};

pub use axis::Axis;

/// Several panels under one title.
#[derive(Debug, Clone)]
pub struct Chart {
    title: String,
    note: String,
    panels: Vec<Panel>,
}

/// Series over a pair of axes.
#[derive(Debug, Clone)]
pub struct Panel {
    title: String,
    pub(crate) across: Axis,
    pub(crate) up: Axis,
    pub(crate) series: Vec<Series>,
}

/// Points that belong together, joined by a line in the order of their first numbers.
#[derive(Debug, Clone)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Numbers of its colour and its mark; none: by its place among the others.
    pub(crate) look: Option<(usize, usize)>,
}

impl Chart {
    /// `note` stands below the title, and may be empty.
    pub fn new(title: impl Into<String>, note: impl Into<String>, panels: Vec<Panel>) -> Self {
        Self { title: title.into(), note: note.into(), panels }
    }

    /// One SVG file. It follows the light or dark preference of whoever shows it, and tells the
    /// figure of a mark that is pointed at.
    pub fn svg(&self) -> String {
        markup::document(&self.scene(), &self.title)
    }

    fn scene(&self) -> Scene {
        let panels = heat::flow(self.panels.iter().map(Panel::scene).collect(), WIDTH);
        let width = panels.w.max(panel::WIDTH);
        let mut inner = Scene::default();
        lines(&mut inner, &self.title, Face::bold(18), Ink::Text, width);
        lines(&mut inner, &self.note, Face::plain(12), Ink::Muted, width);
        let y = inner.h + MARGIN / 2;
        inner.put(0, y, panels);
        let mut scene = Scene::of_size(inner.w + 2 * MARGIN, inner.h + 2 * MARGIN);
        scene.fill(Area::new(0, 0, scene.w, scene.h), Ink::Paper);
        scene.put(MARGIN, MARGIN, inner);
        scene
    }
}

impl Panel {
    /// `across` is the axis of the points' first numbers, `up` that of their second ones.
    pub fn new(title: impl Into<String>, across: Axis, up: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), across, up, series }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }
}

impl Series {
    /// Points in any order.
    pub fn new(name: impl Into<String>, mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { name: name.into(), points, look: None }
    }

    /// Gives it the colour of series number `colour` and the mark of number `mark`: series that
    /// belong together have one colour.
    pub fn with_look(mut self, colour: usize, mark: usize) -> Self {
        self.look = Some((colour, mark));
        self
    }
}

fn lines(scene: &mut Scene, text: &str, face: Face, ink: Ink, width: i32) {
    for line in face.wrap(text, width, 8).iter().filter(|line| !line.is_empty()) {
        let y = scene.h + face.line_height() / 2;
        scene.text((0, y), line, face, ink);
        scene.h += face.line_height();
        scene.w = scene.w.max(face.width(line));
    }
}

/// Panels are laid out for a picture of this width, pixels.
const WIDTH: i32 = 2 * panel::WIDTH + 20;
const MARGIN: i32 = 24;

#[cfg(test)]
mod tests;
