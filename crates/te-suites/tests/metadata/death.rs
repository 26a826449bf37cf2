//! Services that die, hang, come back empty, and values that are too large for them.

use std::time::Duration;

use te_metadata::{Claim, Incarnation, Lease, MetadataStore, Renewal, StoreOptions, StorePhase};
use te_suites::{need, now, say, wait_until};

use crate::engines::on_each_at_once;
use crate::service::{Kind, Service};

/// Does something on every kind that is there; one that is not is a skip of its own.
fn on_each(test: &str, check: impl Fn(Service, &dyn MetadataStore)) {
    for kind in Kind::ALL {
        let run = || {
            need!(&format!("{test} ({kind:?})"), kind.available());
            let service = Service::start(kind);
            let store = service.store(&StoreOptions::default());
            check(service, &*store);
        };
        run();
    }
}

#[test]
fn fault18_a_dead_service_is_named_within_three_seconds() {
    // Peer faults 18, 19, FB22: down before and in between; never "absent", never a hang.
    on_each("fault18_a_dead_service_is_named_within_three_seconds", |mut service, store| {
        store.put("mooncake/ram/a", b"{}").unwrap();
        service.kill();
        let begun = now();
        for error in [
            store.get("mooncake/ram/a").unwrap_err(),
            store.put("mooncake/ram/a", b"{}").unwrap_err(),
            store.remove("mooncake/ram/a").unwrap_err(),
        ] {
            assert!(error.is_retryable(), "{error:?}");
            assert_eq!(error.phase(), Some(StorePhase::Connect), "{error:?}");
            assert!(error.to_string().contains(&service.address()), "{error}");
        }
        say(&format!("{}: three errors in {:?}", store.uri(), begun.elapsed()));
        assert!(begun.elapsed() < Duration::from_secs(3));
        service.restart();
        store.put("mooncake/ram/a", b"{}").unwrap();
        assert!(store.get("mooncake/ram/a").unwrap().is_some(), "it is used again without a word");
    });
}

#[test]
fn fault18_a_hanging_service_costs_the_deadline() {
    // Peer fault 18: the process is stopped; connections stay, answers do not come.
    let test = "fault18_a_hanging_service_costs_the_deadline";
    on_each_at_once(test, &Kind::ALL, |service| {
        let store = service.store(&StoreOptions::default());
        store.put("mooncake/ram/a", b"{}").unwrap();
        service.signal("STOP");
        let begun = now();
        let error = store.get("mooncake/ram/a").unwrap_err();
        let took = begun.elapsed();
        say(&format!("{}: {error} after {took:?}", store.uri()));
        assert!(error.is_retryable(), "{error:?}");
        assert!(took < Duration::from_millis(3500), "{took:?}");
        service.signal("CONT");
        let again = || store.get("mooncake/ram/a").ok();
        assert!(wait_until(Duration::from_secs(10), "it goes on", again).is_some());
    });
}

#[test]
fn fault20_a_lease_that_died_with_its_service_is_mended() {
    // Peer fault 20: an empty service; what we think we hold is not there, and can be put anew.
    on_each("fault20_a_lease_that_died_with_its_service_is_mended", |mut service, store| {
        let lease = Lease { owner: Incarnation::random(), ttl: Duration::from_secs(30) };
        let value = format!("{{\"te_incarnation\":\"{}\"}}", lease.owner);
        let claim = || store.claim("mooncake/rpc_meta/a", value.as_bytes(), &lease, None).unwrap();
        let Claim::Held(before) = claim() else { panic!("nobody else is there") };
        service.kill();
        service.empty();
        service.restart();
        assert_eq!(store.revision("mooncake/rpc_meta/a").unwrap(), None, "its loss is seen");
        if store.capabilities().unwrap().expiry {
            assert_eq!(store.renew(&lease).unwrap(), Renewal::Lost);
        }
        let Claim::Held(_) = claim() else { panic!("nobody else is there") };
        let record = store.get("mooncake/rpc_meta/a").unwrap().unwrap();
        assert_eq!(record.value, value.as_bytes());
        say(&format!("{}: {before} is {} now", store.uri(), record.revision));
    });
}

#[test]
fn a_value_of_five_mebibytes_is_kept_or_refused_by_name() {
    // etcd takes 1.5 MiB by default.
    on_each("a_value_of_five_mebibytes_is_kept_or_refused_by_name", |_service, store| {
        let value = format!("\"{}\"", "x".repeat(5 << 20)).into_bytes();
        match store.put("mooncake/ram/large", &value) {
            Ok(()) => assert!(store.get("mooncake/ram/large").unwrap().unwrap().value == value),
            Err(error) => {
                say(&format!("{}: {error}", store.uri()));
                assert!(!error.is_retryable(), "{error:?}");
                assert!(error.to_string().contains("mooncake/ram/large"), "{error}");
                assert_eq!(store.get("mooncake/ram/large").unwrap(), None);
            }
        }
        store.put("mooncake/ram/large", b"{}").unwrap();
    });
}
