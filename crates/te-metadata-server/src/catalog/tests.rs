//! Single facts about the catalog, each with its reason.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Catalog, Guard, Put, Quota, Refusal, Terms};
use crate::moment::Moment;
use crate::storage::Loaded;

fn catalog() -> (Catalog, Moment) {
    with_quota(Quota { max_keys: 100, max_bytes: 1000, max_events: 100 })
}

fn with_quota(quota: Quota) -> (Catalog, Moment) {
    let now = crate::clock::now();
    (Catalog::restore(Loaded::default(), 0, quota, now), now)
}

fn anybody() -> Terms {
    Terms { owner: None, ttl: None, guard: Guard::Always }
}

fn of(owner: &str, ttl_ms: u64) -> Terms {
    let ttl = Some(Duration::from_millis(ttl_ms));
    Terms { owner: Some(owner.into()), ttl, guard: Guard::Always }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn fb19_an_equal_put_is_a_success_that_changes_nothing() {
    // FB19: a periodic refresh of one's own rpc_meta was refused as a duplicate.
    let (mut catalog, now) = catalog();
    let first = catalog.put(now, "rpc_meta/a", bytes("v"), &anybody()).unwrap();
    let again = catalog.put(now, "rpc_meta/a", bytes("v"), &anybody()).unwrap();
    assert_eq!(again, Put { revision: first.revision, changed: false });
    let other = catalog.put(now, "rpc_meta/a", bytes("w"), &anybody()).unwrap();
    assert_eq!(other, Put { revision: first.revision + 1, changed: true });
}

#[test]
fn fault15_a_second_owner_is_refused_and_removes_nothing() {
    // Peer fault 15: the twin of a living engine deleted that engine's record on its way out.
    let (mut catalog, now) = catalog();
    catalog.put(now, "k", bytes("v"), &of("first", 5000)).unwrap();
    let refused = catalog.put(now.after(SECOND), "k", bytes("w"), &of("second", 5000));
    let expires = Some(Duration::from_secs(4));
    assert_eq!(refused, Err(Refusal::Owned { owner: "first".into(), expires }));
    let kept = catalog.delete(now, "k", &of("second", 5000)).unwrap_err();
    assert_eq!(kept, Refusal::Unmet { revision: Some(1), owner: Some("first".into()) });
    assert_eq!(catalog.get(now, "k").unwrap().record.value, "v");
}

#[test]
fn fault17_a_dead_owners_key_is_gone_and_can_be_claimed() {
    // Peer fault 17: keys of a killed engine stayed for ever.
    let (mut catalog, now) = catalog();
    catalog.put(now, "k", bytes("v"), &of("first", 1000)).unwrap();
    let later = now.after(SECOND);
    assert!(catalog.get(later, "k").is_none());
    assert!(catalog.put(later, "k", bytes("w"), &of("second", 1000)).is_ok());
    assert_eq!(catalog.totals().n_expired, 1);
}

#[test]
fn a_put_without_owner_takes_the_key_and_the_old_owner_cannot_remove_it() {
    let (mut catalog, now) = catalog();
    catalog.put(now, "k", bytes("v"), &of("first", 1000)).unwrap();
    assert!(catalog.put(now, "k", bytes("v"), &anybody()).unwrap().changed, "the owner changes");
    assert!(matches!(catalog.delete(now, "k", &of("first", 1000)), Err(Refusal::Unmet { .. })));
    assert_eq!(catalog.renew(now, "first", SECOND), None);
    assert!(catalog.get(now.after(10 * SECOND), "k").is_some(), "and it has no time any more");
}

#[test]
fn conditions_are_checked_before_anything_else() {
    let (mut catalog, now) = catalog();
    let with = |guard| Terms { guard, ..anybody() };
    let absent = catalog.put(now, "k", bytes("v"), &with(Guard::Revision(1)));
    assert_eq!(absent, Err(Refusal::Unmet { revision: None, owner: None }));
    let first = catalog.put(now, "k", bytes("v"), &with(Guard::Absent(true))).unwrap();
    assert!(catalog.put(now, "k", bytes("v"), &with(Guard::Absent(true))).is_err());
    assert!(catalog.delete(now, "k", &with(Guard::Revision(first.revision + 1))).is_err());
    assert!(catalog.delete(now, "k", &with(Guard::Revision(first.revision))).is_ok());
    assert_eq!(catalog.delete(now, "k", &anybody()), Err(Refusal::NotFound));
}

#[test]
fn limits_refuse_what_is_new_and_let_what_is_there_be_replaced() {
    let (mut catalog, now) = with_quota(Quota { max_keys: 2, max_bytes: 10, max_events: 9 });
    catalog.put(now, "a", bytes("1234"), &anybody()).unwrap();
    let full = catalog.put(now, "b", bytes("12345"), &anybody());
    assert_eq!(full, Err(Refusal::Full { what: "bytes", limit: 10 }));
    catalog.put(now, "b", bytes("1234"), &anybody()).unwrap();
    let full = catalog.put(now, "c", bytes(""), &anybody());
    assert_eq!(full, Err(Refusal::Full { what: "keys", limit: 2 }));
    assert!(catalog.put(now, "a", bytes("4321"), &anybody()).is_ok());
    assert!(catalog.put(now, "a", bytes("54321"), &anybody()).is_err());
    assert_eq!(catalog.totals().bytes, 10);
}

#[test]
fn a_list_goes_on_where_it_stopped() {
    let (mut catalog, now) = catalog();
    for key in ["a", "p/1", "p/2", "p/3", "q"] {
        catalog.put(now, key, bytes("v"), &anybody()).unwrap();
    }
    let listed = |after: Option<&str>| -> Vec<String> {
        catalog.list("p/", after).map(|(key, _)| key.to_string()).collect()
    };
    assert_eq!(listed(None), ["p/1", "p/2", "p/3"]);
    assert_eq!(listed(Some("p/1")), ["p/2", "p/3"]);
    assert_eq!(listed(Some("a")), ["p/1", "p/2", "p/3"], "before the prefix is its beginning");
    assert!(listed(Some("q")).is_empty());
}

#[test]
fn a_renewal_covers_all_keys_of_its_owner_and_stores_nothing() {
    let (mut catalog, now) = catalog();
    for key in ["a", "b"] {
        catalog.put(now, key, bytes("v"), &of("me", 1000)).unwrap();
    }
    catalog.put(now, "c", bytes("v"), &of("you", 1000)).unwrap();
    assert!(catalog.take_changes().is_some());
    let half = now.after(SECOND / 2);
    assert_eq!(catalog.renew(half, "me", SECOND), Some(2));
    assert_eq!(catalog.take_changes(), None, "thousands of engines renew every ten seconds");
    let later = now.after(SECOND);
    assert!(catalog.get(later, "a").is_some() && catalog.get(later, "c").is_none());
    assert_eq!(catalog.renew(half, "me", 2 * SECOND), Some(2));
    assert!(catalog.take_changes().is_some(), "a restart must know the new time");
}

#[test]
fn keys_share_their_text_between_indices() {
    let (mut catalog, now) = catalog();
    catalog.put(now, "k", bytes("v"), &of("me", 1000)).unwrap();
    let (key, _) = catalog.list("", None).next().unwrap();
    assert!(Arc::strong_count(key) >= 4, "entries, owned, expiries and the event");
}
