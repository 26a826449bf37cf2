//! Asks the kernel on which NUMA node a page lies. The only file of this crate with `unsafe`.
//!
//! The question is about addresses, not about what is there: no memory is read or written, and an
//! address that is not mapped gets the answer "nowhere".

#![allow(unsafe_code, reason = "move_pages and sysconf have no safe form")]

use std::ffi::{c_int, c_long, c_void};
use std::io;

use crate::NumaNode;

/// Whoever knows on which nodes pages lie.
pub trait PageNodes {
    /// Fills in, for each address, the node of its page; `None` where no page is.
    ///
    /// # Errors
    /// The system cannot say at all.
    fn nodes(&mut self, addresses: &[usize], nodes: &mut Vec<Option<NumaNode>>) -> io::Result<()>;

    /// Bytes of a page; a power of two.
    fn page_size(&self) -> usize;
}

/// The kernel, asked about this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelPages;

/// One system call asks for so many pages: two pages' worth of addresses.
const PER_CALL: usize = 1024;
/// What a page is where the system does not say.
const USUAL_PAGE: usize = 4096;

impl PageNodes for KernelPages {
    fn nodes(&mut self, addresses: &[usize], nodes: &mut Vec<Option<NumaNode>>) -> io::Result<()> {
        nodes.clear();
        for chunk in addresses.chunks(PER_CALL) {
            let mut status = vec![-libc::ENOENT; chunk.len()];
            move_pages(chunk, &mut status)?;
            nodes.extend(status.iter().map(|s| u32::try_from(*s).ok().map(NumaNode::new)));
        }
        Ok(())
    }

    fn page_size(&self) -> usize {
        // SAFETY: sysconf takes any name and touches no memory of ours.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(USUAL_PAGE)
    }
}

/// Asks for the node of each page; a negative status is an error number of that page.
fn move_pages(addresses: &[usize], status: &mut [c_int]) -> io::Result<()> {
    debug_assert_eq!(addresses.len(), status.len());
    let pages: Vec<*const c_void> =
        addresses.iter().map(|address| std::ptr::without_provenance(*address)).collect();
    let own_process: c_long = 0;
    let no_flags: c_long = 0;
    let no_target_nodes: *const c_int = std::ptr::null();
    // SAFETY: move_pages(2) reads `count` pointers of `pages` and writes `count` numbers to
    // `status`, and both have that length. With a null list of target nodes it moves nothing and
    // does not touch the pages themselves, so their addresses may be anything.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            own_process,
            pages.len(),
            pages.as_ptr(),
            no_target_nodes,
            status.as_mut_ptr(),
            no_flags,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
