//! Engines in one process, memory that is a caller's, and a forked child.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the promise about memory, and the system's fork; helpers of tests fail by panicking"
)]
#![allow(dead_code, unreachable_pub, reason = "each test crate takes what it needs")]

use std::time::{Duration, Instant};

use te_compat::{Buffer, CallerMemory, Engine, EngineConfig, Options, Piece, Region};

pub const SIZE: u64 = 4 << 20;
pub const LIMIT: Duration = Duration::from_secs(20);

pub struct Node {
    pub engine: Engine,
    pub region: Region,
}

pub fn promise() -> CallerMemory {
    // SAFETY: tests make no reference to the memory whose addresses they give, except to leaked
    // memory before they give its address.
    unsafe { CallerMemory::promise() }
}

pub fn config(transports: &[&str]) -> EngineConfig {
    let names = transports.iter().map(|name| (*name).to_owned()).collect();
    let quick = |s: &mut te_engine::Settings| {
        s.engine.transports = names;
        s.engine.transfer_timeout = Duration::from_secs(5);
    };
    EngineConfig::default().adjust(quick).unwrap()
}

pub fn node(transports: &[&str]) -> Node {
    node_of(Options::new("P2PHANDSHAKE", "127.0.0.1").config(config(transports)))
}

pub fn node_of(options: Options) -> Node {
    let engine = Engine::new(&options, promise()).unwrap();
    let region = engine.allocate(SIZE).unwrap();
    engine.register(buffer(&region), "*", true).unwrap();
    Node { engine, region }
}

impl Node {
    pub fn name(&self) -> String {
        self.engine.local_name().to_owned()
    }

    /// An address of its region.
    pub fn at(&self, offset: u64) -> u64 {
        self.region.address() + offset
    }

    pub fn fill(&self, offset: u64, bytes: &[u8]) {
        self.region.write_from(offset, bytes).unwrap();
    }

    pub fn bytes(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(len).unwrap()];
        self.region.read_into(offset, &mut out).unwrap();
        out
    }
}

pub fn buffer(region: &Region) -> Buffer {
    Buffer { address: region.address(), len: region.len() }
}

pub fn piece(local: u64, remote: u64, len: u64) -> Piece {
    Piece { local, remote, len }
}

pub fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let byte = |i: u64| (i.wrapping_mul(131).wrapping_add(seed) ^ (i >> 11)).to_le_bytes()[0];
    (0..len).map(byte).collect()
}

/// The address of memory of a caller, which nobody registers and that holds these bytes.
pub fn leaked(bytes: Vec<u8>) -> u64 {
    Box::leak(bytes.into_boxed_slice()).as_mut_ptr().expose_provenance() as u64
}

/// Looks until it is so.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `check` in a forked child; says whether it found all well.
pub fn in_child(check: impl FnOnce() -> bool) -> bool {
    exit_of_child(|| i32::from(!check())) == 0
}

/// Runs `run` in a forked child, which exits with what it gives; the exit code, or −1.
pub fn exit_of_child(run: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls what a forked program may be expected to call, and ends in `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: no handler is installed, so the signal only ends the child when it hangs.
        unsafe { libc::alarm(30) };
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        // SAFETY: ends the child and nothing else.
        unsafe { libc::_exit(code.unwrap_or(99)) };
    }
    let mut status = -1;
    // SAFETY: `status` lives on this stack for the call.
    let reaped = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(reaped, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

/// Sends a signal to this process, and waits for what it does.
pub fn raise(signal: i32) -> ! {
    // SAFETY: sends a signal, of which this process installed a handler.
    unsafe { libc::raise(signal) };
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
