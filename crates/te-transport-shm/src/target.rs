//! What the driver needs of a peer: guards around each round of copies.

use rustix::process::Pid;
use te_metadata::BufferHandle;
use te_segment::Slice;
use te_transport::SliceFault;

use crate::job::Job;

/// A peer of one lane.
pub(crate) trait Target: Send + Sync + 'static {
    /// The process whose memory is copied.
    fn pid(&self) -> Pid;

    /// Puts guards on what the pieces in hand touch at the other side, and chooses the way of each
    /// piece; those that may not be touched fail. An error is for all of them: nothing may be
    /// touched. [`Target::leave`] follows in any case.
    fn enter(&self, jobs: &mut [Job], held: &mut Vec<BufferHandle>) -> Result<(), SliceFault>;

    /// Looks again, then takes the guards away. After an error what was copied is in doubt.
    fn leave(&self, held: &mut Vec<BufferHandle>) -> Result<(), SliceFault>;

    /// Whether something was kept for the peer that [`Target::tidy`] has to look after from time to
    /// time. Says so once, and again after that found nothing left.
    fn wants_tidying(&self) -> bool;

    /// Lets go of what is not needed any more. Whether something is left to be looked after.
    fn tidy(&self) -> bool;

    /// The peer cannot be used any more, and why.
    fn on_lost(&self, fault: &SliceFault);
}

/// The peer's buffer that a slice is in, and the offset there; `None` outside of every buffer that
/// it has published.
pub(crate) fn buffer_of(slice: &Slice) -> Option<(BufferHandle, u64)> {
    let buffer = slice.peer.buffer_of(&slice.remote)?;
    Some((buffer.te?, slice.remote.address() - buffer.addr))
}
