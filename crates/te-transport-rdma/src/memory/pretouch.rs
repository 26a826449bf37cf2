//! Faulting in memory.
