//! Registering and touching memory by address (A23–A26, A42, A163).

use te_engine::{
    LocalRange, MemoryLocation, Region, RegisterOptions, RemoteAccess, UnregisterError,
};

use crate::code::Code;
use crate::engine::Engine;
use crate::failure::Failure;

/// A buffer of a batch registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
}

impl Engine {
    /// Registers memory and publishes it. `location` is `*` where it is not known. An exact
    /// duplicate is counted and needs one unregistration more.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] for null, empty, wrapping or unmapped ranges,
    /// [`crate::Code::AddressOverlapped`]; nothing was registered.
    pub fn register(
        &self,
        buffer: Buffer,
        location: &str,
        is_remote_accessible: bool,
    ) -> Result<(), Failure> {
        self.register_batch(&[buffer], location, is_remote_accessible)
    }

    /// Registers buffers of one location, all or none. No buffer is a success.
    ///
    /// # Errors
    /// As [`Engine::register`].
    pub fn register_batch(
        &self,
        buffers: &[Buffer],
        location: &str,
        is_remote_accessible: bool,
    ) -> Result<(), Failure> {
        self.inner()?;
        let named = buffers.iter().enumerate().map(|(index, buffer)| {
            let made = self.core.regions.name(buffer.address, buffer.len);
            made.map_err(|error| {
                Failure::from(error).edit(|facts| facts.phase = "register").with_index(index)
            })
        });
        let regions: Vec<Region> = named.collect::<Result<_, _>>()?;
        self.register_regions(&regions, location, access(is_remote_accessible))
    }

    /// Registers memory that the engine allocated, or other regions, all or none.
    ///
    /// # Errors
    /// As [`Engine::register`].
    pub fn register_regions(
        &self,
        regions: &[Region],
        location: &str,
        remote: RemoteAccess,
    ) -> Result<(), Failure> {
        let engine = self.inner()?;
        let location = if location.is_empty() { "*" } else { location };
        let options = RegisterOptions { location: MemoryLocation::from(location), remote };
        let wanted: Vec<_> = regions.iter().map(|it| (it.clone(), options.clone())).collect();
        engine.register_batch(&wanted)?;
        regions.iter().for_each(|region| self.core.regions.add(region));
        Ok(())
    }

    /// Unregisters the buffer that starts at `address`. Waits for transfers that use it, at most
    /// the configured time.
    ///
    /// # Errors
    /// [`crate::Code::AddressNotRegistered`]; [`crate::Code::Busy`] while a transport holds it, after
    /// which it takes no new work and the call can be repeated.
    pub fn unregister(&self, address: u64) -> Result<(), Failure> {
        self.unregister_batch(&[address])
    }

    /// Unregisters several buffers, past errors. All of them take no new work before any is waited
    /// for, and one limit holds for all the waiting.
    ///
    /// # Errors
    /// The first one, with its position in the call; the others were unregistered all the same.
    pub fn unregister_batch(&self, addresses: &[u64]) -> Result<(), Failure> {
        let engine = self.inner()?;
        let done = engine.unregister_batch(addresses);
        let gone = addresses.iter().filter(|address| !engine.overlaps(**address, 1));
        gone.for_each(|address| self.core.regions.remove(*address));
        done.map_err(|error| {
            let of = |wanted: u64| addresses.iter().position(|address| *address == wanted);
            let index = match &error {
                UnregisterError::NotRegistered { address }
                | UnregisterError::Busy { address, .. } => of(*address),
                _ => None,
            };
            Failure::from(error).edit(|facts| facts.index = index)
        })
    }

    /// The range of these bytes, for requests to the engine below; registered or not.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] for null, wrapping and unmapped ranges.
    pub fn local_range(&self, address: u64, len: u64) -> Result<LocalRange, Failure> {
        self.inner()?;
        Ok(self.core.regions.finder().range(address, len)?)
    }

    /// The ranges of many addresses and lengths.
    ///
    /// # Errors
    /// As [`Engine::local_range`], with the position of the first that is not there.
    pub fn local_ranges(
        &self,
        ranges: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Vec<LocalRange>, Failure> {
        self.inner()?;
        let mut finder = self.core.regions.finder();
        let named = ranges.into_iter().enumerate().map(|(index, (address, len))| {
            let found = finder.range(address, len);
            found.map_err(|error| Failure::from(error).with_index(index))
        });
        named.collect()
    }

    /// Whether a range shares a byte with a registered buffer; `false` for an empty one (A42).
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn overlaps(&self, address: u64, len: u64) -> Result<bool, Failure> {
        Ok(self.inner()?.overlaps(address, len))
    }

    /// Allocates zeroed memory that lives as long as the region or anything made of it.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] for no bytes or more than 1 TiB, [`crate::Code::Memory`].
    pub fn allocate(&self, len: u64) -> Result<Region, Failure> {
        Ok(self.inner()?.allocate(len)?)
    }

    /// Copies bytes to an address of this process, registered or not.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] or [`crate::Code::Memory`] where it is not mapped or not
    /// writable.
    pub fn write_bytes(&self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.inner()?;
        let range = self.core.regions.finder().range(address, bytes.len() as u64)?;
        Ok(range.region().write_from(range.offset(), bytes)?)
    }

    /// Copies bytes from an address of this process, registered or not.
    ///
    /// # Errors
    /// As [`Engine::write_bytes`].
    pub fn read_bytes(&self, address: u64, out: &mut [u8]) -> Result<(), Failure> {
        self.inner()?;
        let range = self.core.regions.finder().range(address, out.len() as u64)?;
        Ok(range.region().read_into(range.offset(), out)?)
    }

    /// The bytes at an address of this process, registered or not. Looks before it makes room for
    /// them.
    ///
    /// # Errors
    /// As [`Engine::write_bytes`]; [`Code::Memory`] without the memory for them.
    pub fn copy_bytes(&self, address: u64, len: u64) -> Result<Vec<u8>, Failure> {
        let range = self.local_range(address, len)?;
        let none = || Failure::new(Code::Memory, "memory", format!("no memory for {len} bytes"));
        let size = usize::try_from(len).map_err(|_| none())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| none())?;
        bytes.resize(size, 0);
        range.region().read_into(range.offset(), &mut bytes)?;
        Ok(bytes)
    }
}

fn access(is_remote_accessible: bool) -> RemoteAccess {
    if is_remote_accessible { RemoteAccess::ReadWrite } else { RemoteAccess::None }
}
