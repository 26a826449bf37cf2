"""Calls every Python function of the published package in every way that callers have, and prints each answer.

    parity_calls.py GROUP

Runs with either engine behind `mooncake.engine`; two lines of JSON for each call: `[call]` before
it and `[call, answer]` after it. An answer is what a
caller can act on: a code, whether an address is null, the class of an exception, never a text meant for
people. Calls that end the process in one engine have a group each.
"""
import ctypes
import json
import os
import socket
import sys
import time

from node import Memory, answers
from mooncake import engine as module
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

GROUPS = {}


def group(function):
    GROUPS[function.__name__] = function
    return function


def tell(label, call, view=lambda value: value):
    """Makes the call and prints its answer as `view` sees it; that it has begun is said first."""
    answers.write(json.dumps([label]) + "\n")
    answers.flush()
    try:
        answer = view(call())
    except Exception as error:
        answer = f"raises {type(error).__name__}"
    answers.write(json.dumps([label, answer]) + "\n")
    answers.flush()


def nonzero(value):
    return "not 0" if value != 0 else 0


def kind(value):
    return type(value).__name__


def engine():
    made = TransferEngine()
    code = made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
    assert code == 0, code
    return made, f"127.0.0.1:{made.get_rpc_port()}"


def pair(size=1 << 20):
    """Two engines of this process with memory each."""
    a, _ = engine()
    b, b_name = engine()
    am, bm = Memory(size), Memory(size)
    assert a.register_memory(am.addr, size) == 0 and b.register_memory(bm.addr, size) == 0
    return a, b, b_name, am, bm


def members(owner):
    return sorted(name for name in dir(owner) if not name.startswith("_"))


@group
def names():
    """What the module and its classes offer."""
    tell("dir(mooncake.engine)", lambda: members(module))
    for name in members(module):
        found = getattr(module, name)
        if isinstance(found, type):
            tell(f"dir({name})", lambda: members(found))
        elif name.startswith("SUPPORT_"):
            tell(name, lambda: found)
    tell("CoroRPCInterface is RpcInterface", lambda: module.CoroRPCInterface is module.RpcInterface)
    tell("module.Read is TransferOpcode.Read", lambda: module.Read == TransferOpcode.Read)
    tell("TransferEngine.TransferOpcode is TransferOpcode", lambda: TransferEngine.TransferOpcode is TransferOpcode)


@group
def values():
    """The small classes."""
    tell("TransferOpcode.Read.value", lambda: TransferOpcode.Read.value)
    tell("TransferOpcode.Write.value", lambda: TransferOpcode.Write.value)
    tell("TransferOpcode.Write.name", lambda: TransferOpcode.Write.name)
    tell("TransferOpcode(1) == Write", lambda: TransferOpcode(1) == TransferOpcode.Write)
    tell("TransferOpcode(value=0) == Read", lambda: TransferOpcode(value=0) == TransferOpcode.Read)
    tell("int(TransferOpcode.Write)", lambda: int(TransferOpcode.Write))
    tell("TransferOpcode.Write.__index__()", lambda: TransferOpcode.Write.__index__())
    tell("hash(TransferOpcode.Write)", lambda: hash(TransferOpcode.Write) == hash(TransferOpcode(1)))
    tell("Write == 1", lambda: TransferOpcode.Write == 1)
    tell("Write != Read", lambda: TransferOpcode.Write != TransferOpcode.Read)
    tell("TransferOpcode('x')", lambda: TransferOpcode("x"), kind)
    tell("repr(TransferOpcode.Read)", lambda: repr(TransferOpcode.Read))
    tell("str(TransferOpcode.Read)", lambda: str(TransferOpcode.Read))
    tell("TransferOpcode.__members__", lambda: sorted(TransferOpcode.__members__))
    tell("TransferNotify()", lambda: TransferNotify(), kind)
    tell("TransferNotify().name", lambda: TransferNotify().name)
    tell("TransferNotify('n', 'm').msg", lambda: TransferNotify("n", "m").msg)
    tell("TransferNotify(name=, msg=)", lambda: TransferNotify(name="a", msg="b").name)
    tell("TransferNotify('n')", lambda: TransferNotify("n"), kind)
    tell("TransferNotify(1, 2)", lambda: TransferNotify(1, 2), kind)

    def assigned():
        notify = TransferNotify()
        notify.name, notify.msg = "x", "y"
        return [notify.name, notify.msg]
    tell("TransferNotify.name = …", assigned)
    tell("TransferNotify.msg = 1", lambda: setattr(TransferNotify(), "msg", 1))
    tell("InnerTransferEngine()", lambda: module.InnerTransferEngine(), kind)
    tell("ReceivedData().data_size()", lambda: module.ReceivedData(), kind)
    tell("SharedSegment()", lambda: module.SharedSegment(), kind)
    tell("TransferEngine(1)", lambda: TransferEngine(1), kind)


@group
def start():
    """initialize and what it answers."""
    e = TransferEngine()
    tell("initialize: P2P, tcp", lambda: e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""))
    tell("get_rpc_port", lambda: 0 < e.get_rpc_port() < 65536)
    tell("get_engine_ptr", lambda: e.get_engine_ptr(), nonzero)
    tell("get_engine", lambda: e.get_engine(), lambda x: "an object" if x is not None else None)
    e2 = TransferEngine()
    tell("initialize: local name with a port", lambda: e2.initialize("127.0.0.1:17777", "P2PHANDSHAKE", "tcp", ""))
    tell("get_rpc_port is not the port of the name", lambda: e2.get_rpc_port() != 17777)
    e3 = TransferEngine()
    tell("initialize_ext: P2P", lambda: e3.initialize_ext("127.0.0.1", "P2PHANDSHAKE", "tcp", "", ""))
    e4 = TransferEngine()
    tell("initialize: protocol rdma, forced to tcp", lambda: e4.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", ""))
    e5 = TransferEngine()
    tell("initialize: a device filter", lambda: e5.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "mlx5_0,mlx5_1"))
    tell("initialize: three arguments", lambda: TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "tcp"))
    tell("initialize: a number as name", lambda: TransferEngine().initialize(1, "P2PHANDSHAKE", "tcp", ""))
    tell("initialize: None as device", lambda: TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", None))
    tell("initialize: protocol xgmi", lambda: TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "xgmi", ""))
    tell("initialize: by keyword", lambda: TransferEngine().initialize(local_hostname="127.0.0.1", metadata_server="P2PHANDSHAKE", protocol="tcp", device_name=""))
    tell("initialize: HTTP service that is not there", lambda: TransferEngine().initialize("127.0.0.1", "http://127.0.0.1:9/metadata", "tcp", ""))


@group
def start_twice():
    """initialize a second time."""
    e = TransferEngine()
    tell("first initialize", lambda: e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""))
    tell("second initialize", lambda: e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""))


@group
def start_unknown_scheme():
    """A metadata service of an unknown kind."""
    tell("initialize: unknown scheme", lambda: TransferEngine().initialize("127.0.0.1", "bogus://127.0.0.1:9", "tcp", ""))


@group
def start_etcd():
    """A store that is not there."""
    tell("initialize: etcd that is not there", lambda: TransferEngine().initialize("127.0.0.1", "etcd://127.0.0.1:9", "tcp", ""))


def before(name, call):
    def run():
        e = TransferEngine()
        tell(f"before initialize: {name}", lambda: call(e))
    run.__name__ = f"before_{name}"
    GROUPS[run.__name__] = run


W = TransferOpcode.Write
before("get_rpc_port", lambda e: e.get_rpc_port())
before("get_engine_ptr", lambda e: nonzero(e.get_engine_ptr()))
before("get_engine", lambda e: e.get_engine() is None)
before("get_notifies", lambda e: e.get_notifies())
before("register_memory", lambda e: e.register_memory(4096, 4096))
before("batch_register_memory", lambda e: e.batch_register_memory([4096], [4096]))
before("unregister_memory", lambda e: e.unregister_memory(4096))
before("transfer_sync_write", lambda e: e.transfer_sync_write("127.0.0.1:9", 4096, 4096, 16))
before("transfer_submit_write", lambda e: e.transfer_submit_write("127.0.0.1:9", 4096, 4096, 16))
before("batch_transfer_async_write", lambda e: e.batch_transfer_async_write("127.0.0.1:9", [4096], [4096], [16]))
before("allocate_managed_buffer", lambda e: nonzero(e.allocate_managed_buffer(8192)))
before("get_first_buffer_address", lambda e: e.get_first_buffer_address("127.0.0.1:9"))
before("get_batch_transfer_status", lambda e: e.get_batch_transfer_status([]))
before("warmup_efa_segment", lambda e: e.warmup_efa_segment("127.0.0.1:9"))
before("send_probe", lambda e: e.send_probe("127.0.0.1:9"))
before("get_local_topology", lambda e: kind(e.get_local_topology()))


@group
def memory():
    """Registering and unregistering."""
    e, _ = engine()
    m = Memory(1 << 20)
    at = m.addr
    tell("register_memory", lambda: e.register_memory(at, 1 << 16))
    tell("register_memory: the same again", lambda: e.register_memory(at, 1 << 16))
    tell("register_memory: overlapping", lambda: e.register_memory(at + 4096, 1 << 16))
    tell("register_memory: inside", lambda: e.register_memory(at + 4096, 16))
    tell("register_memory: touching", lambda: e.register_memory(at + (1 << 16), 1 << 16))
    tell("register_memory: by keyword, with location", lambda: e.register_memory(buffer_addr=at + (1 << 18), capacity=4096, location="cpu:0"))
    tell("register_memory: odd location", lambda: e.register_memory(at + (1 << 18) + 8192, 4096, "attic:9"))
    tell("register_memory: no bytes", lambda: e.register_memory(at + (1 << 19), 0))
    tell("register_memory: negative address", lambda: e.register_memory(-1, 4096))
    tell("register_memory: negative length", lambda: e.register_memory(at + (1 << 19), -1))
    tell("register_memory: text as address", lambda: e.register_memory("x", 1))
    tell("register_memory: a float as address", lambda: e.register_memory(4096.0, 1))
    tell("register_memory: address of 65 bits", lambda: e.register_memory(1 << 64, 1))
    tell("unregister_memory", lambda: e.unregister_memory(at))
    tell("unregister_memory: again", lambda: e.unregister_memory(at))
    tell("unregister_memory: inside a buffer", lambda: e.unregister_memory(at + (1 << 16) + 16))
    tell("unregister_memory: by keyword", lambda: e.unregister_memory(buffer_addr=at))
    tell("unregister_memory: never seen", lambda: e.unregister_memory(0x1000))


@group
def memory_odd():
    """Ranges that no memory has."""
    e, _ = engine()
    tell("register_memory: null", lambda: e.register_memory(0, 4096))
    tell("register_memory: unmapped", lambda: e.register_memory(0x10000, 4096))
    tell("register_memory: wraps", lambda: e.register_memory((1 << 64) - 4096, 8192))


@group
def memory_batches():
    """Registering lists."""
    e, _ = engine()
    m = Memory(1 << 20)
    at = m.addr
    k = 1 << 16
    tell("batch_register_memory", lambda: e.batch_register_memory([at, at + k], [k, k]))
    tell("batch_register_memory: by keyword", lambda: e.batch_register_memory(buffer_addresses=[at + 2 * k], capacities=[k], location="cpu:0"))
    tell("batch_register_memory: none", lambda: e.batch_register_memory([], []))
    tell("batch_register_memory: unequal lists", lambda: e.batch_register_memory([at + 3 * k, at + 4 * k], [k]))
    tell("batch_register_memory: one overlaps an older one", lambda: e.batch_register_memory([at + 5 * k, at + 16], [k, 16]))
    tell("batch_register_memory: then the good one of it", lambda: e.register_memory(at + 5 * k, k))
    tell("batch_register_memory: two overlap", lambda: e.batch_register_memory([at + 8 * k, at + 8 * k + 64], [128, 128]))
    tell("batch_register_memory: no bytes", lambda: e.batch_register_memory([at + 9 * k], [0]))
    tell("batch_register_memory: tuples", lambda: e.batch_register_memory((at + 10 * k,), (k,)))
    tell("batch_register_memory: a number", lambda: e.batch_register_memory(at, k))
    tell("batch_unregister_memory", lambda: e.batch_unregister_memory([at, at + k]))
    tell("batch_unregister_memory: again", lambda: e.batch_unregister_memory([at, at + k]))
    tell("batch_unregister_memory: one is unknown", lambda: e.batch_unregister_memory([at + 2 * k, at + 15 * k]))
    tell("batch_unregister_memory: then the good one of it", lambda: e.unregister_memory(at + 2 * k))
    tell("batch_unregister_memory: none", lambda: e.batch_unregister_memory([]))


@group
def managed():
    """Memory of the engine."""
    e, _ = engine()
    small = e.allocate_managed_buffer(100)
    tell("allocate_managed_buffer: 100 bytes", lambda: small, nonzero)
    tell("write_bytes_to_buffer", lambda: e.write_bytes_to_buffer(small, b"hello, world", 12))
    tell("read_bytes_from_buffer", lambda: e.read_bytes_from_buffer(small, 12).decode())
    tell("write_bytes_to_buffer: text", lambda: e.write_bytes_to_buffer(small, "text", 4))
    tell("read_bytes_from_buffer: after text", lambda: e.read_bytes_from_buffer(small, 4).decode())
    tell("write_bytes_to_buffer: fewer than there are", lambda: e.write_bytes_to_buffer(small, b"abcdef", 3))
    tell("read_bytes_from_buffer: what was left", lambda: e.read_bytes_from_buffer(small, 6).decode())
    tell("write_bytes_to_buffer: bytes with a zero", lambda: e.write_bytes_to_buffer(small, b"a\0b", 3))
    tell("read_bytes_from_buffer: with a zero", lambda: list(e.read_bytes_from_buffer(small, 3)))
    tell("read_bytes_from_buffer: none", lambda: len(e.read_bytes_from_buffer(small, 0)))
    tell("write_bytes_to_buffer: a number", lambda: e.write_bytes_to_buffer(small, 5, 1))
    tell("free_managed_buffer", lambda: e.free_managed_buffer(small, 100))
    big = e.allocate_managed_buffer(1 << 20)
    tell("allocate_managed_buffer: 1 MiB", lambda: big, nonzero)
    tell("managed memory overlaps what is registered by hand", lambda: e.register_memory(big, 4096))
    tell("free_managed_buffer: 1 MiB", lambda: e.free_managed_buffer(big, 1 << 20))
    tell("allocate_managed_buffer: text", lambda: e.allocate_managed_buffer("x"))
    tell("allocate_managed_buffer: negative", lambda: e.allocate_managed_buffer(-1))


@group
def sync():
    """Transfers that are waited for."""
    a, b, name, am, bm = pair()
    am.fill(1)
    k = 4096
    x, y = am.addr, bm.addr
    tell("transfer_sync_write", lambda: a.transfer_sync_write(name, x, y, k))
    tell("transfer_sync_write: bytes", lambda: bm.holds(1, 0, k))
    tell("transfer_sync_write: by keyword", lambda: a.transfer_sync_write(target_hostname=name, buffer=x, peer_buffer_address=y, length=k, transport_hint=""))
    tell("transfer_sync_write: a hint", lambda: a.transfer_sync_write(name, x, y, k, "tcp"))
    tell("transfer_sync_read", lambda: a.transfer_sync_read(name, x + 8 * k, y, k))
    tell("transfer_sync_read: bytes", lambda: am.holds(1, 0, k))
    tell("transfer_sync_read: by keyword", lambda: a.transfer_sync_read(target_hostname=name, buffer=x + 8 * k, peer_buffer_address=y, length=k, transport_hint=""))
    tell("transfer_sync: write", lambda: a.transfer_sync(name, x, y + k, k, TransferOpcode.Write))
    tell("transfer_sync: read", lambda: a.transfer_sync(name, x + 8 * k, y + k, k, TransferOpcode.Read))
    tell("transfer_sync: by keyword, notify None", lambda: a.transfer_sync(target_hostname=name, buffer=x, peer_buffer_address=y, length=k, opcode=TransferOpcode.Write, notify=None, transport_hint=""))
    tell("transfer_sync: opcode as a number", lambda: a.transfer_sync(name, x, y, k, 1))
    tell("transfer_sync: no opcode", lambda: a.transfer_sync(name, x, y, k))
    tell("transfer_sync_write: no bytes", lambda: a.transfer_sync_write(name, x, y, 0))
    tell("transfer_sync_write: one byte", lambda: a.transfer_sync_write(name, x, y, 1))
    tell("transfer_sync_write: odd size at odd places", lambda: a.transfer_sync_write(name, x + 1, y + 3, 4097))
    tell("transfer_sync_write: negative length", lambda: a.transfer_sync_write(name, x, y, -1))
    tell("transfer_sync_write: bytes as name", lambda: a.transfer_sync_write(name.encode(), x, y, 16))
    tell("transfer_sync_write: None as name", lambda: a.transfer_sync_write(None, x, y, 16))
    tell("transfer_sync_write: three arguments", lambda: a.transfer_sync_write(name, x, y))
    tell("transfer_sync_write: unknown keyword", lambda: a.transfer_sync_write(name, x, y, 16, hint=""))
    tell("transfer_sync_write: two touching buffers", lambda: a.transfer_sync_write(name, x, y, 1 << 20))
    tell("transfer_sync_write: numpy numbers", lambda: a.transfer_sync_write(name, am.bytes.ctypes.data, __import__("numpy").int64(y), __import__("numpy").int32(16)))


@group
def sync_refused():
    """Transfers that cannot be."""
    a, b, name, am, bm = pair()
    x, y = am.addr, bm.addr
    tell("transfer_sync_write: remote address unknown", lambda: a.transfer_sync_write(name, x, 0x1000, 16))
    tell("transfer_sync_read: remote address unknown", lambda: a.transfer_sync_read(name, x, 0x1000, 16))
    tell("transfer_sync_write: one over the end", lambda: a.transfer_sync_write(name, x, y + (1 << 20) - 15, 16))
    tell("transfer_sync_write: nobody there", lambda: a.transfer_sync_write("127.0.0.1:1", x, y, 16))
    tell("transfer_sync_write: empty name", lambda: a.transfer_sync_write("", x, y, 16))
    tell("transfer_sync_write: after it the good one", lambda: a.transfer_sync_write(name, x, y, 16))
    tell("batch_transfer_sync_write: one bad of two", lambda: a.batch_transfer_sync_write(name, [x, x], [y, 0x1000], [16, 16]))


@group
def sync_unregistered():
    """Local memory that nobody registered (peer fault 28)."""
    a, b, name, am, bm = pair()
    loose = Memory(1 << 20)
    loose.fill(5)
    tell("transfer_sync_write: local memory not registered", lambda: a.transfer_sync_write(name, loose.addr, bm.addr, 4096))
    tell("… and its bytes", lambda: bm.holds(5, 0, 4096))
    tell("transfer_sync_read: local memory not registered", lambda: a.transfer_sync_read(name, loose.addr + 8192, bm.addr, 4096))
    tell("transfer_sync_write: local memory not mapped", lambda: a.transfer_sync_write(name, 0x10000, bm.addr, 4096))
    tell("transfer_sync_read: local memory not mapped", lambda: a.transfer_sync_read(name, 0x10000, bm.addr, 4096))
    tell("transfer_sync_write: after it", lambda: a.transfer_sync_write(name, am.addr, bm.addr, 4096))


@group
def batches():
    """Lists of transfers."""
    a, b, name, am, bm = pair()
    am.fill(2)
    k = 1024
    n = 64
    froms, tos, lens = [am.addr + i * k for i in range(n)], [bm.addr + i * k for i in range(n)], [k] * n
    tell("batch_transfer_sync_write", lambda: a.batch_transfer_sync_write(name, froms, tos, lens))
    tell("batch_transfer_sync_write: bytes", lambda: bm.holds(2, 0, n * k))
    tell("batch_transfer_sync_write: by keyword", lambda: a.batch_transfer_sync_write(target_hostname=name, buffers=froms, peer_buffer_addresses=tos, lengths=lens, transport_hint=""))
    tell("batch_transfer_sync_read", lambda: a.batch_transfer_sync_read(name, froms, tos, lens))
    tell("batch_transfer_sync_read: by keyword", lambda: a.batch_transfer_sync_read(target_hostname=name, buffers=froms, peer_buffer_addresses=tos, lengths=lens))
    tell("batch_transfer_sync: write", lambda: a.batch_transfer_sync(name, froms, tos, lens, TransferOpcode.Write))
    tell("batch_transfer_sync: by keyword", lambda: a.batch_transfer_sync(target_hostname=name, buffers=froms, peer_buffer_addresses=tos, lengths=lens, opcode=TransferOpcode.Read, notify=None, transport_hint=""))
    tell("batch_transfer_sync_write: unequal lists", lambda: a.batch_transfer_sync_write(name, froms, tos[:3], lens))
    tell("batch_transfer_sync_write: unequal lengths", lambda: a.batch_transfer_sync_write(name, froms, tos, lens[:3]))
    tell("batch_transfer_sync_write: a list of text", lambda: a.batch_transfer_sync_write(name, ["x"], tos[:1], lens[:1]))
    tell("batch_transfer_sync_write: tuples", lambda: a.batch_transfer_sync_write(name, tuple(froms), tuple(tos), tuple(lens)))
    tell("batch_transfer_sync_write: numpy arrays", lambda: a.batch_transfer_sync_write(name, __import__("numpy").array(froms), tos, lens))
    tell("batch_transfer_sync_write: a generator", lambda: a.batch_transfer_sync_write(name, (f for f in froms), tos, lens))
    tell("batch_transfer_sync_write: nobody there", lambda: a.batch_transfer_sync_write("127.0.0.1:1", froms, tos, lens))
    tell("batch_transfer_sync_write: 20 000 requests", lambda: a.batch_transfer_sync_write(name, [am.addr] * 20000, [bm.addr] * 20000, [16] * 20000))


@group
def batches_empty():
    """Lists without a transfer."""
    a, b, name, am, bm = pair()
    tell("batch_transfer_sync_write: none", lambda: a.batch_transfer_sync_write(name, [], [], []))
    tell("batch_transfer_sync_read: none", lambda: a.batch_transfer_sync_read(name, [], [], []))


@group
def batches_empty_async():
    """Lists without a transfer, not waited for."""
    a, b, name, am, bm = pair()
    tell("batch_transfer_async_write: none", lambda: a.batch_transfer_async_write(name, [], [], []), nonzero)


@group
def asynchronous():
    """Transfers that are asked for later."""
    a, b, name, am, bm = pair()
    am.fill(3)
    k = 4096
    x, y = am.addr, bm.addr
    ids = []

    def submitted(call):
        ids.append(call())
        return nonzero(ids[-1])
    tell("batch_transfer_async_write", lambda: submitted(lambda: a.batch_transfer_async_write(name, [x, x + k], [y, y + k], [k, k])))
    tell("batch_transfer_async_read", lambda: submitted(lambda: a.batch_transfer_async_read(name, [x], [y], [k])))
    tell("batch_transfer_async: write, by keyword", lambda: submitted(lambda: a.batch_transfer_async(target_hostname=name, buffers=[x], peer_buffer_addresses=[y], lengths=[k], opcode=TransferOpcode.Write, transport_hint="")))
    tell("batch_transfer_async_write: by keyword", lambda: submitted(lambda: a.batch_transfer_async_write(target_hostname=name, buffers=[x], peer_buffer_addresses=[y], lengths=[k], transport_hint="")))
    tell("get_batch_transfer_status", lambda: a.get_batch_transfer_status(ids))
    tell("… and the bytes", lambda: bm.holds(3, 0, 2 * k))
    tell("get_batch_transfer_status: none", lambda: a.get_batch_transfer_status([]))
    tell("batch_transfer_async_write: unequal lists", lambda: a.batch_transfer_async_write(name, [x], [y, y], [k]), nonzero)
    tell("batch_transfer_async_write: nobody there", lambda: a.batch_transfer_async_write("127.0.0.1:1", [x], [y], [k]), nonzero)
    bad = a.batch_transfer_async_write(name, [x], [0x1000], [k])
    tell("batch_transfer_async_write: remote address unknown", lambda: bad, nonzero)
    if bad:
        tell("get_batch_transfer_status: of it", lambda: a.get_batch_transfer_status([bad]))
    one = a.transfer_submit_write(name, x, y, k)
    tell("transfer_submit_write", lambda: one, nonzero)
    tell("transfer_check_status: until done", lambda: until_done(a, one))
    two = a.transfer_submit_write(target_hostname=name, buffer=x, peer_buffer_address=y, length=k, transport_hint="")
    tell("transfer_submit_write: by keyword", lambda: two, nonzero)
    tell("transfer_check_status: until done, again", lambda: until_done(a, two))
    tell("transfer_submit_write: nobody there", lambda: a.transfer_submit_write("127.0.0.1:1", x, y, k), nonzero)
    three = a.transfer_submit_write(name, x, 0x1000, k)
    tell("transfer_submit_write: remote address unknown", lambda: three, nonzero)
    if three:
        tell("transfer_check_status: of it", lambda: until_done(a, three))
    tell("transfer_submit_write: no bytes", lambda: until_done(a, a.transfer_submit_write(name, x, y, 0)))


def until_done(e, batch):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        state = e.transfer_check_status(batch)
        if state != 0:
            return state
        time.sleep(0.001)
    return "never"


@group
def stale_status():
    """A batch that was never there."""
    e, _ = engine()
    tell("transfer_check_status: 0", lambda: e.transfer_check_status(0))


@group
def stale_batch():
    """A list with a batch that was never there."""
    e, _ = engine()
    tell("get_batch_transfer_status: a number that is no batch", lambda: e.get_batch_transfer_status([12345]))


@group
def messages():
    """Notifications and probes."""
    a, b, name, am, bm = pair()
    tell("get_notifies: none", lambda: b.get_notifies())
    tell("transfer_sync: with notify", lambda: a.transfer_sync(name, am.addr, bm.addr, 64, TransferOpcode.Write, TransferNotify("who", "what")))
    tell("get_notifies: one", lambda: arrived(b))
    tell("batch_transfer_sync: with notify", lambda: a.batch_transfer_sync(name, [am.addr], [bm.addr], [64], TransferOpcode.Write, notify=TransferNotify("n", "é…")))
    tell("get_notifies: another", lambda: arrived(b))
    tell("get_notifies: gone", lambda: b.get_notifies())
    tell("transfer_sync: with an empty notify", lambda: a.transfer_sync(name, am.addr, bm.addr, 64, TransferOpcode.Write, TransferNotify()))
    tell("get_notifies: an empty one", lambda: arrived(b))
    tell("transfer_sync: notify as text", lambda: a.transfer_sync(name, am.addr, bm.addr, 64, TransferOpcode.Write, "x"))
    tell("transfer_sync: with notify, fails", lambda: a.transfer_sync(name, am.addr, 0x1000, 64, TransferOpcode.Write, TransferNotify("no", "no")))
    time.sleep(0.2)
    tell("get_notifies: nothing of it", lambda: b.get_notifies())
    tell("send_probe", lambda: a.send_probe(name))
    tell("send_probe: by keyword", lambda: a.send_probe(peer_server_name=name))
    tell("send_probe: nobody there", lambda: a.send_probe("127.0.0.1:1"))
    tell("send_probe: no name", lambda: a.send_probe(""))
    tell("send_probe: a name without a port", lambda: a.send_probe("no-such-host.invalid"))


def arrived(e):
    end = time.monotonic() + 5
    while time.monotonic() < end:
        got = e.get_notifies()
        if got:
            return [[n.name, n.msg] for n in got]
        time.sleep(0.005)
    return []


@group
def looks():
    """What an engine says of itself and of others."""
    a, b, name, am, bm = pair()
    tell("get_first_buffer_address", lambda: a.get_first_buffer_address(name) == bm.addr)
    tell("get_first_buffer_address: by keyword", lambda: a.get_first_buffer_address(segment=name))
    tell("get_local_topology: NICs", lambda: sorted({nic for lists in json.loads(a.get_local_topology()).values() for nics in lists for nic in nics}))
    tell("get_local_topology: shape", lambda: all(isinstance(v, list) and len(v) == 2 for v in json.loads(a.get_local_topology()).values()))
    tell("get_local_topology: a device", lambda: kind(a.get_local_topology("mlx5_0")))
    tell("get_local_topology: by keyword", lambda: kind(a.get_local_topology(device_name="mlx5_0")))
    tell("get_local_topology: None", lambda: kind(a.get_local_topology(None)))
    tell("warmup_efa_segment", lambda: a.warmup_efa_segment(name))
    tell("warmup_efa_segment: by keyword", lambda: a.warmup_efa_segment(segment_name=name))


@group
def looks_at_nobody():
    """The first buffer of somebody who is not there."""
    a, b, name, am, bm = pair()
    tell("get_first_buffer_address: nobody there", lambda: a.get_first_buffer_address("127.0.0.1:1"))


@group
def looks_at_none():
    """The first buffer of an engine without buffers."""
    a, _ = engine()
    c, c_name = engine()
    tell("get_first_buffer_address: no buffers", lambda: a.get_first_buffer_address(c_name))


@group
def rpc():
    """The message passing beside the engine."""
    tell("RpcInterface()", lambda: module.RpcInterface(), lambda x: "an object")
    r = module.RpcInterface()
    tell("initialize_server", lambda: r.initialize_server(free_address()))
    tell("set_data_receive_callback", lambda: r.set_data_receive_callback(lambda *_: None))


@group
def rpc_messages():
    """Bytes from a client to a server."""
    address = free_address()
    server, client = module.RpcInterface(), module.RpcInterface()
    came = []
    tell("initialize_server: by keyword", lambda: server.initialize_server(listen_address=address, thread_count=2, timeout_seconds=5))
    tell("set_data_receive_callback: before the start", lambda: server.set_data_receive_callback(lambda data: came.append([kind(data), sorted(data), data["data"].decode(), kind(data["source"])])))
    tell("start_server_async", lambda: server.start_server_async())
    tell("initialize_client", lambda: client.initialize_client(pool_size=4, timeout_seconds=5))
    time.sleep(0.2)
    tell("send_data", lambda: client.send_data(address, b"hello"))
    tell("send_data: text", lambda: client.send_data(address, "text"))
    tell("send_data: by keyword", lambda: client.send_data(target_address=address, data=b"again"))
    tell("send_data: a bytearray", lambda: client.send_data(address, bytearray(b"more")))
    tell("send_data: nobody there", lambda: client.send_data("127.0.0.1:1", b"hello"), lambda code: "below 0" if code < 0 else code)
    end = time.monotonic() + 3
    while len(came) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    tell("what came", lambda: came)
    tell("stop_server", lambda: server.stop_server())


@group
def rpc_functions():
    """Its makers."""
    tell("create_rpc_client", lambda: module.create_rpc_client(), lambda x: "an object")
    tell("create_rpc_server", lambda: module.create_rpc_server(local_rank=0, world_size=1), lambda x: "an object")


@group
def shared():
    """Segments that processes of a host share."""
    tell("SharedSegment.supported()", lambda: module.SharedSegment.supported())
    tell("SharedSegment.supported(mmap=False)", lambda: module.SharedSegment.supported(mmap=False))

    def made():
        segment, blob = module.SharedSegment.create("parity", 1 << 16, 1, 0)
        segment.complete([blob])
        at = segment.base_addr()
        ctypes.memmove(at, b"shared", 6)
        return [kind(blob), bool(segment.ready()), segment.size() >= 1 << 16, ctypes.string_at(at, 6).decode()]
    tell("SharedSegment.create and complete", made)
    tell("SharedSegment.create: rank outside the world", lambda: module.SharedSegment.create("parity", 4096, 1, 5), kind)


def free_address():
    """A port of an address of this process's own: the other engine's process looks for one at the same time."""
    host = f"127.0.1.{os.getpid() % 250 + 1}"
    with socket.socket() as s:
        s.bind((host, 0))
        return f"{host}:{s.getsockname()[1]}"


if __name__ == "__main__":
    GROUPS[sys.argv[1]]()
    answers.flush()
