//! Faulting in long memory by several threads before it is registered (C34): the kernel pins one page
//! after the other, and finding them there is most of the work.
//!
//! Blocks are registered for a moment, which faults them in just as they will be needed and touches
//! no byte.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use te_segment::{LocalRange, RemoteAccess};
use te_verbs::{Device, MemoryAccess};

/// Bytes of a block at most.
const BLOCK: u64 = 256 << 20;

/// Faults the ranges in; whether it was tried. A block that is refused will be refused again when it
/// matters.
pub(super) fn touch(device: &dyn Device, ranges: &[LocalRange], threads: usize) -> bool {
    let threads = match threads {
        0 => usual(thread::available_parallelism().map_or(1, NonZero::get)),
        set => set,
    };
    let blocks: Vec<LocalRange> = ranges.iter().flat_map(blocks).collect();
    let threads = threads.min(blocks.len());
    if threads == 0 {
        return false;
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // The threads share the counter only; what they did is known when they ended.
                while let Some(block) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let access =
                        MemoryAccess { remote: RemoteAccess::None, relaxed_ordering: false };
                    drop(device.register(block, access));
                }
            });
        }
    });
    true
}

/// Threads on a host with so many hardware threads.
fn usual(hardware: usize) -> usize {
    match hardware {
        0..4 => 0,
        4..=64 => 8,
        _ => 16,
    }
}

fn blocks(range: &LocalRange) -> impl Iterator<Item = LocalRange> + '_ {
    let block = |n: u64| range.part(n * BLOCK, BLOCK.min(range.len() - n * BLOCK)).ok();
    (0..range.len().div_ceil(BLOCK)).filter_map(block)
}

#[cfg(test)]
mod tests {
    use te_segment::{AlignedBuffer, Region};

    use super::*;

    /// C34: as many threads as the host can bear.
    #[test]
    fn c34_threads_follow_the_host() {
        let counts = [1, 3, 4, 64, 65, 256].map(usual);
        assert_eq!(counts, [0, 0, 8, 8, 16, 16]);
    }

    #[test]
    fn blocks_cover_a_range() {
        let region = Region::from(AlignedBuffer::zeroed(100_000).unwrap());
        let range = region.range(10, 90_000).unwrap();
        let blocks: Vec<_> = blocks(&range).collect();
        assert_eq!(blocks.len(), 1);
        assert_eq!((blocks[0].address(), blocks[0].len()), (range.address(), 90_000));
    }
}
