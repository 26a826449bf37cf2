//! A completion queue and its channel.
#![allow(unsafe_code, reason = "calls into libibverbs; docs/memory-safety.md")]

use std::any::Any;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::library::{checked, last_errno};
use super::opened::{Context, without_waiting};
use super::table;
use crate::error::{VerbsCall, VerbsError};
use crate::seam::CompletionQueue;
use crate::sys;
use crate::work::WorkCompletion;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) context: Arc<Context>,
    channel: Channel,
    pub(super) cq: NonNull<sys::Cq>,
    poll: unsafe extern "C" fn(*mut sys::Cq, c_int, *mut sys::Wc) -> c_int,
    arm: unsafe extern "C" fn(*mut sys::Cq, c_int) -> c_int,
}

// SAFETY: the library locks its queues itself; its calls may come from any thread.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

/// A channel, which outlives its queue.
#[derive(Debug)]
struct Channel {
    context: Arc<Context>,
    channel: NonNull<sys::CompChannel>,
}

impl Channel {
    fn new(context: &Arc<Context>) -> Result<Self, i32> {
        // SAFETY: the context is open while `context` lives.
        let made =
            unsafe { (context.library.call.ibv_create_comp_channel)(context.context.as_ptr()) };
        let channel = NonNull::new(made).ok_or_else(last_errno)?;
        let made = Self { context: Arc::clone(context), channel };
        without_waiting(made.fd())?;
        Ok(made)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives as long as `self`; the number is written when it is made.
        let fd = unsafe { (*self.channel.as_ptr()).fd };
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the queue that used it is gone: it is destroyed before this field is dropped.
        unsafe { (self.context.library.call.ibv_destroy_comp_channel)(self.channel.as_ptr()) };
    }
}

impl Queue {
    pub(super) fn new(context: &Arc<Context>, entries: u32) -> Result<Self, VerbsError> {
        let fail = context.fail(VerbsCall::CreateCq);
        let ops = context.ops();
        let known = ops.poll_cq.zip(ops.req_notify_cq);
        let (poll, arm) = known.ok_or_else(|| fail(libc::EOPNOTSUPP))?;
        let entries = c_int::try_from(entries).map_err(|_| fail(libc::EINVAL))?;
        let channel = Channel::new(context).map_err(&fail)?;
        let (device, nobody) = (context.context.as_ptr(), std::ptr::null_mut());
        // SAFETY: the context is open, and the channel was made of it and outlives the queue.
        let cq = unsafe {
            (context.library.call.ibv_create_cq)(
                device,
                entries,
                nobody,
                channel.channel.as_ptr(),
                0,
            )
        };
        let cq = NonNull::new(cq).ok_or_else(|| fail(last_errno()))?;
        Ok(Self { context: Arc::clone(context), channel, cq, poll, arm })
    }

    /// Takes at most `CHUNK` completions.
    fn take(&self, out: &mut [WorkCompletion]) -> Result<usize, VerbsError> {
        let mut found = [sys::Wc::default(); CHUNK];
        let room = c_int::try_from(out.len().min(CHUNK)).expect("a chunk is small");
        // SAFETY: the queue lives as long as `self`, and there is room for `room` completions.
        let count = unsafe { (self.poll)(self.cq.as_ptr(), room, found.as_mut_ptr()) };
        let fail = self.context.fail(VerbsCall::Poll);
        let count = usize::try_from(count).map_err(|_| fail(libc::EIO))?;
        for (slot, found) in out.iter_mut().zip(&found[..count]) {
            *slot = table::completion(found);
        }
        Ok(count)
    }
}

/// Completions of one call to the library.
const CHUNK: usize = 16;

impl CompletionQueue for Queue {
    fn poll(&self, out: &mut [WorkCompletion]) -> Result<usize, VerbsError> {
        let mut taken = 0;
        while taken < out.len() {
            let room = (out.len() - taken).min(CHUNK);
            // What was taken before a failure is told; the next call fails again.
            let count = match self.take(&mut out[taken..][..room]) {
                Err(error) if taken == 0 => return Err(error),
                Err(_) => break,
                Ok(count) => count,
            };
            taken += count;
            if count < room {
                break;
            }
        }
        Ok(taken)
    }

    fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: the queue lives as long as `self`.
        let answer = unsafe { (self.arm)(self.cq.as_ptr(), 0) };
        checked(answer).map_err(self.context.fail(VerbsCall::Notify))
    }

    fn channel_fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    fn acknowledge(&self) -> Result<(), VerbsError> {
        let call = &self.context.library.call;
        loop {
            let (mut cq, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
            let channel = self.channel.channel.as_ptr();
            // SAFETY: the channel lives as long as `self`, and there is room for both answers.
            let answer = unsafe { (call.ibv_get_cq_event)(channel, &raw mut cq, &raw mut data) };
            match checked(answer) {
                // SAFETY: the event came from the library just now, and is acknowledged once.
                Ok(()) => unsafe { (call.ibv_ack_cq_events)(cq, 1) },
                Err(libc::EAGAIN) => return Ok(()),
                Err(libc::EINTR) => {}
                Err(errno) => return Err(self.context.fail(VerbsCall::Notify)(errno)),
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: queue pairs that use it hold it, so they are gone; events were acknowledged as
        // they were read.
        unsafe { (self.context.library.call.ibv_destroy_cq)(self.cq.as_ptr()) };
    }
}
