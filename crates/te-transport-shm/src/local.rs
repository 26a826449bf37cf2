//! `local`: a segment of this same process, told by its incarnation and never by an address.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::Pid;
use te_metadata::{BufferHandle, Incarnation, SegmentDescriptor};
use te_segment::{LocalBuffer, LocalSegment, RemoteSegment, SliceToken};
use te_sync::Mutex;
use te_transport::{
    Capabilities, CloseReport, Driven, FaultClass, Phase, SliceFault, SliceSource, StartError,
    Transport, TransportContext, TransportRegisterError,
};

use crate::config::ShmConfig;
use crate::job::{Job, Way, fault};
use crate::lane::Lane;
use crate::road::{Entry, POLICY, Road};
use crate::target::{Target, buffer_of};

/// The name in configuration and logs.
const NAME: &str = "local";

/// Copies inside this process, under the same guards as work of peers.
pub struct LocalTransport {
    config: ShmConfig,
    started: Mutex<Option<Arc<Started>>>,
}

struct Started {
    road: Road<Own>,
    lane: Arc<Lane<Own>>,
    incarnation: Incarnation,
}

/// Our own segment as a peer.
#[derive(Debug)]
struct Own(Arc<LocalSegment>);

impl Target for Own {
    fn pid(&self) -> Pid {
        rustix::process::getpid()
    }

    fn enter(&self, jobs: &mut [Job], _held: &mut Vec<BufferHandle>) -> Result<(), SliceFault> {
        for job in jobs {
            let part = job.part();
            if part == 0 {
                continue;
            }
            let Some((buffer, offset)) = buffer_of(job.slice()) else {
                job.fail(outside());
                continue;
            };
            match self.0.acquire_buffer(buffer, offset + job.done(), part, job.access()) {
                Ok(guard) => job.set_way(Way::Within(guard)),
                Err(error) => {
                    let cause = error.to_string();
                    job.fail(fault(FaultClass::Refused, Phase::Request, cause));
                }
            }
        }
        Ok(())
    }

    fn leave(&self, _held: &mut Vec<BufferHandle>) -> Result<(), SliceFault> {
        // The guards went with the pieces.
        Ok(())
    }

    fn wants_tidying(&self) -> bool {
        false
    }

    fn tidy(&self) -> bool {
        false
    }

    fn on_lost(&self, _fault: &SliceFault) {}
}

/// A range that is in no buffer of the descriptor.
pub(crate) fn outside() -> SliceFault {
    let cause = "the range is not inside one buffer that the peer offers";
    fault(FaultClass::Refused, Phase::Request, cause)
}

impl LocalTransport {
    /// A transport that is not started yet.
    pub fn new(config: ShmConfig) -> Self {
        Self { config, started: Mutex::new(None) }
    }

    fn started(&self) -> Option<Arc<Started>> {
        self.started.lock().clone()
    }
}

impl Started {
    /// Whether a descriptor is that of this very process. A name or an address proves nothing.
    fn is_me(&self, peer: &RemoteSegment) -> bool {
        peer.descriptor().te.as_ref().is_some_and(|te| te.incarnation == self.incarnation)
    }
}

impl Transport for LocalTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: NAME,
            slices: POLICY,
            needs_local_registration: false,
            can_cancel: true,
        }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        let failed = |cause| StartError { transport: NAME, cause };
        let mut started = self.started.lock();
        if started.is_some() {
            return Err(failed("it was started already".into()));
        }
        let (incarnation, own) = (context.incarnation, Own(Arc::clone(&context.segment)));
        let road = Road::start("te-local", &self.config, context);
        let road = road.map_err(|error| failed(error.into()))?;
        let lane = Arc::new(Lane::new(own, self.config.bound()));
        *started = Some(Arc::new(Started { road, lane, incarnation }));
        Ok(())
    }

    fn describe(&self, _descriptor: &mut SegmentDescriptor) {
        // The incarnation is in every descriptor.
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        self.started().is_some_and(|started| started.is_me(peer))
    }

    fn register(&self, _buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        Ok(())
    }

    fn deregister(&self, _buffer: &Arc<LocalBuffer>) {
        // A guard is held for one round at most, and the next one is refused.
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let Some(started) = self.started() else { return 0 };
        let entry = match started.is_me(peer) {
            true => Entry::Lane(&started.lane),
            false => Entry::Closed(fault(
                FaultClass::Rail,
                Phase::Handshake,
                "the descriptor is not that of this process",
            )),
        };
        started.road.submit(entry, peer.id(), source)
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        if let Some(started) = self.started() {
            started.road.cancel(tokens);
        }
    }

    fn drive(&self, until: Instant) -> Driven {
        self.started().map_or(Driven::Busy, |started| started.road.drive(until))
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        let closed = CloseReport { settled: 0, joined: true };
        self.started().map_or(closed, |started| started.road.close(deadline))
    }
}

impl fmt::Debug for LocalTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let started = self.started();
        f.debug_struct("LocalTransport")
            .field("incarnation", &started.map(|started| started.incarnation))
            .finish_non_exhaustive()
    }
}
