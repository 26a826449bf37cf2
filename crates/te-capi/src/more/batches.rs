//! Batches as a whole: state, waiting, faults, calling back.

use std::ffi::c_int;

use te_compat::{BatchState, Code, NotifyOutcome, answer, guarded, set_last_failure};

use super::error::{nothing, record};
use super::time;
use crate::abi::{BatchStatus, ErrorRecord};
use crate::handle::Handle;
use crate::raw::Out;

#[unsafe(no_mangle)]
extern "C" fn te_batch_status(engine: Handle, batch_id: u64, status: Out<BatchStatus>) -> c_int {
    answer(guarded(|| status.put(told(&engine.engine()?.batch_state(batch_id)?), "status")))
}

#[unsafe(no_mangle)]
extern "C" fn te_wait(
    engine: Handle,
    batch_id: u64,
    timeout_ms: u64,
    status: Out<BatchStatus>,
) -> c_int {
    answer(guarded(|| {
        let engine = engine.engine()?;
        let waited = engine.wait_batch(batch_id, time(timeout_ms));
        let state = match &waited {
            Ok(state) => told(state),
            Err(failure) if failure.code() == Code::Clock => told(&engine.batch_state(batch_id)?),
            Err(failure) => return Err(failure.clone()),
        };
        status.put_if_wanted(state, "status")?;
        waited.map(drop)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn te_task_fault(
    engine: Handle,
    batch_id: u64,
    task_id: usize,
    fault: Out<ErrorRecord>,
) -> c_int {
    let found = guarded(|| {
        let failure = engine.engine()?.task_status(batch_id, task_id)?.failure;
        fault.put(failure.as_ref().map_or_else(nothing, record), "fault")?;
        Ok(c_int::from(failure.is_some()))
    });
    found.inspect_err(set_last_failure).unwrap_or_else(|failure| failure.code().as_i32())
}

#[unsafe(no_mangle)]
extern "C" fn te_cancel(engine: Handle, batch_id: u64) -> c_int {
    answer(guarded(|| engine.engine()?.cancel_batch(batch_id)))
}

fn told(state: &BatchState) -> BatchStatus {
    BatchStatus {
        status: state.state as i32,
        notify: notify(&state.notify),
        total: state.total as u64,
        completed: state.completed as u64,
        failed: state.failed as u64,
        quarantined: state.quarantined as u64,
        bytes: state.bytes,
    }
}

fn notify(outcome: &NotifyOutcome) -> i32 {
    match outcome {
        NotifyOutcome::None => 0,
        NotifyOutcome::Sending => 1,
        NotifyOutcome::Delivered => 2,
        NotifyOutcome::Full(_) => 3,
        NotifyOutcome::Failed(_) => 4,
    }
}
