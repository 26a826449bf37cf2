//! What peers are told: NICs, their keys for each piece of memory, and which NIC is near what.
//!
//! Mooncake's engine never compares names of NICs. It walks over our `priority_matrix`, row by row
//! in an order that nobody knows, in each row the preferred and then the other NICs, and takes the
//! place of a NIC in this walk as the index into `devices` and into each list of keys.
//!
//! I1  Whatever the order of rows, place i of that walk is device i and key i: each row, read from
//!     the left, is the beginning of one common order, and that is the order of `devices`.
//! I2  Devices, keys and matrix are made together, of the NICs that are active now.

mod order;

use te_metadata::SegmentDescriptor;
use te_topology::PriorityMatrix;

pub(crate) use self::order::{Order, Preferences};
use crate::memory::MemoryView;
use crate::nic::NicSnapshot;

/// Makes the descriptor one of RDMA, unless no NIC is active. Gives how much of the preferences
/// could be told.
pub(crate) fn describe(
    nics: &NicSnapshot,
    memory: &MemoryView,
    matrix: Option<&PriorityMatrix>,
    descriptor: &mut SegmentDescriptor,
) -> Option<Preferences> {
    let _ = (nics, memory, matrix, descriptor);
    todo!()
}
