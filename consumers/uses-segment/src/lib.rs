//! An allocator that hands out parts of one buffer.

use te_segment::{AlignedBuffer, LocalRange, RangeError, Region, RegionError};

/// A buffer of `len` bytes.
pub fn buffer(len: usize) -> Result<Region, RegionError> {
    Ok(Region::from(AlignedBuffer::zeroed(len)?))
}

/// The page with this index.
pub fn page(region: &Region, index: u64) -> Result<LocalRange, RangeError> {
    region.range(index * 4096, 4096)
}

#[test]
fn pages_are_checked_against_the_buffer() {
    let region = buffer(3 * 4096).unwrap();
    assert_eq!(page(&region, 2).unwrap().address(), region.address() + 2 * 4096);
    assert!(page(&region, 3).is_err());
}

#[cfg(feature = "testing")]
#[test]
fn memory_can_be_made_to_vanish() {
    let memory = te_segment::VanishingMemory::new(AlignedBuffer::zeroed(4096).unwrap());
    assert_eq!(memory.region().len(), 4096);
}
