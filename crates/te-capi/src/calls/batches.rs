//! Batches and their tasks (te-classic A112–A114).

use std::ffi::c_int;

use te_compat::{
    Failure, INVALID_BATCH, Notify, Request, answer_status, guarded, set_last_failure,
};

use crate::abi::{NotifyMsg, TransferRequest, TransferStatus};
use crate::handle::Handle;
use crate::raw::{In, Out, Text};

#[unsafe(no_mangle)]
extern "C" fn allocateBatchID(engine: Handle, batch_size: usize) -> u64 {
    let made = guarded(|| engine.engine()?.allocate_batch(batch_size));
    made.inspect_err(set_last_failure).unwrap_or(INVALID_BATCH)
}

#[unsafe(no_mangle)]
extern "C" fn submitTransfer(
    engine: Handle,
    batch_id: u64,
    entries: In<TransferRequest>,
    count: usize,
) -> c_int {
    answer_status(guarded(|| {
        let engine = engine.engine()?;
        engine.submit(batch_id, entries.entries(count, "entries")?.iter().map(request))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn submitTransferWithNotify(
    engine: Handle,
    batch_id: u64,
    entries: In<TransferRequest>,
    count: usize,
    notify_msg: NotifyMsg,
) -> c_int {
    answer_status(guarded(|| {
        let engine = engine.engine()?;
        let notify = notify(&notify_msg)?;
        let requests = entries.entries(count, "entries")?.iter().map(request);
        engine.submit_with_notify(batch_id, requests, notify)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn getTransferStatus(
    engine: Handle,
    batch_id: u64,
    task_id: usize,
    status: Out<TransferStatus>,
) -> c_int {
    answer_status(guarded(|| {
        let task = engine.engine()?.task_status(batch_id, task_id)?;
        let found = TransferStatus { status: task.state as c_int, transferred_bytes: task.bytes };
        status.put(found, "status")
    }))
}

#[unsafe(no_mangle)]
extern "C" fn freeBatchID(engine: Handle, batch_id: u64) -> c_int {
    answer_status(guarded(|| engine.engine()?.free_batch(batch_id)))
}

fn request(one: &TransferRequest) -> Request {
    Request {
        opcode: one.opcode,
        source: one.source.addr() as u64,
        target: one.target_id,
        offset: one.target_offset,
        len: one.length,
    }
}

/// A notification of the caller.
pub(crate) fn notify(message: &NotifyMsg) -> Result<Notify, Failure> {
    let (name, text) = (Text::inside(message.name), Text::inside(message.msg));
    Ok(Notify {
        name: name.read("notify_msg.name")?.to_owned(),
        msg: text.read("notify_msg.msg")?.to_owned(),
    })
}
