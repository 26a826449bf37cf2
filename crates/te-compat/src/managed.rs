//! Memory that the engine hands out by address (A154).

use crate::engine::Engine;
use crate::failure::Failure;

/// Arenas and what is free in them.
#[derive(Debug, Default)]
pub(crate) struct Pool {}

impl Engine {
    /// Gives registered memory of at least `len` bytes.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] for no bytes, [`crate::Code::Memory`].
    pub fn allocate_managed(&self, _len: u64) -> Result<u64, Failure> {
        self.inner()?;
        Err(Failure::invalid("memory", "not yet"))
    }

    /// Takes such memory back.
    ///
    /// # Errors
    /// [`crate::Code::AddressNotRegistered`] for what was not given, or with another length;
    /// [`crate::Code::Busy`] while a transport holds it.
    pub fn free_managed(&self, _address: u64, _len: u64) -> Result<(), Failure> {
        self.inner().map(drop)
    }
}
