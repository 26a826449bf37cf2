"""A process of the real peer over RDMA, driven over standard input and output, one JSON object a line.

usage: wheel_node.py --file F --size BYTES [--name N] [--metadata URI] [--devices D,D]

Its buffer is a shared mapping of the file F, so that the suite looks at the bytes by itself; nothing here
needs more than the interpreter and the peer. Without --metadata its segment is called 127.0.0.1 and a port.

The first line out names the segment, the buffer and the port. Each command {"op": ...} gets one line
back; `rc` is the peer's own return code, 0 for success.
"""
import argparse
import ctypes
import json
import mmap
import os
import sys
import time


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--name", default="127.0.0.1")
    parser.add_argument("--metadata", default="P2PHANDSHAKE")
    parser.add_argument("--devices", default="")
    parser.add_argument("--location", default="*")
    return parser.parse_args()


class Wheel:
    def __init__(self, options):
        from mooncake.engine import TransferEngine
        self.engine = TransferEngine()
        self.rc = self.engine.initialize(options.name, options.metadata, "rdma", options.devices)
        with open(options.file, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), options.size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.size = options.size

    def hello(self, options):
        if self.rc == 0:
            self.rc = self.engine.register_memory(self.address, self.size, options.location)
        if self.rc:
            return {"error": "the engine did not start", "rc": self.rc}
        name, port = options.name, self.engine.get_rpc_port()
        if options.metadata == "P2PHANDSHAKE":
            name = f"{name}:{port}"
        return {"name": name, "addr": self.address, "size": self.size, "rpc_port": port}

    def write(self, c):
        return {"rc": self.engine.transfer_sync_write(c["target"], c["src"], c["dst"], c["len"])}

    def read(self, c):
        return {"rc": self.engine.transfer_sync_read(c["target"], c["src"], c["dst"], c["len"])}

    def batch_write(self, c):
        return {"rc": self.engine.batch_transfer_sync_write(c["target"], c["src"], c["dst"], c["len"])}

    def batch_read(self, c):
        return {"rc": self.engine.batch_transfer_sync_read(c["target"], c["src"], c["dst"], c["len"])}

    def unregister(self, _):
        return {"rc": self.engine.unregister_memory(self.address)}

    def register(self, _):
        return {"rc": self.engine.register_memory(self.address, self.size)}

    def probe(self, c):
        return {"rc": self.engine.send_probe(c["target"])}

    def ping(self, _):
        return {}

    def run(self, c):
        start = time.monotonic()
        answer = getattr(self, c["op"])(c)
        return {"rc": 0, "s": time.monotonic() - start, **answer}


def main():
    options = arguments()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the library prints must not come between the answers
    wheel = Wheel(options)
    hello = wheel.hello(options)
    print(json.dumps(hello), file=out)
    if "error" in hello:
        os._exit(3)
    for line in sys.stdin:
        c = json.loads(line)
        if c["op"] == "quit":
            break
        try:
            answer = wheel.run(c)
        except Exception as cause:  # the suite decides whether that is a failure
            answer = {"rc": -1, "error": repr(cause)}
        print(json.dumps(answer), file=out)
    os._exit(0)  # a clean shutdown of the engine takes a second and is not what is tested


main()
