//! The fake's side of the seam: providers and open devices.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use te_segment::LocalRange;
use te_topology::NicName;

use super::Fabric;
use super::completion::Queue;
use super::pair::Pair;
use super::queue::{FakeCompletionQueue, FakeQueuePair};
use super::signal::Signal;
use super::state::{Context, Registered, insert};
use crate::error::{VerbsCall, VerbsError};
use crate::event::DeviceEvent;
use crate::port::{DeviceAttributes, DeviceInfo, GidEntry, PortAttributes};
use crate::queue_pair::QueuePairCapacity;
use crate::seam::{CompletionQueue, Device, MemoryAccess, MemoryRegion, QueuePair, Verbs};

/// The devices of one host of the fake.
#[derive(Debug, Clone)]
pub struct FakeHost {
    pub(super) fabric: Arc<Fabric>,
    pub(super) name: Box<str>,
}

/// An error of the fake.
pub(super) fn refused(call: VerbsCall, device: &NicName, errno: i32) -> VerbsError {
    let cause = std::io::Error::from_raw_os_error(errno).to_string().into();
    VerbsError { call, device: device.to_string().into(), errno: Some(errno), cause }
}

impl Verbs for FakeHost {
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError> {
        let state = self.fabric.lock();
        let ours = state.nics.iter().filter(|nic| nic.host == self.name);
        Ok(ours.map(|nic| DeviceInfo { name: nic.spec.name.clone() }).collect())
    }

    fn open(&self, name: &NicName) -> Result<Arc<dyn Device>, VerbsError> {
        let fail = |errno| refused(VerbsCall::Open, name, errno);
        let signal = Arc::new(Signal::new().map_err(|error| fail(error.raw_os_error()))?);
        let mut state = self.fabric.lock();
        let mut nics = state.nics.iter();
        let nic = nics.position(|nic| nic.host == self.name && nic.spec.name == *name);
        let nic = nic.ok_or_else(|| fail(libc::ENODEV))?;
        state.check(nic, VerbsCall::Open).map_err(fail)?;
        let context = Context { events: VecDeque::new(), signal: Arc::clone(&signal) };
        let context = insert(&mut state.nics[nic].contexts, context);
        let mut attributes = state.nics[nic].spec.attributes;
        attributes.ports = u8::try_from(state.nics[nic].ports.len()).unwrap_or(u8::MAX);
        drop(state);
        let opening = Opening { fabric: Arc::clone(&self.fabric), nic, context };
        Ok(Arc::new(FakeOpen {
            opening: Arc::new(opening),
            name: name.clone(),
            attributes,
            signal,
        }))
    }
}

/// An opening of a device; it ends when nothing made of it is left.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) fabric: Arc<Fabric>,
    pub(super) nic: usize,
    pub(super) context: usize,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.fabric.lock().nics[self.nic].contexts[self.context] = None;
    }
}

#[derive(Debug)]
struct FakeOpen {
    opening: Arc<Opening>,
    name: NicName,
    attributes: DeviceAttributes,
    signal: Arc<Signal>,
}

impl FakeOpen {
    fn fail(&self, call: VerbsCall) -> impl Fn(i32) -> VerbsError + '_ {
        move |errno| refused(call, &self.name, errno)
    }

    fn add_region(
        &self,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, i32> {
        let (nic, context) = (self.opening.nic, self.opening.context);
        let mut state = self.opening.fabric.lock();
        state.check(nic, VerbsCall::Register)?;
        if memory.is_empty() {
            return Err(libc::EINVAL);
        }
        let spec = &state.nics[nic].spec;
        let is_full = state.nics[nic].live_regions >= spec.max_regions;
        if is_full || memory.len() > spec.attributes.max_mr_size {
            return Err(libc::ENOMEM);
        }
        // Slots are not used again, so that an old key never names new memory.
        let slot = state.nics[nic].regions.len();
        let index = u32::try_from(slot + 1).ok().filter(|index| *index < 1 << 24);
        let key = index.ok_or(libc::ENOMEM)? << 8;
        let low = u32::try_from(state.draw(0x80)).unwrap_or_default();
        let (lkey, rkey) = (key - 0x100 + low, key - 0x100 + 0x80 + low);
        let (memory, remote) = (memory.clone(), access.remote);
        state.nics[nic].regions.push(Some(Registered { memory, context, lkey, rkey, remote }));
        state.nics[nic].live_regions += 1;
        drop(state);
        let opening = Arc::clone(&self.opening);
        Ok(Box::new(FakeRegion { opening, slot, lkey, rkey }))
    }
}

impl Device for FakeOpen {
    fn name(&self) -> &NicName {
        &self.name
    }

    fn attributes(&self) -> &DeviceAttributes {
        &self.attributes
    }

    fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let fail = self.fail(VerbsCall::QueryPort);
        let mut state = self.opening.fabric.lock();
        state.check(self.opening.nic, VerbsCall::QueryPort).map_err(&fail)?;
        let found = state.nics[self.opening.nic].port(port);
        Ok(found.ok_or_else(|| fail(libc::EINVAL))?.now.attributes)
    }

    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, VerbsError> {
        let fail = self.fail(VerbsCall::QueryGid);
        let mut state = self.opening.fabric.lock();
        state.check(self.opening.nic, VerbsCall::QueryGid).map_err(&fail)?;
        let found = state.nics[self.opening.nic].port(port);
        Ok(found.ok_or_else(|| fail(libc::EINVAL))?.now.gids.clone())
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.signal.fd()
    }

    fn next_event(&self) -> Result<Option<DeviceEvent>, VerbsError> {
        let mut state = self.opening.fabric.lock();
        let (nic, context) = (self.opening.nic, self.opening.context);
        if let Some(errno) = state.fault(nic, Some(VerbsCall::Event)) {
            return Err(refused(VerbsCall::Event, &self.name, errno));
        }
        let Some(context) = state.nics[nic].contexts[context].as_mut() else { return Ok(None) };
        let event = context.events.pop_front();
        if context.events.is_empty() {
            self.signal.clear();
        }
        Ok(event)
    }

    fn register(
        &self,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError> {
        self.add_region(memory, access).map_err(self.fail(VerbsCall::Register))
    }

    fn register_dmabuf(
        &self,
        _file: BorrowedFd<'_>,
        _offset: u64,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError> {
        let fail = self.fail(VerbsCall::Register);
        let nic = self.opening.nic;
        if !self.opening.fabric.lock().nics[nic].spec.dmabuf {
            return Err(fail(libc::EOPNOTSUPP));
        }
        self.add_region(memory, access).map_err(fail)
    }

    fn completion_queue(&self, entries: u32) -> Result<Arc<dyn CompletionQueue>, VerbsError> {
        let fail = self.fail(VerbsCall::CreateCq);
        let signal = Arc::new(Signal::new().map_err(|error| fail(error.raw_os_error()))?);
        let (nic, context) = (self.opening.nic, self.opening.context);
        let mut state = self.opening.fabric.lock();
        state.check(nic, VerbsCall::CreateCq).map_err(&fail)?;
        if entries == 0 || entries > self.attributes.max_cqe {
            return Err(fail(libc::EINVAL));
        }
        let live = state.queues.iter().flatten().filter(|queue| queue.nic == nic).count();
        if live >= self.attributes.max_cq as usize {
            return Err(fail(libc::ENOMEM));
        }
        let queue = Queue::new((nic, context), entries as usize, Arc::clone(&signal));
        let slot = insert(&mut state.queues, queue);
        drop(state);
        let (opening, name) = (Arc::clone(&self.opening), self.name.clone());
        Ok(Arc::new(FakeCompletionQueue { opening, name, slot, signal }))
    }

    fn queue_pair(
        &self,
        queue: &Arc<dyn CompletionQueue>,
        capacity: QueuePairCapacity,
    ) -> Result<Arc<dyn QueuePair>, VerbsError> {
        let fail = self.fail(VerbsCall::CreateQp);
        let ours = queue.as_any().downcast_ref::<FakeCompletionQueue>();
        let is_ours = |queue: &&FakeCompletionQueue| Arc::ptr_eq(&queue.opening, &self.opening);
        let ours = ours.filter(is_ours).ok_or_else(|| fail(libc::EINVAL))?;
        let (nic, context) = (self.opening.nic, self.opening.context);
        let mut state = self.opening.fabric.lock();
        state.check(nic, VerbsCall::CreateQp).map_err(&fail)?;
        let limits = &self.attributes;
        let is_large = capacity.send_requests > limits.max_qp_wr
            || capacity.receive_requests > limits.max_qp_wr
            || capacity.ranges > limits.max_sge
            || capacity.inline_bytes > state.nics[nic].spec.max_inline;
        if is_large || capacity.send_requests == 0 || capacity.ranges == 0 {
            return Err(fail(libc::EINVAL));
        }
        let live = state.pairs.iter().flatten().filter(|pair| pair.nic == nic).count();
        if live >= limits.max_qp as usize {
            return Err(fail(libc::ENOMEM));
        }
        let mut pair = Pair::new((nic, context), ours.slot, capacity);
        state.serial += 1;
        pair.serial = state.serial;
        let number = state.nics[nic].next_number;
        pair.number = number;
        state.nics[nic].next_number += 1;
        let slot = insert(&mut state.pairs, pair);
        state.numbers.insert((nic, number), slot);
        drop(state);
        let (opening, name) = (Arc::clone(&self.opening), self.name.clone());
        let queue = Arc::clone(queue);
        Ok(Arc::new(FakeQueuePair { opening, name, slot, number, queue }))
    }
}

#[derive(Debug)]
struct FakeRegion {
    opening: Arc<Opening>,
    slot: usize,
    lkey: u32,
    rkey: u32,
}

impl MemoryRegion for FakeRegion {
    fn lkey(&self) -> u32 {
        self.lkey
    }

    fn rkey(&self) -> u32 {
        self.rkey
    }
}

impl Drop for FakeRegion {
    fn drop(&mut self) {
        let mut state = self.opening.fabric.lock();
        let nic = &mut state.nics[self.opening.nic];
        let region = nic.regions[self.slot].take();
        nic.live_regions -= 1;
        drop(state);
        // The last holder of the memory unmaps it, which is not done under the lock.
        drop(region);
    }
}
