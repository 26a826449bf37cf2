//! Places that a test may use: folders that go away with it, and ports that nobody has.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A number that no other call in this process gets.
pub(crate) fn serial() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A folder that is removed with everything in it when the value is dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes one.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// Makes one whose files are memory: for files that are mapped and written all the time.
    ///
    /// # Errors
    /// What the system says.
    pub fn in_memory() -> io::Result<Self> {
        Self::below(Path::new("/dev/shm"))
    }

    fn below(place: &Path) -> io::Result<Self> {
        let path = place.join(format!("te-suites-{}-{}", std::process::id(), serial()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What is left lies in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ports that the system gives to nobody who asks for any, and engines do not ask for.
const PORTS: std::ops::Range<u32> = 18_000..32_000;

/// A TCP port of `host` that was free a moment ago, and that no other call in this process gets. For
/// a service that must be told its port; a server of ours binds port 0 itself.
///
/// # Errors
/// What the system says of the last one, where none is free.
pub fn free_port(host: &str) -> io::Result<u16> {
    let count = PORTS.end - PORTS.start;
    let mut outcome = Err(io::ErrorKind::AddrInUse.into());
    for _ in 0..count {
        // Where two processes look at once they begin at different places.
        let place = std::process::id().wrapping_mul(97).wrapping_add(serial()) % count;
        let port = u16::try_from(PORTS.start + place).expect("the range has ports only");
        outcome = TcpListener::bind((host, port)).map(|_| port);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}
