//! Where ranges lie.
