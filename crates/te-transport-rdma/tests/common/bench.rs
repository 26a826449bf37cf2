//! Two hosts that are connected, and what a test does with them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use te_segment::{LocalBuffer, Opcode, RemoteRange, Slice};
use te_transport::{Completion, FaultClass, Transport};
use te_transport_rdma::RdmaConfig;

use crate::common::{Two, bytes, config};

pub(crate) const LEN: usize = 4096;

/// Two hosts with memory that were connected by a first write.
pub(crate) struct Bench {
    pub(crate) two: Two,
    pub(crate) local: Arc<LocalBuffer>,
    pub(crate) target: Arc<LocalBuffer>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: RdmaConfig) -> Self {
        let two = Two::with(config);
        let (local, target) = (two.a.offer(LEN, 1), two.b.offer(LEN, 2));
        let bench = Self { two, local, target };
        assert_eq!(bench.two.a.run(&bench.write()).result, Ok(()));
        bench
    }

    pub(crate) fn write(&self) -> Slice {
        self.slice(Opcode::Write)
    }

    pub(crate) fn slice(&self, op: Opcode) -> Slice {
        let address = self.target.region().address();
        self.two.a.slice(op, &self.local, &self.two.b.remote(), address)
    }

    /// A write that was posted and is not carried out.
    pub(crate) fn held(&self, op: Opcode) -> Slice {
        self.two.fake.hold_traffic();
        let slice = self.slice(op);
        self.two.a.submit(&slice);
        self.two.a.pump();
        slice
    }

    /// So many writes of pages that do not touch each other, each a request of its own.
    pub(crate) fn apart(&self, local: &LocalBuffer, target: &LocalBuffer, n: u64) -> Vec<Slice> {
        let (peer, len) = (self.two.b.remote(), LEN as u64);
        let slice = |i| {
            let address = target.region().address() + 2 * i * len;
            let mut slice = self.two.a.slice(Opcode::Write, local, &peer, address);
            slice.local = local.region().range(2 * i * len, len).unwrap();
            slice.remote = RemoteRange::new(address, len).unwrap();
            slice
        };
        (0..n).map(slice).collect()
    }

    /// Hands slices over at once.
    pub(crate) fn submit(&self, slices: &[Slice]) {
        let mut queue: std::collections::VecDeque<Slice> = slices.iter().cloned().collect();
        assert_eq!(self.two.a.rdma.submit(&slices[0].peer, &mut queue), slices.len());
    }

    /// Traffic works again without a restart.
    #[track_caller]
    pub(crate) fn goes_on(&self) {
        self.two.fake.release();
        let byte = bytes(&self.local)[0].wrapping_add(1);
        self.local.region().write_from(0, &[byte; LEN]).unwrap();
        self.two.a.run_until_done(|| self.write(), Duration::from_secs(10));
        assert_eq!(bytes(&self.target), [byte; LEN]);
    }
}

pub(crate) fn class(end: &Completion) -> Option<FaultClass> {
    end.result.as_ref().err().map(|fault| fault.class)
}
