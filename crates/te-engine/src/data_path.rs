//! What an engine kind must do: the seam between the façade and `classic`, and any other engine
//! over the same lower crates.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use te_segment::RemoteSegment;
use te_transport::Driven;

use crate::batch::Batch;
use crate::classic::Via;
use crate::status::TaskState;

/// Moves tasks to their end.
pub(crate) trait DataPath: fmt::Debug + Send + Sync {
    /// Whether some transport reaches this peer, by what is known now.
    fn reaches(&self, peer: &Arc<RemoteSegment>, now: Instant) -> bool;

    /// Takes charge of tasks that were just added to a batch; each open one of them reaches one
    /// final state. What none of them is open for, such as a notification, is done here too.
    fn dispatch(&self, batch: &Arc<Batch>, tasks: Range<usize>);

    /// Ends open tasks of a batch with `state`, as soon as their local memory is free.
    fn end(&self, batch: &Arc<Batch>, tasks: &[usize], state: TaskState, cause: &str);

    /// Does what is due, and says when to call again.
    fn tick(&self, now: Instant) -> Option<Instant>;

    /// Lets the calling thread, which waits for `batch`, make progress until something completed or
    /// `until` came.
    fn drive(&self, batch: &Batch, until: Instant) -> Driven;

    /// Lets the calling thread, which asked how `batch` is, make progress without waiting.
    fn poll(&self, batch: &Batch);

    /// The transport that a request to this peer would be given to now, by name.
    fn choice(&self, peer: &Arc<RemoteSegment>) -> Option<&'static str>;

    /// The name of a transport.
    fn name_of(&self, via: Via) -> &'static str;

    /// The names of all transports, in order of preference.
    fn names(&self) -> Vec<&'static str>;

    /// Settles every task and ends every thread of the transports by `deadline`.
    fn close(&self, deadline: Instant) -> Closing;
}

/// What [`DataPath::close`] left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closing {
    /// Whether every thread of the transports has ended.
    pub(crate) joined: bool,
    /// Bytes of slices that never came back: their memory is kept for good.
    pub(crate) kept_bytes: u64,
}
