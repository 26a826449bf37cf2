//! Segments by number, and by host name (A19–A22, A40, A156, A162).

use te_engine::{SegmentId, SyncReport};

use crate::code::Code;
use crate::engine::Engine;
use crate::failure::Failure;

/// The local segment's number.
pub const LOCAL_SEGMENT: i32 = 0;

impl Engine {
    /// Opens a segment. The same name gives the same number for the life of the engine; the own
    /// name gives [`LOCAL_SEGMENT`].
    ///
    /// # Errors
    /// [`Failure`] of phase `open`; for Mooncake's callers that is −1, whatever the code.
    pub fn open_segment(&self, name: &str) -> Result<i32, Failure> {
        number(self.inner()?.open_segment(name)?)
    }

    /// Opens a segment and asks for its descriptor as it is now (A107).
    ///
    /// # Errors
    /// As [`Engine::open_segment`].
    pub fn open_segment_no_cache(&self, name: &str) -> Result<i32, Failure> {
        let engine = self.inner()?;
        engine.sync_cache(Some(name));
        number(engine.open_segment(name)?)
    }

    /// Ends the use of a segment. Its descriptor stays cached (A20).
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn close_segment(&self, _segment: i32) -> Result<(), Failure> {
        self.inner().map(drop)
    }

    /// Forgets what is known of a name; the metadata service is not touched, and a name that is not
    /// known is a success (A22).
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for a text that is no name.
    pub fn remove_local_segment(&self, name: &str) -> Result<(), Failure> {
        self.inner()?.forget_segment(name)?;
        self.drop_host(name);
        Ok(())
    }

    /// Fetches the descriptors of all open segments anew, or of the one named (A40). Peers that do
    /// not answer are counted, and what was known of them stays.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn sync_segment_cache(&self, name: Option<&str>) -> Result<SyncReport, Failure> {
        Ok(self.inner()?.sync_cache(name))
    }

    /// Where the first buffer of a segment starts (A162).
    ///
    /// # Errors
    /// As [`Engine::open_segment`]; [`Code::AddressNotRegistered`] where it has none.
    pub fn first_buffer_address(&self, name: &str) -> Result<u64, Failure> {
        let engine = self.inner()?;
        let id = engine.open_segment(name)?;
        let first = || {
            let segment = engine.segment(id)?;
            segment.descriptor().buffers().first().map(|buffer| buffer.addr)
        };
        let found = first().or_else(|| {
            engine.sync_cache(Some(name));
            first()
        });
        let none = || Failure::new(Code::AddressNotRegistered, "open", "the segment has no buffer");
        found.ok_or_else(|| none().with_peer(name))
    }

    /// The segment of a host; opened at its first use.
    pub(crate) fn host(&self, name: &str) -> Result<SegmentId, Failure> {
        let engine = self.inner()?;
        if let Some(id) = self.core.hosts.read().get(name) {
            return Ok(*id);
        }
        let id = engine.open_segment(name)?;
        self.core.hosts.write().insert(name.into(), id);
        Ok(id)
    }

    /// A host failed: its next use opens it anew.
    pub(crate) fn drop_host(&self, name: &str) {
        self.core.hosts.write().remove(name);
    }
}

fn number(id: SegmentId) -> Result<i32, Failure> {
    let many = |_| Failure::new(Code::TooManyRequests, "open", "too many segments are open");
    i32::try_from(id.as_u64()).map_err(many)
}
