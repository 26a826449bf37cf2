//! Engines with filters, their orderly end, and the state of their memory.

use std::ffi::{CStr, c_char, c_int};

use te_compat::{Code, Engine, Failure, Options, answer, complain, guarded, set_last_failure};

use super::time;
use crate::abi::{self, CloseReport};
use crate::handle::{self, Handle};
use crate::raw::{Address, Buffer, In, Out, Text, caller_memory};

#[unsafe(no_mangle)]
extern "C" fn te_version() -> *const c_char {
    VERSION.as_ptr()
}

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a version has no NUL inside"),
    };

#[unsafe(no_mangle)]
extern "C" fn te_create(options: In<abi::Options>) -> Handle {
    let made = guarded(|| {
        let given = options.value("options")?;
        if given.size != size_of::<abi::Options>() {
            let cause = format!("options.size is {}, which no version has", given.size);
            return Err(Failure::invalid("argument", cause));
        }
        let metadata = Text::inside(given.metadata);
        let metadata = metadata.optional("options.metadata")?.unwrap_or("P2PHANDSHAKE");
        let name = Text::inside(given.name);
        let filters = names(&given)?;
        make(&Options::new(metadata, name.read("options.name")?).filters(&filters))
    });
    made.inspect_err(set_last_failure).unwrap_or(Handle::NULL)
}

/// Names of NICs, commas between.
fn names(given: &abi::Options) -> Result<String, Failure> {
    if given.filters.is_null() {
        return Ok(String::new());
    }
    let list = In::inside(given.filters);
    let mut all = Vec::new();
    for one in list.entries(given.filter_count, "options.filters")? {
        let name = Text::inside(*one);
        all.push(name.read("options.filters")?.to_owned());
    }
    Ok(all.join(","))
}

/// Makes an engine and a handle for it. The caller gets a bare null where that fails, so that the log
/// says why.
pub(crate) fn make(options: &Options) -> Result<Handle, Failure> {
    options.start_logging();
    let made = Engine::new(options, caller_memory()).and_then(handle::insert);
    made.inspect_err(complain)
}

#[unsafe(no_mangle)]
extern "C" fn te_close(engine: Handle, timeout_ms: u64, report: Out<CloseReport>) -> c_int {
    answer(guarded(|| {
        let left = engine.engine()?.close(time(timeout_ms))?;
        let told = CloseReport {
            open_tasks: left.open_tasks as u64,
            kept_bytes: left.kept_bytes,
            joined: i32::from(left.joined),
            reserved: 0,
        };
        report.put_if_wanted(told, "report")
    }))
}

#[unsafe(no_mangle)]
extern "C" fn te_local_topology(
    engine: Handle,
    buf: Buffer,
    buf_len: usize,
    length: Out<usize>,
) -> c_int {
    answer(guarded(|| {
        let text = engine.engine()?.topology()?;
        buf.write(buf_len, &text, "buf")?;
        length.put_if_wanted(text.len(), "length")
    }))
}

#[unsafe(no_mangle)]
extern "C" fn te_check_overlap(engine: Handle, addr: Address, length: usize) -> c_int {
    let told = guarded(|| engine.engine()?.overlaps(addr.number(), length as u64));
    match told.inspect_err(set_last_failure) {
        Ok(is_overlap) => c_int::from(is_overlap),
        Err(failure) => failure.code().as_i32(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn te_quarantined_bytes(engine: Handle, bytes: Out<u64>) -> c_int {
    answer(guarded(|| bytes.put(engine.engine()?.quarantined_bytes()?, "bytes")))
}

#[unsafe(no_mangle)]
extern "C" fn te_wait_quiescent(engine: Handle, timeout_ms: u64) -> c_int {
    answer(guarded(|| {
        let engine = engine.engine()?;
        if engine.wait_quiescent(time(timeout_ms))? {
            return Ok(());
        }
        let cause = format!("{} bytes are in quarantine", engine.quarantined_bytes()?);
        Err(Failure::new(Code::Clock, "memory", cause))
    }))
}
