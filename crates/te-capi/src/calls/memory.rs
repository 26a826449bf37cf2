//! Registering memory (te-classic A110, A111).

use std::ffi::{c_int, c_void};

use te_compat::{Buffer, Failure, answer, guarded};

use crate::abi::BufferEntry;
use crate::handle::Handle;
use crate::raw::{Address, In, Text};

#[unsafe(no_mangle)]
extern "C" fn registerLocalMemory(
    engine: Handle,
    addr: Address,
    length: usize,
    location: Text,
    remote_accessible: c_int,
) -> c_int {
    answer(guarded(|| {
        let buffer = Buffer { address: addr.number(), len: length as u64 };
        engine.engine()?.register(buffer, place(&location)?, remote_accessible != 0)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn unregisterLocalMemory(engine: Handle, addr: Address) -> c_int {
    answer(guarded(|| engine.engine()?.unregister(addr.number())))
}

#[unsafe(no_mangle)]
extern "C" fn registerLocalMemoryBatch(
    engine: Handle,
    buffer_list: In<BufferEntry>,
    buffer_len: usize,
    location: Text,
) -> c_int {
    answer(guarded(|| {
        let engine = engine.engine()?;
        let entries = buffer_list.entries(buffer_len, "buffer_list")?;
        let buffer =
            |one: &BufferEntry| Buffer { address: one.addr.addr() as u64, len: one.length as u64 };
        let buffers: Vec<Buffer> = entries.iter().map(buffer).collect();
        engine.register_batch(&buffers, place(&location)?, true)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn unregisterLocalMemoryBatch(
    engine: Handle,
    addr_list: In<*mut c_void>,
    addr_len: usize,
) -> c_int {
    answer(guarded(|| {
        let engine = engine.engine()?;
        let entries = addr_list.entries(addr_len, "addr_list")?;
        let addresses: Vec<u64> = entries.iter().map(|one| one.addr() as u64).collect();
        engine.unregister_batch(&addresses)
    }))
}

/// Where memory is; a null pointer says that nothing is known.
fn place(location: &Text) -> Result<&str, Failure> {
    Ok(location.optional("location")?.unwrap_or("*"))
}
