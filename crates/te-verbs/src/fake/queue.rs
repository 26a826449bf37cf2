//! The fake's side of the seam: completion queues and queue pairs.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use te_topology::NicName;

use super::device::{Opening, refused};
use super::signal::Signal;
use super::state::{Lie, Port, State};
use crate::error::{PostError, VerbsCall, VerbsError};
use crate::port::LinkLayer;
use crate::queue_pair::{QueuePairState, Ready, Route};
use crate::seam::{CompletionQueue, QueuePair};
use crate::work::{WorkCompletion, WorkRequest};

#[derive(Debug)]
pub(super) struct FakeCompletionQueue {
    pub(super) opening: Arc<Opening>,
    pub(super) name: NicName,
    pub(super) slot: usize,
    pub(super) signal: Arc<Signal>,
}

impl CompletionQueue for FakeCompletionQueue {
    fn poll(&self, out: &mut [WorkCompletion]) -> Result<usize, VerbsError> {
        let mut state = self.opening.fabric.lock();
        let failed = |errno| refused(VerbsCall::Poll, &self.name, errno);
        if let Some(errno) = state.fault(self.opening.nic, Some(VerbsCall::Poll)) {
            return Err(failed(errno));
        }
        state.take(self.slot, out).map_err(failed)
    }

    fn arm(&self) -> Result<(), VerbsError> {
        let mut state = self.opening.fabric.lock();
        let armed = state.check(self.opening.nic, VerbsCall::Notify).and_then(|()| {
            state.queues[self.slot].as_mut().map_or(Err(libc::EINVAL), |queue| queue.arm())
        });
        armed.map_err(|errno| refused(VerbsCall::Notify, &self.name, errno))
    }

    fn channel_fd(&self) -> BorrowedFd<'_> {
        self.signal.fd()
    }

    fn acknowledge(&self) -> Result<(), VerbsError> {
        let mut state = self.opening.fabric.lock();
        if let Some(errno) = state.fault(self.opening.nic, Some(VerbsCall::Notify)) {
            return Err(refused(VerbsCall::Notify, &self.name, errno));
        }
        self.signal.clear();
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for FakeCompletionQueue {
    fn drop(&mut self) {
        self.opening.fabric.lock().queues[self.slot] = None;
    }
}

#[derive(Debug)]
pub(super) struct FakeQueuePair {
    pub(super) opening: Arc<Opening>,
    pub(super) name: NicName,
    pub(super) slot: usize,
    pub(super) number: u32,
    pub(super) queue: Arc<dyn CompletionQueue>,
}

impl FakeQueuePair {
    fn fail(&self, call: VerbsCall) -> impl Fn(i32) -> VerbsError + '_ {
        move |errno| refused(call, &self.name, errno)
    }

    /// Does something with the state, unless the device refuses the call.
    fn call<T>(
        &self,
        call: VerbsCall,
        act: impl FnOnce(&mut State) -> Result<T, i32>,
    ) -> Result<T, VerbsError> {
        let mut state = self.opening.fabric.lock();
        let done = state.check(self.opening.nic, call).and_then(|()| act(&mut state));
        done.map_err(self.fail(call))
    }

    fn expect_state(&self, state: &State, wanted: QueuePairState) -> Result<(), i32> {
        if state.pair(self.slot).state == wanted { Ok(()) } else { Err(libc::EINVAL) }
    }

    /// Whether the route leads somewhere, and what is wrong with it.
    fn check_route(&self, state: &State, route: &Route) -> Result<(), i32> {
        let nic = &state.nics[self.opening.nic];
        let port = nic.port(route.port).ok_or(libc::EINVAL)?;
        if route.reads > nic.spec.attributes.max_qp_rd_atom || route.queue_pair >= 1 << 24 {
            return Err(libc::EINVAL);
        }
        if port.now.attributes.link_layer == LinkLayer::InfiniBand {
            return if route.lid == 0 { Err(libc::EINVAL) } else { Ok(()) };
        }
        check_address(state, port, route)
    }
}

fn check_address(state: &State, port: &Port, route: &Route) -> Result<(), i32> {
    if route.gid_index >= port.now.attributes.gid_rows {
        return Err(libc::EINVAL);
    }
    let source = port.row(route.gid_index).ok_or(libc::ENODATA)?;
    if source.gid.mapped_v4().is_some() != route.gid.mapped_v4().is_some() {
        return Err(libc::EINVAL);
    }
    if route.gid.is_null() {
        return Err(libc::ENETUNREACH);
    }
    state.find_gid(route.gid).map(drop).ok_or(libc::ETIMEDOUT)
}

impl QueuePair for FakeQueuePair {
    fn number(&self) -> u32 {
        self.number
    }

    fn queue(&self) -> &Arc<dyn CompletionQueue> {
        &self.queue
    }

    fn to_init(&self, port: u8, pkey_index: u16) -> Result<(), VerbsError> {
        self.call(VerbsCall::ToInit, |state| {
            self.expect_state(state, QueuePairState::Reset)?;
            let port = state.nics[self.opening.nic].port(port).ok_or(libc::EINVAL)?;
            if pkey_index >= port.now.attributes.pkey_rows {
                return Err(libc::EINVAL);
            }
            state.pair_mut(self.slot).state = QueuePairState::Init;
            Ok(())
        })
    }

    fn to_ready_to_receive(&self, route: &Route) -> Result<(), VerbsError> {
        let fail = self.fail(VerbsCall::ToRtr);
        let fabric = &self.opening.fabric;
        let mut state = fabric.wait_for_routes(fabric.lock());
        state.check(self.opening.nic, VerbsCall::ToRtr).map_err(&fail)?;
        self.expect_state(&state, QueuePairState::Init).map_err(&fail)?;
        if self.check_route(&state, route) == Err(libc::ETIMEDOUT) {
            let is_there = |state: &State| self.check_route(state, route) != Err(libc::ETIMEDOUT);
            state = fabric.wait_for_address(state, is_there);
        }
        self.check_route(&state, route).map_err(&fail)?;
        self.expect_state(&state, QueuePairState::Init).map_err(&fail)?;
        let pair = state.pair_mut(self.slot);
        pair.state = QueuePairState::ReadyToReceive;
        pair.next_received = route.first_packet & 0xff_ffff;
        pair.route = Some(*route);
        state.run_all();
        Ok(())
    }

    fn to_ready_to_send(&self, ready: &Ready) -> Result<(), VerbsError> {
        self.call(VerbsCall::ToRts, |state| {
            self.expect_state(state, QueuePairState::ReadyToReceive)?;
            let limits = &state.nics[self.opening.nic].spec.attributes;
            if ready.reads > limits.max_qp_init_rd_atom || ready.timeout > 31 || ready.retries > 7 {
                return Err(libc::EINVAL);
            }
            let pair = state.pair_mut(self.slot);
            pair.state = QueuePairState::ReadyToSend;
            pair.next_sent = ready.first_packet & 0xff_ffff;
            pair.ready = Some(*ready);
            state.run_all();
            Ok(())
        })
    }

    fn to_error(&self) -> Result<(), VerbsError> {
        self.call(VerbsCall::ToError, |state| {
            if state.pair(self.slot).state == QueuePairState::Reset {
                return Err(libc::EINVAL);
            }
            state.fail_pair(self.slot);
            state.run_all();
            Ok(())
        })
    }

    fn to_reset(&self) -> Result<(), VerbsError> {
        self.call(VerbsCall::ToReset, |state| {
            let pair = state.pair_mut(self.slot);
            pair.state = QueuePairState::Reset;
            pair.forget();
            state.run_all();
            Ok(())
        })
    }

    fn state(&self) -> Result<QueuePairState, VerbsError> {
        self.call(VerbsCall::QueryQp, |state| Ok(state.pair(self.slot).state))
    }

    fn post(&self, requests: &[WorkRequest<'_>]) -> Result<(), PostError> {
        let mut state = self.opening.fabric.lock();
        let nic = self.opening.nic;
        let mut taken = Ok(());
        for (posted, request) in requests.iter().enumerate() {
            let fault =
                if state.nics[nic].is_dead { Some(libc::EIO) } else { state.fault(nic, None) };
            let pushed = fault.map_or_else(|| state.pair_mut(self.slot).push(request), Err);
            if let Err(errno) = pushed {
                taken = Err(PostError { posted, errno });
                break;
            }
        }
        state.posted(self.slot);
        taken?;
        let refuse = |Lie { told, errno }| PostError { posted: told.min(requests.len()), errno };
        state.nics[nic].lie.take().map_or(Ok(()), |lie| Err(refuse(lie)))
    }
}

impl Drop for FakeQueuePair {
    fn drop(&mut self) {
        let mut state = self.opening.fabric.lock();
        state.forget_held(self.slot);
        state.pairs[self.slot] = None;
        state.numbers.remove(&(self.opening.nic, self.number));
        state.run_all();
    }
}
