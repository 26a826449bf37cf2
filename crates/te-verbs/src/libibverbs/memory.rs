//! Registered memory.
#![allow(unsafe_code, reason = "calls into libibverbs; docs/memory-safety.md")]

use std::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use te_segment::{LocalRange, RemoteAccess};

use super::library::last_errno;
use super::opened::Context;
use crate::error::{VerbsCall, VerbsError};
use crate::seam::{MemoryAccess, MemoryRegion};
use crate::sys;

#[derive(Debug)]
pub(super) struct Memory {
    context: Arc<Context>,
    mr: NonNull<sys::Mr>,
    /// Taken out only when it must stay for ever.
    memory: Option<LocalRange>,
    keys: (u32, u32),
}

// SAFETY: the registration belongs to no thread, and is only released, once.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn register(
        context: &Arc<Context>,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Self, VerbsError> {
        let mr = Self::relaxed(context, memory, access);
        let mr = mr.or_else(|| Self::strict(context, memory, access));
        Self::made(context, mr, memory)
    }

    /// With relaxed ordering, where that is wanted and the library knows it.
    fn relaxed(
        context: &Context,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Option<NonNull<sys::Mr>> {
        let register = context.library.register_iova2.filter(|_| access.relaxed_ordering)?;
        let span = memory.span();
        let flags = flags(access) | sys::ACCESS_RELAXED_ORDERING;
        let (start, len, address) = (span.ptr().cast(), span.len(), memory.address());
        // SAFETY: the domain lives as long as `context`; the memory stays while the registration
        // does, because `Memory` holds the region.
        NonNull::new(unsafe { register(context.pd.as_ptr(), start, len, address, flags) })
    }

    fn strict(
        context: &Context,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Option<NonNull<sys::Mr>> {
        let span = memory.span();
        let (start, len, flags) = (span.ptr().cast(), span.len(), flags(access).cast_signed());
        // SAFETY: as in `relaxed`.
        NonNull::new(unsafe {
            (context.library.call.ibv_reg_mr)(context.pd.as_ptr(), start, len, flags)
        })
    }

    pub(super) fn register_dmabuf(
        context: &Arc<Context>,
        (file, offset): (BorrowedFd<'_>, u64),
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Self, VerbsError> {
        let register = context.library.register_dmabuf;
        let register =
            register.ok_or_else(|| context.fail(VerbsCall::Register)(libc::EOPNOTSUPP))?;
        let (address, len) = (memory.address(), memory.span().len());
        let relaxed = if access.relaxed_ordering { sys::ACCESS_RELAXED_ORDERING } else { 0 };
        let flags: c_int = (flags(access) | relaxed).cast_signed();
        let (pd, fd) = (context.pd.as_ptr(), file.as_raw_fd());
        // SAFETY: the domain lives as long as `context`; the kernel holds the file by itself, and
        // the addresses are only names for its bytes.
        let mr = NonNull::new(unsafe { register(pd, offset, len, address, fd, flags) });
        Self::made(context, mr, memory)
    }

    fn made(
        context: &Arc<Context>,
        mr: Option<NonNull<sys::Mr>>,
        memory: &LocalRange,
    ) -> Result<Self, VerbsError> {
        let mr = mr.ok_or_else(|| context.fail(VerbsCall::Register)(last_errno()))?;
        // SAFETY: the library made it just now, and writes it no more.
        let keys = unsafe { mr.as_ref() };
        let keys = (keys.lkey, keys.rkey);
        Ok(Self { context: Arc::clone(context), mr, memory: Some(memory.clone()), keys })
    }
}

/// Without the flag that not every provider knows.
fn flags(access: MemoryAccess) -> c_uint {
    sys::ACCESS_LOCAL_WRITE
        | match access.remote {
            RemoteAccess::None => 0,
            RemoteAccess::Read => sys::ACCESS_REMOTE_READ,
            RemoteAccess::ReadWrite => sys::ACCESS_REMOTE_READ | sys::ACCESS_REMOTE_WRITE,
        }
}

impl MemoryRegion for Memory {
    fn lkey(&self) -> u32 {
        self.keys.0
    }

    fn rkey(&self) -> u32 {
        self.keys.1
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the registration was made for `self`, and is not used after this.
        let answer = unsafe { (self.context.library.call.ibv_dereg_mr)(self.mr.as_ptr()) };
        if answer != 0 {
            // The keys are still good, so the memory must stay.
            std::mem::forget(self.memory.take());
        }
    }
}
