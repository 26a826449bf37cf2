//! Copies between this process and another one, by its process id.
//!
//! I1  Memory of the other process is touched by the kernel only, which answers where it is not
//!     there: nothing in here can end this process.
#![allow(unsafe_code, reason = "process_vm_readv and process_vm_writev; docs/memory-safety.md")]

use std::io;

use rustix::process::Pid;
use te_segment::Opcode;

use crate::job::Job;

/// Ranges that one call takes at most; the kernel takes 1024.
pub(crate) const MAX_RANGES: usize = 256;

/// One contiguous range, laid out as the kernel wants it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    address: usize,
    len: usize,
}

const _: () = assert!(size_of::<Extent>() == size_of::<libc::iovec>());
const _: () = assert!(align_of::<Extent>() == align_of::<libc::iovec>());

/// The ranges of one call; kept between calls, so that none of them allocates.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    local: Vec<Extent>,
    remote: Vec<Extent>,
}

impl Ranges {
    /// Takes the bytes `skip..skip + take` of the pieces of `jobs`, laid end to end.
    fn fill(&mut self, jobs: &[Job], skip: u64, take: u64) {
        self.local.clear();
        self.remote.clear();
        let (mut skip, mut take) = (as_usize(skip), as_usize(take));
        for job in jobs {
            let (span, remote) = job.piece();
            if skip >= span.len() {
                skip -= span.len();
                continue;
            }
            let (here, there) = (span.after(skip).first(take), as_usize(remote) + skip);
            skip = 0;
            take -= here.len();
            add(&mut self.local, Extent { address: here.ptr().addr(), len: here.len() });
            add(&mut self.remote, Extent { address: there, len: here.len() });
            if take == 0 {
                break;
            }
        }
    }
}

/// Adds a range, to the last one where it continues that.
fn add(list: &mut Vec<Extent>, next: Extent) {
    match list.last_mut() {
        Some(last) if last.address.wrapping_add(last.len) == next.address => last.len += next.len,
        _ => list.push(next),
    }
}

/// Copies the bytes `skip..skip + take` of the pieces of `jobs`, laid end to end, from or to the
/// memory of a process. Gives how many were copied: fewer where some memory is not there, which the
/// next call tells as an error.
pub(crate) fn copy(
    (pid, op): (Pid, Opcode),
    jobs: &[Job],
    (skip, take): (u64, u64),
    ranges: &mut Ranges,
) -> io::Result<u64> {
    ranges.fill(jobs, skip, take);
    let (local, n_local) = (ranges.local.as_ptr().cast(), ranges.local.len() as u64);
    let (remote, n_remote) = (ranges.remote.as_ptr().cast(), ranges.remote.len() as u64);
    let pid = pid.as_raw_pid();
    let moved = match op {
        // SAFETY: both lists have as many entries as is said, of the layout that is asserted above.
        // The local ones lie in the regions of `jobs`, which are borrowed for the call and of which
        // no reference exists (`Region::from_raw_parts`). The remote ones are touched by the kernel
        // only; where the process is this one, they are registered memory under a hold, of which
        // there is no reference either.
        Opcode::Read => unsafe { libc::process_vm_readv(pid, local, n_local, remote, n_remote, 0) },
        // SAFETY: as above.
        Opcode::Write => unsafe {
            libc::process_vm_writev(pid, local, n_local, remote, n_remote, 0)
        },
    };
    u64::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Reads bytes of a process into memory of our own.
pub(crate) fn read(pid: Pid, address: u64, out: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let base = std::ptr::without_provenance_mut::<libc::c_void>(as_usize(address));
    let remote = libc::iovec { iov_base: base, iov_len: out.len() };
    // SAFETY: both ranges live on this stack; the local one is `out`, which is borrowed for the
    // call; the remote one is only read, by the kernel.
    let moved = unsafe {
        libc::process_vm_readv(pid.as_raw_pid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    match usize::try_from(moved) {
        Ok(n) if n == out.len() => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// An address or a length as the machine's word: both are 64 bits here.
fn as_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
