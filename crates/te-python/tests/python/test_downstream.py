"""Real code of SGLang and checkpoint-engine, byte for byte from their wheels, between two processes on our engine.

Each public transfer call of their three files moves at least 64 MiB, and the bytes are compared; `send_aux_tcp` is none,
since it sends by ZeroMQ and not by the engine. The stand-ins for what
is not transfer are listed by the first test.
"""
import pathlib
import socket

import downstream
import support
from support import MIB

ENOUGH = 64 * MIB


def fetched():
    try:
        downstream.wheels(support.OURS)
    except downstream.Unreachable as why:
        support.skip(f"the wheels of SGLang and checkpoint-engine cannot be fetched: {why}")
    support.equal(downstream.check_sums(), 3)


def node(name, **env):
    made = support.Node(name=name, SGLANG_DISAGGREGATION_THREAD_POOL_SIZE=4, SGLANG_DISAGGREGATION_QUEUE_SIZE=1, **env)
    made.run("import downstream as d\nglobal downstream\ndownstream = d\ndownstream.install()")
    return made


def test_the_files_are_the_published_ones_and_the_standins_are_listed():
    fetched()
    made = node("look")
    loaded = made.run("""
        import sglang.srt.disaggregation.mooncake.conn, sglang.srt.disaggregation.common.staging_buffer
        import checkpoint_engine.p2p_store, checkpoint_engine.device_utils
        return downstream.loaded()
        """)
    code = {name for name, file in loaded.items() if pathlib.Path(file).is_relative_to(downstream.CODE_FOLDER)}
    others = {name for name in loaded if name not in code}
    for file in downstream.FILES:
        assert file.removesuffix(".py").replace("/", ".") in code, f"{file} was not executed from its wheel"
    assert code <= set(downstream.CODE), code
    assert others <= set(downstream.STANDINS), others
    lines = downstream.standin_lines()
    for name in sorted(others):
        print(f"row stand-in {name}: {lines[name]} lines")
    print(f"row {len(code)} modules of theirs unchanged, {sum(lines.values())} lines of stand-ins")


def test_sglang_engine_file_every_transfer_call():
    fetched()
    target, source = node("engine-target"), node("engine-source")
    start = """
        from sglang.srt.distributed.device_communicators import mooncake_transfer_engine as file
        global engine, m
        engine = file.init_mooncake_transfer_engine("127.0.0.1", 0, None)
        assert file.get_mooncake_transfer_engine() is engine
        assert engine.get_engine() is not None
        m = Memory(size)
        register(engine, m)
        return engine.get_session_id()
        """
    one = "global register\ndef register(engine, m): engine.register(m.addr, m.size)"
    many = "global register\ndef register(engine, m): assert engine.batch_register([m.addr, m.addr + m.size // 2], [m.size // 2] * 2) == 0"
    target.run(one)
    source.run(many)
    there = target.run(start, size=2 * ENOUGH)
    source.run(start, size=ENOUGH)
    support.equal(source.run("return engine.send_probe(there)", there=there), 0)
    at = target.run("return m.addr")
    codes = source.run("""
        m.fill(31)
        k = 1 << 20
        n = m.size // k
        first = engine.transfer_sync(there, m.addr, at, m.size)
        second = engine.batch_transfer_sync(
            there, [m.addr + i * k for i in range(n)], [at + m.size + (n - 1 - i) * k for i in range(n)], [k] * n)
        return [first, second]
        """, there=there, at=at)
    support.equal(codes, [0, 0])
    support.equal(target.run("""
        half = m.size // 2
        turned = pattern(31, half).reshape(-1, 1 << 20)[::-1].ravel()
        return [m.holds(31, 0, half), first_difference(m.bytes[half:], turned)]
        """), [None, None])
    bad = source.run("return [engine.transfer_sync(there, m.addr, 4096, 64), engine.batch_transfer_sync('127.0.0.1:1', [m.addr], [at], [64])]", there=there, at=at)
    support.equal(bad, [-1, -1])
    support.equal(source.run("return engine.batch_deregister([m.addr, m.addr + m.size // 2])"), 0)
    support.equal(target.run("engine.deregister(m.addr)\ntry:\n    engine.deregister(m.addr)\nexcept RuntimeError as e:\n    return str(e)"), "Mooncake memory deregistration failed (ret=-3)")


_sides = {}


def sides():
    """The prefill and the decode side; made once, the target's memory cleared for each test."""
    fetched()
    made = _sides.get("both")
    if not made or not all(one.alive() and not one.broken for one in made):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        prefill, decode = node("prefill"), node("decode")
        start = "import kv_side\nglobals().update(vars(kv_side))\nglobal side\nside = Side(role, port)\nreturn side.session"
        prefill.run(start, role="prefill", port=port)
        decode.run(start, role="decode", port=port)
        prefill.kept = decode.kept = True
        made = _sides["both"] = (prefill, decode)
        prefill.port = port
        facts = decode.run("""
            i = side.taken()
            return [side.session, side.args.kv_data_ptrs, side.args.aux_data_ptrs, side.args.state_data_ptrs, side.manager.rank_port, side.base]
            """)
        prefill.run("""
            import concurrent.futures
            global session, kv_ptrs, aux_ptrs, state_ptrs, base, pool, req
            session, kv_ptrs, aux_ptrs, state_ptrs, port, base = facts
            pool = concurrent.futures.ThreadPoolExecutor(4)
            req = conn.TransferInfo(room=1, endpoint="127.0.0.1", dst_port=port, mooncake_session_id=session, dst_kv_indices=TARGET_PAGES,
                dst_aux_index=0, dst_state_indices=[[0], TARGET_PAGES.tolist()], required_dst_info_num=1, is_dummy=False)
            """, facts=facts)
    made[1].run("side.clear()")
    return made


def test_sglang_conn_send_kvcache():
    prefill, decode = sides()
    support.equal(prefill.run("return side.manager.send_kvcache(session, SOURCE_PAGES, kv_ptrs, TARGET_PAGES, pool)"), 0)
    support.equal(decode.run("return [wrong_entries(side, KV), MOVED * PAGE * ENTRIES]"), [0, ENOUGH])


def test_sglang_conn_send_kvcache_in_small_batches():
    prefill, decode = sides()
    code = prefill.run("""
        side.manager.max_transfer_batch_indices = 10
        try:
            return side.manager.send_kvcache(session, SOURCE_PAGES, kv_ptrs, TARGET_PAGES, pool)
        finally:
            side.manager.max_transfer_batch_indices = 0
        """)
    support.equal(code, 0)
    support.equal(decode.run("return wrong_entries(side, KV)"), 0)


def test_sglang_conn_send_kvcache_slice():
    prefill, decode = sides()
    codes = prefill.run("""
        return [side.manager.send_kvcache_slice(session, SOURCE_PAGES, kv_ptrs, half_places()[rank], rank, 2, PAGE // 2, pool) for rank in (0, 1)]
        """)
    support.equal(codes, [0, 0])
    support.equal(decode.run("return wrong_halves(side, KV, half_places())"), 0)


def test_sglang_conn_send_kvcache_dcp():
    prefill, decode = sides()
    codes = prefill.run("""
        return [side.manager.send_kvcache_dcp(
            session, SOURCE_PAGES, kv_ptrs, token_places()[rank], dcp_token_item_lens=[PAGE // TOKENS] * ENTRIES, dst_dcp_size=2,
            dst_dcp_rank=rank, src_page_offset=0, decode_prefix_len=0, num_kv_tokens=MOVED * TOKENS, executor=pool, dst_layer_ids=[])
            for rank in (0, 1)]
        """)
    support.equal(codes, [0, 0])
    support.equal(decode.run("return wrong_tokens(side, token_places())"), 0)


def test_sglang_conn_send_kvcache_staged():
    prefill, decode = sides()
    codes = prefill.run("""
        import torch
        from sglang.srt.disaggregation.common.staging_buffer import StagingBuffer
        manager = side.manager
        def tensor(entry):
            place = side.memory.bytes[KV + entry * ENTRY:KV + (entry + 1) * ENTRY]
            return torch.Tensor(place.view(np.uint16).reshape(POOL * TOKENS, HEADS, -1))
        manager.set_kv_buffer_tensors([tensor(i) for i in range(LAYERS)], [tensor(i) for i in range(LAYERS, ENTRIES)], TOKENS)
        staging = StagingBuffer(32 << 20, "cuda", 0)
        manager._register_staging_memory(staging.get_ptr(), staging.get_size())
        try:
            return [manager.send_kvcache_staged(
                session, SOURCE_PAGES, aux_ptrs[rank], SLOT, rank, 2, PAGE // 2, [], staging) for rank in (0, 1)]
        finally:
            side.engine.deregister(staging.get_ptr())
        """)
    support.equal(codes, [0, 0])
    support.equal(decode.run("return [wrong_staged(side, AUX + rank * SLOTS * SLOT, rank) for rank in (0, 1)]"), [0, 0])


def test_sglang_conn_send_aux():
    prefill, decode = sides()
    support.equal(prefill.run("return side.manager.send_aux(req, 1, aux_ptrs)"), 0)
    support.equal(decode.run("return wrong_slots(side, AUX)"), 0)


def test_sglang_conn_maybe_send_extra_of_slots_and_of_pages():
    prefill, decode = sides()
    code = prefill.run("""
        info = conn.KVArgsRegisterInfo(
            room="None", endpoint="127.0.0.1", dst_port=0, mooncake_session_id=session, dst_kv_ptrs=kv_ptrs, dst_aux_ptrs=aux_ptrs,
            dst_state_data_ptrs=state_ptrs, dst_tp_rank=0, dst_attn_tp_size=1, dst_kv_item_len=PAGE,
            dst_state_item_lens=[[SLOT] * 2, [PAGE] * ENTRIES], dst_state_dim_per_tensor=[[], []], dst_kv_layer_ids=[],
            dst_state_layer_ids=[[], []])
        side.manager.request_status[1] = KVPoll.Transferring
        try:
            return side.manager.maybe_send_extra(req, [[1], SOURCE_PAGES.tolist()], pool, info)
        finally:
            del side.manager.request_status[1]
        """)
    support.equal(code, 0)
    support.equal(decode.run("return [wrong_slots(side, MAMBA), wrong_entries(side, SWA)]"), [0, 0])


UNTIL = """
end = time.monotonic() + 30
while time.monotonic() < end:
    state = one.poll()
    if state in states:
        return state
    time.sleep(0.002)
return [one.poll(), dict(side.manager.failure_records)]
"""


def test_sglang_conn_sender_and_receiver_from_bootstrap_to_success():
    prefill, decode = sides()
    decode.run("""
        address = f"127.0.0.1:{port}"
        global receiver
        end = time.monotonic() + 20
        while not side.manager.try_ensure_parallel_info(address):
            assert time.monotonic() < end
            time.sleep(0.05)
        receiver = conn.MooncakeKVReceiver(side.manager, address, 7)
        receiver.init(0)
        return receiver.poll()
        """, port=prefill.port)
    prefill.run("""
        global sender
        sender = conn.MooncakeKVSender(side.manager, f"127.0.0.1:{port}", 7)
        sender.init(MOVED, 1)
        """, port=prefill.port)
    decode.run("receiver.send_metadata(TARGET_PAGES, 0, [[0], TARGET_PAGES.tolist()])")
    support.equal(prefill.run("one = sender\n" + UNTIL, states=[2, 0]), 2)
    prefill.run("""
        half = MOVED // 2
        sender.send(SOURCE_PAGES[:half])
        sender.send(SOURCE_PAGES[half:], [[1], SOURCE_PAGES.tolist()])
        """)
    for one, name in ((prefill, "sender"), (decode, "receiver")):
        support.equal(one.run(f"one = {name}\n" + UNTIL, states=[4, 0]), 4)
    support.equal(decode.run("return [wrong_entries(side, KV), wrong_slots(side, AUX), wrong_slots(side, MAMBA), wrong_entries(side, SWA)]"), [0, 0, 0, 0])
    moved = prefill.run("m = sender.get_transfer_metric()\nsender.clear()\nreturn m.transfer_total_bytes")
    assert moved >= ENOUGH, moved


def test_checkpoint_engine_p2p_store():
    fetched()
    start = """
        import numpy as np, torch
        from types import SimpleNamespace
        manager = SimpleNamespace(device_module=torch.cuda, rdma_device=lambda rank: "", transfer_engine_protocol="tcp")
        from checkpoint_engine.p2p_store import P2PStore
        global store, tensors
        store = P2PStore(manager)
        tensors = {f"layer.{i}": torch.Tensor(np.zeros(8 << 20, np.uint8)) for i in range(n)}
        if seed:
            for i, t in enumerate(tensors.values()):
                t.array[:] = pattern(seed + i, t.nbytes)
        store.register_named_tensors(tensors)
        return [store.addr, [t.data_ptr() for t in tensors.values()]]
        """
    owner, taker = node("owner", RANK=0), node("taker", RANK=1)
    addr, there = owner.run(start, n=8, seed=40)
    taker.run(start, n=8, seed=0)
    taker.run("""
        mine = [t.data_ptr() for t in tensors.values()]
        store.batch_transfer_sync_read(addr, mine, there[::-1], [8 << 20] * 8)
        """, addr=addr, there=there)
    found = taker.run("return [first_difference(t.array, pattern(47 - i, t.nbytes)) for i, t in enumerate(tensors.values())]")
    support.equal(found, [None] * 8)
    try:
        taker.run("store.batch_transfer_sync_read(addr, [list(tensors.values())[0].data_ptr()], [4096], [64])", addr=addr)
        raise RuntimeError("a read of an unknown address was told as done")
    except support.NodeError as error:
        support.equal(error.kind, "AssertionError")
    for one in (owner, taker):
        support.equal(one.run("return store.unregister_named_tensors(list(tensors))"), 8)


