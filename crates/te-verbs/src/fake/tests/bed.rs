//! Two devices on two hosts, with connected queue pairs and memory.

use std::net::Ipv4Addr;
use std::sync::Arc;

use te_segment::{AlignedBuffer, Opcode, Region, RemoteAccess};
use te_topology::NicName;

use crate::fake::{Fake, FakeDevice, FakeNic};
use crate::port::Mtu;
use crate::queue_pair::{QueuePairCapacity, Ready, Route};
use crate::seam::{CompletionQueue, Device, MemoryAccess, MemoryRegion, QueuePair, Verbs};
use crate::work::{Payload, Sge, WorkCompletion, WorkRequest, WorkStatus};

pub(super) const CAPACITY: QueuePairCapacity =
    QueuePairCapacity { send_requests: 8, receive_requests: 1, ranges: 4, inline_bytes: 64 };

pub(super) const ALL: MemoryAccess =
    MemoryAccess { remote: RemoteAccess::ReadWrite, relaxed_ordering: false };

pub(super) fn name(text: &str) -> NicName {
    NicName::parse(text).unwrap()
}

pub(super) fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

pub(super) struct Side {
    pub(super) nic: FakeNic,
    pub(super) device: Arc<dyn Device>,
    pub(super) queue: Arc<dyn CompletionQueue>,
    pub(super) memory: Region,
    pub(super) keys: Box<dyn MemoryRegion>,
}

impl Side {
    pub(super) fn new(fake: &Fake, host: &str, device: FakeDevice) -> Self {
        let name = device.name.clone();
        let nic = fake.add(host, device);
        let device = fake.host(host).open(&name).unwrap();
        let memory = Region::from(AlignedBuffer::zeroed(65536).unwrap());
        let keys = device.register(&memory.whole(), ALL).unwrap();
        let queue = device.completion_queue(64).unwrap();
        Self { nic, device, queue, memory, keys }
    }

    pub(super) fn pair(&self) -> Arc<dyn QueuePair> {
        self.device.queue_pair(&self.queue, CAPACITY).unwrap()
    }

    /// Identifiers and statuses of what has ended.
    pub(super) fn ended(&self) -> Vec<(u64, WorkStatus)> {
        let empty =
            WorkCompletion { id: 0, status: WorkStatus::Fatal, queue_pair: 0, vendor_error: 0 };
        let mut out = [empty; 64];
        let count = self.queue.poll(&mut out).unwrap();
        out[..count].iter().map(|one| (one.id, one.status)).collect()
    }
}

pub(super) struct Bed {
    pub(super) fake: Fake,
    pub(super) a: Side,
    pub(super) b: Side,
}

impl Bed {
    pub(super) fn new(seed: u64) -> Self {
        let fake = Fake::new(seed);
        let a = Side::new(&fake, "a", FakeDevice::new(name("mlx_0"), address(1)));
        let b = Side::new(&fake, "b", FakeDevice::new(name("mlx_0"), address(2)));
        Self { fake, a, b }
    }

    pub(super) fn route(to: u8, number: u32) -> Route {
        Route {
            port: 1,
            gid_index: 1,
            gid: te_topology::Gid::new(address(to).to_ipv6_mapped().octets()),
            lid: 0,
            queue_pair: number,
            first_packet: 0,
            mtu: Mtu::B4096,
            reads: 16,
            min_rnr_timer: 12,
            hop_limit: 16,
            traffic_class: 0,
            service_level: 0,
        }
    }

    pub(super) fn connect(pair: &dyn QueuePair, route: &Route, retries: u8) {
        pair.to_init(1, 0).unwrap();
        pair.to_ready_to_receive(route).unwrap();
        let ready = Ready { first_packet: 0, reads: 16, timeout: 14, retries, rnr_retries: 7 };
        pair.to_ready_to_send(&ready).unwrap();
    }

    /// Connected queue pairs with this number of tries.
    pub(super) fn pairs(&self, retries: u8) -> (Arc<dyn QueuePair>, Arc<dyn QueuePair>) {
        let (near, far) = (self.a.pair(), self.b.pair());
        Self::connect(&*near, &Self::route(2, far.number()), retries);
        Self::connect(&*far, &Self::route(1, near.number()), retries);
        (near, far)
    }

    /// Posts a WRITE of the byte at `id` in A's memory to the same place in B's.
    pub(super) fn write(&self, pair: &dyn QueuePair, id: u64) {
        self.post(pair, Opcode::Write, id).unwrap();
    }

    pub(super) fn post(
        &self,
        pair: &dyn QueuePair,
        op: Opcode,
        id: u64,
    ) -> Result<(), crate::PostError> {
        let range = Sge { address: self.a.memory.address() + id, len: 1, lkey: self.a.keys.lkey() };
        pair.post(&[WorkRequest {
            id,
            op,
            payload: Payload::Ranges(&[range]),
            remote_address: self.b.memory.address() + id,
            rkey: self.b.keys.rkey(),
            signaled: true,
        }])
    }

    pub(super) fn arrived(&self, at: u64) -> u8 {
        let mut byte = [0];
        self.b.memory.read_into(at, &mut byte).unwrap();
        byte[0]
    }
}
