//! Registering memory with every transport, all or none, and publishing the result.
//!
//! I1  A range is reserved before any transport sees it, and open only after all took it.
//! I2  Whoever waits for another call that changes the same range holds neither lock nor range.
//! I3  A refusal leaves nothing behind: transports that took the buffer give it back (C22).

use std::sync::Arc;
use std::time::Duration;

use te_segment::{
    LocalBuffer, LocalSegment, Region, RegisterError, RegisterOptions, Reservation, Retiring,
    UnregisterError,
};
use te_transport::{Clock, Transport};

/// Local memory and those who use it.
#[derive(Debug)]
pub(crate) struct Registry {
    segment: Arc<LocalSegment>,
    transports: Vec<Arc<dyn Transport>>,
    /// How long an unregistration waits for transfers to let go, and a registration for another
    /// call on the same range.
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
        clock: &dyn Clock,
    ) -> Result<(), RegisterError> {
        let reservation = self.reserve(wanted, clock)?;
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

    /// Reserves the ranges. Where another call is registering or unregistering one of them it waits
    /// for the outcome, and then counts it or takes its place (FB33).
    fn reserve(
        &self,
        wanted: &[(Region, RegisterOptions)],
        clock: &dyn Clock,
    ) -> Result<Reservation<'_>, RegisterError> {
        let deadline = clock.now() + self.patience;
        loop {
            let reserved = self.segment.reserve(wanted);
            let Err(RegisterError::Changing { address, .. }) = reserved else { return reserved };
            let left = deadline.saturating_duration_since(clock.now());
            let may_wait = !left.is_zero() && !te_metadata::sabotage::is_off("duplicate-waits");
            if !(may_wait && self.segment.wait_unchanged(address, left)) {
                return reserved;
            }
        }
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

#[cfg(test)]
mod tests {
    //! The same range from several threads.

    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;

    use te_segment::{Access, AlignedBuffer};
    use te_transport::SystemClock;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    /// Time in which a call that does not wait would have ended.
    const MOMENT: Duration = Duration::from_millis(50);

    fn registry(patience: Duration) -> (Registry, [(Region, RegisterOptions); 1]) {
        let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
        let registry = Registry::new(Arc::new(LocalSegment::new()), Vec::new(), patience);
        (registry, [(region, RegisterOptions::default())])
    }

    #[test]
    fn fb33_a_duplicate_waits_for_the_end_of_an_unregistration() {
        // FB33: it used to be refused as an overlap with the buffer that was on its way out.
        let (registry, wanted) = registry(LONG);
        let (segment, address) = (&registry.segment, wanted[0].0.address());
        registry.register(&wanted, &SystemClock).unwrap();
        let guard = segment.acquire(address, 8, Access::Read).unwrap();
        let first = Arc::clone(guard.buffer());
        thread::scope(|scope| {
            let gone = scope.spawn(|| registry.unregister_all(&[address], &SystemClock));
            while !first.is_closing() {
                thread::yield_now();
            }
            let (sender, registered) = channel();
            let (registry, wanted) = (&registry, &wanted);
            scope.spawn(move || sender.send(registry.register(wanted, &SystemClock)).unwrap());
            let early = registered.recv_timeout(MOMENT).map(|done| done.is_ok());
            assert_eq!(early, Err(RecvTimeoutError::Timeout), "the bytes are still in use");
            drop(guard);
            gone.join().unwrap().unwrap();
            registered.recv_timeout(LONG).unwrap().unwrap();
        });
        let second = segment.find(address, 4096).unwrap();
        assert!(second.id() != first.id() && !second.is_closing());
        registry.unregister_all(&[address], &SystemClock).unwrap();
        assert!(!segment.overlaps(address, 4096));
    }

    #[test]
    fn fb33_a_duplicate_waits_for_a_registration_and_is_counted() {
        let (registry, wanted) = registry(LONG);
        let address = wanted[0].0.address();
        let first = registry.segment.reserve(&wanted).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| registry.register(&wanted, &SystemClock));
            first.commit();
            second.join().unwrap().unwrap();
        });
        let unregister = || registry.unregister_all(&[address], &SystemClock);
        assert_eq!([unregister(), unregister()], [Ok(()), Ok(())]);
        assert_eq!(unregister(), Err(UnregisterError::NotRegistered { address }));
    }

    #[test]
    fn a_duplicate_waits_no_longer_than_an_unregistration() {
        let (registry, wanted) = registry(MOMENT);
        let address = wanted[0].0.address();
        let register = || registry.register(&wanted, &SystemClock);
        let stuck = registry.segment.reserve(&wanted).unwrap();
        let refused = register().unwrap_err();
        assert!(matches!(refused, RegisterError::Changing { .. }), "{refused}");
        stuck.commit();
        let guard = registry.segment.acquire(address, 8, Access::Read).unwrap();
        let busy = registry.unregister_all(&[address], &SystemClock);
        assert_eq!(busy, Err(UnregisterError::Busy { address, in_flight: 1 }));
        let refused = register().unwrap_err();
        assert!(matches!(refused, RegisterError::Closing { in_flight: 1, .. }), "{refused}");
        drop(guard);
        registry.unregister_all(&[address], &SystemClock).unwrap();
        register().unwrap();
    }
}
