//! Why memory is not registered.

use te_topology::NicName;
use te_verbs::VerbsError;
use thiserror::Error;

/// Why a buffer was not registered. Nothing of it is.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum MemoryError {
    /// A NIC refused a piece of it. Look at the limit of locked memory, and at the NIC's limits.
    #[error("NIC {nic} cannot register {len} bytes at {address:#x}")]
    Refused {
        /// Which NIC.
        nic: NicName,
        /// First address of the piece.
        address: u64,
        /// Its bytes.
        len: u64,
        /// Why.
        #[source]
        cause: VerbsError,
    },
    /// A buffer that begins there is registered already.
    #[error("memory at {address:#x} is registered already")]
    Twice {
        /// That address.
        address: u64,
    },
}
