//! What a picture shows: a machine, which NICs serve which memory of it, and a title.

use te_topology::{Affinity, AffinityRow, DeviceRef, Machine, MemoryLocation, NicGroup, PathClass};
use thiserror::Error;

use crate::words;

/// A machine that is to be drawn.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    machine: &'a Machine,
    affinity: &'a Affinity,
    title: &'a str,
}

impl<'a> Subject<'a> {
    /// A machine, the affinity of that machine, and what stands above the picture.
    ///
    /// # Errors
    /// More memories and devices than anybody could look at.
    pub fn new(
        machine: &'a Machine,
        affinity: &'a Affinity,
        title: &'a str,
    ) -> Result<Self, SubjectError> {
        let memories = affinity.rows().len();
        let devices = machine.nics().len() + machine.gpus().len();
        if memories.saturating_mul(devices) > MAX_CELLS {
            return Err(SubjectError::TooLarge { memories, devices });
        }
        Ok(Self { machine, affinity, title })
    }

    pub(crate) fn machine(self) -> &'a Machine {
        self.machine
    }

    pub(crate) fn affinity(self) -> &'a Affinity {
        self.affinity
    }

    pub(crate) fn title(self) -> String {
        words::clean(self.title)
    }

    /// The group of NICs that a location uses first.
    pub(crate) fn preferred(self, location: &MemoryLocation) -> Option<&'a NicGroup> {
        self.affinity.row(location).and_then(|row| row.groups.first())
    }

    /// What a device is called in pictures.
    pub(crate) fn name(self, device: DeviceRef) -> String {
        match device {
            DeviceRef::Nic(at) => words::clean(self.machine.nics()[at].name.as_str()),
            DeviceRef::Gpu(at) => words::clean(&self.machine.gpus()[at].location().to_string()),
        }
    }

    /// All NICs.
    pub(crate) fn nics(self) -> impl Iterator<Item = DeviceRef> {
        (0..self.machine.nics().len()).map(DeviceRef::Nic)
    }

    /// All GPUs.
    pub(crate) fn gpus(self) -> impl Iterator<Item = DeviceRef> {
        (0..self.machine.gpus().len()).map(DeviceRef::Gpu)
    }

    /// What lies between the memory of a row and a device.
    pub(crate) fn path(self, row: &AffinityRow, device: DeviceRef) -> PathClass {
        let gpus = self.machine.gpus();
        if let Some(own) = gpus.iter().position(|gpu| gpu.location() == row.location) {
            return self.machine.path(DeviceRef::Gpu(own), device);
        }
        let near = match device {
            DeviceRef::Nic(at) => &self.machine.nics()[at].near,
            DeviceRef::Gpu(at) => &self.machine.gpus()[at].near,
        };
        if near.shares_node_with(&row.near) { PathClass::Node } else { PathClass::Sys }
    }
}

/// Most pairs of a memory and a device; the largest machines that are sold have some thousands.
const MAX_CELLS: usize = 65_536;

/// Why a machine cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubjectError {
    /// More than a picture has room for.
    #[error("the machine has {memories} memories and {devices} devices, too many for a picture")]
    TooLarge {
        /// NUMA nodes and GPUs.
        memories: usize,
        /// NICs and GPUs.
        devices: usize,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine and its affinity, from a text of any form.
    pub(crate) struct Sample {
        pub(crate) machine: Machine,
        affinity: Affinity,
    }

    impl Sample {
        pub(crate) fn read(text: &str) -> Self {
            let machine = te_topology::read_machine(text).unwrap();
            let affinity = Affinity::of(&machine);
            Self { machine, affinity }
        }

        pub(crate) fn subject(&self) -> Subject<'_> {
            Subject::new(&self.machine, &self.affinity, "sample").unwrap()
        }
    }

    #[test]
    fn a_machine_that_nobody_could_look_at_is_refused() {
        let many = crate::scene::tests::of_size(1, 200, 400);
        let affinity = Affinity::of(&many.machine);
        assert_eq!(
            Subject::new(&many.machine, &affinity, "many").map(|_| ()),
            Err(SubjectError::TooLarge { memories: 401, devices: 600 })
        );
    }

    #[test]
    fn a_path_of_host_memory_is_told_by_its_node() {
        let sample = Sample::read(crate::scene::tests::TWO_NODES);
        let subject = sample.subject();
        let row = subject.affinity().row(&MemoryLocation::from("cpu:0")).unwrap();
        assert_eq!(subject.path(row, DeviceRef::Nic(0)), PathClass::Node);
        assert_eq!(subject.path(row, DeviceRef::Gpu(1)), PathClass::Sys);
        let row = subject.affinity().row(&MemoryLocation::from("cuda:0")).unwrap();
        assert_eq!(subject.path(row, DeviceRef::Nic(0)), PathClass::Pix);
    }
}
