//! The pass that checks bytes: written with a pattern, wiped here, read back, compared.

use te_engine::Region;

use super::args::Operation;
use super::{ACTION, Cell, Setup};
use crate::error::{CliError, Failure, chain};
use crate::pattern::{Pattern, first_difference};
use crate::source::BLOCK;

impl Setup<'_> {
    /// Moves all memory of a block size both ways, in the shape that is measured.
    pub(super) fn verify(&self, block: u64) -> Result<(), CliError> {
        let length = self.args.needs(block);
        let seed = self.args.seed ^ block;
        fill(&self.region, seed, length)?;
        self.move_all(Cell { op: Operation::Write, block })?;
        fill(&self.region, !seed, length)?;
        self.move_all(Cell { op: Operation::Read, block })?;
        match difference(&self.region, seed, length)? {
            None => Ok(()),
            Some(position) => {
                let cause = format!("byte {position} read back is not the one written");
                let error = CliError::new(Failure::Differs, ACTION, cause);
                Err(error.with_peer(&self.opened.name))
            }
        }
    }
}

/// Fills a region with a pattern, which also takes its pages from the system.
pub(super) fn fill(region: &Region, seed: u64, length: u64) -> Result<(), CliError> {
    let pattern = Pattern::new(seed);
    let mut block = vec![0; BLOCK];
    for (at, n) in blocks(length) {
        pattern.fill(at, &mut block[..n]);
        region.write_from(at, &block[..n]).map_err(memory)?;
    }
    Ok(())
}

/// Where a region first differs from a pattern.
fn difference(region: &Region, seed: u64, length: u64) -> Result<Option<u64>, CliError> {
    let pattern = Pattern::new(seed);
    let (mut expected, mut seen) = (vec![0; BLOCK], vec![0; BLOCK]);
    for (at, n) in blocks(length) {
        pattern.fill(at, &mut expected[..n]);
        region.read_into(at, &mut seen[..n]).map_err(memory)?;
        if let Some(into) = first_difference(&seen[..n], &expected[..n]) {
            return Ok(Some(at + into as u64));
        }
    }
    Ok(None)
}

/// Position and length of each block.
fn blocks(length: u64) -> impl Iterator<Item = (u64, usize)> {
    let last = move |at| usize::try_from(length - at).map_or(BLOCK, |left| left.min(BLOCK));
    (0..length).step_by(BLOCK).map(move |at| (at, last(at)))
}

fn memory(error: impl std::error::Error) -> CliError {
    CliError::new(Failure::Local, "bench", chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use te_engine::AlignedBuffer;

    #[test]
    fn a_changed_byte_is_found() {
        let length = 3 * BLOCK as u64 - 5;
        let buffer = AlignedBuffer::zeroed(3 * BLOCK).unwrap();
        let region = Region::from(buffer);
        fill(&region, 7, length).unwrap();
        assert_eq!(difference(&region, 7, length).unwrap(), None);
        let mut byte = [0];
        region.read_into(length - 1, &mut byte).unwrap();
        region.write_from(length - 1, &[!byte[0]]).unwrap();
        assert_eq!(difference(&region, 7, length).unwrap(), Some(length - 1));
        assert_eq!(difference(&region, 8, length).unwrap(), Some(0));
    }
}
