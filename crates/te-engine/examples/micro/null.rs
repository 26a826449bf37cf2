//! A transport that moves nothing: it ends slices at once, or when it is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use te_engine::{RemoteSegment, Transport};
use te_metadata::SegmentDescriptor;
use te_segment::{LocalBuffer, SlicePolicy, SliceToken};
use te_transport::{
    Capabilities, CloseReport, Completion, Driven, RemoteSide, SliceSource, StartError,
    TransportContext, TransportRegisterError,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Null {
    context: Mutex<Option<TransportContext>>,
    held: Mutex<Vec<SliceToken>>,
    /// Whether slices wait for [`Null::release`].
    pub(crate) holds: AtomicBool,
}

impl Null {
    /// Waits until so many slices are held: another thread of the engine may be handing them over.
    pub(crate) fn wait_for(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(10);
        while self.held.lock().unwrap().len() < count {
            assert!(Instant::now() < until, "the slices do not come");
            std::thread::yield_now();
        }
    }

    /// Ends everything that is held; how much that was.
    pub(crate) fn release(&self) -> usize {
        let mut held = self.held.lock().unwrap();
        let count = held.len();
        self.end(held.drain(..));
        count
    }

    /// Makes room, so that holding allocates nothing.
    pub(crate) fn reserve(&self, count: usize) {
        self.held.lock().unwrap().reserve(count);
    }

    fn end(&self, tokens: impl Iterator<Item = SliceToken>) {
        let context = self.context.lock().unwrap();
        let Some(context) = context.as_ref() else { return };
        for token in tokens {
            let (result, remote) = (Ok(()), RemoteSide::Settled);
            context.sink.complete(Completion { token, result, remote });
        }
    }
}

impl Transport for Null {
    fn capabilities(&self) -> Capabilities {
        let slices = SlicePolicy { min_piece: 64 << 10, max_piece: 1 << 20, ways: 4 };
        Capabilities { name: "null", slices, needs_local_registration: false, can_cancel: false }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        *self.context.lock().unwrap() = Some(context);
        Ok(())
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        descriptor.tcp.data_port = Some(1);
    }

    fn reaches(&self, _peer: &RemoteSegment) -> bool {
        true
    }

    fn register(&self, _buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        Ok(())
    }

    fn deregister(&self, _buffer: &Arc<LocalBuffer>) {}

    fn submit(&self, _peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let mut taken = 0;
        let holds = self.holds.load(Ordering::Relaxed);
        while let Some(slice) = source.next_slice() {
            taken += 1;
            self.held.lock().unwrap().push(slice.token);
        }
        if !holds {
            self.release();
        }
        taken
    }

    fn cancel(&self, _tokens: &[SliceToken]) {}

    fn drive(&self, _until: Instant) -> Driven {
        Driven::Busy
    }

    fn close(&self, _deadline: Instant) -> CloseReport {
        let settled = self.release() as u64;
        *self.context.lock().unwrap() = None;
        CloseReport { settled, joined: true }
    }
}
