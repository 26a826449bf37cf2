//! From the settings to what the RDMA transport takes.

use std::time::Duration;

use te_topology::{GidWish, PeerAffinity};
use te_transport_rdma::{
    ConnectionSettings, DeviceSettings, FaultSettings, MemorySettings, Pairing, Parallel,
    RdmaConfig, StorePolicy, WorkSettings,
};
use te_verbs::Mtu;

use super::kind::nic_index;
use super::rdma::{EndpointStore, ParallelRegistration, PathMtu, RdmaSettings};

impl RdmaSettings {
    /// The transport's configuration. Which NICs there are and what they are near to is not a
    /// setting of this section, and keeps the transport's default.
    pub(crate) fn to_rdma(&self) -> RdmaConfig {
        let mut config = RdmaConfig::default();
        config.device = self.device();
        config.connection = self.connection();
        config.memory = self.memory();
        config.work = self.work();
        config.faults = self.faults();
        config.pairing = self.pairing();
        config
    }

    fn device(&self) -> DeviceSettings {
        DeviceSettings {
            port: narrow(self.port),
            gid: self.gid_wish(),
            pkey_index: u16::try_from(self.pkey_index).unwrap_or(u16::MAX),
            completion_queues: self.completion_queues,
            completion_channels: self.completion_channels,
            completion_entries: self.max_cqe,
            mtu: mtu(self.mtu_bytes),
        }
    }

    fn gid_wish(&self) -> GidWish {
        let of_nics = self.gid_indices.iter().filter_map(|entry| nic_index(entry));
        GidWish {
            index: self.gid_index.map(|index| u16::try_from(index).unwrap_or(u16::MAX)),
            per_nic: of_nics.map(|(nic, index)| (nic, index.into())).collect(),
        }
    }

    fn connection(&self) -> ConnectionSettings {
        ConnectionSettings {
            queue_pairs: self.queue_pairs_per_endpoint,
            max_endpoints: self.max_endpoints,
            store: match self.endpoint_store {
                EndpointStore::Fifo => StorePolicy::Fifo,
                EndpointStore::Sieve => StorePolicy::Sieve,
            },
            max_requests: self.max_wr,
            max_ranges: self.max_sge,
            inline_bytes: self.max_inline_bytes,
            traffic_class: self.traffic_class.map_or(0, narrow),
            service_level: self.service_level.map_or(0, narrow),
            ack_timeout: narrow(self.ack_timeout),
            retries: narrow(self.retries),
            ready_ack_limit: self.ready_ack_timeout,
            max_half_open: self.max_half_open as usize,
            max_peer_queue_pairs: self.max_peer_queue_pairs as usize,
            attempts: self.connect_attempts,
            first_backoff: self.connect_backoff,
            longest_backoff: self.connect_backoff_max,
            gid_retries: self.auto_gid_max_retries,
            pause: self.connect_pause,
            ..ConnectionSettings::default()
        }
    }

    fn memory(&self) -> MemorySettings {
        MemorySettings {
            max_region: self.max_region_bytes,
            relaxed_ordering: self.relaxed_ordering > 0,
            parallel: match self.parallel_registration {
                ParallelRegistration::Auto => Parallel::Auto,
                ParallelRegistration::Off => Parallel::Never,
                ParallelRegistration::On => Parallel::Always,
            },
            ..MemorySettings::default()
        }
    }

    fn work(&self) -> WorkSettings {
        WorkSettings {
            slice: self.slice_size_bytes,
            tail: self.fragment_limit(),
            queue: self.max_queued as usize,
            spin: Duration::from_micros(self.spin_us.into()),
            patience: self.progress_timeout,
            flush_limit: self.flush_timeout,
            fence_limit: self.fence_timeout,
        }
    }

    fn faults(&self) -> FaultSettings {
        let usual = FaultSettings::default();
        FaultSettings {
            recover_after: self.recover_after,
            recover_longest: usual.recover_longest.max(self.recover_after),
            rail_pause: self.rail_pause,
            ..usual
        }
    }

    /// Bad rules are left out; both switches together are none (te-classic D13, D14).
    fn pairing(&self) -> Pairing {
        match (self.destination_affinity, self.peer_affinity) {
            (true, false) => Pairing::SameName,
            (false, true) => {
                let (rules, bad) = PeerAffinity::parse(&self.nic_peer_affinity);
                for error in bad {
                    tracing::warn!(%error, "rdma.nic_peer_affinity: a rule is left out");
                }
                Pairing::Rules(rules)
            }
            (true, true) => {
                tracing::warn!(
                    "rdma.destination_affinity and rdma.peer_affinity exclude each other"
                );
                Pairing::Matrix
            }
            (false, false) => Pairing::Matrix,
        }
    }
}

fn mtu(mtu: PathMtu) -> Mtu {
    match mtu {
        PathMtu::Mtu512 => Mtu::B512,
        PathMtu::Mtu1024 => Mtu::B1024,
        PathMtu::Mtu2048 => Mtu::B2048,
        PathMtu::Mtu4096 => Mtu::B4096,
    }
}

/// A number whose range the table of variables keeps.
fn narrow(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    //! Each setting arrives where it counts.

    use te_topology::NicName;

    use super::super::tests::load;
    use super::*;

    fn of(variables: &[(&str, &str)]) -> RdmaConfig {
        load(variables).rdma.to_rdma()
    }

    #[test]
    fn our_defaults_are_the_transports() {
        assert_eq!(RdmaSettings::default().to_rdma(), RdmaConfig::default());
    }

    #[test]
    fn h56_to_h74_mooncakes_variables_arrive() {
        let config = of(&[
            ("MC_NUM_CQ_PER_CTX", "2"),
            ("MC_NUM_COMP_CHANNELS_PER_CTX", "3"),
            ("MC_IB_PORT", "2"),
            ("MC_GID_INDEX", "5"),
            ("MC_PKEY_INDEX", "4"),
            ("MC_MAX_CQE_PER_CTX", "77"),
            ("MC_MTU", "1024"),
        ]);
        let GidWish { index, per_nic } = &config.device.gid;
        assert_eq!((*index, per_nic.len()), (Some(5), 0));
        let device = &config.device;
        assert_eq!((device.completion_queues, device.completion_channels), (2, 3));
        assert_eq!((device.port, device.pkey_index, device.completion_entries), (2, 4, 77));
        assert_eq!(device.mtu, Mtu::B1024);
        let config = of(&[
            ("MC_NUM_QP_PER_EP", "8"),
            ("MC_MAX_EP_PER_CTX", "9"),
            ("MC_MAX_WR", "10"),
            ("MC_MAX_SGE", "11"),
            ("MC_MAX_INLINE", "12"),
            ("MC_AUTO_GID_MAX_RETRIES", "0"),
            ("MC_CONN_PAUSE_TTL_MS", "250"),
            ("MC_ENDPOINT_STORE_TYPE", "FIFO"),
            ("MC_IB_TC", "106"),
            ("MC_IB_SL", "3"),
        ]);
        let made = &config.connection;
        assert_eq!((made.queue_pairs, made.max_endpoints, made.max_requests), (8, 9, 10));
        assert_eq!((made.max_ranges, made.inline_bytes, made.gid_retries), (11, 12, 0));
        assert_eq!((made.pause, made.store), (Some(Duration::from_millis(250)), StorePolicy::Fifo));
        assert_eq!((made.traffic_class, made.service_level), (106, 3));
        let config = of(&[
            ("MC_SLICE_SIZE", "1048576"),
            ("MC_RDMA_RAIL_PAUSE_SECONDS", "2"),
            ("MC_IB_PCI_RELAXED_ORDERING", "0"),
            ("MC_MAX_MR_SIZE", "65536"),
            ("MC_ENABLE_PARALLEL_REG_MR", "1"),
        ]);
        assert_eq!((config.work.slice, config.work.tail), (1 << 20, 1 << 18));
        assert_eq!(config.faults.rail_pause, Duration::from_secs(2));
        let MemorySettings { max_region, relaxed_ordering, parallel, .. } = config.memory;
        assert_eq!((max_region, relaxed_ordering, parallel), (65536, false, Parallel::Always));
    }

    #[test]
    fn our_own_settings_arrive() {
        let millis = Duration::from_millis;
        let config = of(&[
            ("TE_RDMA_RETRIES", "6"),
            ("TE_RDMA_ACK_TIMEOUT", "12"),
            ("TE_RDMA_READY_ACK_TIMEOUT_MS", "300"),
            ("TE_RDMA_MAX_HALF_OPEN", "5"),
            ("TE_RDMA_MAX_PEER_QUEUE_PAIRS", "128"),
            ("TE_RDMA_CONNECT_ATTEMPTS", "2"),
            ("TE_RDMA_CONNECT_BACKOFF_MS", "7"),
            ("TE_RDMA_CONNECT_BACKOFF_MAX_MS", "70"),
        ]);
        let made = &config.connection;
        assert_eq!((made.retries, made.ack_timeout, made.max_half_open), (6, 12, 5));
        assert_eq!((made.ready_ack_limit, made.attempts), (millis(300), 2));
        assert_eq!(made.max_peer_queue_pairs, 128);
        assert_eq!((made.first_backoff, made.longest_backoff), (millis(7), millis(70)));
        let config = of(&[
            ("TE_RDMA_PROGRESS_TIMEOUT_MS", "400"),
            ("TE_RDMA_FLUSH_TIMEOUT_MS", "30"),
            ("TE_RDMA_FENCE_TIMEOUT_MS", "50"),
            ("TE_RDMA_SPIN_US", "0"),
            ("TE_RDMA_MAX_QUEUED", "9"),
            ("TE_RDMA_RECOVER_AFTER_MS", "20000"),
        ]);
        let work = &config.work;
        assert_eq!((work.patience, work.flush_limit), (millis(400), millis(30)));
        assert_eq!((work.fence_limit, work.spin, work.queue), (millis(50), Duration::ZERO, 9));
        let faults = &config.faults;
        assert_eq!(
            (faults.recover_after, faults.recover_longest),
            (millis(20_000), millis(20_000))
        );
    }

    /// FB48: one index for all does not fit all.
    #[test]
    fn fb48_single_nics_have_an_index_of_their_own() {
        let config = of(&[("MC_GID_INDEX", "3"), ("TE_RDMA_GID_INDICES", "rxe0=1, rxe1=0")]);
        let index = |nic| config.device.gid.index_for(&NicName::parse(nic).unwrap());
        assert_eq!(["rxe0", "rxe1", "rxe2"].map(index), [Some(1), Some(0), Some(3)]);
        for bad in ["rxe0", "rxe0=", "=1", "rxe0=256", "rxe0=1,rxe1", "rxe0=-1"] {
            let config = load(&[("TE_RDMA_GID_INDICES", bad)]);
            assert_eq!(config.warnings().len(), 1, "{bad}");
            assert!(config.rdma.gid_indices.is_empty(), "{bad}");
        }
    }

    /// D12, D13, D14: same name, rules, and that both are none.
    #[test]
    fn d14_the_ways_to_pair_nics_exclude_each_other() {
        let same = ("MC_ENABLE_DEST_DEVICE_AFFINITY", "1");
        let rules = ("MC_ENABLE_HCA_PEER_AFFINITY", "1");
        let text = ("MC_NIC_PEER_AFFINITY", "a=b,c;nonsense;d=e");
        assert_eq!(of(&[text]).pairing, Pairing::Matrix);
        assert_eq!(of(&[same]).pairing, Pairing::SameName);
        let (expected, bad) = PeerAffinity::parse(text.1);
        assert_eq!(bad.len(), 1);
        assert_eq!(of(&[rules, text]).pairing, Pairing::Rules(expected));
        assert_eq!(of(&[same, rules, text]).pairing, Pairing::Matrix);
    }
}
