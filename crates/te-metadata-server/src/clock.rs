//! The one place that reads the clocks.
#![expect(clippy::disallowed_methods, reason = "everything else takes the time as an argument")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::moment::{Moment, millis};

/// Reads both clocks.
pub(crate) fn now() -> Moment {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { mono: Instant::now(), unix_ms: millis(unix) }
}
