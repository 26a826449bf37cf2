"""A process of the real peer, driven over standard input and output, one JSON object a line.

usage: peer_node.py [--host H] [--size BYTES] [--metadata URI]

Without --metadata its segment is called H and a port; with it H is a key of that service, where it is
reached says MC_TCP_BIND_ADDRESS.

The first line out names the segment, the buffer and the port. Each command {"op": ...} gets one line
back. The commands are those of te-node, so that a suite can put either program on either side; `rc` is
the peer's own return code, 0 for success.
"""
import argparse
import ctypes
import gc
import json
import mmap
import os
import resource
import sys
import time
import zlib

import numpy as np

STEP, MIX, WORD = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, (1 << 64) - 1
CHUNK = 1 << 22
PROT, MAP = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--metadata", default="P2PHANDSHAKE")
    return parser.parse_args()


def map_memory(length):
    address = libc.mmap(None, length, PROT, MAP, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(length)
    return address


def view(address, length):
    """The bytes at an address; pages are taken when they are first touched."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(address))


def words(seed, first, n):
    with np.errstate(over="ignore"):
        j = np.arange(first, first + n, dtype=np.uint64)
        x = (j + np.uint64(seed * STEP & WORD)) * np.uint64(MIX)
        return (x ^ (x >> np.uint64(32))) * np.uint64(MIX)


def pattern_chunks(seed, length):
    for at in range(0, length, CHUNK):
        n = min(CHUNK, length - at)
        yield at, n, words(seed, at // 8, (n + 7) // 8).view(np.uint8)[:n]


def fill_pattern(memory, seed):
    for at, n, part in pattern_chunks(seed, len(memory)):
        memory[at:at + n] = part


def verify(memory, seed):
    bad, first = 0, None
    for at, n, part in pattern_chunks(seed, len(memory)):
        wrong = np.flatnonzero(memory[at:at + n] != part)
        if len(wrong):
            bad += len(wrong)
            first = at + int(wrong[0]) if first is None else first
    return {"bad": bad, "first": first}


class Peer:
    def __init__(self, options):
        from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode
        self.notification, self.opcode = TransferNotify, TransferOpcode
        self.engine = TransferEngine()
        self.rc = self.engine.initialize(options.host, options.metadata, "tcp", "")
        self.address = map_memory(max(options.size, 1))
        self.size = options.size

    def hello(self, options):
        if self.rc == 0 and self.size:
            self.rc = self.engine.register_memory(self.address, self.size)
        if self.rc:
            return {"error": "the engine did not start", "rc": self.rc}
        port, name = self.engine.get_rpc_port(), options.host
        if options.metadata == "P2PHANDSHAKE":
            name = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        return {"name": name, "addr": self.address, "size": self.size, "pid": os.getpid(), "rpc_port": port}

    def memory(self, c):
        """Commands on bytes take `off` from the main buffer, which wraps, or `addr` anywhere."""
        return view(c["addr"] if "addr" in c else self.address + c["off"] & WORD, c["len"])

    def fill(self, c):
        self.memory(c)[:] = c["byte"]
        return {}

    def pattern(self, c):
        fill_pattern(self.memory(c), c["seed"])
        return {}

    def verify(self, c):
        return verify(self.memory(c), c["seed"])

    def crc(self, c):
        return {"crc": zlib.crc32(self.memory(c))}

    def hex(self, c):
        return {"hex": self.memory(c).tobytes().hex()}

    def count(self, c):
        memory = self.memory(c)
        return {"n": sum(int((memory[i:i + CHUNK] == c["byte"]).sum()) for i in range(0, len(memory), CHUNK))}

    def alloc(self, c):
        return {"addr": map_memory(c["len"])}

    def unmap(self, c):
        return {"rc": libc.munmap(c["addr"], c["len"])}

    def reg(self, c):
        return {"rc": self.engine.register_memory(c["addr"], c["len"])}

    def unreg(self, c):
        return {"rc": self.engine.unregister_memory(c["addr"])}

    def write(self, c):
        return {"rc": self.engine.transfer_sync_write(c["target"], c["src"], c["dst"], c["len"])}

    def read(self, c):
        return {"rc": self.engine.transfer_sync_read(c["target"], c["src"], c["dst"], c["len"])}

    def batch(self, c):
        engine = self.engine
        call = engine.batch_transfer_sync_write if c["dir"] == "write" else engine.batch_transfer_sync_read
        return {"rc": call(c["target"], c["src"], c["dst"], c["len"])}

    def submit(self, c):
        engine = self.engine
        call = engine.batch_transfer_async_write if c["dir"] == "write" else engine.batch_transfer_async_read
        return {"id": call(c["target"], c["src"], c["dst"], c["len"])}

    def wait(self, c):
        return {"rc": self.engine.get_batch_transfer_status([c["id"]])}

    def submit_one(self, c):
        return {"id": self.engine.transfer_submit_write(c["target"], c["src"], c["dst"], c["len"])}

    def check(self, c):
        return {"st": self.engine.transfer_check_status(c["id"])}

    def notify(self, c):
        message = self.notification(c["name"], c["msg"])
        rc = self.engine.transfer_sync(c["target"], c["src"], c["dst"], c["len"], self.opcode.Write, message)
        return {"rc": rc}

    def notifies(self, _):
        return {"n": [[x.name, x.msg] for x in self.engine.get_notifies()]}

    def probe(self, c):
        return {"rc": self.engine.send_probe(c["target"])}

    def rusage(self, _):
        used = resource.getrusage(resource.RUSAGE_SELF)
        count = lambda what: len(os.listdir(f"/proc/self/{what}"))
        return {"utime": used.ru_utime, "stime": used.ru_stime, "rss_kib": used.ru_maxrss,
                "threads": count("task"), "fds": count("fd")}

    def leave(self, _):
        """Ends the engine as a program does that drops it; nothing but `quit` may follow."""
        self.engine = None
        gc.collect()
        return {}

    def ping(self, _):
        return {}

    def run(self, c):
        command = getattr(self, c["op"], None)
        if command is None:
            return {"error": f"no command {c['op']}"}
        start = time.monotonic()
        answer = command(c)
        return {"rc": 0, "s": time.monotonic() - start, **answer}


def main():
    options = arguments()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the library prints must not come between the answers
    peer = Peer(options)
    hello = peer.hello(options)
    print(json.dumps(hello), file=out)
    if "error" in hello:
        peer.leave({})
        os._exit(3)
    for line in sys.stdin:
        c = json.loads(line)
        if c["op"] == "quit":
            print("{}", file=out)
            break
        try:
            answer = peer.run(c)
        except Exception as cause:  # the suite decides whether that is a failure
            answer = {"rc": -1, "error": repr(cause)}
        print(json.dumps(answer), file=out)
    os._exit(0)  # a clean shutdown of the engine takes a second and is not what is tested


main()
