//! A program that moves bytes between two engines.

use te_engine::{BuildError, TransferEngine};

/// An engine on this machine.
pub fn engine() -> Result<TransferEngine, BuildError> {
    TransferEngine::builder().name("127.0.0.1").build()
}

/// The example in our README, compiled and run.
#[cfg(all(doctest, feature = "tcp"))]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

#[cfg(feature = "tcp")]
mod tests {
    #[test]
    fn bytes_move_between_two_engines() {
        use std::time::Duration;
        use te_engine::{RegisterOptions, TransferRequest};

        let (target, engine) = (super::engine().unwrap(), super::engine().unwrap());
        let theirs = target.allocate(4096).unwrap();
        target.register(&theirs, RegisterOptions::default()).unwrap();
        theirs.write_from(0, b"hello").unwrap();
        let ours = engine.allocate(5).unwrap();
        let segment = engine.open_segment(target.local_name().as_str()).unwrap();
        let read = TransferRequest::read(ours.whole(), segment, theirs.address());
        assert_eq!(engine.transfer(&[read], Duration::from_secs(5)).unwrap(), 5);
        let mut seen = [0; 5];
        ours.read_into(0, &mut seen).unwrap();
        assert_eq!(&seen, b"hello");
    }
}

#[cfg(not(feature = "tcp"))]
#[test]
fn without_a_transport_the_builder_says_so() {
    // RDMA may be compiled in, and there may even be a device.
    assert!(engine().is_err() || cfg!(feature = "rdma"));
}

#[cfg(feature = "tcp")]
#[test]
fn an_engine_without_rdma_says_why() {
    use te_engine::RdmaAbsence;

    let engine = engine().unwrap();
    let is_unbuilt = matches!(engine.rdma_absence(), Some(RdmaAbsence::NotBuilt));
    assert_eq!(is_unbuilt, !cfg!(feature = "rdma"));
}

#[cfg(all(feature = "tcp", feature = "async"))]
#[test]
fn a_batch_can_be_awaited() {
    fn is_future(_: impl Future) {}
    let engine = engine().unwrap();
    let batch = engine.allocate_batch(1).unwrap();
    is_future(engine.wait_async(batch).unwrap());
}
