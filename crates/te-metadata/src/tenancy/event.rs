//! What an owner of records is told.

use crate::{Record, StoreError};

/// How our records stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// They are being put.
    Pending,
    /// They stand, as they are.
    Published,
    /// They stand; changes since then are not in them yet.
    Outdated,
    /// A living other owner has our name.
    Taken,
    /// The store does not answer, or refuses a record.
    Failing,
}

/// Something that happened to our records.
#[derive(Debug)]
#[non_exhaustive]
pub enum TenancyEvent {
    /// All of them stand, for the first time or again.
    Published,
    /// One was gone, or had been overwritten; it is put back unless its new owner lives.
    Missed {
        /// Its key.
        key: String,
        /// Whether nothing stood there.
        is_gone: bool,
    },
    /// A living other owner has the name. It is looked at again and again.
    Taken {
        /// The key.
        key: String,
        /// The other's record.
        by: Record,
        /// Whether it was ours before: the name is lost; else it was taken all along.
        was_ours: bool,
    },
    /// The lease had ended, as after a long pause; everything is put again.
    LeaseEnded,
    /// A call to the store failed, after one that did not. It is made again.
    Failed {
        /// Why.
        error: StoreError,
    },
    /// The store answers again.
    Recovered,
}
