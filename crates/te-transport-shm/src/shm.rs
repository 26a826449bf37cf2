//! `shm`: copies between processes of one host.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use te_metadata::{Incarnation, SegmentDescriptor};
use te_segment::{LocalBuffer, RemoteSegment, SliceToken};
use te_sync::Mutex;
use te_transport::{
    Capabilities, Clock, CloseReport, Driven, FaultClass, Phase, SliceSource, StartError,
    Transport, TransportContext, TransportRegisterError,
};

use crate::config::ShmConfig;
use crate::host::Place;
use crate::job::fault;
use crate::lane::Lane;
use crate::link::Link;
use crate::offer::ShmOffer;
use crate::offering::Offering;
use crate::probe::{Links, Obstacle, PART};
use crate::road::{Entry, POLICY, Road};
use crate::server::Server;
use crate::table::GuardTable;

/// The name in configuration, logs and descriptors.
const NAME: &str = PART;

/// Copies between processes of one host, under guards that both see.
pub struct ShmTransport {
    config: ShmConfig,
    started: Mutex<Option<Arc<Started>>>,
}

struct Started {
    road: Road<Link>,
    links: Arc<Links>,
    server: Arc<Server>,
    offer: ShmOffer,
    clock: Arc<dyn Clock>,
}

/// Why the transport did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShmStartError {
    /// `/proc` does not say which process this is.
    #[error("this process cannot be identified")]
    Place(#[source] io::Error),
    /// The system gave no memory, socket or thread.
    #[error("no shared memory, socket or thread")]
    System(#[from] io::Error),
    /// It was started before.
    #[error("it was started already")]
    Again,
}

impl ShmTransport {
    /// A transport that is not started yet.
    pub fn new(config: ShmConfig) -> Self {
        Self { config, started: Mutex::new(None) }
    }

    /// Why a peer is not reached; `None` where it is. The first question about a peer asks it, and
    /// waits for its answer at most [`ShmConfig::probe_timeout`].
    pub fn obstacle(&self, peer: &RemoteSegment) -> Option<Obstacle> {
        match self.started() {
            Some(started) => started.lane(peer).err(),
            None => Some(Obstacle::NotRunning),
        }
    }

    /// What our descriptor says; `None` before the start.
    pub fn offer(&self) -> Option<ShmOffer> {
        self.started().map(|started| started.offer.clone())
    }

    fn started(&self) -> Option<Arc<Started>> {
        self.started.lock().clone()
    }

    fn try_start(&self, context: TransportContext) -> Result<(), ShmStartError> {
        let mut started = self.started.lock();
        if started.is_some() {
            return Err(ShmStartError::Again);
        }
        let place = Place::here().map_err(ShmStartError::Place)?;
        let (own, clock) = (context.incarnation, Arc::clone(&context.clock));
        // Nobody else can listen on a name that nobody can guess.
        let socket = format!("te-shm-{}", Incarnation::random());
        let offer = ShmOffer::new(&place, &socket);
        let offering = Offering::new(GuardTable::create(own)?);
        let (config, ticking) = (self.config.clone(), Arc::clone(&clock));
        let server = Arc::new(Server::new(&socket, offering, own, config, ticking)?);
        let links = Arc::new(Links::new(place, own, &self.config));
        let road = Road::start("te-shm", &self.config, context)?;
        let runner = Arc::clone(&server);
        road.threads().spawn("te-shm-server", move || runner.run())?;
        *started = Some(Arc::new(Started { road, links, server, offer, clock }));
        Ok(())
    }
}

impl Started {
    fn lane(&self, peer: &RemoteSegment) -> Result<Arc<Lane<Link>>, Obstacle> {
        self.links.lane(peer, self.clock.now())
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        self.server.stop(deadline);
        let report = self.road.close(deadline);
        self.links.clear();
        report
    }
}

impl Transport for ShmTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: NAME,
            slices: POLICY,
            needs_local_registration: false,
            can_cancel: true,
        }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        self.try_start(context)
            .map_err(|error| StartError { transport: NAME, cause: Box::new(error) })
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        if let (Some(started), Some(te)) = (self.started(), descriptor.te.as_mut()) {
            te.transports.insert(NAME.into(), started.offer.encode());
        }
    }

    /// Asks the peer where it is used for the first time; see [`ShmTransport::obstacle`].
    fn reaches(&self, peer: &RemoteSegment) -> bool {
        self.started().is_some_and(|started| started.lane(peer).is_ok())
    }

    fn register(&self, buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        if let Some(started) = self.started() {
            started.server.offering.open(buffer);
        }
        Ok(())
    }

    fn deregister(&self, buffer: &Arc<LocalBuffer>) {
        if let Some(started) = self.started()
            && started.server.offering.close(buffer.id())
        {
            started.server.on_closing();
        }
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let Some(started) = self.started() else { return 0 };
        match started.lane(peer) {
            Ok(lane) => started.road.submit(Entry::Lane(&lane), peer.id(), source),
            Err(why) => {
                let unreached = fault(FaultClass::Rail, Phase::Handshake, why.to_string());
                started.road.submit(Entry::Closed(unreached), peer.id(), source)
            }
        }
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
        self.started().map_or(closed, |started| started.close(deadline))
    }
}

impl Drop for ShmTransport {
    fn drop(&mut self) {
        if let Some(started) = self.started.lock().take() {
            #[expect(clippy::disallowed_methods, reason = "the edge: nobody can hand in a clock")]
            started.server.stop(Instant::now());
        }
    }
}

impl fmt::Debug for ShmTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let started = self.started();
        f.debug_struct("ShmTransport")
            .field("offer", &started.as_ref().map(|started| &started.offer))
            .field("links", &started.as_ref().map(|started| &started.links))
            .finish_non_exhaustive()
    }
}
