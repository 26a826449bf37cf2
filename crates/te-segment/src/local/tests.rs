//! Registration, guards and retirement.
