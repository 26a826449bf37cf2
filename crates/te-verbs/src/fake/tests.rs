//! The rules of the fabric, one by one.
