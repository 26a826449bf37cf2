//! Moves bytes between regions, a bounded piece at a time.

use te_segment::{CopyError, LocalRange};

use crate::completion::RemoteSide;
use crate::fault::{FaultClass, Phase, SliceFault};

/// Bytes on the way at a time, so that a large slice takes no large buffer.
const BOUNCE: usize = 64 << 10;

/// Which end could not be copied.
pub(super) enum Stuck {
    Source(CopyError),
    Sink(CopyError),
}

/// Copies the first `len` bytes of `from` to `to`.
pub(super) fn copy(from: &LocalRange, to: &LocalRange, len: u64) -> Result<(), Stuck> {
    let mut bounce = vec![0; BOUNCE.min(usize::try_from(len).unwrap_or(BOUNCE))];
    let mut done = 0;
    while done < len {
        let n = usize::try_from(len - done).unwrap_or(BOUNCE).min(BOUNCE);
        from.region().read_into(from.offset() + done, &mut bounce[..n]).map_err(Stuck::Source)?;
        to.region().write_from(to.offset() + done, &bounce[..n]).map_err(Stuck::Sink)?;
        done += n as u64;
    }
    Ok(())
}

/// The fault of memory on the initiator's side.
pub(super) fn local_fault(error: &CopyError) -> SliceFault {
    let mut fault = SliceFault::new(FaultClass::Local, Phase::Payload, error.to_string());
    if let CopyError::Fault { cause, .. } = error {
        fault = fault.with_os_error(cause);
    }
    fault
}

/// The fault of memory on the target's side, as the target tells it.
pub(super) fn refused(cause: impl Into<Box<str>>) -> SliceFault {
    SliceFault::new(FaultClass::Refused, Phase::Status, cause)
}

/// How far a write came that stopped after `len` bytes.
pub(super) fn after(len: u64) -> RemoteSide {
    if len == 0 { RemoteSide::Untouched } else { RemoteSide::InDoubt }
}
