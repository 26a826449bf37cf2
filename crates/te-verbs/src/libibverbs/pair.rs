//! A queue pair.
#![allow(unsafe_code, reason = "calls into libibverbs; docs/memory-safety.md")]

use std::ffi::{c_int, c_uint};
use std::ptr::NonNull;
use std::sync::Arc;

use te_segment::Opcode;

use super::library::{checked, last_errno};
use super::opened::Context;
use super::queue::Queue;
use super::table;
use crate::error::{PostError, VerbsCall, VerbsError};
use crate::queue_pair::{QueuePairCapacity, QueuePairState, Ready, Route};
use crate::seam::{CompletionQueue, QueuePair};
use crate::sys;
use crate::work::{Payload, Sge, WorkRequest};

#[derive(Debug)]
pub(super) struct Pair {
    context: Arc<Context>,
    qp: NonNull<sys::Qp>,
    number: u32,
    post: unsafe extern "C" fn(*mut sys::Qp, *mut sys::SendWr, *mut *mut sys::SendWr) -> c_int,
    /// Destroyed after this.
    queue: Arc<dyn CompletionQueue>,
}

// SAFETY: the library locks its queues itself; its calls may come from any thread.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

impl Pair {
    pub(super) fn new(
        context: &Arc<Context>,
        queue: &Arc<dyn CompletionQueue>,
        capacity: QueuePairCapacity,
    ) -> Result<Self, VerbsError> {
        let fail = context.fail(VerbsCall::CreateQp);
        let ours = queue.as_any().downcast_ref::<Queue>();
        let ours = ours.filter(|queue| Arc::ptr_eq(&queue.context, context));
        let cq = ours.ok_or_else(|| fail(libc::EINVAL))?.cq.as_ptr();
        let post = context.ops().post_send.ok_or_else(|| fail(libc::EOPNOTSUPP))?;
        let mut wanted = sys::QpInitAttr {
            qp_context: std::ptr::null_mut(),
            send_cq: cq,
            recv_cq: cq,
            srq: std::ptr::null_mut(),
            cap: table::capacity(capacity),
            qp_type: sys::QPT_RC,
            sq_sig_all: 0,
        };
        let pd = context.pd.as_ptr();
        // SAFETY: the domain and the queue are of this context, and live as long as `Pair` does.
        let qp = unsafe { (context.library.call.ibv_create_qp)(pd, &raw mut wanted) };
        let qp = NonNull::new(qp).ok_or_else(|| fail(last_errno()))?;
        // SAFETY: the library made it just now; its number does not change.
        let number = unsafe { (*qp.as_ptr()).qp_num };
        Ok(Self { context: Arc::clone(context), qp, number, post, queue: Arc::clone(queue) })
    }

    fn modify(
        &self,
        call: VerbsCall,
        mut wanted: sys::QpAttr,
        which: c_int,
    ) -> Result<(), VerbsError> {
        let modify = self.context.library.call.ibv_modify_qp;
        // SAFETY: the queue pair lives as long as `self`, and the attributes for this call.
        let answer = unsafe { modify(self.qp.as_ptr(), &raw mut wanted, which) };
        checked(answer).map_err(self.context.fail(call))
    }

    /// Posts at most `CHUNK` requests as one chain. Gives the place of the one that was refused: a
    /// provider may queue some, fail, and name none.
    fn post_chunk(&self, requests: &[WorkRequest<'_>]) -> Result<(), (Option<usize>, i32)> {
        let mut inline = [Sge::default(); CHUNK];
        let mut chain = [sys::SendWr::EMPTY; CHUNK];
        let first = chain.as_mut_ptr();
        let inlines = inline.as_mut_ptr();
        for (at, request) in requests.iter().enumerate().take(CHUNK) {
            let (place, here) = (inlines.wrapping_add(at), first.wrapping_add(at));
            let next = if at + 1 < requests.len() { first.wrapping_add(at + 1) } else { NONE };
            let entry = link(request, place, next);
            // SAFETY: `at` is less than `CHUNK`, so the place is in `inline`, which this thread
            // alone uses.
            unsafe { place.write(entry.inline) };
            // SAFETY: the same for `chain`.
            unsafe { here.write(entry.request) };
        }
        let mut refused = std::ptr::null_mut();
        // SAFETY: the queue pair lives as long as `self`. The chain, its ranges and the inline
        // bytes live until the call returns; the library keeps none of them and writes none.
        let answer = unsafe { (self.post)(self.qp.as_ptr(), first, &raw mut refused) };
        checked(answer).map_err(|errno| (place(refused, first, requests.len()), errno))
    }
}

/// Requests of one call to the library.
const CHUNK: usize = 16;

const NONE: *mut sys::SendWr = std::ptr::null_mut();

/// The place in a chain of the request that was refused; `None` where that is none of them.
fn place(refused: *mut sys::SendWr, first: *mut sys::SendWr, len: usize) -> Option<usize> {
    let at = refused.addr().wrapping_sub(first.addr()) / size_of::<sys::SendWr>();
    (at < len).then_some(at)
}

struct Link {
    request: sys::SendWr,
    /// The range that names the bytes that go with the request.
    inline: Sge,
}

/// A request in the library's form; `place` is where its inline range will be.
fn link(request: &WorkRequest<'_>, place: *mut Sge, next: *mut sys::SendWr) -> Link {
    let signaled = if request.signaled { sys::SEND_SIGNALED } else { 0 };
    let (list, count, flags, inline) = match request.payload {
        Payload::Ranges(ranges) => {
            let count = c_int::try_from(ranges.len()).unwrap_or(c_int::MAX);
            (ranges.as_ptr().cast_mut(), count, signaled, Sge::default())
        }
        Payload::Inline(bytes) => {
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let address = bytes.as_ptr().expose_provenance() as u64;
            (place, 1, signaled | sys::SEND_INLINE, Sge { address, len, lkey: 0 })
        }
    };
    let opcode = match request.op {
        Opcode::Read => sys::WR_RDMA_READ,
        Opcode::Write => sys::WR_RDMA_WRITE,
    };
    let mut told = sys::SendWr::EMPTY;
    told.wr_id = request.id;
    told.next = next;
    (told.sg_list, told.num_sge) = (list, count);
    (told.opcode, told.send_flags) = (opcode, flags);
    (told.remote_addr, told.rkey) = (request.remote_address, request.rkey);
    Link { request: told, inline }
}

const TO_INIT: c_int = sys::QP_STATE | sys::QP_PKEY_INDEX | sys::QP_PORT | sys::QP_ACCESS_FLAGS;
const TO_RTR: c_int = sys::QP_STATE
    | sys::QP_AV
    | sys::QP_PATH_MTU
    | sys::QP_DEST_QPN
    | sys::QP_RQ_PSN
    | sys::QP_MAX_DEST_RD_ATOMIC
    | sys::QP_MIN_RNR_TIMER;
const TO_RTS: c_int = sys::QP_STATE
    | sys::QP_TIMEOUT
    | sys::QP_RETRY_CNT
    | sys::QP_RNR_RETRY
    | sys::QP_SQ_PSN
    | sys::QP_MAX_QP_RD_ATOMIC;

/// What peers may do through a queue pair; each region says what they may do with it.
const PEERS: c_uint = sys::ACCESS_LOCAL_WRITE | sys::ACCESS_REMOTE_READ | sys::ACCESS_REMOTE_WRITE;

fn to(qp_state: c_uint) -> sys::QpAttr {
    let mut wanted = sys::QpAttr::default();
    wanted.qp_state = qp_state;
    wanted
}

impl QueuePair for Pair {
    fn number(&self) -> u32 {
        self.number
    }

    fn queue(&self) -> &Arc<dyn CompletionQueue> {
        &self.queue
    }

    fn to_init(&self, port: u8, pkey_index: u16) -> Result<(), VerbsError> {
        let mut wanted = to(sys::QPS_INIT);
        wanted.port_num = port;
        wanted.pkey_index = pkey_index;
        wanted.qp_access_flags = PEERS;
        self.modify(VerbsCall::ToInit, wanted, TO_INIT)
    }

    fn to_ready_to_receive(&self, route: &Route) -> Result<(), VerbsError> {
        let source = u8::try_from(route.gid_index);
        let source = source.map_err(|_| self.context.fail(VerbsCall::ToRtr)(libc::EINVAL))?;
        let mut wanted = to(sys::QPS_RTR);
        wanted.path_mtu = route.mtu.number().into();
        wanted.dest_qp_num = route.queue_pair;
        wanted.rq_psn = route.first_packet;
        wanted.max_dest_rd_atomic = route.reads;
        wanted.min_rnr_timer = route.min_rnr_timer;
        wanted.ah_attr = table::address(route, source);
        self.modify(VerbsCall::ToRtr, wanted, TO_RTR)
    }

    fn to_ready_to_send(&self, ready: &Ready) -> Result<(), VerbsError> {
        let mut wanted = to(sys::QPS_RTS);
        wanted.timeout = ready.timeout;
        wanted.retry_cnt = ready.retries;
        wanted.rnr_retry = ready.rnr_retries;
        wanted.sq_psn = ready.first_packet;
        wanted.max_rd_atomic = ready.reads;
        self.modify(VerbsCall::ToRts, wanted, TO_RTS)
    }

    fn to_error(&self) -> Result<(), VerbsError> {
        self.modify(VerbsCall::ToError, to(sys::QPS_ERR), sys::QP_STATE)
    }

    fn to_reset(&self) -> Result<(), VerbsError> {
        self.modify(VerbsCall::ToReset, to(sys::QPS_RESET), sys::QP_STATE)
    }

    fn state(&self) -> Result<QueuePairState, VerbsError> {
        let mut found = sys::QpAttr::default();
        let mut made = sys::QpInitAttr {
            qp_context: std::ptr::null_mut(),
            send_cq: std::ptr::null_mut(),
            recv_cq: std::ptr::null_mut(),
            srq: std::ptr::null_mut(),
            cap: sys::QpCap::default(),
            qp_type: sys::QPT_RC,
            sq_sig_all: 0,
        };
        let query = self.context.library.call.ibv_query_qp;
        let (qp, found_at) = (self.qp.as_ptr(), &raw mut found);
        // SAFETY: the queue pair lives as long as `self`, and there is room for both answers.
        let answer = unsafe { query(qp, found_at, sys::QP_STATE, &raw mut made) };
        checked(answer).map_err(self.context.fail(VerbsCall::QueryQp))?;
        Ok(table::state(found.qp_state))
    }

    fn post(&self, requests: &[WorkRequest<'_>]) -> Result<(), PostError> {
        for (chunk, part) in requests.chunks(CHUNK).enumerate() {
            self.post_chunk(part).map_err(|(refused, errno)| PostError {
                posted: refused.map_or(requests.len(), |at| chunk * CHUNK + at),
                errno,
            })?;
        }
        Ok(())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: the queue pair is not used after this; its events were acknowledged as they were
        // read.
        unsafe { (self.context.library.call.ibv_destroy_qp)(self.qp.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A provider that fails after it has queued a chain names none of it.
    #[test]
    fn a_refused_request_is_found_only_where_one_is_named() {
        let mut chain = [sys::SendWr::EMPTY; 4];
        let first = chain.as_mut_ptr();
        for at in 0..3 {
            assert_eq!(place(first.wrapping_add(at), first, 3), Some(at));
        }
        for other in [NONE, first.wrapping_add(3), first.wrapping_sub(1)] {
            assert_eq!(place(other, first, 3), None);
        }
    }
}
