//! A shared transport is a transport, so that wrappers can take what others hold as well.

use std::sync::Arc;
use std::time::Instant;

use te_metadata::{EndpointQuestion, SegmentDescriptor};
use te_segment::{LocalBuffer, RemoteSegment, SlicePolicy, SliceToken};

use crate::capability::Capabilities;
use crate::transport::{
    CloseReport, Driven, SliceSource, StartError, Transport, TransportContext,
    TransportRegisterError,
};

impl<T: Transport + ?Sized> Transport for Arc<T> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn slices_to(&self, peer: &RemoteSegment) -> SlicePolicy {
        (**self).slices_to(peer)
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        (**self).start(context)
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        (**self).describe(descriptor);
    }

    fn description_version(&self) -> u64 {
        (**self).description_version()
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        (**self).reaches(peer)
    }

    fn awaits(&self, peer: &RemoteSegment) -> bool {
        (**self).awaits(peer)
    }

    fn register(&self, buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        (**self).register(buffer)
    }

    fn deregister(&self, buffer: &Arc<LocalBuffer>) {
        (**self).deregister(buffer);
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        (**self).submit(peer, source)
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        (**self).cancel(tokens);
    }

    fn endpoint(&self, question: EndpointQuestion) -> Option<EndpointQuestion> {
        (**self).endpoint(question)
    }

    fn drive(&self, until: Instant) -> Driven {
        (**self).drive(until)
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        (**self).close(deadline)
    }
}
