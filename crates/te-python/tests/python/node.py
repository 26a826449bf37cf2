"""A process of one engine that runs what its parent sends: one JSON object a line in, one a line out.

    node.py [FOLDER-FOR-IMPORTS ...]

`{"source": "...", "values": {...}}` is run as the body of a function whose variables are the values; what it returns is
answered as `{"value": ...}`, what it raises as `{"error": [class, text, trace]}`. The names below are at hand there.
"""
import ctypes
import json
import mmap
import os
import sys
import textwrap
import threading
import time
import traceback

sys.path[:0] = sys.argv[1:]

# Engines print to stdout now and then; the answers need it for themselves.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import numpy as np  # noqa: E402


def TransferEngine(*args, **kwargs):
    """The engine of this interpreter, imported when it is first needed."""
    from mooncake.engine import TransferEngine as engine
    return engine(*args, **kwargs)


class Memory:
    """Anonymous pages with an address."""

    def __init__(self, size):
        self.size = size
        self.map = mmap.mmap(-1, size)
        self.bytes = np.frombuffer(self.map, dtype=np.uint8)
        self.addr = self.bytes.ctypes.data

    def fill(self, seed, at=0, length=None):
        length = self.size - at if length is None else length
        self.bytes[at:at + length] = pattern(seed, length)

    def clear(self):
        self.bytes[:] = 0

    def holds(self, seed, at=0, length=None):
        """Where the bytes first differ from the pattern, or None."""
        length = self.size - at if length is None else length
        return first_difference(self.bytes[at:at + length], pattern(seed, length))

    def is_zero(self, at=0, length=None):
        length = self.size - at if length is None else length
        return not self.bytes[at:at + length].any()

    def unmap(self):
        self.bytes = None
        ctypes.CDLL(None).munmap(ctypes.c_void_p(self.addr), ctypes.c_size_t(self.size))


_patterns = {}


def pattern(seed, length):
    """Bytes that no other seed has."""
    have = _patterns.get(seed)
    if have is None or len(have) < length:
        have = np.frombuffer(np.random.Generator(np.random.PCG64(seed)).bytes(max(length, 4096)), dtype=np.uint8)
        _patterns[seed] = have
    return have[:length]


def first_difference(left, right):
    if np.array_equal(left, right):
        return None
    return int(np.nonzero(left != right)[0][0])


def opcode(name):
    from mooncake.engine import TransferOpcode
    return getattr(TransferOpcode, name)


def notify(name, text):
    from mooncake.engine import TransferNotify
    return TransferNotify(name, text)


def run(source, values):
    body = textwrap.indent(textwrap.dedent(source), "    ")
    exec(f"def sent({', '.join(values)}):\n{body}\n", globals())
    return globals()["sent"](**values)


def main():
    for line in sys.stdin:
        message = json.loads(line)
        try:
            reply = {"value": run(message["source"], message["values"])}
        except Exception as error:
            reply = {"error": [type(error).__name__, str(error), traceback.format_exc()]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
