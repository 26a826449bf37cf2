//! What a device of the fake is like before it is opened.

use std::net::Ipv4Addr;

use te_topology::{Gid, NicName};

use crate::port::{DeviceAttributes, GidEntry, GidKind, LinkLayer, Mtu, PortAttributes, PortState};

/// A port of a fake device.
#[derive(Debug, Clone)]
pub struct FakePort {
    /// What a query answers.
    pub attributes: PortAttributes,
    /// The rows that are not empty.
    pub gids: Vec<GidEntry>,
}

impl FakePort {
    /// An active Ethernet port with MTU 4096 and the table that a soft-RoCE device has: row 0 a
    /// link-local address, row 1 the IPv4 address.
    pub fn ethernet(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        let local = Gid::new([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, 0, 0xff, 0xfe, 0, c, d]);
        let mapped = Gid::new(address.to_ipv6_mapped().octets());
        let row = |index, gid| GidEntry { index, gid, kind: GidKind::RoceV2, interface: 1 };
        Self {
            attributes: PortAttributes {
                state: PortState::Active,
                active_mtu: Mtu::B4096,
                lid: 0,
                link_layer: LinkLayer::Ethernet,
                gid_rows: 1024,
                pkey_rows: 1,
                gbit_per_s: 100,
            },
            gids: vec![row(0, local), row(1, mapped)],
        }
    }

    /// An active InfiniBand port with MTU 4096, this LID and one GID that is made of it.
    pub fn infiniband(lid: u16) -> Self {
        let [high, low] = lid.to_be_bytes();
        let gid = Gid::new([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, high, low]);
        let mut port = Self::ethernet(Ipv4Addr::UNSPECIFIED);
        port.attributes.lid = lid;
        port.attributes.link_layer = LinkLayer::InfiniBand;
        port.gids = vec![GidEntry { index: 0, gid, kind: GidKind::InfiniBand, interface: 0 }];
        port
    }
}

/// A device of the fake.
#[derive(Debug, Clone)]
pub struct FakeDevice {
    /// Its name.
    pub name: NicName,
    /// Its limits. The number of ports is that of the list below.
    pub attributes: DeviceAttributes,
    /// Its ports, the one with number 1 first.
    pub ports: Vec<FakePort>,
    /// Memory regions that it takes.
    pub max_regions: usize,
    /// The most bytes that a request may carry in itself.
    pub max_inline: u32,
    /// Whether the owner of a queue pair is told when a peer asked for what may not be. Hardware
    /// tells, soft-RoCE does not.
    pub tells_access_errors: bool,
    /// Whether it registers dma-bufs; else the answer is `EOPNOTSUPP`.
    pub dmabuf: bool,
}

impl FakeDevice {
    /// A device with one Ethernet port, and limits like those of soft-RoCE.
    pub fn new(name: NicName, address: Ipv4Addr) -> Self {
        Self {
            name,
            attributes: DeviceAttributes {
                max_mr_size: u64::MAX,
                max_qp: 1_048_560,
                max_qp_wr: 1_048_576,
                max_sge: 32,
                max_cq: 1_048_576,
                max_cqe: 32_767,
                max_qp_rd_atom: 128,
                max_qp_init_rd_atom: 128,
                ports: 1,
                completion_vectors: 2,
            },
            ports: vec![FakePort::ethernet(address)],
            max_regions: 524_287,
            max_inline: 512,
            tells_access_errors: false,
            dmabuf: false,
        }
    }
}
