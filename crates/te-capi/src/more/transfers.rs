//! Transfers that wait: by name, and scattered.

use std::ffi::{c_int, c_void};

use te_compat::{Failure, FragmentStatus, Piece, Scatter, answer, guarded, opcode};

use super::time;
use crate::abi::ScatterRange;
use crate::handle::Handle;
use crate::raw::{Address, In, Out, Text};

#[unsafe(no_mangle)]
extern "C" fn te_transfer_sync(
    engine: Handle,
    peer: Text,
    local: Address,
    peer_address: u64,
    length: usize,
    op: c_int,
) -> c_int {
    answer(guarded(|| {
        let engine = engine.engine()?;
        let piece = Piece { local: local.number(), remote: peer_address, len: length as u64 };
        engine.transfer_sync(opcode(op)?, peer.read("peer")?, piece).map(drop)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn te_scatter(
    engine: Handle,
    ranges: In<ScatterRange>,
    range_count: usize,
    timeout_ms: u64,
) -> c_int {
    answer(guarded(|| {
        let engine = engine.engine()?;
        let given = ranges.entries(range_count, "ranges")?;
        let numbered = given.iter().enumerate();
        let wanted = numbered.map(|(at, one)| range(one).map_err(|why| why.with_index(at)));
        let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
        let fragments = engine.scatter(wanted, time(timeout_ms))?;
        report(given, &fragments)
    }))
}

fn range(given: &ScatterRange) -> Result<Scatter, Failure> {
    let list =
        |pointer, what| In::<u64>::inside(pointer).entries(given.count, what).map(<[u64]>::to_vec);
    let peer = Text::inside(given.peer);
    Ok(Scatter {
        op: opcode(given.opcode)?,
        segment: peer.read("range.peer")?.to_owned(),
        remote_base: given.remote_base,
        remote_len: given.remote_length,
        local: given.local.cast::<c_void>().addr() as u64,
        local_len: given.local_length,
        local_offsets: list(given.local_offsets, "range.local_offsets")?,
        remote_offsets: list(given.remote_offsets, "range.remote_offsets")?,
        lengths: list(given.lengths, "range.lengths")?,
    })
}

/// Writes the outcome of each fragment where that is wanted; the first that failed is the answer.
fn report(given: &[ScatterRange], fragments: &[FragmentStatus]) -> Result<(), Failure> {
    let mut first = Ok(());
    for (at, one) in given.iter().enumerate() {
        let mine = fragments.iter().filter(|fragment| fragment.range == at);
        let ends: Vec<Result<(), Failure>> = mine.map(end).collect();
        let number = |end: &Result<(), Failure>| {
            end.as_ref().map_or_else(|failure| failure.code().as_i32(), |()| 0)
        };
        let outcomes = Out::inside(one.outcomes);
        if !outcomes.is_null() {
            outcomes.put_all(&ends.iter().map(number).collect::<Vec<i32>>(), "range.outcomes")?;
        }
        if first.is_ok() {
            first = ends.into_iter().find(Result::is_err).unwrap_or(Ok(()));
        }
    }
    first
}

fn end(fragment: &FragmentStatus) -> Result<(), Failure> {
    match &fragment.outcome {
        Some(Ok(())) => Ok(()),
        _ => Err(Failure::from(fragment)),
    }
}
