//! Two devices with memory, and queue pairs between them.

use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use te_segment::{AlignedBuffer, Opcode, Region, RemoteAccess};
use te_topology::{Gid, NicName};

use super::Device;
use crate::error::{VerbsCall, VerbsError};
use crate::port::Mtu;
use crate::queue_pair::{QueuePairCapacity, Ready, Route};
use crate::seam::{CompletionQueue, MemoryAccess, MemoryRegion, QueuePair, Verbs};
use crate::work::{Payload, Sge, WorkCompletion, WorkRequest, WorkStatus};

/// A device with memory and a completion queue.
pub(super) struct End {
    pub(super) device: Arc<dyn Device>,
    pub(super) gid: Gid,
    pub(super) gid_index: u32,
    pub(super) memory: Region,
    pub(super) keys: Box<dyn MemoryRegion>,
    pub(super) queue: Arc<dyn CompletionQueue>,
    /// Without news for so long, none is waited for.
    pub(super) quiet: Duration,
}

pub(super) struct Ends(pub(super) [End; 2]);

/// Bytes of each end's memory.
pub(super) const MEMORY: usize = 4 << 20;

/// What queue pairs of the script have room for. 15 requests are as many as soft-RoCE makes of it.
pub(super) const CAPACITY: QueuePairCapacity =
    QueuePairCapacity { send_requests: 15, receive_requests: 1, ranges: 4, inline_bytes: 64 };

/// Everything may be done.
pub(super) const ALL: MemoryAccess =
    MemoryAccess { remote: RemoteAccess::ReadWrite, relaxed_ordering: true };

/// The failure of the script itself.
pub(super) fn broken(cause: &str) -> VerbsError {
    let (device, cause) = ("the script".into(), cause.into());
    VerbsError { call: VerbsCall::QueryGid, device, errno: None, cause }
}

/// Memory of the script, all zero.
pub(super) fn memory(len: usize) -> Result<Region, VerbsError> {
    let buffer = AlignedBuffer::zeroed(len).map_err(|_| broken("no memory"))?;
    Ok(Region::from(buffer))
}

impl End {
    fn open(verbs: &dyn Verbs, name: &NicName, quiet: Duration) -> Result<Self, VerbsError> {
        let device = verbs.open(name)?;
        let gids = device.gids(1)?;
        let row = gids.iter().find(|row| row.gid.mapped_v4().is_some());
        let row = row.ok_or_else(|| broken("no IPv4 address in the GID table"))?;
        let memory = memory(MEMORY)?;
        let keys = device.register(&memory.whole(), ALL)?;
        let queue = device.completion_queue(256)?;
        Ok(Self { device, gid: row.gid, gid_index: row.index, memory, keys, queue, quiet })
    }

    pub(super) fn pair(&self) -> Result<Arc<dyn QueuePair>, VerbsError> {
        self.device.queue_pair(&self.queue, CAPACITY)
    }

    /// A range of this end's memory.
    pub(super) fn range(&self, offset: u64, len: u32) -> Sge {
        Sge { address: self.memory.address() + offset, len, lkey: self.keys.lkey() }
    }

    /// The address of an offset.
    pub(super) fn at(&self, offset: u64) -> u64 {
        self.memory.address() + offset
    }

    /// Fills memory with numbers that depend on `salt`.
    pub(super) fn fill(&self, offset: u64, len: usize, salt: usize) {
        self.memory.write_from(offset, &pattern(len, salt)).expect("inside the memory");
    }

    /// Whether the memory is as `fill` makes it.
    pub(super) fn has(&self, offset: u64, len: usize, salt: usize) -> bool {
        self.bytes(offset, len) == pattern(len, salt)
    }

    pub(super) fn bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut found = vec![0; len];
        self.memory.read_into(offset, &mut found).expect("inside the memory");
        found
    }

    /// Takes completions until there are `count`, or none comes for long.
    pub(super) fn wait(&self, count: usize) -> Result<Vec<WorkCompletion>, VerbsError> {
        let empty =
            WorkCompletion { id: 0, status: WorkStatus::Fatal, queue_pair: 0, vendor_error: 0 };
        let mut found = Vec::new();
        while found.len() < count {
            let mut some = [empty; 32];
            self.queue.arm()?;
            match self.queue.poll(&mut some)? {
                0 if !self.is_ready()? => break,
                0 => self.queue.acknowledge()?,
                n => found.extend_from_slice(&some[..n]),
            }
        }
        Ok(found)
    }

    /// Whether the queue's channel becomes readable before long.
    pub(super) fn is_ready(&self) -> Result<bool, VerbsError> {
        is_readable(self.queue.channel_fd(), self.quiet)
    }

    /// Whether the queue's channel is readable.
    pub(super) fn is_ready_now(&self) -> Result<bool, VerbsError> {
        is_readable(self.queue.channel_fd(), Duration::ZERO)
    }

    /// What completions say, in order.
    pub(super) fn statuses(&self, count: usize) -> Result<String, VerbsError> {
        let found = self.wait(count)?;
        let told = found.iter().map(|one| format!("{} {}", one.id, one.status));
        Ok(told.collect::<Vec<_>>().join(", "))
    }
}

pub(super) fn is_readable(
    fd: std::os::fd::BorrowedFd<'_>,
    limit: Duration,
) -> Result<bool, VerbsError> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let limit = Timespec::try_from(limit).map_err(|_| broken("too long a wait"))?;
    let ready = poll(&mut fds, Some(&limit)).map_err(|_| broken("poll failed"))?;
    Ok(ready > 0)
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    let byte = |n: usize| u8::try_from((n * 7 + n / 251 + salt * 31) % 251).expect("below 256");
    (0..len).map(byte).collect()
}

/// How two queue pairs are connected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) mtu: Mtu,
    pub(super) first_packet: u32,
    pub(super) retries: u8,
    /// READs that may be outstanding here, and there.
    pub(super) reads: u8,
}

/// Bounded tries of 4 × 67 ms, which an emulated machine keeps up with.
pub(super) const WAY: Way = Way { mtu: Mtu::B1024, first_packet: 0, retries: 3, reads: 16 };

impl Ends {
    pub(super) fn open(
        verbs: &dyn Verbs,
        names: [&NicName; 2],
        quiet: Duration,
    ) -> Result<Self, VerbsError> {
        let [near, far] = names;
        Ok(Self([End::open(verbs, near, quiet)?, End::open(verbs, far, quiet)?]))
    }

    pub(super) fn near(&self) -> &End {
        &self.0[0]
    }

    pub(super) fn far(&self) -> &End {
        &self.0[1]
    }

    pub(super) fn route(&self, to: usize, number: u32, way: Way) -> Route {
        Route {
            port: 1,
            gid_index: self.0[1 - to].gid_index,
            gid: self.0[to].gid,
            lid: 0,
            queue_pair: number,
            first_packet: way.first_packet,
            mtu: way.mtu,
            reads: way.reads,
            min_rnr_timer: 12,
            hop_limit: 16,
            traffic_class: 0,
            service_level: 0,
        }
    }

    /// Two queue pairs that are connected.
    pub(super) fn connected(&self, near: Way, far: Way) -> Result<Joined<'_>, VerbsError> {
        let joined = self.apart()?;
        connect(&*joined.near, &self.route(1, joined.far.number(), near), near)?;
        connect(&*joined.far, &self.route(0, joined.near.number(), far), far)?;
        Ok(joined)
    }

    /// Two queue pairs in RESET.
    pub(super) fn apart(&self) -> Result<Joined<'_>, VerbsError> {
        Ok(Joined { near: self.near().pair()?, far: self.far().pair()?, ends: self })
    }

    /// Two queue pairs that are connected as usual.
    pub(super) fn usual(&self) -> Result<Joined<'_>, VerbsError> {
        self.connected(WAY, WAY)
    }
}

/// RESET to RTS.
pub(super) fn connect(pair: &dyn QueuePair, route: &Route, way: Way) -> Result<(), VerbsError> {
    pair.to_init(1, 0)?;
    pair.to_ready_to_receive(route)?;
    pair.to_ready_to_send(&ready(way))
}

pub(super) fn ready(way: Way) -> Ready {
    let (first_packet, reads, retries) = (way.first_packet, way.reads, way.retries);
    Ready { first_packet, reads, timeout: 14, retries, rnr_retries: 7 }
}

/// Queue pairs of both ends; requests go from the near one.
pub(super) struct Joined<'a> {
    pub(super) near: Arc<dyn QueuePair>,
    pub(super) far: Arc<dyn QueuePair>,
    pub(super) ends: &'a Ends,
}

impl Joined<'_> {
    /// A signaled request for the far end's memory.
    pub(super) fn request<'a>(
        &self,
        id: u64,
        op: Opcode,
        ranges: &'a [Sge],
        remote: u64,
    ) -> WorkRequest<'a> {
        let far = self.ends.far();
        WorkRequest {
            id,
            op,
            payload: Payload::Ranges(ranges),
            remote_address: far.at(remote),
            rkey: far.keys.rkey(),
            signaled: true,
        }
    }

    /// The states of both.
    pub(super) fn states(&self) -> Result<String, VerbsError> {
        Ok(format!("near {:?}, far {:?}", self.near.state()?, self.far.state()?))
    }
}
