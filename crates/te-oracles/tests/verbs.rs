//! The committed bindings of libibverbs against those that rdma-sys makes of the installed headers:
//! sizes, alignments, offsets of members, numbers.

use std::mem::{align_of, offset_of, size_of};

use te_verbs::{Layout, constants, layouts};

macro_rules! whole {
    ($name:ident, $($member:ident),*) => {
        Layout {
            name: stringify!($name),
            whole: Some((size_of::<rdma_sys::$name>(), align_of::<rdma_sys::$name>())),
            members: vec![$((stringify!($member), offset_of!(rdma_sys::$name, $member))),*],
        }
    };
}

macro_rules! start {
    ($name:ident, $($member:ident),*) => { Layout { whole: None, ..whole!($name, $($member),*) } };
}

/// The members inside unions of a work request: they are named where their union is.
fn send_request() -> Layout {
    let mut layout =
        whole!(ibv_send_wr, wr_id, next, sg_list, num_sge, opcode, send_flags, wr, qp_type);
    let union = layout.members[6].1;
    layout.members.truncate(6);
    layout.members.push(("remote_addr", union + offset_of!(rdma_sys::rdma_t, remote_addr)));
    layout.members.push(("rkey", union + offset_of!(rdma_sys::rdma_t, rkey)));
    layout.members.push(("remote_srqn", offset_of!(rdma_sys::ibv_send_wr, qp_type)));
    layout
}

#[rustfmt::skip]
fn of_the_headers() -> Vec<Layout> {
    vec![
        whole!(ibv_sge, addr, length, lkey),
        send_request(),
        whole!(ibv_wc, wr_id, status, vendor_err, qp_num),
        whole!(ibv_mr, lkey, rkey),
        whole!(ibv_comp_channel, fd),
        whole!(ibv_device_attr, max_mr_size, max_qp, max_qp_wr, max_sge, max_cq, max_cqe,
            max_qp_rd_atom, max_qp_init_rd_atom, phys_port_cnt),
        whole!(ibv_port_attr, state, active_mtu, gid_tbl_len, pkey_tbl_len, lid, active_width,
            active_speed, link_layer),
        whole!(ibv_gid, raw),
        whole!(ibv_gid_entry, gid, gid_index, port_num, gid_type, ndev_ifindex),
        whole!(ibv_async_event, element, event_type),
        whole!(ibv_qp_cap, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data),
        whole!(ibv_qp_init_attr, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all),
        whole!(ibv_global_route, dgid, flow_label, sgid_index, hop_limit, traffic_class),
        whole!(ibv_ah_attr, grh, dlid, sl, is_global, port_num),
        whole!(ibv_qp_attr, qp_state, path_mtu, rq_psn, sq_psn, dest_qp_num, qp_access_flags, ah_attr,
            pkey_index, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
            retry_cnt, rnr_retry),
        whole!(ibv_context_ops, poll_cq, req_notify_cq, post_send),
        start!(ibv_context, ops, async_fd, num_comp_vectors),
        start!(ibv_cq, context),
        start!(ibv_qp, context, qp_num),
    ]
}

#[test]
fn layouts_are_those_of_the_headers() {
    let (ours, theirs) = (layouts(), of_the_headers());
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}

/// Enumerations are numbers or cast to them, sets of bits are numbers in a wrapper.
macro_rules! numbers {
    ([$($kind:ident: $($name:ident)*;)*] [$($set:ident: $($bit:ident)*;)*]) => {
        vec![
            $($((stringify!($name), rdma_sys::$kind::$name as u64),)*)*
            $($((stringify!($bit), u64::from(rdma_sys::$set::$bit.0)),)*)*
        ]
    };
}

#[rustfmt::skip]
fn numbers_of_the_headers() -> Vec<(&'static str, u64)> {
    numbers! {[
        ibv_wr_opcode: IBV_WR_RDMA_WRITE IBV_WR_RDMA_READ;
        ibv_qp_type: IBV_QPT_RC;
        ibv_qp_state: IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_ERR;
        ibv_port_state: IBV_PORT_DOWN IBV_PORT_ACTIVE;
        ibv_event_type: IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_QP_REQ_ERR
            IBV_EVENT_QP_ACCESS_ERR IBV_EVENT_DEVICE_FATAL IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR
            IBV_EVENT_LID_CHANGE IBV_EVENT_PKEY_CHANGE IBV_EVENT_GID_CHANGE;
    ] [
        ibv_send_flags: IBV_SEND_SIGNALED IBV_SEND_INLINE;
        ibv_access_flags: IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ
            IBV_ACCESS_RELAXED_ORDERING;
        ibv_qp_attr_mask: IBV_QP_STATE IBV_QP_ACCESS_FLAGS IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_AV
            IBV_QP_PATH_MTU IBV_QP_TIMEOUT IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_RQ_PSN
            IBV_QP_MAX_QP_RD_ATOMIC IBV_QP_MIN_RNR_TIMER IBV_QP_SQ_PSN IBV_QP_MAX_DEST_RD_ATOMIC
            IBV_QP_DEST_QPN;
    ]}
}

#[test]
fn numbers_are_those_of_the_headers() {
    let ours: std::collections::HashMap<_, _> = constants().into_iter().collect();
    for (name, theirs) in numbers_of_the_headers() {
        assert_eq!(ours.get(name), Some(&theirs), "{name}");
    }
}
