//! Memory that the engine hands out by address (A154).
//!
//! Blocks up to 256 MiB are cut from arenas, each of which is registered as one buffer; larger ones
//! are buffers of their own. A block that is given back joins its free twin, so that an arena of
//! which nothing is in use is whole again.

mod buddy;

use std::collections::HashMap;

use te_engine::{Region, RemoteAccess};
use te_segment::Allocation;

use self::buddy::{BLOCK_MAX, Buddy};
use crate::code::Code;
use crate::engine::Engine;
use crate::failure::{Failure, LocalState};

/// Bytes of an arena. Its memory is taken from the system as it is touched.
const ARENA: u64 = 2 << 30;

/// Arenas, and what is in use.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    arenas: Vec<(Region, Buddy)>,
    /// What was handed out: by address the length asked for.
    given: HashMap<u64, u64>,
}

impl Engine {
    /// Gives registered, page-aligned memory of at least `len` bytes. It is zero when it is handed out
    /// for the first time, and lives until it is given back or the engine is dropped.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for no bytes, [`Code::Memory`].
    pub fn allocate_managed(&self, len: u64) -> Result<u64, Failure> {
        self.inner()?;
        if len == 0 {
            return Err(Failure::invalid("memory", "a buffer of no bytes"));
        }
        if len > BLOCK_MAX {
            let address = self.map(len)?.address();
            self.core.pool.lock().given.insert(address, len);
            return Ok(address);
        }
        let mut pool = self.core.pool.lock();
        let address = self.take_block(&mut pool, len)?;
        pool.given.insert(address, len);
        Ok(address)
    }

    /// Takes such memory back. A block of an arena is handed out again at once, so that no peer may be
    /// moving it.
    ///
    /// # Errors
    /// [`Code::AddressNotRegistered`] for what was not given, or with another length;
    /// [`Code::Busy`] while a transfer of this engine uses it, or a transport still holds it: the call
    /// can be repeated.
    pub fn free_managed(&self, address: u64, len: u64) -> Result<(), Failure> {
        self.inner()?;
        {
            let mut pool = self.core.pool.lock();
            if pool.given.get(&address) != Some(&len) {
                let cause = format!("no managed buffer of {len} bytes starts at {address:#x}");
                return Err(Failure::new(Code::AddressNotRegistered, "memory", cause));
            }
            if self.core.engine.moves_local(address, len) {
                return Err(busy(address, len));
            }
            pool.given.remove(&address);
            let arena = pool.arenas.iter_mut().find(|(region, _)| is_in(region, address));
            if let Some((region, blocks)) = arena {
                blocks.give(address - region.address(), len);
                return Ok(());
            }
        }
        // Nobody else waits for the transfers that use it.
        self.unregister(address).inspect_err(|_| {
            self.core.pool.lock().given.insert(address, len);
        })
    }

    fn take_block(&self, pool: &mut Pool, len: u64) -> Result<u64, Failure> {
        let mut take = |(region, blocks): &mut (Region, Buddy)| {
            blocks.take(len).map(|offset| region.address() + offset)
        };
        if let Some(address) = pool.arenas.iter_mut().find_map(&mut take) {
            return Ok(address);
        }
        let region = self.map_arena()?;
        let mut arena = (region.clone(), Buddy::new(region.len()));
        let taken = take(&mut arena);
        pool.arenas.push(arena);
        taken.ok_or_else(|| Failure::new(Code::Memory, "memory", "an arena is too small"))
    }

    /// An arena as large as the system gives, down to the largest block.
    fn map_arena(&self) -> Result<Region, Failure> {
        let mut len = ARENA;
        loop {
            match self.map(len) {
                Err(_) if len > BLOCK_MAX => len /= 2,
                outcome => return outcome,
            }
        }
    }

    fn map(&self, len: u64) -> Result<Region, Failure> {
        let many = |_| Failure::new(Code::Memory, "memory", format!("no memory for {len} bytes"));
        let bytes = usize::try_from(len).map_err(many)?;
        let engine = self.inner()?;
        // Without a file descriptor for it the memory is private, which is slower on one host only.
        let region = engine
            .allocate_as(Allocation::new(bytes).shareable())
            .or_else(|_| engine.allocate_as(Allocation::new(bytes)))?;
        self.register_regions(std::slice::from_ref(&region), "*", RemoteAccess::ReadWrite)?;
        Ok(region)
    }
}

fn busy(address: u64, len: u64) -> Failure {
    let cause = format!("a transfer uses some of the {len} bytes at {address:#x}");
    Failure::new(Code::Busy, "memory", cause).edit(|facts| {
        (facts.local, facts.is_retryable) = (LocalState::InUse, true);
    })
}

fn is_in(region: &Region, address: u64) -> bool {
    address.checked_sub(region.address()).is_some_and(|offset| offset < region.len())
}
