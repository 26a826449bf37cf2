//! A picture before it is written: shapes and texts at whole pixels.
//!
//! I1  What is in a scene lies within its size.
//! I2  Areas of texts are computed for a wide font, see [`Face`].

use crate::ink::Ink;
use crate::metrics::Face;

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) w: i32,
    pub(crate) h: i32,
}

impl Area {
    pub(crate) const fn new(x: i32, y: i32, w: i32, h: i32) -> Self {
        Self { x, y, w, h }
    }

    pub(crate) const fn inset(self, by: i32) -> Self {
        Self { x: self.x + by, y: self.y + by, w: self.w - 2 * by, h: self.h - 2 * by }
    }

    const fn moved(self, dx: i32, dy: i32) -> Self {
        Self { x: self.x + dx, y: self.y + dy, ..self }
    }
}

/// Where a text begins: at its point, around it, or it ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Start,
    Middle,
    End,
}

/// One line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) text: String,
    pub(crate) face: Face,
    pub(crate) ink: Ink,
    pub(crate) align: Align,
    /// Reads upwards; the point is then the middle of the bottom end.
    pub(crate) upwards: bool,
    /// The point, at the middle of the text's height.
    pub(crate) at: (i32, i32),
}

/// One thing that is drawn; later ones are on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Fill(Area, Ink),
    Frame(Area, Ink),
    Line((i32, i32), (i32, i32), Ink),
    /// A thick line through points.
    Curve(Vec<(i32, i32)>, Ink),
    Mark((i32, i32), Mark, Ink),
    Text(Label),
}

/// The shape of a mark on a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Dot,
    Diamond,
    Ring,
    Triangle,
}

impl Mark {
    pub(crate) const ALL: [Self; 4] = [Self::Dot, Self::Diamond, Self::Ring, Self::Triangle];
}

/// A part of a picture that tells more when it is pointed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) area: Area,
    /// Where the page finds what belongs together: a device, or a row and a column.
    pub(crate) key: String,
    pub(crate) lines: Vec<String>,
}

/// Shapes, texts and spots, and how large they are together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scene {
    pub(crate) w: i32,
    pub(crate) h: i32,
    pub(crate) items: Vec<Item>,
    pub(crate) spots: Vec<Spot>,
}

impl Scene {
    pub(crate) fn of_size(w: i32, h: i32) -> Self {
        Self { w, h, ..Self::default() }
    }

    pub(crate) fn fill(&mut self, area: Area, ink: Ink) {
        self.items.push(Item::Fill(area, ink));
    }

    pub(crate) fn frame(&mut self, area: Area, ink: Ink) {
        self.items.push(Item::Frame(area, ink));
    }

    pub(crate) fn boxed(&mut self, area: Area, fill: Ink, edge: Ink) {
        self.fill(area, fill);
        self.frame(area, edge);
    }

    pub(crate) fn line(&mut self, from: (i32, i32), to: (i32, i32)) {
        self.items.push(Item::Line(from, to, Ink::Wire));
    }

    /// A line of a grid.
    pub(crate) fn rule(&mut self, from: (i32, i32), to: (i32, i32)) {
        self.items.push(Item::Line(from, to, Ink::PanelEdge));
    }

    pub(crate) fn curve(&mut self, points: Vec<(i32, i32)>, ink: Ink) {
        self.items.push(Item::Curve(points, ink));
    }

    pub(crate) fn mark(&mut self, at: (i32, i32), mark: Mark, ink: Ink) {
        self.items.push(Item::Mark(at, mark, ink));
    }

    /// A line of text from a point on; the point is at the middle of its height.
    pub(crate) fn text(&mut self, at: (i32, i32), text: &str, face: Face, ink: Ink) {
        self.label(Label {
            text: text.to_owned(),
            face,
            ink,
            align: Align::Start,
            upwards: false,
            at,
        });
    }

    /// A line of text around a point.
    pub(crate) fn centred(&mut self, at: (i32, i32), text: &str, face: Face, ink: Ink) {
        self.label(Label {
            text: text.to_owned(),
            face,
            ink,
            align: Align::Middle,
            upwards: false,
            at,
        });
    }

    pub(crate) fn label(&mut self, label: Label) {
        self.items.push(Item::Text(label));
    }

    /// Puts another scene on top, with its upper left corner at a point, and grows to hold it.
    pub(crate) fn put(&mut self, x: i32, y: i32, other: Self) {
        self.w = self.w.max(x + other.w);
        self.h = self.h.max(y + other.h);
        self.items.extend(other.items.into_iter().map(|item| item.moved(x, y)));
        let spots = other.spots.into_iter();
        self.spots.extend(spots.map(|spot| Spot { area: spot.area.moved(x, y), ..spot }));
    }
}

impl Item {
    fn moved(self, dx: i32, dy: i32) -> Self {
        let shift = |(x, y): (i32, i32)| (x + dx, y + dy);
        match self {
            Self::Fill(area, ink) => Self::Fill(area.moved(dx, dy), ink),
            Self::Frame(area, ink) => Self::Frame(area.moved(dx, dy), ink),
            Self::Line(from, to, ink) => Self::Line(shift(from), shift(to), ink),
            Self::Curve(points, ink) => Self::Curve(points.into_iter().map(shift).collect(), ink),
            Self::Mark(at, mark, ink) => Self::Mark(shift(at), mark, ink),
            Self::Text(label) => Self::Text(Label { at: shift(label.at), ..label }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
