//! The part of libibverbs' binary interface that is used here: layouts, constants, signatures.
//!
//! Structures that the library makes are named as far as they are read. Those that are given to it
//! are whole. The layouts are those of `infiniband/verbs.h`, which comes with this notice:
//!
//! ```text
//! Copyright (c) 2004, 2005 Topspin Communications.  All rights reserved.
//! Copyright (c) 2004, 2011-2012 Intel Corporation.  All rights reserved.
//! Copyright (c) 2005, 2006, 2007 Cisco Systems, Inc.  All rights reserved.
//! Copyright (c) 2005 PathScale, Inc.  All rights reserved.
//! Copyright (c) 2020 Intel Corporation.  All rights reserved.
//!
//! This software is available to you under the OpenIB.org BSD license below:
//!
//!     Redistribution and use in source and binary forms, with or
//!     without modification, are permitted provided that the following
//!     conditions are met:
//!
//!      - Redistributions of source code must retain the above
//!        copyright notice, this list of conditions and the following
//!        disclaimer.
//!
//!      - Redistributions in binary form must reproduce the above
//!        copyright notice, this list of conditions and the following
//!        disclaimer in the documentation and/or other materials
//!        provided with the distribution.
//!
//! THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND,
//! EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
//! MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
//! NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS
//! BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
//! ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
//! CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
//! SOFTWARE.
//! ```
#![allow(unsafe_code, reason = "signatures of the C library; docs/memory-safety.md")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::marker::{PhantomData, PhantomPinned};

use crate::work::Sge;

#[cfg(any(test, feature = "testing"))]
pub(crate) mod layout;

/// Memory of the library whose layout is not known here.
type Opaque = PhantomData<(*mut u8, PhantomPinned)>;

/// `struct ibv_device`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Device {
    _opaque: Opaque,
}

/// The start of `struct ibv_context`, as far as `num_comp_vectors`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    device: *mut Device,
    pub(crate) ops: ContextOps,
    cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
}

type Unused = Option<unsafe extern "C" fn()>;

/// `struct ibv_context_ops`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ContextOps {
    before_poll_cq: [Unused; 11],
    pub(crate) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub(crate) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    before_post_send: [Unused; 12],
    pub(crate) post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    after_post_send: [Unused; 6],
}

/// `struct ibv_pd`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Pd {
    _opaque: Opaque,
}

/// `struct ibv_mr`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Mr {
    context: *mut Context,
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CompChannel {
    context: *mut Context,
    pub(crate) fd: c_int,
    refcnt: c_int,
}

/// The start of `struct ibv_cq`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) context: *mut Context,
}

/// The start of `struct ibv_qp`, as far as `qp_num`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) context: *mut Context,
    qp_context: *mut c_void,
    pd: *mut Pd,
    send_cq: *mut Cq,
    recv_cq: *mut Cq,
    srq: *mut c_void,
    handle: u32,
    pub(crate) qp_num: u32,
}

/// `struct ibv_device_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceAttr {
    fw_ver: [u8; 64],
    node_guid: u64,
    sys_image_guid: u64,
    pub(crate) max_mr_size: u64,
    page_size_cap: u64,
    vendor: [u32; 3],
    pub(crate) max_qp: c_int,
    pub(crate) max_qp_wr: c_int,
    device_cap_flags: c_uint,
    pub(crate) max_sge: c_int,
    max_sge_rd: c_int,
    pub(crate) max_cq: c_int,
    pub(crate) max_cqe: c_int,
    max_mr: c_int,
    max_pd: c_int,
    pub(crate) max_qp_rd_atom: c_int,
    max_ee_rd_atom: c_int,
    max_res_rd_atom: c_int,
    pub(crate) max_qp_init_rd_atom: c_int,
    limits_of_others: [c_int; 16],
    max_pkeys: u16,
    local_ca_ack_delay: u8,
    pub(crate) phys_port_cnt: u8,
}

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PortAttr {
    pub(crate) state: c_uint,
    max_mtu: c_uint,
    pub(crate) active_mtu: c_uint,
    pub(crate) gid_tbl_len: c_int,
    port_cap_flags: u32,
    max_msg_sz: u32,
    bad_pkey_cntr: u32,
    qkey_viol_cntr: u32,
    pub(crate) pkey_tbl_len: u16,
    pub(crate) lid: u16,
    sm_lid: u16,
    lmc: u8,
    max_vl_num: u8,
    sm_sl: u8,
    subnet_timeout: u8,
    init_type_reply: u8,
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    phys_state: u8,
    pub(crate) link_layer: u8,
    flags: u8,
    port_cap_flags2: u16,
}

/// `union ibv_gid`, which is aligned to its numbers.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gid {
    pub(crate) raw: [u8; 16],
}

/// `struct ibv_gid_entry`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GidEntry {
    pub(crate) gid: Gid,
    pub(crate) gid_index: u32,
    pub(crate) port_num: u32,
    pub(crate) gid_type: u32,
    pub(crate) ndev_ifindex: u32,
}

/// `struct ibv_async_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AsyncEvent {
    /// A union: a pointer, or the number of a port in its first four bytes.
    pub(crate) element: u64,
    pub(crate) event_type: c_uint,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wc {
    pub(crate) wr_id: u64,
    pub(crate) status: c_uint,
    opcode: c_uint,
    pub(crate) vendor_err: u32,
    byte_len: u32,
    imm_data: u32,
    pub(crate) qp_num: u32,
    src_qp: u32,
    wc_flags: c_uint,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct QpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut c_void,
    pub(crate) cap: QpCap,
    pub(crate) qp_type: c_uint,
    pub(crate) sq_sig_all: c_int,
}

/// `struct ibv_global_route`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GlobalRoute {
    pub(crate) dgid: Gid,
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AhAttr {
    pub(crate) grh: GlobalRoute,
    pub(crate) dlid: u16,
    pub(crate) sl: u8,
    src_path_bits: u8,
    static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QpAttr {
    pub(crate) qp_state: c_uint,
    cur_qp_state: c_uint,
    pub(crate) path_mtu: c_uint,
    path_mig_state: c_uint,
    qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: c_uint,
    cap: QpCap,
    pub(crate) ah_attr: AhAttr,
    alt_ah_attr: AhAttr,
    pub(crate) pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    alt_port_num: u8,
    alt_timeout: u8,
    rate_limit: u32,
}

/// `struct ibv_send_wr`, with the member for RDMA of the union in its middle.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut Self,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: c_uint,
    pub(crate) send_flags: c_uint,
    imm_data: u32,
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
    rest_of_union: [u32; 5],
    remote_srqn: u64,
    memory_windows: [u64; 6],
}

impl SendWr {
    /// Nothing: a WRITE of no ranges.
    pub(crate) const EMPTY: Self = Self {
        wr_id: 0,
        next: std::ptr::null_mut(),
        sg_list: std::ptr::null_mut(),
        num_sge: 0,
        opcode: WR_RDMA_WRITE,
        send_flags: 0,
        imm_data: 0,
        remote_addr: 0,
        rkey: 0,
        rest_of_union: [0; 5],
        remote_srqn: 0,
        memory_windows: [0; 6],
    };
}

pub(crate) const WR_RDMA_WRITE: c_uint = 0;
pub(crate) const WR_RDMA_READ: c_uint = 4;

pub(crate) const SEND_SIGNALED: c_uint = 1 << 1;
pub(crate) const SEND_INLINE: c_uint = 1 << 3;

pub(crate) const ACCESS_LOCAL_WRITE: c_uint = 1;
pub(crate) const ACCESS_REMOTE_WRITE: c_uint = 1 << 1;
pub(crate) const ACCESS_REMOTE_READ: c_uint = 1 << 2;
pub(crate) const ACCESS_RELAXED_ORDERING: c_uint = 1 << 20;

pub(crate) const QPT_RC: c_uint = 2;

pub(crate) const QPS_RESET: c_uint = 0;
pub(crate) const QPS_INIT: c_uint = 1;
pub(crate) const QPS_RTR: c_uint = 2;
pub(crate) const QPS_RTS: c_uint = 3;
pub(crate) const QPS_ERR: c_uint = 6;

pub(crate) const QP_STATE: c_int = 1;
pub(crate) const QP_ACCESS_FLAGS: c_int = 1 << 3;
pub(crate) const QP_PKEY_INDEX: c_int = 1 << 4;
pub(crate) const QP_PORT: c_int = 1 << 5;
pub(crate) const QP_AV: c_int = 1 << 7;
pub(crate) const QP_PATH_MTU: c_int = 1 << 8;
pub(crate) const QP_TIMEOUT: c_int = 1 << 9;
pub(crate) const QP_RETRY_CNT: c_int = 1 << 10;
pub(crate) const QP_RNR_RETRY: c_int = 1 << 11;
pub(crate) const QP_RQ_PSN: c_int = 1 << 12;
pub(crate) const QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub(crate) const QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(crate) const QP_SQ_PSN: c_int = 1 << 16;
pub(crate) const QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub(crate) const QP_DEST_QPN: c_int = 1 << 20;

pub(crate) const PORT_DOWN: c_uint = 1;
pub(crate) const PORT_ACTIVE: c_uint = 4;
pub(crate) const LINK_LAYER_ETHERNET: u8 = 2;

pub(crate) const GID_TYPE_ROCE_V1: u32 = 1;
pub(crate) const GID_TYPE_ROCE_V2: u32 = 2;

pub(crate) const EVENT_CQ_ERR: c_uint = 0;
pub(crate) const EVENT_QP_FATAL: c_uint = 1;
pub(crate) const EVENT_QP_REQ_ERR: c_uint = 2;
pub(crate) const EVENT_QP_ACCESS_ERR: c_uint = 3;
pub(crate) const EVENT_DEVICE_FATAL: c_uint = 8;
pub(crate) const EVENT_PORT_ACTIVE: c_uint = 9;
pub(crate) const EVENT_PORT_ERR: c_uint = 10;
pub(crate) const EVENT_LID_CHANGE: c_uint = 11;
pub(crate) const EVENT_PKEY_CHANGE: c_uint = 12;
pub(crate) const EVENT_GID_CHANGE: c_uint = 18;

/// Declares the functions of the library, and how each is found.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: fn($($arg:ty),*) $(-> $out:ty)?;)*) => {
        /// The functions that every version of the library has.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Functions {
            $($(#[$doc])* pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $out)?,)*
        }

        impl Functions {
            /// Finds all of them.
            ///
            /// # Errors
            /// The loader's, for the first that is not there.
            ///
            /// # Safety
            /// `library` is libibverbs.
            pub(crate) unsafe fn find(
                library: &libloading::Library,
            ) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the caller says that this is libibverbs, whose functions of these
                    // names have these signatures.
                    $($name: unsafe { *library.get(stringify!($name))? },)*
                })
            }
        }
    };
}

functions! {
    ibv_fork_init: fn() -> c_int;
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut Device;
    ibv_free_device_list: fn(*mut *mut Device);
    ibv_get_device_name: fn(*mut Device) -> *const c_char;
    ibv_open_device: fn(*mut Device) -> *mut Context;
    ibv_close_device: fn(*mut Context) -> c_int;
    ibv_query_device: fn(*mut Context, *mut DeviceAttr) -> c_int;
    ibv_query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int;
    ibv_query_gid: fn(*mut Context, u8, c_int, *mut Gid) -> c_int;
    ibv_get_async_event: fn(*mut Context, *mut AsyncEvent) -> c_int;
    ibv_ack_async_event: fn(*mut AsyncEvent);
    ibv_alloc_pd: fn(*mut Context) -> *mut Pd;
    ibv_dealloc_pd: fn(*mut Pd) -> c_int;
    ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    ibv_dereg_mr: fn(*mut Mr) -> c_int;
    ibv_create_comp_channel: fn(*mut Context) -> *mut CompChannel;
    ibv_destroy_comp_channel: fn(*mut CompChannel) -> c_int;
    ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    ibv_destroy_cq: fn(*mut Cq) -> c_int;
    ibv_get_cq_event: fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut Cq, c_uint);
    ibv_create_qp: fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
    ibv_modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    ibv_query_qp: fn(*mut Qp, *mut QpAttr, c_int, *mut QpInitAttr) -> c_int;
    ibv_destroy_qp: fn(*mut Qp) -> c_int;
}

/// `ibv_reg_mr_iova2`, which knows flags that a provider may leave out.
pub(crate) type RegisterIova2 =
    unsafe extern "C" fn(*mut Pd, *mut c_void, usize, u64, c_uint) -> *mut Mr;

/// `ibv_reg_dmabuf_mr`.
pub(crate) type RegisterDmabuf =
    unsafe extern "C" fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr;

/// `_ibv_query_gid_table`.
pub(crate) type QueryGidTable =
    unsafe extern "C" fn(*mut Context, *mut GidEntry, usize, u32, usize) -> isize;
