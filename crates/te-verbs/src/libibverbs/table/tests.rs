//! Numbers of the library, in our words.

use super::*;

/// Every number that `enum ibv_wc_status` names maps to one status, and no two to the same.
#[test]
fn statuses_are_distinct() {
    let all: std::collections::HashSet<_> = (0..24).map(status).collect();
    assert_eq!(all.len(), 24);
    assert_eq!(status(12), WorkStatus::RetryExceeded);
    assert_eq!(status(23), WorkStatus::Other(23));
}

#[test]
fn events_name_their_port_or_queue_pair() {
    let of = |event_type, element| event(&sys::AsyncEvent { element, event_type }, |_| 77);
    let port = u64::from_ne_bytes([2, 0, 0, 0, 9, 9, 9, 9].map(|b: u8| b));
    let port = if cfg!(target_endian = "little") { port } else { 2 << 32 };
    assert_eq!(of(sys::EVENT_PORT_ERR, port), DeviceEvent::PortError { port: 2 });
    assert_eq!(of(sys::EVENT_GID_CHANGE, port), DeviceEvent::GidChange { port: 2 });
    assert_eq!(of(sys::EVENT_QP_FATAL, 1), DeviceEvent::QueuePairFatal { number: 77 });
    assert_eq!(of(sys::EVENT_QP_ACCESS_ERR, 1), DeviceEvent::QueuePairFatal { number: 77 });
    assert_eq!(of(14, 0), DeviceEvent::Other(14));
}

#[test]
fn rates_are_lanes_times_speed() {
    assert_eq!(gbit_per_s(2, 128), 400);
    assert_eq!(gbit_per_s(2, 32), 100);
    assert_eq!(gbit_per_s(1, 1), 2);
    assert_eq!(gbit_per_s(0, 128), 0);
}

#[test]
fn rows_are_those_of_the_port_that_are_not_empty() {
    let row = |port_num, gid_index, first, gid_type| sys::GidEntry {
        gid: sys::Gid { raw: [first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] },
        gid_index,
        port_num,
        gid_type,
        ndev_ifindex: 3,
    };
    let all = [row(1, 0, 0xfe, 1), row(1, 1, 0, 2), row(1, 2, 5, 2), row(2, 0, 7, 0)];
    let rows = rows_of(&all, 1);
    let told: Vec<_> = rows.iter().map(|row| (row.index, row.kind)).collect();
    assert_eq!(told, [(0, GidKind::RoceV1), (2, GidKind::RoceV2)]);
    assert_eq!(rows_of(&all, 2)[0].kind, GidKind::InfiniBand);
}

#[test]
fn sysfs_has_one_name_for_two_kinds() {
    assert_eq!(kind("RoCE v2\n", "Ethernet\n"), GidKind::RoceV2);
    assert_eq!(kind("IB/RoCE v1\n", "Ethernet\n"), GidKind::RoceV1);
    assert_eq!(kind("IB/RoCE v1\n", "InfiniBand\n"), GidKind::InfiniBand);
}
