//! What the fake itself costs: posting and taking one 64 KiB WRITE, in chains of 16, without copying.
#![expect(clippy::print_stdout, reason = "a program of a terminal")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use te_segment::{AlignedBuffer, Opcode, Region, RemoteAccess};
use te_topology::{Gid, NicName};
use te_verbs::{
    Fake, FakeDevice, MemoryAccess, Mtu, Payload, QueuePair, QueuePairCapacity, Ready, Route, Sge,
    Verbs, WorkCompletion, WorkRequest, WorkStatus,
};

const ROUNDS: u32 = 100_000;
const CHAIN: usize = 16;

fn connect(near: &Arc<dyn QueuePair>, far: u32, address: Ipv4Addr) -> Result<(), Box<dyn Error>> {
    near.to_init(1, 0)?;
    near.to_ready_to_receive(&Route {
        port: 1,
        gid_index: 1,
        gid: Gid::new(address.to_ipv6_mapped().octets()),
        lid: 0,
        queue_pair: far,
        first_packet: 0,
        mtu: Mtu::B4096,
        reads: 16,
        min_rnr_timer: 12,
        hop_limit: 16,
        traffic_class: 0,
        service_level: 0,
    })?;
    Ok(near.to_ready_to_send(&Ready {
        first_packet: 0,
        reads: 16,
        timeout: 14,
        retries: 6,
        rnr_retries: 7,
    })?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fake = Fake::new(1);
    fake.set_copies(false);
    let addresses = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let name = NicName::parse("mlx_0")?;
    for (host, address) in ["a", "b"].into_iter().zip(addresses) {
        fake.add(host, FakeDevice::new(name.clone(), address));
    }
    let devices = [fake.host("a").open(&name)?, fake.host("b").open(&name)?];
    let region = Region::from(AlignedBuffer::zeroed(1 << 20)?);
    let access = MemoryAccess { remote: RemoteAccess::ReadWrite, relaxed_ordering: false };
    let keys = [
        devices[0].register(&region.whole(), access)?,
        devices[1].register(&region.whole(), access)?,
    ];
    let queue = devices[0].completion_queue(256)?;
    let capacity =
        QueuePairCapacity { send_requests: 256, receive_requests: 1, ranges: 4, inline_bytes: 64 };
    let near = devices[0].queue_pair(&queue, capacity)?;
    let far_queue = devices[1].completion_queue(16)?;
    let far = devices[1].queue_pair(&far_queue, capacity)?;
    connect(&near, far.number(), addresses[1])?;
    connect(&far, near.number(), addresses[0])?;
    let range = [Sge { address: region.address(), len: 65536, lkey: keys[0].lkey() }];
    let request = |signaled| WorkRequest {
        id: 1,
        op: Opcode::Write,
        payload: Payload::Ranges(&range),
        remote_address: region.address(),
        rkey: keys[1].rkey(),
        signaled,
    };
    let chain: [_; CHAIN] = std::array::from_fn(|at| request(at + 1 == CHAIN));
    let empty = WorkCompletion { id: 0, status: WorkStatus::Fatal, queue_pair: 0, vendor_error: 0 };
    let mut out = [empty; 32];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        near.post(&chain)?;
        let count = queue.poll(&mut out)?;
        assert!(count == 1 && out[0].status == WorkStatus::Success);
    }
    let requests = f64::from(ROUNDS) * 16.0;
    println!("{:.1} ns a request", start.elapsed().as_secs_f64() * 1e9 / requests);
    Ok(())
}
