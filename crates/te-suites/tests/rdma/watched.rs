//! Real verbs, with an eye on the queue pairs: how many there are, and a hand that breaks them.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, Weak};

use te_segment::LocalRange;
use te_topology::NicName;
use te_verbs::{
    CompletionQueue, Device, DeviceAttributes, DeviceEvent, DeviceInfo, GidEntry, Libibverbs,
    MemoryAccess, MemoryRegion, PortAttributes, QueuePair, QueuePairCapacity, Verbs, VerbsError,
};

/// All queue pairs that were made.
type Pairs = Arc<Mutex<Vec<Weak<dyn QueuePair>>>>;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    inner: Libibverbs,
    pairs: Pairs,
}

impl Watched {
    /// The verbs of this machine, which has at least `n` devices, or why not.
    pub(crate) fn with_devices(n: usize) -> Result<Self, String> {
        let suite = "`cargo xtask suite rdma` runs it where there are";
        let inner =
            Libibverbs::load().map_err(|error| format!("there are no verbs ({error}); {suite}"))?;
        let devices = inner.devices().map_err(|error| format!("{error}; {suite}"))?.len();
        if devices < n {
            return Err(format!("of {n} RDMA devices there are {devices}; {suite}"));
        }
        Ok(Self { inner, pairs: Pairs::default() })
    }

    /// As this, with a list of queue pairs of its own.
    pub(crate) fn fresh(&self) -> Self {
        Self { inner: self.inner.clone(), pairs: Pairs::default() }
    }

    /// The queue pairs that live.
    pub(crate) fn living(&self) -> Vec<Arc<dyn QueuePair>> {
        let mut pairs = self.pairs.lock().unwrap();
        pairs.retain(|pair| pair.strong_count() > 0);
        pairs.iter().filter_map(Weak::upgrade).collect()
    }

    /// How many queue pairs live.
    pub(crate) fn count(&self) -> usize {
        self.living().len()
    }

    /// All queue pairs fail, as if the device had failed them.
    pub(crate) fn fail_all(&self) {
        for pair in self.living() {
            // One that is being destroyed has failed already.
            let _ = pair.to_error();
        }
    }

    /// All queue pairs forget their peers, as if they had been destroyed: what comes is dropped.
    pub(crate) fn forget_all(&self) {
        for pair in self.living() {
            let _ = pair.to_reset();
        }
    }
}

impl Verbs for Watched {
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError> {
        self.inner.devices()
    }

    fn open(&self, name: &NicName) -> Result<Arc<dyn Device>, VerbsError> {
        let (inner, pairs) = (self.inner.open(name)?, Arc::clone(&self.pairs));
        Ok(Arc::new(WatchedDevice { inner, pairs }))
    }
}

#[derive(Debug)]
struct WatchedDevice {
    inner: Arc<dyn Device>,
    pairs: Pairs,
}

impl Device for WatchedDevice {
    fn name(&self) -> &NicName {
        self.inner.name()
    }

    fn attributes(&self) -> &DeviceAttributes {
        self.inner.attributes()
    }

    fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        self.inner.port(port)
    }

    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, VerbsError> {
        self.inner.gids(port)
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.inner.event_fd()
    }

    fn next_event(&self) -> Result<Option<DeviceEvent>, VerbsError> {
        self.inner.next_event()
    }

    fn register(
        &self,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError> {
        self.inner.register(memory, access)
    }

    fn register_dmabuf(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError> {
        self.inner.register_dmabuf(file, offset, memory, access)
    }

    fn completion_queue(&self, entries: u32) -> Result<Arc<dyn CompletionQueue>, VerbsError> {
        self.inner.completion_queue(entries)
    }

    fn queue_pair(
        &self,
        queue: &Arc<dyn CompletionQueue>,
        capacity: QueuePairCapacity,
    ) -> Result<Arc<dyn QueuePair>, VerbsError> {
        let pair = self.inner.queue_pair(queue, capacity)?;
        self.pairs.lock().unwrap().push(Arc::downgrade(&pair));
        Ok(pair)
    }
}
