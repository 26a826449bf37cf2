//! The system's verbs library, loaded when the program runs.
//!
//! ```text
//!   Library ◀── Context (device, protection domain) ◀──┬── Memory
//!                                                      ├── Queue (channel) ◀── Pair
//!                                                      └──────────────────────────┘
//! ```
//!
//! Arrows are counted owners: whatever the library made is released after everything that was made
//! of it. The library itself is never unloaded, because its providers do not expect it.

mod library;
mod memory;
mod opened;
mod pair;
mod queue;
mod table;

use std::ffi::OsStr;
use std::sync::Arc;

use te_topology::NicName;

use self::library::Library;
use self::opened::Opened;
use crate::error::VerbsError;
use crate::port::DeviceInfo;
use crate::seam::{Device, Verbs};

/// The devices of this machine, through libibverbs.
#[derive(Debug, Clone)]
pub struct Libibverbs {
    library: Arc<Library>,
}

impl Libibverbs {
    /// The name under which the library is looked for.
    pub const LIBRARY: &'static str = "libibverbs.so.1";

    /// Loads the library from where the system has it, and tells it that this process may fork.
    ///
    /// # Errors
    /// `VerbsCall::Load` where it is not installed, or too old.
    pub fn load() -> Result<Self, VerbsError> {
        Self::load_from(OsStr::new(Self::LIBRARY))
    }

    /// Loads it from a file, which is libibverbs.
    ///
    /// # Errors
    /// As above.
    pub fn load_from(file: &OsStr) -> Result<Self, VerbsError> {
        Ok(Self { library: Arc::new(Library::load(file)?) })
    }
}

impl Verbs for Libibverbs {
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError> {
        self.library.devices()
    }

    fn open(&self, name: &NicName) -> Result<Arc<dyn Device>, VerbsError> {
        Ok(Arc::new(Opened::new(&self.library, name)?))
    }
}

#[cfg(test)]
mod tests;
