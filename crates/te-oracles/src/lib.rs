//! What others read of a machine, against what te-topology reads of it; see `tests/`.
//!
//! There is nothing here for a program: the crate exists so that the product needs no library of the
//! system, and tests can have one.
