//! An open device and its protection domain.
//!
//! I1  `context` and `pd` are the library's and live as long as their `Context`.
#![allow(unsafe_code, reason = "calls into libibverbs; docs/memory-safety.md")]

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::OFlags;
use te_segment::LocalRange;
use te_topology::NicName;

use super::library::{Library, checked, failed, last_errno};
use super::memory::Memory;
use super::pair::Pair;
use super::queue::Queue;
use super::table;
use crate::error::{VerbsCall, VerbsError};
use crate::event::DeviceEvent;
use crate::port::{DeviceAttributes, GidEntry, PortAttributes};
use crate::queue_pair::QueuePairCapacity;
use crate::seam::{CompletionQueue, Device, MemoryAccess, MemoryRegion, QueuePair};
use crate::sys;

#[derive(Debug)]
pub(super) struct Context {
    pub(super) library: Arc<Library>,
    pub(super) name: NicName,
    pub(super) context: NonNull<sys::Context>,
    pub(super) pd: NonNull<sys::Pd>,
}

// SAFETY: the library's objects belong to no thread, and its calls on one may come from several.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn open(library: &Arc<Library>, name: &NicName) -> Result<Self, VerbsError> {
        let context = library.open(name)?;
        // SAFETY: the context was opened above.
        let pd = unsafe { (library.call.ibv_alloc_pd)(context.as_ptr()) };
        let Some(pd) = NonNull::new(pd) else {
            let error = failed(VerbsCall::AllocPd, &name.to_string(), last_errno());
            // SAFETY: the context was opened above and is not used after this.
            unsafe { (library.call.ibv_close_device)(context.as_ptr()) };
            return Err(error);
        };
        Ok(Self { library: Arc::clone(library), name: name.clone(), context, pd })
    }

    pub(super) fn fail(&self, call: VerbsCall) -> impl Fn(i32) -> VerbsError + '_ {
        move |errno| failed(call, &self.name.to_string(), errno)
    }

    /// The functions of the provider.
    pub(super) fn ops(&self) -> &sys::ContextOps {
        // SAFETY: the context lives as long as `self`, and nobody writes its functions after it was
        // opened.
        unsafe { &self.context.as_ref().ops }
    }

    /// Where events come from.
    fn event_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context lives as long as `self`; the number is written when it is opened.
        let fd = unsafe { (*self.context.as_ptr()).async_fd };
        // SAFETY: the descriptor is open as long as the context.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    fn completion_vectors(&self) -> c_int {
        // SAFETY: as in `event_fd`.
        unsafe { (*self.context.as_ptr()).num_comp_vectors }
    }

    fn query_device(&self) -> Result<DeviceAttributes, i32> {
        let mut found = std::mem::MaybeUninit::<sys::DeviceAttr>::zeroed();
        // SAFETY: the context is open (I1), and there is room for the answer.
        checked(unsafe {
            (self.library.call.ibv_query_device)(self.context.as_ptr(), found.as_mut_ptr())
        })?;
        // SAFETY: it was zeroed, and is made of numbers.
        let found = unsafe { found.assume_init() };
        Ok(table::device_attributes(&found, self.completion_vectors()))
    }

    fn query_port(&self, port: u8) -> Result<sys::PortAttr, i32> {
        let mut found = sys::PortAttr::default();
        // SAFETY: the context is open (I1); the library writes at most the whole structure.
        checked(unsafe {
            (self.library.call.ibv_query_port)(self.context.as_ptr(), port, &raw mut found)
        })?;
        Ok(found)
    }

    /// The rows of all ports, where the library can tell them in one call.
    fn query_gid_table(&self, rows: usize) -> Option<Vec<sys::GidEntry>> {
        let query = self.library.query_gid_table?;
        let mut entries = vec![sys::GidEntry::default(); rows];
        let (start, size) = (entries.as_mut_ptr(), size_of::<sys::GidEntry>());
        // SAFETY: the context is open (I1), and there is room for `rows` entries of this size.
        let count = unsafe { query(self.context.as_ptr(), start, rows, 0, size) };
        entries.truncate(usize::try_from(count).ok()?);
        Some(entries)
    }

    fn query_gid(&self, port: u8, index: u32) -> Result<sys::Gid, i32> {
        let mut gid = sys::Gid::default();
        let index = c_int::try_from(index).map_err(|_| libc::EINVAL)?;
        // SAFETY: the context is open (I1), and there is room for the answer.
        checked(unsafe {
            (self.library.call.ibv_query_gid)(self.context.as_ptr(), port, index, &raw mut gid)
        })?;
        Ok(gid)
    }

    /// The next event, acknowledged.
    fn next_event(&self) -> Result<Option<DeviceEvent>, i32> {
        let mut event = sys::AsyncEvent::default();
        loop {
            // SAFETY: the context is open (I1), and there is room for the event.
            let answer = unsafe {
                (self.library.call.ibv_get_async_event)(self.context.as_ptr(), &raw mut event)
            };
            match checked(answer) {
                Ok(()) => break,
                Err(libc::EAGAIN) => return Ok(None),
                Err(libc::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        let told = table::event(&event, queue_pair_number);
        // SAFETY: the event came from the library above, and is acknowledged once.
        unsafe { (self.library.call.ibv_ack_async_event)(&raw mut event) };
        Ok(Some(told))
    }
}

/// The number of the queue pair that an event is about.
fn queue_pair_number(element: u64) -> u32 {
    let address = usize::try_from(element).unwrap_or(0);
    let pair = std::ptr::with_exposed_provenance::<sys::Qp>(address);
    // SAFETY: the library gave the address with an event that is not acknowledged yet, and does
    // not release the queue pair before it is.
    unsafe { pair.as_ref() }.map_or(0, |pair| pair.qp_num)
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the domain holds this context, and so is gone.
        unsafe { (self.library.call.ibv_dealloc_pd)(self.pd.as_ptr()) };
        // SAFETY: the domain was the last thing made of the context.
        unsafe { (self.library.call.ibv_close_device)(self.context.as_ptr()) };
    }
}

#[derive(Debug)]
pub(super) struct Opened {
    context: Arc<Context>,
    attributes: DeviceAttributes,
}

impl Opened {
    pub(super) fn new(library: &Arc<Library>, name: &NicName) -> Result<Self, VerbsError> {
        let context = Context::open(library, name)?;
        let attributes = context.query_device().map_err(context.fail(VerbsCall::QueryDevice))?;
        without_waiting(context.event_fd()).map_err(context.fail(VerbsCall::Open))?;
        Ok(Self { context: Arc::new(context), attributes })
    }

    /// Rows of the tables of all ports together.
    fn rows(&self) -> Result<usize, i32> {
        let ports = 1..=self.attributes.ports;
        let rows = ports.map(|port| Ok(self.context.query_port(port)?.gid_tbl_len));
        let rows = rows.collect::<Result<Vec<_>, i32>>()?;
        Ok(rows.into_iter().filter_map(|rows| usize::try_from(rows).ok()).sum())
    }

    /// The table row by row, with what sysfs knows of each.
    fn gids_one_by_one(&self, port: u8) -> Result<Vec<GidEntry>, i32> {
        let rows = u32::try_from(self.context.query_port(port)?.gid_tbl_len).unwrap_or(0);
        let rows = (0..rows).map(|index| Ok((index, self.context.query_gid(port, index)?.raw)));
        let rows = rows.collect::<Result<Vec<_>, i32>>()?;
        Ok(table::rows_with_sysfs(&self.context.name, port, rows))
    }
}

/// Reading the descriptor does not wait from now on.
pub(super) fn without_waiting(fd: BorrowedFd<'_>) -> Result<(), i32> {
    let flags = rustix::fs::fcntl_getfl(fd).map_err(rustix::io::Errno::raw_os_error)?;
    let set = rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK);
    set.map_err(rustix::io::Errno::raw_os_error)
}

impl Device for Opened {
    fn name(&self) -> &NicName {
        &self.context.name
    }

    fn attributes(&self) -> &DeviceAttributes {
        &self.attributes
    }

    fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let found = self.context.query_port(port).map_err(self.context.fail(VerbsCall::QueryPort));
        found.map(|found| table::port_attributes(&found))
    }

    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, VerbsError> {
        let fail = self.context.fail(VerbsCall::QueryGid);
        if port == 0 || port > self.attributes.ports {
            return Err(fail(libc::EINVAL));
        }
        let rows = self.rows().map_err(&fail)?;
        match self.context.query_gid_table(rows) {
            Some(all) => Ok(table::rows_of(&all, port)),
            None => self.gids_one_by_one(port).map_err(fail),
        }
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.context.event_fd()
    }

    fn next_event(&self) -> Result<Option<DeviceEvent>, VerbsError> {
        self.context.next_event().map_err(self.context.fail(VerbsCall::Event))
    }

    fn register(
        &self,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError> {
        Ok(Box::new(Memory::register(&self.context, memory, access)?))
    }

    fn register_dmabuf(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError> {
        Ok(Box::new(Memory::register_dmabuf(&self.context, (file, offset), memory, access)?))
    }

    fn completion_queue(&self, entries: u32) -> Result<Arc<dyn CompletionQueue>, VerbsError> {
        Ok(Arc::new(Queue::new(&self.context, entries)?))
    }

    fn queue_pair(
        &self,
        queue: &Arc<dyn CompletionQueue>,
        capacity: QueuePairCapacity,
    ) -> Result<Arc<dyn QueuePair>, VerbsError> {
        Ok(Arc::new(Pair::new(&self.context, queue, capacity)?))
    }
}
