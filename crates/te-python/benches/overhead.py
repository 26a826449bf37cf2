"""What Python adds to a call: one synchronous write of 4 KiB, and submitting 10 000 descriptors in numpy arrays.

    overhead.py [NAME]

The counterpart in Rust is the example `overhead` of te-compat. Both engines are in one process; the variable
TE_TRANSPORTS chooses the transport, and NAME is what the lines call it.
"""
from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import te_engine
from te_engine.compat import TransferEngine

SIZE = 4096
CALLS = 20_000
N = 10_000


def median_of(call: Callable[[], object]) -> float:
    """Nanoseconds of one call: the median of many, each timed by itself, as the example does."""
    found = []
    for _ in range(CALLS):
        begun = time.perf_counter_ns()
        call()
        found.append(time.perf_counter_ns() - begun)
    return statistics.median(found)


def engine() -> TransferEngine:
    made = TransferEngine()
    code = made.initialize("127.0.0.1", "P2PHANDSHAKE", "", "")
    assert code == 0, code
    return made


def with_codes() -> float:
    a, b = engine(), engine()
    memory = np.zeros(2 * SIZE, dtype=np.uint8)
    mine, theirs = memory.ctypes.data, memory.ctypes.data + SIZE
    assert a.register_memory(mine, SIZE) == 0 and b.register_memory(theirs, SIZE) == 0
    name = f"127.0.0.1:{b.get_rpc_port()}"
    assert a.transfer_sync_write(name, mine, theirs, SIZE) == 0
    return median_of(lambda: a.transfer_sync_write(name, mine, theirs, SIZE))


def native() -> tuple[float, float]:
    """One write, and the submission of many: until the call returns, not until the bytes are there."""
    with te_engine.Engine() as a, te_engine.Engine() as b:
        memory, there = a.allocate(SIZE), b.allocate(SIZE)
        segment = a.open(b.name)
        one = median_of(lambda: segment.write(memory, there.address))
        big, target = a.allocate(N * 64), b.allocate(N * 64)
        steps = np.arange(N, dtype=np.uint64) * np.uint64(64)
        remote = steps + np.uint64(target.address)
        lengths = np.full(N, 64, dtype=np.uint64)
        submits = []
        for _ in range(15):
            begun = time.perf_counter_ns()
            transfer = segment.submit_write_many(big, steps, remote, lengths)
            submits.append(time.perf_counter_ns() - begun)
            transfer.wait(30)
        return one, statistics.median(submits)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "default"
    codes = with_codes()
    one, many = native()
    print(f"{name}: write of 4 KiB: codes {codes / 1000:.2f} µs, native {one / 1000:.2f} µs")
    print(f"{name}: {N} descriptors submitted: {many / 1000:.2f} µs")


if __name__ == "__main__":
    main()
