//! A machine as text for a terminal.
//!
//! I1  No line is wider than the style says, as long as that is at least [`MIN_COLUMNS`].
//! I2  Without colours the text holds nothing but what is read.

mod layout;
mod parts;

use layout::{Line, Out, Piece, Tone};

use crate::outline::Outline;
use crate::subject::Subject;
use crate::words;

/// How the tree is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeStyle {
    /// Columns of the terminal; less than 40 counts as 40.
    pub columns: usize,
    /// Whether names and kinds are told apart by colour (ANSI escapes).
    pub colours: bool,
}

impl TreeStyle {
    /// Text without colours for a width.
    pub fn plain(columns: usize) -> Self {
        Self { columns, colours: false }
    }

    /// Text with colours for a width.
    pub fn coloured(columns: usize) -> Self {
        Self { columns, colours: true }
    }
}

/// The narrowest that lines are broken for.
const MIN_COLUMNS: usize = 40;

/// The machine as a tree, which NICs each memory uses, links between GPUs, and what was odd.
pub fn tree(subject: Subject<'_>, style: &TreeStyle) -> String {
    let mut out = Out::new(style.columns.max(MIN_COLUMNS), style.colours);
    let machine = subject.machine();
    let summary = format!("{}, {}", words::summary(machine), words::source(machine.source()));
    out.line(&Line::plain(vec![
        Piece::new(format!("{}:", subject.title()), Tone::Strong),
        Piece::new(summary, Tone::Plain),
    ]));
    let width = parts::name_width(subject);
    for place in &Outline::of(machine).places {
        out.gap();
        parts::place(&mut out, subject, place, width);
    }
    parts::distances(&mut out, subject);
    parts::preferences(&mut out, subject);
    parts::gpu_links(&mut out, subject);
    parts::interfaces(&mut out, subject);
    parts::notes(&mut out, subject);
    out.text()
}

#[cfg(test)]
mod tests;
