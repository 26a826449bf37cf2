//! One order of NICs that every row of the matrix begins with.

use te_topology::PriorityMatrix;

/// What became of the preferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preferences {
    /// They are told as they are.
    Kept,
    /// Rows that left NICs out name them now as available.
    Widened,
    /// They contradict each other: every NIC is told to be as good as any other.
    Lost,
}

/// NICs in the order in which they are published.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    /// Positions in the list that the order was made of.
    pub(crate) places: Vec<usize>,
    /// The matrix to publish.
    pub(crate) matrix: PriorityMatrix,
    /// What became of the preferences.
    pub(crate) preferences: Preferences,
}
