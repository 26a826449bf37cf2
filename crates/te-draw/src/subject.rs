//! What a picture shows: a machine, which NICs serve which memory of it, and a title.

use te_topology::{Affinity, AffinityRow, DeviceRef, Machine, MemoryLocation, NicGroup, PathClass};

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
    pub fn new(machine: &'a Machine, affinity: &'a Affinity, title: &'a str) -> Self {
        Self { machine, affinity, title }
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
            Subject::new(&self.machine, &self.affinity, "sample")
        }
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
