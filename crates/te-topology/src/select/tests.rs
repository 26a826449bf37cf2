//! Choices of NICs.
