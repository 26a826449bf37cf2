"""One side of a prefill and decode pair of SGLang's, with its own transfer code: memory, manager, and what it must hold.

Layout of the memory: KV entries (layers × K, V), auxiliary slots, two state tensors with slots, and a second set of page
entries for window state. Pages of the source go to other pages of the target, so that a mistake in an address shows.
"""
import logging

import numpy as np

import downstream
from node import Memory, pattern

downstream.install()
logging.Logger.warning_once = logging.Logger.warning

from sglang.srt import runtime_context  # noqa: E402
from sglang.srt.distributed.device_communicators import mooncake_transfer_engine as shared  # noqa: E402
from sglang.srt.disaggregation.base.conn import KVArgs, KVPoll, StateType  # noqa: E402
from sglang.srt.disaggregation.mooncake import conn  # noqa: E402
from sglang.srt.disaggregation.utils import DisaggregationMode  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402

LAYERS, PAGE, TOKENS, HEADS = 4, 64 << 10, 16, 8
ENTRIES = 2 * LAYERS
POOL = 160
MOVED = 128
SLOT = 32 << 20
SLOTS = 2
ENTRY = POOL * PAGE
KV, AUX, MAMBA, SWA = 0, ENTRIES * ENTRY, ENTRIES * ENTRY + 2 * SLOTS * SLOT, ENTRIES * ENTRY + 4 * SLOTS * SLOT
SIZE = SWA + ENTRIES * ENTRY
SEED = 71


def order(seed, n, of):
    """Pages in an order of their own."""
    return np.random.Generator(np.random.PCG64(seed)).permutation(of)[:n].astype(np.int32)


SOURCE_PAGES, TARGET_PAGES = order(1, MOVED, POOL), order(2, MOVED, POOL)


class Side:
    def __init__(self, role, port):
        self.memory = Memory(SIZE)
        base = self.base = self.memory.addr
        context = runtime_context.CONTEXT
        context.disagg.disaggregation_mode = role
        context.disagg.disaggregation_bootstrap_port = port
        shared.maybe_init_shared_mooncake_transfer_engine(gpu_id=0)
        self.engine = shared.get_mooncake_transfer_engine()
        args = KVArgs()
        args.engine_rank = args.gpu_id = args.pp_rank = args.system_dp_rank = args.prefill_start_layer = 0
        args.prefill_end_layer = LAYERS
        args.kv_cache_dtype_str, args.ib_device, args.rust_http_port = "bfloat16", "", None
        args.kv_head_num = args.total_kv_head_num = HEADS
        args.page_size = TOKENS
        args.mla_compression_ratios = None
        args.is_hybrid_mla_backend = False
        args.swa_kv_cache_layout = "nhd"
        args.kv_layer_ids = []
        args.kv_data_ptrs = [base + KV + i * ENTRY for i in range(ENTRIES)]
        args.kv_data_lens = [ENTRY] * ENTRIES
        args.kv_item_lens = [PAGE] * ENTRIES
        args.aux_data_ptrs = [base + AUX + i * SLOTS * SLOT for i in range(2)]
        args.aux_data_lens = [SLOTS * SLOT] * 2
        args.aux_item_lens = [SLOT] * 2
        args.state_types = [StateType.MAMBA, StateType.SWA]
        args.state_data_ptrs = [[base + MAMBA + i * SLOTS * SLOT for i in range(2)], [base + SWA + i * ENTRY for i in range(ENTRIES)]]
        args.state_data_lens = [[SLOTS * SLOT] * 2, [ENTRY] * ENTRIES]
        args.state_item_lens = [[SLOT] * 2, [PAGE] * ENTRIES]
        args.state_layer_ids, args.state_dim_per_tensor = [[], []], [[], []]
        args.state_conv_shard_groups, args.state_slice_outer_counts = [[], []], [[], []]
        mode = DisaggregationMode.PREFILL if role == "prefill" else DisaggregationMode.DECODE
        if role == "prefill":
            self.memory.fill(SEED)
            self.bootstrap = conn.MooncakeKVBootstrapServer("127.0.0.1", port)
            wait_for_port(port)
        self.manager = conn.MooncakeKVManager(args, mode, ServerArgs())
        self.args = args
        self.session = self.engine.get_session_id()

    def taken(self):
        """A request of the decode side, as its message would say it."""
        return conn.TransferInfo(
            room=1, endpoint="127.0.0.1", dst_port=self.manager.rank_port, mooncake_session_id=self.session,
            dst_kv_indices=TARGET_PAGES, dst_aux_index=0, dst_state_indices=[[0], TARGET_PAGES.tolist()],
            required_dst_info_num=1, is_dummy=False)

    def clear(self):
        self.memory.clear()

    def entries(self, part, size=PAGE):
        """The entries of a part as [entry][page][bytes]."""
        return self.memory.bytes[part:part + ENTRIES * ENTRY].reshape(ENTRIES, ENTRY // size, size)

    def slots(self, part):
        return self.memory.bytes[part:part + 2 * SLOTS * SLOT].reshape(2, SLOTS, SLOT)


def wait_for_port(port):
    import socket
    import time
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("the bootstrap server did not come")


def source_entries(part):
    return pattern(SEED, SIZE)[part:part + ENTRIES * ENTRY].reshape(ENTRIES, POOL, PAGE)


def source_slots(part):
    return pattern(SEED, SIZE)[part:part + 2 * SLOTS * SLOT].reshape(2, SLOTS, SLOT)


def wrong_entries(side, part):
    """How many bytes of the paged part are not what they must be: the pages that were sent, and zeros."""
    want = np.zeros((ENTRIES, POOL, PAGE), np.uint8)
    want[:, TARGET_PAGES] = source_entries(part)[:, SOURCE_PAGES]
    return int((side.entries(part) != want).sum())


def wrong_slots(side, part):
    want = np.zeros((2, SLOTS, SLOT), np.uint8)
    want[:, 0] = source_slots(part)[:, 1]
    return int((side.slots(part) != want).sum())


def wrong_halves(side, part, places):
    """The same for pages of half the heads: `places[rank]` are the half-size pages of each rank."""
    half = PAGE // 2
    want = np.zeros((ENTRIES, 2 * POOL, half), np.uint8)
    by_token = source_entries(part)[:, SOURCE_PAGES].reshape(ENTRIES, MOVED, TOKENS, 2, half // TOKENS)
    for rank, pages in enumerate(places):
        want[:, pages] = by_token[:, :, :, rank].reshape(ENTRIES, MOVED, half)
    return int((side.entries(part, half) != want).sum())


def half_places():
    both = order(3, 2 * MOVED, 2 * POOL)
    return both[:MOVED], both[MOVED:]


def wrong_tokens(side, places):
    """For transfers of every second token: rank r took tokens r, r + 2, … into pages of its own."""
    token = PAGE // TOKENS
    want = np.zeros((ENTRIES, POOL, PAGE), np.uint8)
    tokens = source_entries(KV)[:, SOURCE_PAGES].reshape(ENTRIES, MOVED * TOKENS, token)
    for rank, pages in enumerate(places):
        want[:, pages] = tokens[:, rank::2].reshape(ENTRIES, MOVED // 2, PAGE)
    return int((side.entries(KV) != want).sum())


def token_places():
    both = order(4, MOVED, POOL)
    return both[:MOVED // 2], both[MOVED // 2:]


def wrong_staged(side, place, rank):
    """For staging: all K entries, then all V entries, each with its tokens one after the other."""
    half = PAGE // TOKENS // 2
    by_token = source_entries(KV)[:, SOURCE_PAGES].reshape(ENTRIES, MOVED * TOKENS, 2, half)
    want = by_token[:, :, rank].ravel()
    return int((side.memory.bytes[place:place + want.size] != want).sum())


