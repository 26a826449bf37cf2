//! The library's structures and numbers in our words, and back. Pure, but for what sysfs knows of
//! a GID where the library is too old to tell.

use std::ffi::{c_int, c_uint};
use std::fs;

use te_topology::{Gid, NicName};

use crate::event::DeviceEvent;
use crate::port::{DeviceAttributes, GidEntry, GidKind, LinkLayer, Mtu, PortAttributes, PortState};
use crate::queue_pair::{QueuePairCapacity, QueuePairState, Route};
use crate::sys;
use crate::work::{WorkCompletion, WorkStatus};

/// A count that a provider may give as a negative number.
fn count(number: c_int) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// A count that a byte holds, or the largest of them.
fn byte(number: c_int) -> u8 {
    u8::try_from(count(number)).unwrap_or(u8::MAX)
}

pub(super) fn device_attributes(found: &sys::DeviceAttr, vectors: c_int) -> DeviceAttributes {
    DeviceAttributes {
        max_mr_size: found.max_mr_size,
        max_qp: count(found.max_qp),
        max_qp_wr: count(found.max_qp_wr),
        max_sge: count(found.max_sge),
        max_cq: count(found.max_cq),
        max_cqe: count(found.max_cqe),
        max_qp_rd_atom: byte(found.max_qp_rd_atom),
        max_qp_init_rd_atom: byte(found.max_qp_init_rd_atom),
        ports: found.phys_port_cnt,
        completion_vectors: count(vectors),
    }
}

pub(super) fn port_attributes(found: &sys::PortAttr) -> PortAttributes {
    PortAttributes {
        state: match found.state {
            sys::PORT_ACTIVE => PortState::Active,
            sys::PORT_DOWN => PortState::Down,
            number => PortState::Other(number),
        },
        active_mtu: Mtu::from_number(found.active_mtu).unwrap_or(Mtu::B256),
        lid: found.lid,
        link_layer: match found.link_layer {
            sys::LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            // Not told is InfiniBand, from before there was another.
            _ => LinkLayer::InfiniBand,
        },
        gid_rows: count(found.gid_tbl_len),
        pkey_rows: found.pkey_tbl_len,
        gbit_per_s: gbit_per_s(found.active_width, found.active_speed),
    }
}

/// Lanes times what a lane carries.
fn gbit_per_s(width: u8, speed: u8) -> u32 {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    let tenths = match speed {
        1 => 25,
        2 => 50,
        4 | 8 => 100,
        16 => 140,
        32 => 250,
        64 => 500,
        128 => 1000,
        _ => 0,
    };
    lanes * tenths / 10
}

/// The rows of one port.
pub(super) fn rows_of(all: &[sys::GidEntry], port: u8) -> Vec<GidEntry> {
    let ours = all.iter().filter(|row| row.port_num == u32::from(port));
    let rows = ours.map(|row| GidEntry {
        index: row.gid_index,
        gid: Gid::new(row.gid.raw),
        kind: match row.gid_type {
            sys::GID_TYPE_ROCE_V1 => GidKind::RoceV1,
            sys::GID_TYPE_ROCE_V2 => GidKind::RoceV2,
            _ => GidKind::InfiniBand,
        },
        interface: row.ndev_ifindex,
    });
    rows.filter(|row| !row.gid.is_null()).collect()
}

/// Rows that are not empty, with their kinds and interfaces from sysfs.
pub(super) fn rows_with_sysfs(
    device: &NicName,
    port: u8,
    rows: Vec<(u32, [u8; 16])>,
) -> Vec<GidEntry> {
    let port = format!("/sys/class/infiniband/{device}/ports/{port}");
    let layer = fs::read_to_string(format!("{port}/link_layer")).unwrap_or_default();
    let row = |(index, raw)| {
        let text = |of: &str| fs::read_to_string(format!("{port}/gid_attrs/{of}/{index}"));
        let kind = kind(&text("types").unwrap_or_default(), &layer);
        let interface = text("ndevs").ok().and_then(|name| interface(name.trim())).unwrap_or(0);
        GidEntry { index, gid: Gid::new(raw), kind, interface }
    };
    rows.into_iter().map(row).filter(|row| !row.gid.is_null()).collect()
}

/// The kind that sysfs names; it has one name for InfiniBand and the first RoCE.
fn kind(text: &str, layer: &str) -> GidKind {
    match (text.trim(), layer.trim()) {
        ("RoCE v2", _) => GidKind::RoceV2,
        (_, "Ethernet") => GidKind::RoceV1,
        _ => GidKind::InfiniBand,
    }
}

/// The number of a network device.
fn interface(name: &str) -> Option<u32> {
    fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?.trim().parse().ok()
}

/// An event; `number_of` says which queue pair its element is.
pub(super) fn event(event: &sys::AsyncEvent, number_of: impl Fn(u64) -> u32) -> DeviceEvent {
    let [a, b, c, d, ..] = event.element.to_ne_bytes();
    let port = byte(c_int::from_ne_bytes([a, b, c, d]));
    match event.event_type {
        sys::EVENT_CQ_ERR => DeviceEvent::CompletionQueueError,
        sys::EVENT_QP_FATAL | sys::EVENT_QP_REQ_ERR | sys::EVENT_QP_ACCESS_ERR => {
            DeviceEvent::QueuePairFatal { number: number_of(event.element) }
        }
        sys::EVENT_DEVICE_FATAL => DeviceEvent::DeviceFatal,
        sys::EVENT_PORT_ACTIVE => DeviceEvent::PortActive { port },
        sys::EVENT_PORT_ERR => DeviceEvent::PortError { port },
        sys::EVENT_LID_CHANGE => DeviceEvent::LidChange { port },
        sys::EVENT_PKEY_CHANGE => DeviceEvent::PkeyChange { port },
        sys::EVENT_GID_CHANGE => DeviceEvent::GidChange { port },
        number => DeviceEvent::Other(number),
    }
}

pub(super) fn completion(found: &sys::Wc) -> WorkCompletion {
    WorkCompletion {
        id: found.wr_id,
        status: status(found.status),
        queue_pair: found.qp_num,
        vendor_error: found.vendor_err,
    }
}

/// By the numbers of `enum ibv_wc_status`, which count from 0.
fn status(number: c_uint) -> WorkStatus {
    match number {
        0 => WorkStatus::Success,
        1 => WorkStatus::LocalLength,
        2 => WorkStatus::LocalQueuePairOperation,
        4 => WorkStatus::LocalProtection,
        5 => WorkStatus::Flushed,
        7 => WorkStatus::BadResponse,
        8 => WorkStatus::LocalAccess,
        9 => WorkStatus::RemoteInvalidRequest,
        10 => WorkStatus::RemoteAccess,
        11 => WorkStatus::RemoteOperation,
        12 => WorkStatus::RetryExceeded,
        13 => WorkStatus::RnrRetryExceeded,
        16 => WorkStatus::RemoteAborted,
        19 => WorkStatus::Fatal,
        20 => WorkStatus::ResponseTimeout,
        number => WorkStatus::Other(number),
    }
}

pub(super) fn state(number: c_uint) -> QueuePairState {
    match number {
        sys::QPS_RESET => QueuePairState::Reset,
        sys::QPS_INIT => QueuePairState::Init,
        sys::QPS_RTR => QueuePairState::ReadyToReceive,
        sys::QPS_RTS => QueuePairState::ReadyToSend,
        sys::QPS_ERR => QueuePairState::Error,
        number => QueuePairState::Other(number),
    }
}

pub(super) fn capacity(wanted: QueuePairCapacity) -> sys::QpCap {
    sys::QpCap {
        max_send_wr: wanted.send_requests,
        max_recv_wr: wanted.receive_requests,
        max_send_sge: wanted.ranges,
        max_recv_sge: wanted.ranges.min(wanted.receive_requests),
        max_inline_data: wanted.inline_bytes,
    }
}

/// A route by its GID, which Ethernet needs and InfiniBand allows. A GID of zero is a route by LID.
pub(super) fn address(route: &Route, source: u8) -> sys::AhAttr {
    let grh = sys::GlobalRoute {
        dgid: sys::Gid { raw: route.gid.bytes() },
        flow_label: 0,
        sgid_index: source,
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
    };
    let mut address = sys::AhAttr::default();
    address.grh = grh;
    address.is_global = u8::from(!route.gid.is_null() || route.lid == 0);
    address.dlid = route.lid;
    address.sl = route.service_level;
    address.port_num = route.port;
    address
}

#[cfg(test)]
mod tests;
