//! Switches that turn single guards off, for tests that prove that other tests notice.
//!
//! With feature `testing` the environment variable `TE_SABOTAGE` holds a comma-separated list of
//! guards to switch off; it is read once per process. Without the feature every guard is on and
//! the question costs nothing, so code may ask on any path:
//!
//! ```
//! if te_metadata::sabotage::is_off("frame-limit") {
//!     // only ever reached in a counter-proof
//! }
//! ```
//!
//! Guards of this crate: `frame-limit` (length of an incoming frame), `json-shape` (a string field
//! of the wrong type ends the thread, as it ends a Mooncake process), `serve-deadline` (total time
//! of a served connection), `close-interrupts` (questions end when the asker closes).

/// Whether `guard` is listed in `TE_SABOTAGE`.
#[cfg(feature = "testing")]
pub fn is_off(guard: &str) -> bool {
    use std::sync::OnceLock;
    static LIST: OnceLock<Vec<String>> = OnceLock::new();
    let list = LIST.get_or_init(|| split(&read_environment()));
    list.iter().any(|name| name == guard)
}

/// Always false: guards can only be switched off with feature `testing`.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn is_off(_guard: &str) -> bool {
    false
}

#[cfg(feature = "testing")]
#[expect(clippy::disallowed_methods, reason = "a switch for tests, no configuration")]
fn read_environment() -> String {
    std::env::var("TE_SABOTAGE").unwrap_or_default()
}

#[cfg(feature = "testing")]
fn split(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    #[test]
    fn the_list_is_split_at_commas() {
        assert_eq!(super::split(" a, b,,c "), ["a", "b", "c"]);
        assert!(super::split("").is_empty());
    }
}
