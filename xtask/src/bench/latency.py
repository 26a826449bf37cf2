"""How long one request of Mooncake takes, from Python: SEGMENT write|read BYTES SECONDS PAUSE.

Prints JSON on one line. The calls from Python cost about a microsecond of it.
"""

import json
import os
import sys
import time

import numpy
from mooncake.engine import TransferEngine

segment, op, length, seconds, pause = sys.argv[1:6]
length, seconds, pause = int(length), float(seconds), float(pause)
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
memory = numpy.ones(1 << 20, dtype=numpy.uint8)
here = memory.ctypes.data
assert engine.register_memory(here, memory.nbytes) == 0
there = engine.get_first_buffer_address(segment)
move = engine.transfer_sync_write if op == "write" else engine.transfer_sync_read
clock = time.perf_counter_ns


def once():
    begun = clock()
    assert move(segment, here, there, length) == 0
    return clock() - begun


for _ in range(200):
    once()
times = []
end = time.monotonic() + seconds
while time.monotonic() < end:
    if pause:
        time.sleep(pause)
    times.append(once())
times.sort()
print(
    json.dumps(
        {"p50_us": times[len(times) // 2] / 1e3, "p99_us": times[int(len(times) * 0.99)] / 1e3}
    )
)
sys.stdout.flush()
# Its threads do not end by themselves.
os._exit(0)
