//! A policy that decides whether to try again.

use te_transport::{FaultClass, Phase, SliceFault};

/// Whether it is worth another try.
pub fn try_again(fault: &SliceFault) -> bool {
    fault.class.is_retryable() && fault.phase != Phase::Status
}

#[test]
fn the_class_and_the_phase_decide() {
    let fault = |class, phase| SliceFault::new(class, phase, "the wire was cut");
    assert!(try_again(&fault(FaultClass::Rail, Phase::Connect)));
    assert!(!try_again(&fault(FaultClass::Rail, Phase::Status)));
    assert!(!try_again(&fault(FaultClass::Local, Phase::Queue)));
}

#[cfg(feature = "testing")]
#[test]
fn seeds_give_the_same_numbers_everywhere() {
    let mut seeded = te_transport::testing::Seeded::new(7);
    let again = te_transport::testing::Seeded::new(7).next_u64();
    assert_eq!(seeded.next_u64(), again);
}
