//! On which NUMA nodes a range of memory lies.
//!
//! I1  Runs tile the range: they touch, none is empty, neighbours differ.
//! I2  A range of up to [`EXACT_PAGES`] pages is exact. A longer one is sampled at even distances,
//!     and where two samples differ, the border between them is searched; the number of questions
//!     is bounded whatever the length.

use std::io;

use serde::Serialize;
use thiserror::Error;

use crate::{MemoryLocation, NumaNode, PageNodes};

/// Ranges of up to so many pages are asked page by page: 64 MiB of pages of 4 KiB.
pub const EXACT_PAGES: usize = 16_384;
/// Samples of a longer range: one in 50 MiB of 100 GiB.
const SAMPLES: usize = 2048;
/// Borders that are searched to the page; memory that alternates has more, and is then described
/// as coarsely as it was sampled.
const MAX_BORDERS: usize = 256;

/// Where a range of memory lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Placement {
    /// Parts of the range in order (I1).
    pub runs: Vec<PageRun>,
    /// Whether every page was asked for.
    pub is_exact: bool,
}

/// A part of a range whose pages lie on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PageRun {
    /// Where it begins, in bytes from the start of the range.
    pub offset: usize,
    /// Its length in bytes.
    pub length: usize,
    /// The node; `None` for pages that were never touched.
    pub node: Option<NumaNode>,
}

impl PageRun {
    /// `cpu:<node>`, or `*` for pages that were never touched.
    pub fn location(&self) -> MemoryLocation {
        self.node.map_or(MemoryLocation::Any, MemoryLocation::Cpu)
    }
}

impl Placement {
    /// Asks where a range lies.
    ///
    /// # Errors
    /// An empty range or one that wraps around, and a system that cannot say; the location is `*`
    /// then.
    pub fn of(
        address: usize,
        length: usize,
        pages: &mut impl PageNodes,
    ) -> Result<Self, PlacementError> {
        let end = address.checked_add(length).filter(|_| length > 0);
        let end = end.ok_or(PlacementError::BadRange { address, length })?;
        let page = pages.page_size();
        let grid =
            Grid { first: address & !(page - 1), page, n: (end - 1) / page - address / page + 1 };
        let (starts, is_exact) = match grid.n <= EXACT_PAGES {
            true => (exact(grid, pages)?, true),
            false => (sampled(grid, pages)?, false),
        };
        let border = |at: usize| grid.address(at).max(address) - address;
        let ends = starts.iter().skip(1).map(|(at, _)| border(*at)).chain([length]);
        let runs = starts.iter().zip(ends).map(|((at, node), end)| {
            let offset = border(*at);
            PageRun { offset, length: end - offset, node: *node }
        });
        Ok(Self { runs: runs.collect(), is_exact })
    }

    /// The node with most bytes, the first one of equals; `*` if no page was touched.
    pub fn largest(&self) -> MemoryLocation {
        let mut sums: Vec<(NumaNode, usize)> = Vec::new();
        for run in &self.runs {
            let Some(node) = run.node else { continue };
            match sums.iter_mut().find(|(known, _)| *known == node) {
                Some((_, sum)) => *sum += run.length,
                None => sums.push((node, run.length)),
            }
        }
        let most = sums.iter().map(|(_, sum)| *sum).max();
        let first = sums.iter().find(|(_, sum)| Some(*sum) == most);
        first.map_or(MemoryLocation::Any, |(node, _)| MemoryLocation::Cpu(*node))
    }

    /// The location of the first page, which is what the classic engine publishes.
    pub fn first(&self) -> MemoryLocation {
        self.runs.first().map_or(MemoryLocation::Any, PageRun::location)
    }

    /// At most about `most` parts of equal size, each with the node of most of its bytes;
    /// neighbours on one node are one part.
    #[must_use]
    pub fn coarse(&self, most: usize) -> Self {
        let total: usize = self.runs.iter().map(|run| run.length).sum();
        let size = total.div_ceil(most.max(1)).max(MIN_PART);
        let mut runs: Vec<PageRun> = Vec::new();
        for offset in (0..total).step_by(size) {
            let length = size.min(total - offset);
            let part = Self { runs: self.within(offset, length), is_exact: self.is_exact };
            let node = part.majority();
            match runs.last_mut() {
                Some(last) if last.node == node => last.length += length,
                _ => runs.push(PageRun { offset, length, node }),
            }
        }
        Self { runs, is_exact: self.is_exact }
    }

    /// What most bytes are, untouched ones among the answers; the first of equals.
    fn majority(&self) -> Option<NumaNode> {
        let sum = |node| -> usize {
            self.runs.iter().filter(|run| run.node == node).map(|run| run.length).sum()
        };
        let most = self.runs.iter().map(|run| sum(run.node)).max();
        self.runs.iter().find(|run| Some(sum(run.node)) == most).and_then(|run| run.node)
    }

    fn within(&self, offset: usize, length: usize) -> Vec<PageRun> {
        let end = offset + length;
        let cut = |run: &PageRun| {
            let (from, to) = (run.offset.max(offset), (run.offset + run.length).min(end));
            (from < to).then(|| PageRun { offset: from, length: to - from, node: run.node })
        };
        self.runs.iter().filter_map(cut).collect()
    }
}

/// Parts are not cut smaller than this, in bytes.
const MIN_PART: usize = 1 << 20;

/// Why it is not known where a range lies.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The range is empty or wraps around the address space.
    #[error("{length} bytes at {address:#x} are no range of memory")]
    BadRange {
        /// Where it begins.
        address: usize,
        /// Its length in bytes.
        length: usize,
    },
    /// The kernel does not answer: it is built without NUMA, or a sandbox forbids the question.
    #[error("the kernel does not say on which NUMA nodes pages lie")]
    Kernel(#[from] io::Error),
}

/// The pages of a range.
#[derive(Clone, Copy)]
struct Grid {
    first: usize,
    page: usize,
    n: usize,
}

impl Grid {
    fn address(self, page: usize) -> usize {
        self.first + page * self.page
    }
}

/// Where runs begin, as page numbers, and their nodes.
type Starts = Vec<(usize, Option<NumaNode>)>;

fn exact(grid: Grid, pages: &mut impl PageNodes) -> io::Result<Starts> {
    let nodes = ask(grid, (0..grid.n).collect(), pages)?;
    Ok(merged(nodes.into_iter().enumerate()))
}

fn sampled(grid: Grid, pages: &mut impl PageNodes) -> io::Result<Starts> {
    // The last sample is the last page, so that no border hides behind it.
    let at = |sample: usize| {
        let wide = (sample as u128 * (grid.n - 1) as u128) / (SAMPLES - 1) as u128;
        usize::try_from(wide).unwrap_or(grid.n - 1)
    };
    let places: Vec<usize> = (0..SAMPLES).map(at).collect();
    let nodes = ask(grid, places.clone(), pages)?;
    let mut borders: Vec<Border> = Vec::new();
    for index in 1..SAMPLES {
        if nodes[index] != nodes[index - 1] {
            borders.push(Border {
                before: places[index - 1],
                after: places[index],
                node: nodes[index],
            });
        }
    }
    search(grid, &mut borders, pages)?;
    let begin = std::iter::once((0, nodes[0]));
    Ok(merged(begin.chain(borders.iter().map(|border| (border.after, border.node)))))
}

/// Somewhere after page `before` and up to page `after` a run with `node` begins.
struct Border {
    before: usize,
    after: usize,
    node: Option<NumaNode>,
}

/// Halves the place of every border until it is one page, all of them with one question a round.
fn search(grid: Grid, borders: &mut [Border], pages: &mut impl PageNodes) -> io::Result<()> {
    if borders.len() > MAX_BORDERS {
        return Ok(());
    }
    loop {
        let mut open: Vec<&mut Border> =
            borders.iter_mut().filter(|border| border.after - border.before > 1).collect();
        if open.is_empty() {
            return Ok(());
        }
        let middles: Vec<usize> =
            open.iter().map(|border| border.before + (border.after - border.before) / 2).collect();
        let nodes = ask(grid, middles.clone(), pages)?;
        for ((border, middle), node) in open.iter_mut().zip(middles).zip(nodes) {
            match node == border.node {
                true => border.after = middle,
                false => border.before = middle,
            }
        }
    }
}

fn ask(
    grid: Grid,
    places: Vec<usize>,
    pages: &mut impl PageNodes,
) -> io::Result<Vec<Option<NumaNode>>> {
    let addresses: Vec<usize> = places.into_iter().map(|page| grid.address(page)).collect();
    let mut nodes = Vec::with_capacity(addresses.len());
    pages.nodes(&addresses, &mut nodes)?;
    nodes.resize(addresses.len(), None);
    Ok(nodes)
}

fn merged(nodes: impl Iterator<Item = (usize, Option<NumaNode>)>) -> Starts {
    let mut starts: Starts = Vec::new();
    for (at, node) in nodes {
        if starts.last().is_none_or(|last| last.1 != node) {
            starts.push((at, node));
        }
    }
    starts
}

#[cfg(test)]
mod tests;
