//! Pictures of what te knows: a machine as a tree for a terminal, as SVG, as a page of HTML, and for
//! Graphviz.
//!
//! Every picture is a function of a [`Subject`] and gives the same text for the same subject. This
//! crate reads no file, writes none, and asks the terminal nothing; what it draws may come from
//! anybody, so every text is escaped for the form that it goes into. Shapes go through the SVG back
//! end of plotters; layout is ours, because texts must neither overlap nor be cut.

mod board;
mod chart;
mod dot;
mod heat;
mod ink;
mod markup;
mod metrics;
mod outline;
mod page;
mod picture;
mod report;
mod scene;
mod subject;
mod tree;
mod words;

pub use chart::{Axis, Chart, Panel, Series};
pub use dot::dot;
pub use page::html;
pub use picture::svg;
pub use report::{Cell, Grid, Report, Section};
pub use subject::{Subject, SubjectError};
pub use tree::{TreeStyle, tree};
