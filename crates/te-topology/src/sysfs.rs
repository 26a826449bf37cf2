//! Reads a machine from `/sys` and `/proc`, or from a copy of them.
//!
//! Whatever is missing, unreadable or nonsense becomes a note, and the machine lacks that fact only.

use std::path::Path;

use crate::machine::MachineParts;
use crate::{Machine, Source};

mod address;
mod capture;
mod gid;
mod net;
mod nic;
mod numa;
mod pci;
mod tree;

pub use capture::{CaptureError, MAX_CAPTURE_BYTES};
pub use gid::MAX_GIDS;
pub use tree::SysTree;

use net::InterfaceFacts;

/// Reads the machine whose `/sys` and `/proc` are below `root`: `/` for this machine.
///
/// It opens no device and never fails: of an empty folder it makes a machine of one assumed node.
pub fn read_sysfs(root: &Path) -> Machine {
    read_tree(&SysTree::on_disk(root))
}

/// Reads a machine from a tree that is on disk or was captured.
pub fn read_tree(tree: &SysTree) -> Machine {
    let mut parts = MachineParts::default();
    numa::read(tree, &mut parts);
    let mut pci = pci::read(tree, &mut parts);
    net::read(tree, &mut parts, &mut pci);
    nic::read(tree, &mut parts, &mut pci);
    parts.tell_ports_apart();
    pci.add_gpus(tree, &mut parts);
    parts.finish(Source::Sysfs)
}
