//! What every metadata store must do.

use super::MetadataStore;

/// Checks the contract of [`MetadataStore`] on a store that can be reached.
///
/// # Panics
/// When the store breaks it. Keys under `te-conformance/` are used and removed again.
pub fn check_store(store: &dyn MetadataStore) {
    let key = "te-conformance/ram/node-a:17001";
    let other = "te-conformance/rpc_meta/node-a:17001";
    store.remove(key).expect("removing an absent key is no error");
    assert_eq!(ask(store, key), None, "an absent key has no value");

    check_values(store, key, other);
    check_removal(store, key, other);
    assert!(!store.uri().is_empty(), "a store has a name for messages");
}

fn check_values(store: &dyn MetadataStore, key: &str, other: &str) {
    store.put(key, b"{\"a\":1}").expect("a key can be set");
    store.put(other, b"{\"b\":2}").expect("a second key can be set");
    assert_eq!(ask(store, key).as_deref(), Some(&b"{\"a\":1}"[..]), "values come back unchanged");
    store.put(key, b"{\"a\":3}").expect("a value can be replaced");
    assert_eq!(ask(store, key).as_deref(), Some(&b"{\"a\":3}"[..]), "the last value counts");
    assert_eq!(ask(store, other).as_deref(), Some(&b"{\"b\":2}"[..]), "keys are independent");
    let large = vec![b'x'; 512 << 10];
    store.put(key, &large).expect("half a mebibyte fits");
    assert!(ask(store, key).as_deref() == Some(&large[..]), "large values come back unchanged");
}

fn check_removal(store: &dyn MetadataStore, key: &str, other: &str) {
    store.remove(key).expect("a key can be removed");
    assert_eq!(ask(store, key), None, "a removed key is absent");
    assert!(ask(store, other).is_some(), "removing one key leaves the others");
    store.remove(key).expect("removing again is no error");
    store.remove(other).expect("a key can be removed");
}

fn ask(store: &dyn MetadataStore, key: &str) -> Option<Vec<u8>> {
    store.get(key).expect("the store answers")
}
