//! What there is to see of the library without a device.

use super::*;
use crate::error::VerbsCall;

/// J97: a machine without the library is told what is missing, by name.
#[test]
fn an_absent_library_is_a_named_error() {
    let error = Libibverbs::load_from(OsStr::new("libibverbs-that-is-not-there.so.1"));
    let error = error.expect_err("there is none");
    assert_eq!((error.call, error.errno), (VerbsCall::Load, None));
    let text = error.to_string();
    assert!(text.contains("cannot load libibverbs (libibverbs-that-is-not-there.so.1)"), "{text}");
}

/// Another library is not taken for it.
#[test]
fn a_library_without_the_functions_is_refused() {
    let error = Libibverbs::load_from(OsStr::new("libc.so.6")).expect_err("not libibverbs");
    assert_eq!(error.call, VerbsCall::Load);
    assert!(error.to_string().contains("ibv_"), "{error}");
}
