//! What a suite tells the person who runs it: rows, counts, and tests that could not run.
#![expect(clippy::print_stdout, reason = "this is the one place where suites print")]

use std::io::Write as _;

use crate::environment;

/// Prints one line.
pub fn say(line: &str) {
    println!("{line}");
}

/// Says that `test` cannot run here and why, for the person and for the file in `TE_SKIP_LOG`
/// (`test<TAB>reason`, one line each). The caller returns at once afterwards.
///
/// # Panics
/// When that file cannot be written: a skip that nobody counts would pass for a success.
pub fn skip(test: &str, reason: &str) {
    say(&format!("skip {test}: {reason}"));
    let Some(path) = environment::skip_log() else { return };
    let line = format!("{test}\t{}\n", reason.replace(['\t', '\n'], " "));
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot write the skip log {}: {written:?}", path.display());
}

/// Returns from the calling test after a [`skip`], unless the expression gives `Ok`; the error is
/// the reason.
#[macro_export]
macro_rules! need {
    ($test:expr, $what:expr) => {
        match $what {
            Ok(value) => value,
            Err(reason) => return $crate::skip($test, &reason.to_string()),
        }
    };
}
