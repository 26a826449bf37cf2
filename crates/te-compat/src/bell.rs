//! Ends of transfers as a file descriptor: an event loop waits for it like for a socket, and no
//! thread is needed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use te_sync::Mutex;

/// Readable while tokens wait to be taken.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    rung: Mutex<Vec<u64>>,
}

impl Bell {
    /// A bell that nobody has rung.
    ///
    /// # Errors
    /// Where the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd, rung: Mutex::default() })
    }

    /// Adds a token. Never waits.
    pub fn ring(&self, token: u64) {
        let mut rung = self.rung.lock();
        rung.push(token);
        if rung.len() == 1 {
            // It can only fail where the counter is at its end: then the bell is readable already.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Takes the tokens, oldest first. The bell is not readable afterwards.
    pub fn take(&self) -> Vec<u64> {
        let mut rung = self.rung.lock();
        // Nothing to read is no error: it was not rung.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        std::mem::take(&mut rung)
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
