"""What Python adds to a call: one synchronous write of 4 KiB, and submitting 10 000 descriptors in numpy arrays.

    overhead.py [ROUNDS]

The counterpart in Rust is the example `overhead` of te-compat, which does the same with the same memory. Both engines
are in one process; the variables of the environment choose the transport. Prints one line a figure.
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
PER_ROUND = 200
N = 10_000


def median_of_rounds(call: Callable[[], object], rounds: int) -> float:
    """Nanoseconds of one call: the median over rounds of the mean within a round."""
    for _ in range(PER_ROUND):
        call()
    found = []
    for _ in range(rounds):
        begun = time.perf_counter_ns()
        for _ in range(PER_ROUND):
            call()
        found.append((time.perf_counter_ns() - begun) / PER_ROUND)
    return statistics.median(found)


def engine() -> TransferEngine:
    made = TransferEngine()
    code = made.initialize("127.0.0.1", "P2PHANDSHAKE", "", "")
    assert code == 0, code
    return made


def with_codes(rounds: int) -> float:
    a, b = engine(), engine()
    memory = np.zeros(2 * SIZE, dtype=np.uint8)
    mine, theirs = memory.ctypes.data, memory.ctypes.data + SIZE
    assert a.register_memory(mine, SIZE) == 0 and b.register_memory(theirs, SIZE) == 0
    name = f"127.0.0.1:{b.get_rpc_port()}"
    assert a.transfer_sync_write(name, mine, theirs, SIZE) == 0
    return median_of_rounds(lambda: a.transfer_sync_write(name, mine, theirs, SIZE), rounds)


def native(rounds: int) -> tuple[float, float]:
    """One write, and the submission of many: until the call returns, not until the bytes are there."""
    with te_engine.Engine() as a, te_engine.Engine() as b:
        memory, there = a.allocate(SIZE), b.allocate(SIZE)
        segment = a.open(b.name)
        one = median_of_rounds(lambda: segment.write(memory, there.address), rounds)
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
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(f"python codes one {with_codes(rounds):.0f}", flush=True)
    one, many = native(rounds)
    print(f"python native one {one:.0f}")
    print(f"python native submit10000 {many:.0f}")


if __name__ == "__main__":
    main()
