//! Making, describing and ending engines (te-classic A101–A105, A118–A120).

use std::ffi::{c_char, c_int, c_void};

use te_compat::{
    Failure, NicLoad, Options, answer, enable_graceful_shutdown, guarded, set_last_failure,
};

use crate::abi::NicLoadStat;
use crate::handle::{self, Handle};
use crate::more::make;
use crate::raw::{Buffer, In, Out, Text, array};

#[unsafe(no_mangle)]
extern "C" fn createTransferEngine(
    metadata_conn_string: Text,
    local_server_name: Text,
    ip_or_host_name: Text,
    _rpc_port: u64,
    _auto_discover: c_int,
) -> Handle {
    let made = guarded(|| {
        let metadata = metadata_conn_string.read("metadata_conn_string")?;
        let name = local_server_name.read("local_server_name")?;
        // Looked at and not used (A4).
        ip_or_host_name.optional("ip_or_host_name")?;
        // Either way all transports that are here are started: installTransport finds them (A12).
        make(&Options::new(metadata, name))
    });
    made.inspect_err(set_last_failure).unwrap_or(Handle::NULL)
}

#[unsafe(no_mangle)]
extern "C" fn destroyTransferEngine(engine: Handle) {
    let ended = guarded(|| {
        let engine = handle::remove(engine)?;
        // Other threads may be inside calls, so that this handle need not be the last one.
        engine.close(engine.config().engine.shutdown_timeout).map(drop)
    });
    ended.inspect_err(set_last_failure).unwrap_or(());
}

#[unsafe(no_mangle)]
extern "C" fn getLocalIpAndPort(engine: Handle, buf_out: Buffer, buf_len: usize) -> c_int {
    answer(guarded(|| {
        let text = engine.engine()?.local_ip_and_port();
        buf_out.write(buf_len, &text, "buf_out")
    }))
}

#[unsafe(no_mangle)]
extern "C" fn discoverTopology(engine: Handle) -> c_int {
    answer(guarded(|| engine.engine()?.topology().map(drop)))
}

#[unsafe(no_mangle)]
extern "C" fn installTransport(engine: Handle, proto: Text, args: In<*mut c_void>) -> *mut c_void {
    let installed = guarded(|| {
        let engine = engine.engine()?;
        let matrix = match args.is_null() {
            true => Text::inside(std::ptr::null()),
            false => Text::inside(args.value("args")?.cast::<c_char>().cast_const()),
        };
        engine.install_transport(proto.read("proto")?, matrix.optional("args[0]")?)
    });
    match installed.inspect_err(set_last_failure) {
        Ok(_) => std::ptr::without_provenance_mut(TRANSPORT),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Stands for a transport; nothing can be done with it, and nobody has memory there.
const TRANSPORT: usize = 0x7d << 56;

#[unsafe(no_mangle)]
extern "C" fn uninstallTransport(engine: Handle, proto: Text) -> c_int {
    answer(guarded(|| {
        engine.engine()?;
        proto.read("proto").map(drop)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn enableGracefulShutdown(engine: Handle) {
    let done = guarded(|| enable_graceful_shutdown(&engine.engine()?));
    done.inspect_err(set_last_failure).unwrap_or(());
}

#[unsafe(no_mangle)]
extern "C" fn showLinks(engine: Handle, buf: Buffer, buf_len: usize, json: c_int) -> c_int {
    answer(guarded(|| buf.write(buf_len, &engine.engine()?.links(json != 0)?, "buf")))
}

#[unsafe(no_mangle)]
extern "C" fn getNicLoadStats(engine: Handle, stats: Out<NicLoadStat>, count: Out<usize>) -> c_int {
    answer(guarded(|| {
        let loads = engine.engine()?.nic_load()?;
        let room = count.now("count")?;
        if stats.is_null() {
            return Err(Failure::invalid("argument", "stats is a null pointer"));
        }
        let entries: Vec<NicLoadStat> = loads.iter().take(room).map(entry).collect();
        stats.put_all(&entries, "stats")?;
        count.put(loads.len(), "count")
    }))
}

fn entry(load: &NicLoad) -> NicLoadStat {
    NicLoadStat {
        device_name: array(&load.name),
        inflight_bytes: load.queued_bytes,
        ewma_bandwidth_bps: 0.0,
    }
}
