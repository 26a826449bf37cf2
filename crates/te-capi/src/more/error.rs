//! Why a call failed, as a struct and as text.

use std::ffi::{c_char, c_int};

use te_compat::{Failure, LocalState, RemoteSide, clear_last_failure, guarded, last_failure};

use crate::abi::ErrorRecord;
use crate::raw::{Buffer, Out, array};

#[unsafe(no_mangle)]
extern "C" fn te_last_error(error: Out<ErrorRecord>) -> c_int {
    // A null place is not worth a failure that would take the place of the one that is asked for.
    let told = guarded(|| {
        let last = last_failure();
        error.put(last.as_ref().map_or_else(nothing, record), "error")?;
        Ok(c_int::from(last.is_some()))
    });
    told.unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn te_last_error_text(buf: Buffer, buf_len: usize) -> usize {
    let told = guarded(|| {
        let text = last_failure().map(|failure| failure.to_string()).unwrap_or_default();
        if buf_len > 0 && !buf.is_null() {
            buf.write(buf_len, &text, "buf")?;
        }
        Ok(text.len())
    });
    told.unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn te_clear_error() {
    let cleared = guarded(|| {
        clear_last_failure();
        Ok(())
    });
    cleared.unwrap_or(());
}

/// What the header calls flags.
const RETRYABLE: u32 = 1;
const TIMEOUT: u32 = 2;

/// A failure as C sees it.
pub(crate) fn record(failure: &Failure) -> ErrorRecord {
    let facts = failure.facts();
    let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    ErrorRecord {
        code: facts.code.as_i32(),
        remote_side: facts.remote.map_or(0, remote),
        local_state: local(facts.local),
        flags: flag(facts.is_retryable, RETRYABLE) | flag(facts.is_timeout, TIMEOUT),
        request: facts.index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1),
        attempts: u32::from(facts.attempts),
        reserved: 0,
        phase: array(facts.phase),
        peer: array(facts.peer.as_deref().unwrap_or_default()),
        transport: array(facts.transport.unwrap_or_default()),
        text: array(&failure.to_string()),
    }
}

/// No failure: all zeros.
pub(crate) fn nothing() -> ErrorRecord {
    ErrorRecord {
        code: 0,
        remote_side: 0,
        local_state: 0,
        flags: 0,
        request: 0,
        attempts: 0,
        reserved: 0,
        phase: [c_char::default(); 32],
        peer: [c_char::default(); 256],
        transport: [c_char::default(); 32],
        text: [c_char::default(); 1024],
    }
}

fn remote(side: RemoteSide) -> i32 {
    match side {
        RemoteSide::Untouched => 1,
        RemoteSide::Settled => 2,
        RemoteSide::InDoubt => 3,
    }
}

fn local(state: LocalState) -> i32 {
    match state {
        LocalState::InUse => 1,
        LocalState::Quarantined => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use te_compat::Code;

    use super::*;

    fn text(array: &[c_char]) -> String {
        let bytes = array.iter().take_while(|byte| **byte != 0);
        bytes.map(|byte| char::from(byte.to_ne_bytes()[0])).collect()
    }

    #[test]
    fn what_is_known_of_a_failure_reaches_c() {
        let failure = Failure::new(Code::Clock, "wait", "it took too long");
        let record = record(&failure.with_peer("host:1").with_index(7));
        assert_eq!((record.code, record.request, record.flags), (-301, 7, TIMEOUT));
        assert_eq!((record.remote_side, record.local_state), (0, 0));
        assert_eq!(text(&record.phase), "wait");
        assert_eq!(text(&record.peer), "host:1");
        assert_eq!(text(&record.text), "wait (peer host:1): it took too long");
        assert_eq!(nothing().text[0], 0);
    }
}
