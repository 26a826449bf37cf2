//! The thread: takes the next slice, copies it, reports.

use std::sync::{Arc, PoisonError};

use te_segment::{Access, BufferGuard, CopyError, Opcode, Slice, SliceToken};
use te_transport::{Completion, CompletionSink, FaultClass, Phase, RemoteSide, SliceFault};

use crate::{Hub, Shared, lock};

/// Bytes between two looks at whether to stop.
const PIECE: u64 = 64 << 10;

/// How a slice ended.
type End = (Result<(), SliceFault>, RemoteSide);

/// Works until the endpoint closes; then settles what is left.
pub(crate) fn run(hub: &Arc<Hub>, shared: &Shared, sink: &dyn CompletionSink) {
    while let Some(slice) = next(shared) {
        let (result, remote) = match stopped(shared, slice.token) {
            Some(class) => (Err(fault(class, Phase::Queue, "stopped")), RemoteSide::Untouched),
            None => transfer(hub, shared, &slice),
        };
        let wanted = {
            let mut state = lock(&shared.state);
            state.moving = None;
            state.called_back.remove(&slice.token);
            let closed = matches!(&result, Err(fault) if fault.class == FaultClass::Closed);
            state.settled += u64::from(closed);
            state.ended(slice.peer.id()) && state.running
        };
        // No lock is held here: the engine may submit from within.
        let peer = slice.peer.id();
        sink.complete(Completion { token: slice.token, result, remote });
        if wanted {
            sink.room(peer);
        }
    }
}

/// The next slice; `None` when the endpoint is closed and nothing is left.
fn next(shared: &Shared) -> Option<Slice> {
    let mut state = lock(&shared.state);
    loop {
        if let Some(slice) = state.queue.pop_front() {
            state.moving = Some(slice.token);
            return Some(slice);
        }
        if !state.running {
            return None;
        }
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Why a slice shall not go on.
fn stopped(shared: &Shared, token: SliceToken) -> Option<FaultClass> {
    let state = lock(&shared.state);
    if !state.running {
        Some(FaultClass::Closed)
    } else if state.called_back.contains(&token) {
        Some(FaultClass::Cancelled)
    } else {
        None
    }
}

fn transfer(hub: &Hub, shared: &Shared, slice: &Slice) -> End {
    let port = slice.peer.descriptor().tcp.data_port;
    let Some(segment) = port.and_then(|port| hub.segment(port)) else {
        let gone = fault(FaultClass::Peer, Phase::Connect, "nobody serves the port");
        return (Err(gone), RemoteSide::Untouched);
    };
    let access = match slice.op {
        Opcode::Read => Access::Read,
        Opcode::Write => Access::Write,
    };
    match segment.acquire(slice.remote.address(), slice.len(), access) {
        Ok(guard) => move_pieces(shared, slice, &guard),
        Err(error) => {
            let refused = fault(FaultClass::Refused, Phase::Request, &error.to_string());
            (Err(refused), RemoteSide::Untouched)
        }
    }
}

/// Copies piece by piece; the guard is let go when this returns, before the end is reported.
fn move_pieces(shared: &Shared, slice: &Slice, guard: &BufferGuard) -> End {
    let mut bounce = vec![0; PIECE.min(slice.len()) as usize];
    let mut done = 0;
    while done < slice.len() {
        let stop = if guard.is_revoked() { Some(FaultClass::Refused) } else { None };
        if let Some(class) = stop.or_else(|| stopped(shared, slice.token)) {
            return (Err(fault(class, Phase::Payload, "stopped")), remote_side(slice, done));
        }
        let piece = PIECE.min(slice.len() - done);
        let bytes = &mut bounce[..piece as usize];
        if let Err((class, error)) = copy(slice, guard, done, bytes) {
            let failed = fault(class, Phase::Payload, &error.to_string());
            return (Err(failed), remote_side(slice, done));
        }
        done += piece;
    }
    (Ok(()), RemoteSide::Settled)
}

/// Copies one piece. Our own memory that is gone is our fault; the peer's is a refusal.
fn copy(
    slice: &Slice,
    guard: &BufferGuard,
    offset: u64,
    bytes: &mut [u8],
) -> Result<(), (FaultClass, CopyError)> {
    let (here, there) = (&slice.local, guard.range());
    let ours = |error| (FaultClass::Local, error);
    let theirs = |error| (FaultClass::Refused, error);
    match slice.op {
        Opcode::Write => {
            here.region().read_into(here.offset() + offset, bytes).map_err(ours)?;
            there.region().write_from(there.offset() + offset, bytes).map_err(theirs)
        }
        Opcode::Read => {
            there.region().read_into(there.offset() + offset, bytes).map_err(theirs)?;
            here.region().write_from(here.offset() + offset, bytes).map_err(ours)
        }
    }
}

/// What is known of the peer after a slice stopped. Nobody but this thread writes, so it is known.
fn remote_side(slice: &Slice, done: u64) -> RemoteSide {
    match slice.op {
        Opcode::Write if done > 0 => RemoteSide::Settled,
        _ => RemoteSide::Untouched,
    }
}

fn fault(class: FaultClass, phase: Phase, cause: &str) -> SliceFault {
    SliceFault::new(class, phase, cause)
}
