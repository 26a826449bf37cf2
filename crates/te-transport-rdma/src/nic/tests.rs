//! Tests of the NICs.
