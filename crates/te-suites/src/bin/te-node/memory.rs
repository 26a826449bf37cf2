//! The memory of the node: the engine's buffer, and mappings that a suite makes and takes away at
//! any time, which is the point of some tests.
//!
//! Nothing here forms a reference to the bytes: they are reached through [`Region`], whose copies
//! tolerate memory that changes or is gone.
#![allow(unsafe_code, reason = "suites take registered memory away on purpose")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use te_engine::{CopyError, LocalRange, Region};
use te_suites::pattern;

/// How many bytes are looked at in one step.
const CHUNK: u64 = 1 << 20;

/// Every region that the node knows.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: Vec<Region>,
    /// The bytes of a range at one moment.
    snapshot: Option<(LocalRange, Vec<u8>)>,
}

impl Memory {
    /// Takes a region in.
    pub(crate) fn add(&mut self, region: Region) {
        self.regions.push(region);
    }

    /// Maps `len` zeroed bytes.
    pub(crate) fn map(&mut self, len: u64) -> Result<Region, String> {
        let region = self.map_at(0, len)?;
        self.add(region.clone());
        Ok(region)
    }

    /// Maps `len` zeroed bytes at an address where nothing is; 0 leaves the choice to the kernel.
    pub(crate) fn map_at(&self, addr: u64, len: u64) -> Result<Region, String> {
        let size = usize::try_from(len).map_err(|_| "too long".to_owned())?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let place = if addr == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice or one that it
        // refuses where something is, touches no memory that exists.
        let raw = unsafe {
            libc::mmap(
                pointer(addr).cast(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | place,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return Err(format!("cannot map {len} bytes: {}", io::Error::last_os_error()));
        }
        name(raw.cast(), size)
    }

    /// Maps `len` bytes of a file, which keeps them when this process is gone. A file that is
    /// shorter becomes longer. Address 0 leaves the choice to the kernel.
    pub(crate) fn map_file(&self, path: &Path, addr: u64, len: u64) -> Result<Region, String> {
        let told = |cause: io::Error| format!("cannot map {}: {cause}", path.display());
        let open = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = open.map_err(told)?;
        if file.metadata().map_err(told)?.len() < len {
            file.set_len(len).map_err(told)?;
        }
        let size = usize::try_from(len).map_err(|_| "too long".to_owned())?;
        let place = if addr == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
        // SAFETY: a new mapping, at an address of the kernel's choice or one that it refuses where
        // something is, touches no memory that exists; the file is open for reading and writing.
        let raw = unsafe {
            libc::mmap(
                pointer(addr).cast(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | place,
                file.as_raw_fd(),
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return Err(told(io::Error::last_os_error()));
        }
        name(raw.cast(), size)
    }

    /// Sets the rights on whole pages of a mapping of `alloc`: `none`, `read` or `all`.
    pub(crate) fn protect(&self, addr: u64, len: u64, access: &str) -> Result<(), String> {
        let rights = match access {
            "none" => libc::PROT_NONE,
            "read" => libc::PROT_READ,
            _ => libc::PROT_READ | libc::PROT_WRITE,
        };
        let size = self.owned(addr, len)?;
        // SAFETY: the range lies inside a mapping of `map`, and no reference to it exists; the
        // engine reaches it through system calls only, which answer EFAULT.
        let done = unsafe { libc::mprotect(pointer(addr).cast(), size, rights) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error().to_string()) }
    }

    /// The length as the system wants it, if the range lies inside a mapping of `alloc`.
    fn owned(&self, addr: u64, len: u64) -> Result<usize, String> {
        let owned = self.regions.iter().skip(1).any(|region| holds(region, addr, len));
        if !owned {
            return Err(format!("{len} bytes at {addr:#x} were not mapped by alloc"));
        }
        usize::try_from(len).map_err(|_| "too long".to_owned())
    }

    /// Takes the memory behind these bytes away, registered or not: whoever touches them then gets
    /// EFAULT, as after munmap. The addresses stay reserved, because memory of our own that the
    /// system put there would be written by requests that are still under way. The buffer of the
    /// start belongs to the engine and cannot be taken.
    pub(crate) fn unmap(&self, addr: u64, len: u64) -> Result<(), String> {
        let size = self.owned(addr, len)?;
        // SAFETY: the range lies inside a mapping of `map`, which this replaces, and no reference
        // to it exists; the engine reaches it through system calls only.
        let raw = unsafe {
            libc::mmap(
                pointer(addr).cast(),
                size,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED { Err(io::Error::last_os_error().to_string()) } else { Ok(()) }
    }

    /// The region for registering these very bytes.
    pub(crate) fn region(&self, addr: u64, len: u64) -> Result<Region, String> {
        let known = self.regions.iter().find(|r| r.address() == addr && r.len() == len);
        match known {
            Some(region) => Ok(region.clone()),
            None => name(pointer(addr), usize::try_from(len).map_err(|_| "too long".to_owned())?),
        }
    }

    /// The range for a request: part of a region that is known, or whatever is at that address.
    pub(crate) fn range(&self, addr: u64, len: u64) -> Result<LocalRange, String> {
        let known = self.regions.iter().find(|region| holds(region, addr, len));
        let (region, offset) = match known {
            Some(region) => (region.clone(), addr - region.address()),
            None => (self.region(addr, len)?, 0),
        };
        region.range(offset, len).map_err(|error| error.to_string())
    }
}

impl Memory {
    /// Keeps a copy of these bytes.
    pub(crate) fn keep(&mut self, range: LocalRange) -> Result<(), CopyError> {
        let mut copy = vec![0; usize_of(range.len())];
        range.region().read_into(range.address() - range.region().address(), &mut copy)?;
        self.snapshot = Some((range, copy));
        Ok(())
    }

    /// Where the bytes that were kept differ now, first and last.
    pub(crate) fn changed(&self) -> Result<Option<(u64, u64)>, CopyError> {
        let Some((range, copy)) = &self.snapshot else { return Ok(None) };
        let mut found: Option<(u64, u64)> = None;
        look(range, |from, bytes| {
            let old = &copy[usize_of(from)..][..bytes.len()];
            if old != bytes {
                let differs = |at: &usize| old[*at] != bytes[*at];
                let first = (0..bytes.len()).find(differs).unwrap_or(0) as u64 + from;
                let last = (0..bytes.len()).rfind(differs).unwrap_or(0) as u64 + from;
                found = Some((found.map_or(first, |(first, _)| first), last));
            }
        })?;
        Ok(found)
    }
}

/// How many of these bytes have one value. In a debug build a look at each byte takes a second
/// for every 100 MB, and most pieces are all of one kind.
pub(crate) fn count(bytes: &[u8], wanted: u8) -> usize {
    match bytes.first() {
        None => 0,
        Some(_) if !bytes.contains(&wanted) => 0,
        Some(first) if *first == wanted && bytes[1..] == bytes[..bytes.len() - 1] => bytes.len(),
        Some(_) => bytes.iter().filter(|byte| **byte == wanted).count(),
    }
}

fn holds(region: &Region, addr: u64, len: u64) -> bool {
    let end = addr.checked_add(len);
    addr >= region.address() && end.is_some_and(|end| end <= region.address() + region.len())
}

fn pointer(addr: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(addr).unwrap_or(usize::MAX))
}

/// Makes a region of bytes that no Rust reference names.
fn name(ptr: *mut u8, len: usize) -> Result<Region, String> {
    // SAFETY: no Rust reference to these bytes is ever made: they are a mapping of `Memory::map`,
    // or an address that a suite made up to be refused.
    unsafe { Region::from_raw_parts(ptr, len) }.map_err(|error| error.to_string())
}

/// Sets every byte.
pub(crate) fn fill(range: &LocalRange, byte: u8) -> Result<(), CopyError> {
    let bytes = vec![byte; usize_of(range.len().min(CHUNK))];
    chunks(range, |at, _, n| range.region().write_from(at, &bytes[..n]))
}

/// Writes the pattern.
pub(crate) fn fill_pattern(range: &LocalRange, seed: u64) -> Result<(), CopyError> {
    let mut bytes = vec![0; usize_of(range.len().min(CHUNK))];
    chunks(range, |at, from, n| {
        pattern::fill(seed, from, &mut bytes[..n]);
        range.region().write_from(at, &bytes[..n])
    })
}

/// How many bytes differ from the pattern, and the first that does.
pub(crate) fn verify(range: &LocalRange, seed: u64) -> Result<(u64, Option<u64>), CopyError> {
    let (mut bad, mut first) = (0, None);
    let mut wanted = vec![0; usize_of(range.len().min(CHUNK))];
    look(range, |from, bytes| {
        let wanted = &mut wanted[..bytes.len()];
        pattern::fill(seed, from, wanted);
        if wanted != bytes {
            let wrong = (from..).zip(bytes.iter().zip(&*wanted)).filter(|(_, (a, b))| a != b);
            wrong.for_each(|(at, _)| {
                bad += 1;
                first.get_or_insert(at);
            });
        }
    })?;
    Ok((bad, first))
}

/// Shows every byte, a piece at a time with its position in the range.
pub(crate) fn look(range: &LocalRange, mut see: impl FnMut(u64, &[u8])) -> Result<(), CopyError> {
    let mut bytes = vec![0; usize_of(range.len().min(CHUNK))];
    chunks(range, |at, from, n| {
        range.region().read_into(at, &mut bytes[..n])?;
        see(from, &bytes[..n]);
        Ok(())
    })
}

/// Calls with the offset in the region, the position in the range, and the length of each piece.
fn chunks(
    range: &LocalRange,
    mut each: impl FnMut(u64, u64, usize) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let start = range.address() - range.region().address();
    let mut from = 0;
    while from < range.len() {
        let n = CHUNK.min(range.len() - from);
        each(start + from, from, usize_of(n))?;
        from += n;
    }
    Ok(())
}

fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
