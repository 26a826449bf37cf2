//! Users files.
