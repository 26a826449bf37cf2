//! Registering memory with every transport, all or none, and publishing the result.
//!
//! I1  A range is reserved before any transport sees it, and open only after all took it.
//! I2  A refusal leaves nothing behind: transports that took the buffer give it back (C22).

use std::sync::Arc;
use std::time::Duration;

use te_segment::{
    LocalBuffer, LocalSegment, Region, RegisterError, RegisterOptions, Retiring, UnregisterError,
};
use te_transport::{Clock, Transport};

/// Local memory and those who use it.
#[derive(Debug)]
pub(crate) struct Registry {
    segment: Arc<LocalSegment>,
    transports: Vec<Arc<dyn Transport>>,
    /// How long an unregistration waits for transfers to let go.
    patience: Duration,
}

impl Registry {
    pub(crate) fn new(
        segment: Arc<LocalSegment>,
        transports: Vec<Arc<dyn Transport>>,
        patience: Duration,
    ) -> Self {
        Self { segment, transports, patience }
    }

    pub(crate) fn segment(&self) -> &Arc<LocalSegment> {
        &self.segment
    }

    /// Leaves the transports as they are for good: the calling process has none of their threads.
    pub(crate) fn abandon(&self) {
        self.transports.iter().for_each(|transport| std::mem::forget(Arc::clone(transport)));
    }

    pub(crate) fn register(
        &self,
        wanted: &[(Region, RegisterOptions)],
    ) -> Result<(), RegisterError> {
        let reservation = self.segment.reserve(wanted)?;
        let fresh: Vec<&Arc<LocalBuffer>> = reservation.fresh().collect();
        for (done, buffer) in fresh.iter().enumerate() {
            if let Err(error) = self.offer(buffer) {
                fresh[..done].iter().for_each(|taken| self.withdraw(taken, self.transports.len()));
                drop(fresh);
                // Duplicates whose other registration went meanwhile have nobody else to end them.
                for orphan in reservation.roll_back() {
                    self.withdraw(orphan.buffer(), self.transports.len());
                    drop(orphan.finish(self.patience));
                }
                return Err(error);
            }
        }
        drop(fresh);
        reservation.commit();
        Ok(())
    }

    /// Offers one buffer to every transport in turn.
    fn offer(&self, buffer: &Arc<LocalBuffer>) -> Result<(), RegisterError> {
        for (asked, transport) in self.transports.iter().enumerate() {
            if let Err(cause) = transport.register(buffer) {
                // Also the one that refused: it may hold a part (C22).
                self.withdraw(buffer, asked + 1);
                return Err(RegisterError::Transport {
                    transport: transport.capabilities().name,
                    address: buffer.region().address(),
                    len: buffer.region().len(),
                    cause,
                });
            }
        }
        Ok(())
    }

    /// Takes a buffer back from the first `n` transports, last first.
    fn withdraw(&self, buffer: &Arc<LocalBuffer>, n: usize) {
        self.transports[..n].iter().rev().for_each(|transport| transport.deregister(buffer));
    }

    /// Unregisters all of them, past errors; gives the first error (A26, J45). All of them are
    /// closed to new work before any is waited for, and one limit holds for all the waiting.
    pub(crate) fn unregister_all(
        &self,
        addresses: &[u64],
        clock: &dyn Clock,
    ) -> Result<(), UnregisterError> {
        let deadline = clock.now() + self.patience;
        let retire = |address: &u64| {
            let retiring = self.segment.retire(*address)?;
            if let Some(retiring) = &retiring {
                self.withdraw(retiring.buffer(), self.transports.len());
            }
            Ok(retiring)
        };
        let retiring: Vec<_> = addresses.iter().map(retire).collect();
        let finish = |retiring: Result<Option<Retiring<'_>>, UnregisterError>| match retiring? {
            Some(retiring) => retiring.finish(deadline.saturating_duration_since(clock.now())),
            None => Ok(()),
        };
        retiring.into_iter().map(finish).fold(Ok(()), Result::and)
    }
}
