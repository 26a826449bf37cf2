//! A metadata server.
