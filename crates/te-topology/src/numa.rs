//! NUMA node numbers.

use std::fmt;

use serde::{Serialize, Serializer};

/// The number of a NUMA node, as the kernel counts them from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NumaNode(u32);

impl NumaNode {
    /// A node by its kernel number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The kernel number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for NumaNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "numa#{}", self.0)
    }
}

impl fmt::Display for NumaNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for NumaNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}
