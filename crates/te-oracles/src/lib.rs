//! What others read, against what te reads: of a machine by te-topology, of the headers of libibverbs
//! by te-verbs; see `tests/`.
//!
//! There is nothing here for a program: the crate exists so that the product needs no library of the
//! system, and tests can have one.
