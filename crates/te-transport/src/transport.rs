//! The trait itself.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use te_metadata::{EndpointQuestion, Incarnation, SegmentDescriptor, SegmentName};
use te_segment::{LocalBuffer, LocalSegment, RemoteSegment, Slice, SlicePolicy, SliceToken};

use crate::capability::Capabilities;
use crate::clock::Clock;
use crate::completion::CompletionSink;

/// What a transport is given when it starts.
#[derive(Clone)]
pub struct TransportContext {
    /// Under which name peers open this process.
    pub name: SegmentName,
    /// The memory this process offers; incoming requests take guards on it.
    pub segment: Arc<LocalSegment>,
    /// Where completions go.
    pub sink: Arc<dyn CompletionSink>,
    /// Which run of this process it is, as its descriptor says.
    pub incarnation: Incarnation,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for TransportContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransportContext({:?})", self.segment)
    }
}

/// Why a transport could not start. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
#[error("transport {transport} cannot start")]
pub struct StartError {
    /// Which transport.
    pub transport: &'static str,
    /// Why.
    #[source]
    pub cause: Box<dyn std::error::Error + Send + Sync>,
}

/// Why a transport refused to register a buffer.
pub type TransportRegisterError = Box<dyn std::error::Error + Send + Sync>;

/// Slices for one peer, in order.
pub trait SliceSource {
    /// The next slice. A slice that was taken is completed exactly once.
    fn next_slice(&mut self) -> Option<Slice>;

    /// Gives one slice after the other to `take` until that wants no more or none is left. Costs less
    /// than [`SliceSource::next_slice`] for each; `take` must not wait, and not call the engine.
    fn pour(&mut self, take: &mut dyn FnMut(Slice) -> bool) {
        while let Some(slice) = self.next_slice() {
            if !take(slice) {
                return;
            }
        }
    }
}

impl SliceSource for VecDeque<Slice> {
    fn next_slice(&mut self) -> Option<Slice> {
        self.pop_front()
    }
}

/// What [`Transport::drive`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driven {
    /// It ran the driver's step.
    Ran,
    /// The driver's own thread, or another caller, runs it; wait for your completion instead.
    Busy,
}

/// What was left when a transport closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// Slices that were settled with [`crate::FaultClass::Closed`].
    pub settled: u64,
    /// Whether every thread of the transport has ended.
    pub joined: bool,
}

/// Moves slices between this process and its peers.
///
/// One value per protocol, shared by every engine thread. The order of calls is `start`, then any
/// of the others, then `close`; after `close` every slice that was taken is settled.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Fixed facts.
    fn capabilities(&self) -> Capabilities;

    /// How requests to a peer are cut, where that depends on the peer.
    fn slices_to(&self, peer: &RemoteSegment) -> SlicePolicy {
        let _ = peer;
        self.capabilities().slices
    }

    /// Opens what is needed to serve peers and begins to move. Called once.
    ///
    /// # Errors
    /// [`StartError`] names what could not be had, such as a port.
    fn start(&self, context: TransportContext) -> Result<(), StartError>;

    /// Writes into the descriptor what peers need to reach this transport.
    fn describe(&self, descriptor: &mut SegmentDescriptor);

    /// A number that rises whenever [`Transport::describe`] would write something else for a reason
    /// of the transport's own, such as a NIC that came or went.
    fn description_version(&self) -> u64 {
        0
    }

    /// Whether this transport can reach that peer, by what the peer published.
    fn reaches(&self, peer: &RemoteSegment) -> bool;

    /// Whether a peer that is not reached now says that it may be later, such as one whose NICs are
    /// away. The engine asks such a peer again now and then what it publishes.
    fn awaits(&self, _peer: &RemoteSegment) -> bool {
        false
    }

    /// Makes a buffer usable. Nothing of it is published yet.
    ///
    /// # Errors
    /// The transport's own error; the engine rolls the others back.
    fn register(&self, buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError>;

    /// The buffer is closing: ends incoming work on it soon, and drops its guards.
    fn deregister(&self, buffer: &Arc<LocalBuffer>);

    /// Takes slices for one peer until the source is empty or there is no room; never blocks. What
    /// was not taken is asked for again after [`CompletionSink::room`].
    ///
    /// Returns how many were taken.
    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize;

    /// Calls slices back. Each of them is still completed exactly once: with
    /// [`crate::FaultClass::Cancelled`], or as it ended before the call reached it.
    fn cancel(&self, tokens: &[SliceToken]);

    /// A peer wants to connect to a NIC of ours. Gives the question back where this transport makes
    /// no such connections. Called on the thread that answers peers: must not wait, and may answer
    /// later.
    fn endpoint(&self, question: EndpointQuestion) -> Option<EndpointQuestion> {
        Some(question)
    }

    /// Runs the driver's step on the calling thread until something completed or `until` came.
    fn drive(&self, until: Instant) -> Driven;

    /// Settles every slice and ends every thread, by `deadline`; incoming work ends too. Afterwards
    /// `submit` takes nothing and the sink is told nothing. Calling it again does nothing. Never
    /// called from within a completion.
    fn close(&self, deadline: Instant) -> CloseReport;
}
