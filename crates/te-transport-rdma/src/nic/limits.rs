//! What is set, as far as one device can do it.

use te_verbs::{DeviceAttributes, QueuePairCapacity};

use crate::config::RdmaConfig;

/// Limits of one NIC; those of others stay as they are set (E5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NicLimits {
    /// Queue pairs of a connection.
    pub(crate) queue_pairs: u32,
    /// Connections.
    pub(crate) max_endpoints: u32,
    /// Queue pairs of all connections, whose number peers choose.
    pub(crate) max_queue_pairs: u32,
    /// What a queue pair has room for. The device may still refuse as many inline bytes, which it
    /// does not say beforehand.
    pub(crate) capacity: QueuePairCapacity,
    /// Entries of a completion queue.
    pub(crate) completion_entries: u32,
    /// Longest memory region, bytes.
    pub(crate) max_region: u64,
    /// READs that a queue pair may have outstanding as target.
    pub(crate) reads_as_target: u8,
    /// READs that it may have outstanding as initiator.
    pub(crate) reads_as_initiator: u8,
}

impl NicLimits {
    pub(crate) fn new(config: &RdmaConfig, device: &DeviceAttributes) -> Self {
        let set = &config.connection;
        let queue_pairs = set.queue_pairs.max(1);
        let max_endpoints = set.max_endpoints.min(device.max_qp / queue_pairs).max(1);
        Self {
            queue_pairs,
            max_endpoints,
            max_queue_pairs: max_endpoints.saturating_mul(queue_pairs),
            capacity: QueuePairCapacity {
                send_requests: set.max_requests.min(device.max_qp_wr).max(1),
                receive_requests: 1,
                ranges: set.max_ranges.min(device.max_sge).max(1),
                inline_bytes: set.inline_bytes,
            },
            completion_entries: config.device.completion_entries.min(device.max_cqe).max(1),
            max_region: config.memory.max_region.min(device.max_mr_size).max(1),
            reads_as_target: set.reads.min(device.max_qp_rd_atom),
            reads_as_initiator: set.reads.min(device.max_qp_init_rd_atom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DeviceAttributes {
        DeviceAttributes {
            max_mr_size: 1 << 31,
            max_qp: 1000,
            max_qp_wr: 128,
            max_sge: 3,
            max_cq: 10,
            max_cqe: 2000,
            max_qp_rd_atom: 4,
            max_qp_init_rd_atom: 2,
            ports: 1,
            completion_vectors: 1,
        }
    }

    /// E5: a device lowers what is set, for itself.
    #[test]
    fn e5_a_small_device_lowers_its_own_limits_only() {
        let config = RdmaConfig::default();
        let small = NicLimits::new(&config, &device());
        let counts = (small.queue_pairs, small.max_endpoints, small.max_queue_pairs);
        assert_eq!(counts, (2, 500, 1000));
        assert_eq!((small.capacity.send_requests, small.capacity.ranges), (128, 3));
        assert_eq!((small.completion_entries, small.max_region), (2000, 1 << 31));
        assert_eq!((small.reads_as_target, small.reads_as_initiator), (4, 2));
        let large = DeviceAttributes {
            max_qp: u32::MAX,
            max_qp_wr: 32_768,
            max_sge: 30,
            max_cqe: 1 << 22,
            max_mr_size: u64::MAX,
            max_qp_rd_atom: 16,
            max_qp_init_rd_atom: 16,
            ..device()
        };
        let large = NicLimits::new(&config, &large);
        assert_eq!((large.max_endpoints, large.capacity.send_requests), (65_536, 256));
        assert_eq!((large.completion_entries, large.max_region), (4096, 1 << 40));
        assert_eq!((large.capacity.ranges, large.reads_as_target), (4, 16));
    }
}
