//! The thread on which a store's asynchronous client runs, and blocking calls to it.
//!
//! ```text
//!   caller ──spawn──▶ runtime on thread "te-store" ──answer──▶ caller, which waits no longer than told
//! ```
//!
//! I1  A call returns by its deadline, whatever the client does.
//! I2  In a forked child, where the thread is not, the first call starts another one with a client
//!     of its own; connections of the parent are never used.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use te_sync::Mutex;
use tokio::runtime;
use tokio::sync::oneshot;

/// Room for a call to tell its own error before its caller stops waiting.
const GRACE: Duration = Duration::from_millis(200);

/// Runs a client of type `C` on a thread of its own.
pub(crate) struct Driver<C> {
    build: Box<dyn Fn() -> C + Send + Sync>,
    running: Mutex<Option<Running<C>>>,
}

struct Running<C> {
    process: u32,
    handle: runtime::Handle,
    client: C,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// Its time was over.
    TimedOut,
    /// The thread could not be started or has ended.
    NoThread(io::Error),
}

impl<C: Clone + Send + 'static> Driver<C> {
    /// A driver whose clients `build` makes, on the driver's thread and inside its runtime.
    pub(crate) fn new(build: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self { build: Box::new(build), running: Mutex::new(None) }
    }

    /// Does something with the client; waits for at most `limit` and a little more.
    pub(crate) fn call<T, F>(
        &self,
        limit: Duration,
        work: impl FnOnce(C) -> F,
    ) -> Result<T, NoAnswer>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (handle, client) = self.running(limit)?;
        let (answer, answered) = mpsc::sync_channel(1);
        let work = work(client);
        let task = handle.spawn(async move {
            if let Ok(result) = tokio::time::timeout(limit, work).await {
                // The caller may have stopped waiting.
                let _ = answer.try_send(result);
            }
        });
        let received = answered.recv_timeout(limit + GRACE);
        task.abort();
        received.map_err(|_| NoAnswer::TimedOut)
    }

    /// The runtime and the client of this process. The lock may be held for ever by a thread that
    /// a fork left behind, so it is not waited for without a bound.
    fn running(&self, limit: Duration) -> Result<(runtime::Handle, C), NoAnswer> {
        let mut running = self.running.try_lock_for(limit).ok_or(NoAnswer::TimedOut)?;
        let process = std::process::id();
        if running.as_ref().is_some_and(|it| it.process != process) {
            // Its thread is not in this process; nothing of it may be touched.
            std::mem::forget(running.take());
        }
        if running.is_none() {
            *running = Some(self.start(process).map_err(NoAnswer::NoThread)?);
        }
        let it = running.as_ref().expect("it was set above");
        Ok((it.handle.clone(), it.client.clone()))
    }

    fn start(&self, process: u32) -> io::Result<Running<C>> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let client = {
            let _inside = handle.enter();
            (self.build)()
        };
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("te-store".to_owned()).spawn(move || {
            // Ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
            // A look-up of a host name cannot be interrupted, and is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Running { process, handle, client, _stop: stop })
    }
}

impl<C> Drop for Driver<C> {
    fn drop(&mut self) {
        let running = self.running.get_mut();
        if running.as_ref().is_some_and(|it| it.process != std::process::id()) {
            std::mem::forget(running.take());
        }
    }
}

impl<C> fmt::Debug for Driver<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_answered_and_hanging_ones_end() {
        let driver = Driver::new(|| 7);
        assert_eq!(driver.call(Duration::from_secs(5), |n| async move { n + 1 }).unwrap(), 8);
        let hung = driver.call(Duration::from_millis(20), |_| std::future::pending::<()>());
        assert!(matches!(hung, Err(NoAnswer::TimedOut)));
        assert_eq!(driver.call(Duration::from_secs(5), |n| async move { n }).unwrap(), 7);
    }
}
