//! Segments of peers (te-classic A106–A109, A117).

use std::ffi::c_int;

use te_compat::{Engine, Failure, answer, guarded, set_last_failure};

use crate::handle::Handle;
use crate::raw::Text;

#[unsafe(no_mangle)]
extern "C" fn openSegment(engine: Handle, segment_name: Text) -> i32 {
    open(engine, &segment_name, Engine::open_segment)
}

#[unsafe(no_mangle)]
extern "C" fn openSegmentNoCache(engine: Handle, segment_name: Text) -> i32 {
    open(engine, &segment_name, Engine::open_segment_no_cache)
}

#[unsafe(no_mangle)]
extern "C" fn closeSegment(engine: Handle, segment_id: i32) -> c_int {
    answer(guarded(|| engine.engine()?.close_segment(segment_id)))
}

#[unsafe(no_mangle)]
extern "C" fn removeLocalSegment(engine: Handle, segment_name: Text) -> c_int {
    answer(guarded(|| engine.engine()?.remove_local_segment(segment_name.read("segment_name")?)))
}

#[unsafe(no_mangle)]
extern "C" fn syncSegmentCache(engine: Handle) -> c_int {
    answer(guarded(|| engine.engine()?.sync_segment_cache(None).map(drop)))
}

#[unsafe(no_mangle)]
extern "C" fn warmupEfaSegment(engine: Handle, segment_name: Text) -> c_int {
    answer(guarded(|| {
        engine.engine()?;
        segment_name.read("segment_name").map(drop)
    }))
}

/// The number of a segment, or −1 whatever the reason is (A106).
fn open(
    engine: Handle,
    name: &Text,
    how: impl FnOnce(&Engine, &str) -> Result<i32, Failure>,
) -> i32 {
    let opened = guarded(|| how(&engine.engine()?, name.read("segment_name")?));
    opened.inspect_err(set_last_failure).unwrap_or(-1)
}
