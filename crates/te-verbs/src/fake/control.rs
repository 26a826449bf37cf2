//! Steps, and the faults of a device.

use std::sync::Arc;

use te_topology::NicName;

use super::Fabric;
use super::state::{Fault, Lie, State};
use crate::error::VerbsCall;
use crate::event::DeviceEvent;
use crate::port::{GidEntry, PortAttributes, PortState};
use crate::queue_pair::QueuePairState;

/// A device of the fake, to change it and to make it fail. A cheap handle.
#[derive(Debug, Clone)]
pub struct FakeNic {
    fabric: Arc<Fabric>,
    index: usize,
}

impl FakeNic {
    pub(super) fn new(fabric: &Arc<Fabric>, index: usize) -> Self {
        Self { fabric: Arc::clone(fabric), index }
    }

    /// Its name.
    pub fn name(&self) -> NicName {
        self.fabric.lock().nics[self.index].spec.name.clone()
    }

    /// Does something to the device, and lets traffic find its way again.
    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.fabric.lock();
        let done = act(&mut state);
        state.run_all();
        drop(state);
        self.fabric.changed.notify_all();
        done
    }

    /// Sets what a port answers, without an event. Ports that do not exist are left alone.
    pub fn set_port(&self, port: u8, attributes: PortAttributes) {
        self.change(|state| {
            if let Some(port) = state.nics[self.index].port_mut(port) {
                port.now.attributes = attributes;
            }
        });
    }

    /// A port loses its link, and says so.
    pub fn port_down(&self, port: u8) {
        self.set_link(port, PortState::Down, DeviceEvent::PortError { port });
    }

    /// A port gets its link back, and says so.
    pub fn port_up(&self, port: u8) {
        self.set_link(port, PortState::Active, DeviceEvent::PortActive { port });
    }

    fn set_link(&self, port: u8, now: PortState, event: DeviceEvent) {
        self.change(|state| {
            if let Some(port) = state.nics[self.index].port_mut(port) {
                port.now.attributes.state = now;
                state.announce(self.index, event);
            }
        });
    }

    /// Replaces the GID table of a port, and says so.
    pub fn set_gids(&self, port: u8, gids: Vec<GidEntry>) {
        self.change(|state| {
            if let Some(found) = state.nics[self.index].port_mut(port) {
                found.now.gids = gids;
                state.announce(self.index, DeviceEvent::GidChange { port });
            }
        });
    }

    /// Nothing passes a port, in either direction, and nobody is told, until [`FakeNic::heal`].
    pub fn lose_traffic(&self, port: u8) {
        self.change(|state| {
            if let Some(port) = state.nics[self.index].port_mut(port) {
                port.is_lost = true;
            }
        });
    }

    /// Requests pass a port and are carried out; answers do not, until [`FakeNic::heal`].
    pub fn lose_answers(&self, port: u8) {
        self.change(|state| {
            if let Some(port) = state.nics[self.index].port_mut(port) {
                port.acks_lost = true;
            }
        });
    }

    /// Everything passes a port again.
    pub fn heal(&self, port: u8) {
        self.change(|state| {
            if let Some(port) = state.nics[self.index].port_mut(port) {
                port.is_lost = false;
                port.acks_lost = false;
            }
        });
    }

    /// The device dies: what was posted is flushed, every call is refused with `EIO` from now on,
    /// and its openings are told.
    pub fn die(&self) {
        self.change(|state| {
            state.nics[self.index].is_dead = true;
            for slot in 0..state.pairs.len() {
                if state.pairs[slot].as_ref().is_some_and(|pair| pair.nic == self.index) {
                    state.fail_pair(slot);
                }
            }
            state.announce(self.index, DeviceEvent::DeviceFatal);
        });
    }

    /// The device is taken away: every call is refused with `EIO` from now on and its openings are
    /// told, as by [`FakeNic::die`], but what was posted does not come back: its queue pairs are gone
    /// without a word.
    pub fn vanish(&self) {
        self.change(|state| {
            state.nics[self.index].is_dead = true;
            for slot in 0..state.pairs.len() {
                if state.pairs[slot].as_ref().is_some_and(|pair| pair.nic == self.index) {
                    state.lose_pair(slot);
                }
            }
            state.announce(self.index, DeviceEvent::DeviceFatal);
        });
    }

    /// A queue pair goes to ERR by itself, and its device says so; false where there is none.
    pub fn fail_queue_pair(&self, number: u32) -> bool {
        self.change(|state| {
            let found = state.numbers.get(&(self.index, number)).copied();
            if let Some(slot) = found {
                state.fail_pair(slot);
                state.announce(self.index, DeviceEvent::QueuePairFatal { number });
            }
            found.is_some()
        })
    }

    /// Every completion queue of the device fails, and the device says so.
    pub fn fail_completion_queues(&self) {
        self.change(|state| {
            let index = self.index;
            for queue in state.queues.iter_mut().flatten().filter(|queue| queue.nic == index) {
                queue.fail();
            }
            state.announce(index, DeviceEvent::CompletionQueueError);
        });
    }

    /// Every completion queue of the device fails and the device says so, but the queues do not: they
    /// are armed and polled as before, and nothing comes into them any more.
    pub fn silence_completion_queues(&self) {
        self.change(|state| {
            let index = self.index;
            for queue in state.queues.iter_mut().flatten().filter(|queue| queue.nic == index) {
                queue.fall_silent();
            }
            state.announce(index, DeviceEvent::CompletionQueueError);
        });
    }

    /// Gives an event to every opening of the device, and changes nothing else.
    pub fn announce(&self, event: DeviceEvent) {
        self.fabric.lock().announce(self.index, event);
    }

    /// A call on this device fails once with this error number, after `skip` of them went well.
    pub fn fail_call(&self, call: VerbsCall, skip: usize, errno: i32) {
        self.add_fault(Some(call), skip, errno);
    }

    /// A work request is refused once with this error number, after `skip` of them were taken.
    pub fn fail_post(&self, skip: usize, errno: i32) {
        self.add_fault(None, skip, errno);
    }

    fn add_fault(&self, call: Option<VerbsCall>, skip: usize, errno: i32) {
        let nic = self.index;
        self.fabric.lock().faults.push(Fault { nic, call, skip, errno });
    }

    /// The next chain that nothing is wrong with is taken and refused all the same, once: `told` of it are said to be
    /// posted, or all where it has fewer. A provider that names no request which it refused is one
    /// that says so of all.
    pub fn take_and_refuse(&self, told: usize, errno: i32) {
        self.fabric.lock().nics[self.index].lie = Some(Lie { told, errno });
    }

    /// Memory regions that exist.
    pub fn regions(&self) -> usize {
        self.fabric.lock().nics[self.index].live_regions
    }

    /// Queue pairs that exist.
    pub fn queue_pairs(&self) -> usize {
        let state = self.fabric.lock();
        state.pairs.iter().flatten().filter(|pair| pair.nic == self.index).count()
    }

    /// Completion queues that exist.
    pub fn completion_queues(&self) -> usize {
        let state = self.fabric.lock();
        state.queues.iter().flatten().filter(|queue| queue.nic == self.index).count()
    }

    /// Openings of the device that live.
    pub fn openings(&self) -> usize {
        self.fabric.lock().nics[self.index].contexts.iter().flatten().count()
    }
}

impl State {
    /// After requests were put into a queue pair's ring.
    pub(super) fn posted(&mut self, slot: usize) {
        match self.pair(slot).state {
            QueuePairState::Error => self.flush(slot),
            _ => self.run(slot),
        }
    }

    /// The queue pair is gone: nothing of what was posted is carried out or told any more.
    fn lose_pair(&mut self, slot: usize) {
        self.forget_held(slot);
        let pair = self.pair_mut(slot);
        pair.state = QueuePairState::Error;
        pair.forget();
        self.epoch += 1;
    }

    /// One request, or one completion, of a queue pair that the seed picks.
    pub(super) fn step(&mut self) -> bool {
        let waiting = (0..self.pairs.len()).filter(|slot| {
            self.pairs[*slot].as_ref().is_some_and(|pair| {
                pair.state == QueuePairState::ReadyToSend && pair.front().is_some()
            })
        });
        let mut work: Vec<Work> = waiting.map(Work::Request).collect();
        for (queue, held) in self.queues.iter().enumerate() {
            let holders = held.iter().flat_map(|held| held.holders());
            work.extend(holders.map(|pair| Work::Completion { queue, pair }));
        }
        while !work.is_empty() {
            let picked = self.draw(work.len());
            match work.swap_remove(picked) {
                Work::Request(slot) if self.step_pair(slot) => return true,
                // It waits for an answer.
                Work::Request(_) => {}
                Work::Completion { queue, pair } => {
                    self.show_held(queue, pair);
                    return true;
                }
            }
        }
        false
    }
}

enum Work {
    Request(usize),
    Completion { queue: usize, pair: usize },
}
