//! One endpoint as a transport.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use te_metadata::{ProtocolPart, SegmentDescriptor, SegmentName};
use te_segment::{LocalBuffer, RemoteSegment, SegmentId, Slice, SliceToken};

use super::Shared;
use super::endpoint::{PLAIN, publish, published};
use super::world::Delivery;
use crate::capability::Capabilities;
use crate::clock::Clock as _;
use crate::transport::{
    CloseReport, Driven, SliceSource, StartError, Transport, TransportContext,
    TransportRegisterError,
};

/// An endpoint of a [`super::SimFabric`]. Its segment is the one of the context it is started with.
pub struct SimTransport {
    shared: Arc<Shared>,
    number: u16,
    transport: &'static str,
    name: SegmentName,
}

impl SimTransport {
    pub(super) fn new(
        shared: Arc<Shared>,
        number: u16,
        (transport, name): (&'static str, SegmentName),
    ) -> Self {
        Self { shared, number, transport, name }
    }

    /// The endpoint's number; it stands in the descriptor as the TCP data port.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The name it was made with.
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// What a peer that numbers this segment `id` knows of it at this moment.
    ///
    /// # Panics
    /// Where the endpoint was not started, or has ended.
    pub fn remote(&self, id: SegmentId) -> Arc<RemoteSegment> {
        let described = self.shared.world.lock().describe(self.number);
        let (rpc, descriptor) = described.expect("a living endpoint has a descriptor");
        Arc::new(RemoteSegment::new(id, self.name.clone(), rpc, descriptor, 1))
    }
}

impl Transport for SimTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: self.transport,
            slices: self.shared.world.lock().settings().slices,
            needs_local_registration: false,
            can_cancel: true,
        }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        if self.shared.world.lock().start(self.number, context) {
            return Ok(());
        }
        Err(StartError {
            transport: self.transport,
            cause: "the endpoint was started before".into(),
        })
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        publish(self.transport, self.number, descriptor);
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        let descriptor = peer.descriptor();
        let speaks = matches!(descriptor.part, ProtocolPart::Tcp { .. });
        (speaks || self.transport != PLAIN) && published(self.transport, descriptor).is_some()
    }

    fn register(&self, _buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        Ok(())
    }

    fn deregister(&self, buffer: &Arc<LocalBuffer>) {
        self.shared.world.lock().revoke(buffer);
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let places = self.shared.world.lock().set_aside(self.number, peer.id());
        let Some(places) = places else { return 0 };
        let slices: Vec<Slice> =
            std::iter::from_fn(|| source.next_slice()).take(places.free).collect();
        let taken = slices.len();
        let ended = self.shared.world.lock().take(self.number, peer.id(), places, slices);
        ended.into_iter().for_each(Delivery::deliver);
        taken
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        self.shared.world.lock().cancel(self.number, tokens);
    }

    fn drive(&self, until: Instant) -> Driven {
        let Some(_driving) = self.shared.driving.try_lock() else { return Driven::Busy };
        while let Some(told) = self.shared.advance(Some(until)) {
            if told.contains(&self.number) {
                return Driven::Ran;
            }
        }
        self.shared.clock.advance_to(until);
        Driven::Ran
    }

    /// Waits until nobody reports, so that nothing is reported afterwards.
    fn close(&self, deadline: Instant) -> CloseReport {
        let patience = deadline.saturating_duration_since(self.shared.clock.now());
        let driving = self.shared.driving.try_lock_for(patience);
        let (settled, deliveries) = self.shared.world.lock().end(self.number);
        deliveries.into_iter().for_each(Delivery::deliver);
        CloseReport { settled, joined: driving.is_some() }
    }
}

impl fmt::Debug for SimTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimTransport({} at {})", self.name, self.number)
    }
}
