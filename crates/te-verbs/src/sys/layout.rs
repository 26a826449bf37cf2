//! The layouts and constants as a table, for those who compare them with other readings of the
//! headers.

use std::mem::{align_of, offset_of, size_of};

use super as sys;
use crate::work::Sge;

/// A structure: its name in C, its size and alignment where it is whole, and offsets of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Its name in C.
    pub name: &'static str,
    /// Size and alignment, bytes; none where only its start is named.
    pub whole: Option<(usize, usize)>,
    /// Members and where they are, bytes.
    pub members: Vec<(&'static str, usize)>,
}

macro_rules! layout {
    ($c:literal, $rust:ty, whole, $($member:ident $(as $name:ident)?),*) => {
        Layout {
            name: $c,
            whole: Some((size_of::<$rust>(), align_of::<$rust>())),
            members: vec![$((layout!(@name $member $($name)?), offset_of!($rust, $member))),*],
        }
    };
    ($c:literal, $rust:ty, start, $($member:ident),*) => {
        Layout {
            name: $c,
            whole: None,
            members: vec![$((stringify!($member), offset_of!($rust, $member))),*],
        }
    };
    (@name $member:ident) => { stringify!($member) };
    (@name $member:ident $name:ident) => { stringify!($name) };
}

/// Every structure that is shared with the library.
#[rustfmt::skip]
pub fn layouts() -> Vec<Layout> {
    vec![
        layout!("ibv_sge", Sge, whole, address as addr, len as length, lkey),
        layout!("ibv_send_wr", sys::SendWr, whole, wr_id, next, sg_list, num_sge, opcode, send_flags,
            remote_addr, rkey, remote_srqn),
        layout!("ibv_wc", sys::Wc, whole, wr_id, status, vendor_err, qp_num),
        layout!("ibv_mr", sys::Mr, whole, lkey, rkey),
        layout!("ibv_comp_channel", sys::CompChannel, whole, fd),
        layout!("ibv_device_attr", sys::DeviceAttr, whole, max_mr_size, max_qp, max_qp_wr, max_sge,
            max_cq, max_cqe, max_qp_rd_atom, max_qp_init_rd_atom, phys_port_cnt),
        layout!("ibv_port_attr", sys::PortAttr, whole, state, active_mtu, gid_tbl_len, pkey_tbl_len,
            lid, active_width, active_speed, link_layer),
        layout!("ibv_gid", sys::Gid, whole, raw),
        layout!("ibv_gid_entry", sys::GidEntry, whole, gid, gid_index, port_num, gid_type,
            ndev_ifindex),
        layout!("ibv_async_event", sys::AsyncEvent, whole, element, event_type),
        layout!("ibv_qp_cap", sys::QpCap, whole, max_send_wr, max_recv_wr, max_send_sge,
            max_recv_sge, max_inline_data),
        layout!("ibv_qp_init_attr", sys::QpInitAttr, whole, send_cq, recv_cq, srq, cap, qp_type,
            sq_sig_all),
        layout!("ibv_global_route", sys::GlobalRoute, whole, dgid, flow_label, sgid_index, hop_limit,
            traffic_class),
        layout!("ibv_ah_attr", sys::AhAttr, whole, grh, dlid, sl, is_global, port_num),
        layout!("ibv_qp_attr", sys::QpAttr, whole, qp_state, path_mtu, rq_psn, sq_psn, dest_qp_num,
            qp_access_flags, ah_attr, pkey_index, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer,
            port_num, timeout, retry_cnt, rnr_retry),
        layout!("ibv_context_ops", sys::ContextOps, whole, poll_cq, req_notify_cq, post_send),
        layout!("ibv_context", sys::Context, start, ops, async_fd, num_comp_vectors),
        layout!("ibv_cq", sys::Cq, start, context),
        layout!("ibv_qp", sys::Qp, start, context, qp_num),
    ]
}

macro_rules! constants {
    ($($c:literal = $rust:ident),* $(,)?) => {
        /// Every number that is shared with the library, by its name in C.
        pub fn constants() -> Vec<(&'static str, u64)> {
            vec![$(($c, u64::from(sys::$rust.unsigned_abs_or_self()))),*]
        }
    };
}

/// Constants of either sign, none of which is negative.
trait Unsigned {
    fn unsigned_abs_or_self(self) -> u32;
}

impl Unsigned for i32 {
    fn unsigned_abs_or_self(self) -> u32 {
        self.unsigned_abs()
    }
}

impl Unsigned for u32 {
    fn unsigned_abs_or_self(self) -> u32 {
        self
    }
}

impl Unsigned for u8 {
    fn unsigned_abs_or_self(self) -> u32 {
        self.into()
    }
}

constants! {
    "IBV_WR_RDMA_WRITE" = WR_RDMA_WRITE,
    "IBV_WR_RDMA_READ" = WR_RDMA_READ,
    "IBV_SEND_SIGNALED" = SEND_SIGNALED,
    "IBV_SEND_INLINE" = SEND_INLINE,
    "IBV_ACCESS_LOCAL_WRITE" = ACCESS_LOCAL_WRITE,
    "IBV_ACCESS_REMOTE_WRITE" = ACCESS_REMOTE_WRITE,
    "IBV_ACCESS_REMOTE_READ" = ACCESS_REMOTE_READ,
    "IBV_ACCESS_RELAXED_ORDERING" = ACCESS_RELAXED_ORDERING,
    "IBV_QPT_RC" = QPT_RC,
    "IBV_QPS_RESET" = QPS_RESET,
    "IBV_QPS_INIT" = QPS_INIT,
    "IBV_QPS_RTR" = QPS_RTR,
    "IBV_QPS_RTS" = QPS_RTS,
    "IBV_QPS_ERR" = QPS_ERR,
    "IBV_QP_STATE" = QP_STATE,
    "IBV_QP_ACCESS_FLAGS" = QP_ACCESS_FLAGS,
    "IBV_QP_PKEY_INDEX" = QP_PKEY_INDEX,
    "IBV_QP_PORT" = QP_PORT,
    "IBV_QP_AV" = QP_AV,
    "IBV_QP_PATH_MTU" = QP_PATH_MTU,
    "IBV_QP_TIMEOUT" = QP_TIMEOUT,
    "IBV_QP_RETRY_CNT" = QP_RETRY_CNT,
    "IBV_QP_RNR_RETRY" = QP_RNR_RETRY,
    "IBV_QP_RQ_PSN" = QP_RQ_PSN,
    "IBV_QP_MAX_QP_RD_ATOMIC" = QP_MAX_QP_RD_ATOMIC,
    "IBV_QP_MIN_RNR_TIMER" = QP_MIN_RNR_TIMER,
    "IBV_QP_SQ_PSN" = QP_SQ_PSN,
    "IBV_QP_MAX_DEST_RD_ATOMIC" = QP_MAX_DEST_RD_ATOMIC,
    "IBV_QP_DEST_QPN" = QP_DEST_QPN,
    "IBV_PORT_DOWN" = PORT_DOWN,
    "IBV_PORT_ACTIVE" = PORT_ACTIVE,
    "IBV_LINK_LAYER_ETHERNET" = LINK_LAYER_ETHERNET,
    "IBV_GID_TYPE_ROCE_V1" = GID_TYPE_ROCE_V1,
    "IBV_GID_TYPE_ROCE_V2" = GID_TYPE_ROCE_V2,
    "IBV_EVENT_CQ_ERR" = EVENT_CQ_ERR,
    "IBV_EVENT_QP_FATAL" = EVENT_QP_FATAL,
    "IBV_EVENT_QP_REQ_ERR" = EVENT_QP_REQ_ERR,
    "IBV_EVENT_QP_ACCESS_ERR" = EVENT_QP_ACCESS_ERR,
    "IBV_EVENT_DEVICE_FATAL" = EVENT_DEVICE_FATAL,
    "IBV_EVENT_PORT_ACTIVE" = EVENT_PORT_ACTIVE,
    "IBV_EVENT_PORT_ERR" = EVENT_PORT_ERR,
    "IBV_EVENT_LID_CHANGE" = EVENT_LID_CHANGE,
    "IBV_EVENT_PKEY_CHANGE" = EVENT_PKEY_CHANGE,
    "IBV_EVENT_GID_CHANGE" = EVENT_GID_CHANGE,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that the headers of rdma-core 44 give on x86-64 and aarch64.
    #[test]
    fn sizes_are_those_of_the_headers() {
        let sizes: Vec<_> =
            layouts().into_iter().filter_map(|l| Some((l.name, l.whole?.0))).collect();
        let wanted = [
            ("ibv_sge", 16),
            ("ibv_send_wr", 128),
            ("ibv_wc", 48),
            ("ibv_mr", 48),
            ("ibv_comp_channel", 16),
            ("ibv_device_attr", 232),
            ("ibv_port_attr", 52),
            ("ibv_gid", 16),
            ("ibv_gid_entry", 32),
            ("ibv_async_event", 16),
            ("ibv_qp_cap", 20),
            ("ibv_qp_init_attr", 64),
            ("ibv_global_route", 24),
            ("ibv_ah_attr", 32),
            ("ibv_qp_attr", 144),
            ("ibv_context_ops", 256),
        ];
        assert_eq!(sizes, wanted);
    }
}
