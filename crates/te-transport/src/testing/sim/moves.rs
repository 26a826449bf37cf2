//! How one slice fares: what its bytes did, and what is said of it when it stops short.

use te_segment::{BufferGuard, Opcode};

use super::copy::{Stuck, after, copy, local_fault, refused};
use super::endpoint::{Fate, Outcome, Progress, Running};
use crate::completion::RemoteSide;
use crate::fault::{FaultClass, Phase, SliceFault};

/// Moves what the slice's fate lets through, and says how it ended.
pub(super) fn move_bytes(running: &Running, guard: &BufferGuard) -> Outcome {
    let (len, lost) = match running.fate {
        Fate::LostAfter(prefix) => (prefix, Some(Phase::Payload)),
        Fate::AnswerLost => (running.slice.len(), Some(Phase::Status)),
        Fate::Sound => (running.slice.len(), None),
    };
    let (here, there) = (&running.slice.local, guard.range());
    let copied = match running.slice.op {
        Opcode::Write => copy(here, there, len),
        Opcode::Read => copy(there, here, len),
    };
    let is_write = running.slice.op == Opcode::Write;
    let partial = if is_write { after(len) } else { RemoteSide::Settled };
    match (copied, lost) {
        (Ok(()), None) => (Ok(()), RemoteSide::Settled),
        (Ok(()), Some(phase)) => (Err(lost_on_the_way(phase)), partial),
        (Err(Stuck::Source(e)), _) if is_write => (Err(local_fault(&e)), RemoteSide::Untouched),
        (Err(Stuck::Sink(e)), _) if !is_write => (Err(local_fault(&e)), RemoteSide::Settled),
        (Err(Stuck::Source(e) | Stuck::Sink(e)), _) => (Err(refused(e.to_string())), partial),
    }
}

/// A write that is stopped while it moves leaves any part of its bytes behind.
pub(super) fn stop_in_the_middle(running: &Running, random: u64) -> RemoteSide {
    match (&running.guard, running.slice.op) {
        (Some(guard), Opcode::Write) if running.outcome.is_none() => {
            let prefix = random % (running.slice.len() + 1);
            match copy(&running.slice.local, guard.range(), prefix) {
                Ok(()) => after(prefix),
                Err(_) => RemoteSide::InDoubt,
            }
        }
        _ => RemoteSide::Untouched,
    }
}

pub(super) fn in_doubt_if_moving(running: &Running) -> RemoteSide {
    match (running.progress, running.slice.op) {
        (Progress::Moving, Opcode::Write) => RemoteSide::InDoubt,
        _ => RemoteSide::Untouched,
    }
}

pub(super) fn phase(running: &Running) -> Phase {
    match running.progress {
        Progress::Queued => Phase::Queue,
        Progress::Moving => Phase::Payload,
        Progress::Landed => Phase::Status,
    }
}

pub(super) fn unreachable(phase: Phase) -> SliceFault {
    SliceFault::new(FaultClass::Peer, phase, "the peer is gone")
}

fn lost_on_the_way(phase: Phase) -> SliceFault {
    SliceFault::new(FaultClass::Rail, phase, "lost on the way")
}
