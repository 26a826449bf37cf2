//! A provider that waits in calls of a device until it may go on, and notes what it is asked.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use te_segment::LocalRange;
use te_topology::NicName;
use te_verbs::{
    CompletionQueue, Device, DeviceAttributes, DeviceEvent, DeviceInfo, FakeHost, GidEntry,
    MemoryAccess, MemoryRegion, PortAttributes, PostError, QueuePair, QueuePairCapacity,
    QueuePairState, Ready, Route, Verbs, VerbsError, WorkRequest,
};

/// A call that can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// A queue pair to ERR.
    End,
    /// Registering memory.
    Register,
}

#[derive(Debug, Default)]
struct State {
    held: HashSet<(Box<str>, Call)>,
    /// Where the next call waits, and no later one.
    next: HashSet<(Box<str>, Call)>,
    opened: u32,
    waiting: usize,
    /// The READs of each queue pair that may send, by device.
    reads: Vec<(Box<str>, u8)>,
}

/// What is held; a cheap handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<State>, Condvar)>);

impl Gate {
    /// The devices of a host, which ask here.
    pub(crate) fn guard(&self, host: Arc<FakeHost>) -> Arc<dyn Verbs> {
        Arc::new(Gated { host, gate: self.clone() })
    }

    /// From now on such calls of a device wait.
    pub(crate) fn hold(&self, nic: &str, call: Call) {
        self.0.0.lock().unwrap().held.insert((nic.into(), call));
    }

    /// The next such call of a device waits.
    pub(crate) fn hold_next(&self, nic: &str, call: Call) {
        self.0.0.lock().unwrap().next.insert((nic.into(), call));
    }

    /// All go on.
    pub(crate) fn open(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.held.clear();
        state.opened += 1;
        drop(state);
        self.0.1.notify_all();
    }

    /// Waits until a call waits; false where none did in time.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let state = self.0.0.lock().unwrap();
        let none = |state: &mut State| state.waiting == 0;
        !self.0.1.wait_timeout_while(state, limit, none).unwrap().1.timed_out()
    }

    /// The READs that queue pairs of a device were told to have outstanding.
    pub(crate) fn reads(&self, nic: &str) -> Vec<u8> {
        let state = self.0.0.lock().unwrap();
        state.reads.iter().filter(|(of, _)| &**of == nic).map(|(_, reads)| *reads).collect()
    }

    fn pass(&self, nic: &NicName, call: Call) {
        let mut state = self.0.0.lock().unwrap();
        let key = (nic.as_str().into(), call);
        if state.held.contains(&key) || state.next.remove(&key) {
            let opened = state.opened;
            state.waiting += 1;
            self.0.1.notify_all();
            state = self.0.1.wait_while(state, |state| state.opened == opened).unwrap();
            state.waiting -= 1;
        }
    }
}

#[derive(Debug)]
struct Gated {
    host: Arc<FakeHost>,
    gate: Gate,
}

impl Verbs for Gated {
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError> {
        self.host.devices()
    }

    fn open(&self, name: &NicName) -> Result<Arc<dyn Device>, VerbsError> {
        let (inner, gate) = (self.host.open(name)?, self.gate.clone());
        Ok(Arc::new(GatedDevice { inner, gate }))
    }
}

#[derive(Debug)]
struct GatedDevice {
    inner: Arc<dyn Device>,
    gate: Gate,
}

impl Device for GatedDevice {
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
        self.gate.pass(self.name(), Call::Register);
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
        let inner = self.inner.queue_pair(queue, capacity)?;
        let (nic, gate) = (self.name().clone(), self.gate.clone());
        Ok(Arc::new(GatedPair { inner, nic, gate }))
    }
}

#[derive(Debug)]
struct GatedPair {
    inner: Arc<dyn QueuePair>,
    nic: NicName,
    gate: Gate,
}

impl QueuePair for GatedPair {
    fn number(&self) -> u32 {
        self.inner.number()
    }

    fn queue(&self) -> &Arc<dyn CompletionQueue> {
        self.inner.queue()
    }

    fn to_init(&self, port: u8, pkey_index: u16) -> Result<(), VerbsError> {
        self.inner.to_init(port, pkey_index)
    }

    fn to_ready_to_receive(&self, route: &Route) -> Result<(), VerbsError> {
        self.inner.to_ready_to_receive(route)
    }

    fn to_ready_to_send(&self, ready: &Ready) -> Result<(), VerbsError> {
        let mut state = self.gate.0.0.lock().unwrap();
        state.reads.push((self.nic.as_str().into(), ready.reads));
        drop(state);
        self.inner.to_ready_to_send(ready)
    }

    fn to_error(&self) -> Result<(), VerbsError> {
        self.gate.pass(&self.nic, Call::End);
        self.inner.to_error()
    }

    fn to_reset(&self) -> Result<(), VerbsError> {
        self.inner.to_reset()
    }

    fn state(&self) -> Result<QueuePairState, VerbsError> {
        self.inner.state()
    }

    fn post(&self, requests: &[WorkRequest<'_>]) -> Result<(), PostError> {
        self.inner.post(requests)
    }
}
