//! Asking and telling peers by their names.

use std::ffi::c_int;

use te_compat::{answer, guarded};

use crate::abi::NotifyMsg;
use crate::calls::notify;
use crate::handle::Handle;
use crate::raw::{Out, Text};

#[unsafe(no_mangle)]
extern "C" fn te_probe(engine: Handle, peer: Text, round_trip_ns: Out<u64>) -> c_int {
    answer(guarded(|| {
        let time = engine.engine()?.probe_by_name(peer.read("peer")?)?;
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        round_trip_ns.put_if_wanted(nanos, "round_trip_ns")
    }))
}

#[unsafe(no_mangle)]
extern "C" fn te_send_notify(engine: Handle, peer: Text, notify_msg: NotifyMsg) -> c_int {
    answer(guarded(|| engine.engine()?.notify_by_name(peer.read("peer")?, &notify(&notify_msg)?)))
}

#[unsafe(no_mangle)]
extern "C" fn te_first_buffer_address(engine: Handle, peer: Text, address: Out<u64>) -> c_int {
    answer(guarded(|| {
        address.put(engine.engine()?.first_buffer_address(peer.read("peer")?)?, "address")
    }))
}
