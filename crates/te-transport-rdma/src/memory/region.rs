//! Making and releasing the regions of one buffer.
//!
//! One thread for each NIC where that pays; on one NIC the pieces follow each other, because the
//! kernel registers one at a time there.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use te_segment::LocalRange;
use te_verbs::{Device, MemoryAccess, MemoryRegion};

use super::error::MemoryError;

/// A region on one NIC.
pub(super) type Made = Box<dyn MemoryRegion>;

/// The bytes of a buffer as part of a dma-buf.
#[derive(Debug)]
pub(super) struct DmaBuf {
    pub(super) file: Arc<OwnedFd>,
    /// Where the buffer begins in it, bytes.
    pub(super) offset: u64,
}

impl DmaBuf {
    pub(super) fn new(file: OwnedFd, offset: u64) -> Self {
        Self { file: Arc::new(file), offset }
    }

    pub(super) fn share(&self) -> Self {
        Self { file: Arc::clone(&self.file), offset: self.offset }
    }
}

/// What is needed to make the regions of a buffer.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) access: MemoryAccess,
    pub(super) dmabuf: Option<DmaBuf>,
    pub(super) ranges: Vec<LocalRange>,
}

impl Maker {
    /// One region for each range, or none.
    pub(super) fn make(&self, device: &dyn Device) -> Result<Vec<Made>, MemoryError> {
        self.ranges.iter().map(|range| self.make_one(device, range)).collect()
    }

    /// The same on each device; `None` gives an empty list.
    pub(super) fn make_on(
        &self,
        devices: &[Option<&dyn Device>],
        together: bool,
    ) -> Vec<Result<Vec<Made>, MemoryError>> {
        let make = |device: Option<&dyn Device>| device.map_or(Ok(Vec::new()), |d| self.make(d));
        if !together {
            return devices.iter().map(|device| make(*device)).collect();
        }
        thread::scope(|scope| {
            let started: Vec<_> =
                devices.iter().map(|device| scope.spawn(move || make(*device))).collect();
            let joined = started.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.collect()
        })
    }

    fn make_one(&self, device: &dyn Device, range: &LocalRange) -> Result<Made, MemoryError> {
        let made = match &self.dmabuf {
            None => device.register(range, self.access),
            Some(DmaBuf { file, offset }) => {
                let offset = offset.saturating_add(range.offset());
                device.register_dmabuf(file.as_fd(), offset, range, self.access)
            }
        };
        made.map_err(|cause| MemoryError::Refused {
            nic: device.name().clone(),
            address: range.address(),
            len: range.len(),
            cause,
        })
    }
}

/// Releases the regions of a buffer, those of each NIC by a thread of its own if wanted.
pub(super) fn release(regions: Vec<Vec<Made>>, together: bool) {
    let regions: Vec<Vec<Made>> = regions.into_iter().filter(|made| !made.is_empty()).collect();
    if !together || regions.len() < 2 {
        return;
    }
    thread::scope(|scope| {
        for made in regions {
            scope.spawn(move || drop(made));
        }
    });
}
