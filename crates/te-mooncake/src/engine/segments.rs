//! Segments by number (A132).

use crate::engine::{TransferEngine, no_zero};
use crate::error::{EngineError, refused, unopened};
use crate::types::SegmentId;

impl TransferEngine {
    /// Opens a segment.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] of −1.
    pub fn open_segment(&self, name: &str) -> Result<SegmentId, EngineError> {
        no_zero(name)?;
        self.engine.open_segment(name).map_err(|failure| unopened(&failure))
    }

    /// Opens a segment and asks for its descriptor as it is now.
    ///
    /// # Errors
    /// As [`Self::open_segment`].
    pub fn open_segment_no_cache(&self, name: &str) -> Result<SegmentId, EngineError> {
        no_zero(name)?;
        self.engine.open_segment_no_cache(name).map_err(|failure| unopened(&failure))
    }

    /// Opens a segment; the same as [`Self::open_segment`], which gives the same number each time.
    ///
    /// # Errors
    /// As [`Self::open_segment`].
    pub fn open_segment_cached(&self, name: &str) -> Result<SegmentId, EngineError> {
        self.open_segment(name)
    }

    /// Ends the use of a segment.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] in a forked child.
    pub fn close_segment(&self, segment_id: SegmentId) -> Result<(), EngineError> {
        self.engine.close_segment(segment_id).map_err(|failure| refused(&failure))
    }

    /// Does nothing: this engine has no EFA.
    ///
    /// # Errors
    /// [`EngineError::InvalidString`].
    pub fn warmup_efa_segment(&self, name: &str) -> Result<(), EngineError> {
        no_zero(name)
    }

    /// Forgets what is known of a name.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] for a text that is no name.
    pub fn remove_local_segment(&self, name: &str) -> Result<(), EngineError> {
        no_zero(name)?;
        self.engine.remove_local_segment(name).map_err(|failure| refused(&failure))
    }

    /// Fetches the descriptors of all open segments anew.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] in a forked child.
    pub fn sync_segment_cache(&self) -> Result<(), EngineError> {
        self.engine.sync_segment_cache(None).map(drop).map_err(|failure| refused(&failure))
    }
}
