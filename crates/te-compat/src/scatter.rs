//! Scatter by address (A80–A88).

use std::time::Duration;

use te_engine::{FragmentError, FragmentStatus, Opcode, ScatterRange};

use crate::code::Code;
use crate::engine::Engine;
use crate::failure::{Failure, LocalState};

/// Fragments between one local buffer and one remote range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scatter {
    /// Direction.
    pub op: Opcode,
    /// Name of the remote segment.
    pub segment: String,
    /// Where the remote range begins, the peer's address.
    pub remote_base: u64,
    /// Its length, bytes.
    pub remote_len: u64,
    /// Address of the local buffer.
    pub local: u64,
    /// Its length, bytes.
    pub local_len: u64,
    /// Offsets in the local buffer, bytes.
    pub local_offsets: Vec<u64>,
    /// Offsets in the remote range, bytes.
    pub remote_offsets: Vec<u64>,
    /// Lengths, bytes; 0 succeeds at once.
    pub lengths: Vec<u64>,
}

impl Engine {
    /// Moves the fragments of all ranges and waits for their end, at most `timeout`; then what is open
    /// is called back. Gives how each fragment ended, in the order of the call; its local memory is
    /// free then, or the fault says that it is in quarantine. A fragment without an outcome goes on.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for a local buffer that is not mapped, with the position of its range:
    /// nothing was moved then. How single fragments failed is part of the answer.
    pub fn scatter(
        &self,
        ranges: Vec<Scatter>,
        timeout: Duration,
    ) -> Result<Vec<FragmentStatus>, Failure> {
        let engine = self.inner()?;
        let named = ranges.into_iter().enumerate().map(|(index, range)| {
            self.scatter_range(range).map_err(|failure| failure.with_index(index))
        });
        let ranges: Vec<ScatterRange> = named.collect::<Result<_, _>>()?;
        let mut operation = engine.submit_scatter(ranges);
        if let Err(FragmentError::TimedOut { .. }) = operation.wait_for(timeout) {
            operation.cancel();
            drop(operation.wait_for(engine.call_back_limit()));
        }
        Ok(operation.fragments())
    }

    fn scatter_range(&self, range: Scatter) -> Result<ScatterRange, Failure> {
        let found = self.core.regions.finder().range(range.local, range.local_len);
        let local = found.map_err(|error| Failure::from(error).edit(|it| it.phase = "submit"))?;
        Ok(ScatterRange {
            op: range.op,
            segment: range.segment,
            remote_base: range.remote_base,
            remote_len: range.remote_len,
            local,
            local_offsets: range.local_offsets,
            remote_offsets: range.remote_offsets,
            lengths: range.lengths,
            on_fragment: None,
        })
    }
}

impl From<&FragmentStatus> for Failure {
    /// Why a fragment did not succeed; for one without an outcome, that it goes on.
    fn from(fragment: &FragmentStatus) -> Self {
        let failure = match &fragment.outcome {
            Some(Err(error)) => Self::from(error),
            _ => Self::new(Code::Clock, "wait", "the fragment has not ended")
                .edit(|facts| facts.local = LocalState::InUse),
        };
        failure.with_index(fragment.index)
    }
}

impl From<&FragmentError> for Failure {
    fn from(error: &FragmentError) -> Self {
        match error {
            FragmentError::Failed(fault) => Self::from(&**fault),
            FragmentError::TimedOut { .. } => Self::new(Code::Clock, "wait", error.to_string())
                .edit(|facts| facts.local = LocalState::InUse),
            other => Self::invalid("submit", other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a83_memory_of_a_fragment_that_goes_on_is_in_use() {
        // A83: neither a wait that ended early nor a fragment without an outcome says that it is free.
        let early = FragmentError::TimedOut { waited: Duration::ZERO };
        let open = FragmentStatus { range: 0, index: 7, outcome: None };
        for failure in [Failure::from(&early), Failure::from(&open)] {
            assert_eq!((failure.code(), failure.facts().local), (Code::Clock, LocalState::InUse));
        }
        assert_eq!(Failure::from(&open).facts().index, Some(7));
    }
}
