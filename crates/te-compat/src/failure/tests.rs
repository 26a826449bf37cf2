//! Failures say what is known, and no panic passes.

use te_engine::OpenError;

use super::*;

#[test]
fn a_panic_becomes_a_failure_that_has_its_text() {
    let failure = guarded::<()>(|| panic!("slot {}", 7)).unwrap_err();
    assert_eq!(failure.facts().phase, "panic");
    assert!(failure.to_string().contains("slot 7"), "{failure}");
}

#[test]
fn the_last_failure_belongs_to_its_thread_and_a_success_leaves_it() {
    clear_last_failure();
    assert_eq!(answer(Err(Failure::new(Code::Busy, "unregister", "x"))), -4);
    assert_eq!(answer(Ok(())), 0);
    assert_eq!(last_failure().unwrap().code(), Code::Busy);
    assert_eq!(std::thread::spawn(last_failure).join().unwrap(), None);
    assert_eq!(answer_status(Err(Failure::new(Code::Busy, "batch", "x"))), 4);
    clear_last_failure();
    assert_eq!(last_failure(), None);
}

#[test]
fn a_failure_names_its_peer_once() {
    let error = OpenError::Name { name: "n:1".into(), reason: "why".into() };
    let failure = Failure::from(error);
    assert_eq!(failure.facts().peer.as_deref(), Some("n:1"));
    assert_eq!(failure.to_string().matches("n:1").count(), 1, "{failure}");
    let failure = Failure::new(Code::Socket, "probe", "no answer").with_peer("h:2");
    assert_eq!(failure.to_string(), "probe (peer h:2): no answer");
}
