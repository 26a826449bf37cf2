//! The line of an error, and its number.
