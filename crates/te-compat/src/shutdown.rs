//! Ending engines when the process is told to end (I40–I43).
//!
//! ```text
//!   signal ─▶ handler: one byte into a pipe ─▶ thread: closes the engines, ends the process
//!   exit ───▶ hook: closes the engines
//! ```
//!
//! I1  The handler writes a byte, or ends a forked child; nothing else.
//! I2  Engines that were dropped before are not touched, and nothing here keeps one alive.
#![allow(unsafe_code, reason = "there is no signal handler and no exit hook but the system's")]

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{SigId, low_level};
use te_sync::Mutex;

use crate::code::Code;
use crate::engine::{Core, Engine};
use crate::failure::Failure;

/// Those that are to be closed, and the handlers of the process that they belong to.
static WATCHED: Mutex<Watched> = Mutex::new(Watched { engines: Vec::new(), handlers: Vec::new() });

/// The number of that process; 0 for none. Looked at without the lock, which a forked child may have
/// inherited locked.
static HOME: AtomicU32 = AtomicU32::new(0);

struct Watched {
    engines: Vec<Weak<Core>>,
    handlers: Vec<SigId>,
}

/// Closes this engine when the process gets SIGTERM or SIGINT, or ends by `exit`. After a signal the
/// process ends with 128 and its number. Handlers that the program had are called before. Asking again
/// for the same engine changes nothing.
///
/// # Errors
/// [`Failure::forked`]; [`Code::Memory`] where the system does not take the handlers.
pub fn enable_graceful_shutdown(engine: &Engine) -> Result<(), Failure> {
    engine.inner()?;
    let mut watched = WATCHED.lock();
    let here = std::process::id();
    if HOME.load(Ordering::Relaxed) != here {
        // What a forked child inherited is its parent's.
        watched.engines.clear();
        watched.handlers.drain(..).for_each(|handler| {
            low_level::unregister(handler);
        });
        let refused = |error: io::Error| Failure::new(Code::Memory, "build", error.to_string());
        watched.handlers = install(here).map_err(refused)?;
        HOME.store(here, Ordering::Relaxed);
    }
    watched.engines.retain(|known| known.strong_count() > 0);
    let core = Arc::downgrade(&engine.core);
    if !watched.engines.iter().any(|known| known.ptr_eq(&core)) {
        watched.engines.push(core);
    }
    Ok(())
}

fn install(here: u32) -> io::Result<Vec<SigId>> {
    let (reader, writer) = io::pipe()?;
    let writer = Arc::new(writer);
    let mut handlers = Vec::new();
    for signal in [SIGTERM, SIGINT] {
        let writer = Arc::clone(&writer);
        let told = move || {
            if std::process::id() != here {
                low_level::exit(128 + signal);
            }
            // There is nothing that a handler could do about a full pipe: then it was told before.
            let _ = rustix::io::write(writer.as_fd(), &signal.to_ne_bytes()[..1]);
        };
        // SAFETY: `told` asks for the process's number, ends the process without running anything, or
        // writes to a pipe; all of these may be done in a handler, and none allocates or panics.
        handlers.push(unsafe { low_level::register(signal, told) }?);
    }
    std::thread::Builder::new().name("te-shutdown".into()).spawn(move || watch(reader))?;
    // SAFETY: `at_exit` is a function of this library and catches its panics. The library stays: a
    // shared one with thread-local values that need dropping is never unloaded.
    match unsafe { libc::atexit(at_exit) } {
        0 => Ok(handlers),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// Waits for the first signal.
fn watch(mut reader: PipeReader) {
    let mut signal = [0];
    if reader.read_exact(&mut signal).is_ok() {
        close_all();
        low_level::exit(128 + i32::from(signal[0]));
    }
}

extern "C" fn at_exit() {
    if HOME.load(Ordering::Relaxed) == std::process::id() {
        close_all();
    }
}

/// Closes the engines of this process; each once.
fn close_all() {
    let watched = std::mem::take(&mut WATCHED.lock().engines);
    for engine in watched.iter().filter_map(Weak::upgrade) {
        let engine = Engine { core: engine };
        let limit = engine.config().engine.shutdown_timeout;
        // What panics has told so, and the others are to be closed as well.
        drop(catch_unwind(AssertUnwindSafe(|| engine.close(limit).map(drop))));
    }
}
