//! Notifications (te-classic A115, A116).

use std::ffi::c_int;

use te_compat::{Failure, answer, guarded, set_last_failure};

use super::batches::notify;
use crate::abi::NotifyMsg;
use crate::handle::Handle;
use crate::raw::{Out, Taken, give_back, hand_out};

#[unsafe(no_mangle)]
extern "C" fn getNotifsFromEngine(engine: Handle, size: Out<i32>) -> *mut NotifyMsg {
    let taken = guarded(|| {
        let engine = engine.engine()?;
        // Before anything is taken: what has no place must not be lost.
        size.put(0, "size")?;
        let arrived = engine.take_notifies()?;
        let count = i32::try_from(arrived.len());
        let count = count.map_err(|_| Failure::invalid("notify", "too many notifications"))?;
        let texts: Vec<(&str, &str)> =
            arrived.iter().map(|one| (one.name.as_str(), one.msg.as_str())).collect();
        let list = hand_out(&texts)?;
        size.put(count, "size")?;
        Ok(list)
    });
    taken.inspect_err(set_last_failure).unwrap_or(std::ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn freeNotifsMsgBuf(msg: Taken, _size: c_int) -> c_int {
    answer(guarded(|| {
        give_back(&msg);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn genNotifyInEngine(engine: Handle, target_id: u64, notify_msg: NotifyMsg) -> c_int {
    answer(guarded(|| engine.engine()?.notify(target_id, &notify(&notify_msg)?)))
}
