"""Weights for many processes: one owns them, each of N others pulls them into memory of its own.

The owner exposes its tensors and names them in a small table: name, address, bytes, sum. A worker reads the
tensors in an order of its own, several at a time without a thread, and checks each sum. Nobody copies through the owner's
interpreter: the engines move the bytes.

    python weight_broadcast.py --workers 4 --tensors 16 --tensor-bytes 4194304
"""
from __future__ import annotations

import argparse
import asyncio
import hashlib
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

import te_engine

AT_A_TIME = 4


class Tensor(NamedTuple):
    """A tensor of the owner, as the table names it."""

    name: str
    address: int
    n_bytes: int
    digest: str


class Weights(NamedTuple):
    """What a worker is told."""

    owner: str
    tensors: list[Tensor]


def worker(rank: int, weights: Weights, pipe: Connection) -> None:
    """Pulls everything, checks it and tells how long that took."""
    with te_engine.Engine() as engine:
        memory = engine.allocate(sum(tensor.n_bytes for tensor in weights.tensors))
        begun = time.monotonic()
        asyncio.run(pull(engine, memory, rank, weights))
        seconds = time.monotonic() - begun
        at = 0
        for tensor in ordered(rank, weights):
            found = hashlib.sha256(memoryview(memory)[at : at + tensor.n_bytes]).hexdigest()
            if found != tensor.digest:
                raise SystemExit(f"worker {rank}: {tensor.name} is wrong")
            at += tensor.n_bytes
        pipe.send(seconds)


def ordered(rank: int, weights: Weights) -> list[Tensor]:
    """Each worker begins elsewhere, so that not all want the same tensor first."""
    start = rank * len(weights.tensors) // 3 % len(weights.tensors)
    return weights.tensors[start:] + weights.tensors[:start]


async def pull(engine: te_engine.Engine, memory: te_engine.Region, rank: int, weights: Weights) -> None:
    """Reads the tensors one behind the other into `memory`, a few at a time."""
    segment = engine.open(weights.owner)
    places = asyncio.Semaphore(AT_A_TIME)

    async def one(tensor: Tensor, at: int) -> None:
        async with places:
            await segment.submit_read(memoryview(memory)[at : at + tensor.n_bytes], tensor.address)

    at, reads = 0, []
    for tensor in ordered(rank, weights):
        reads.append(one(tensor, at))
        at += tensor.n_bytes
    await asyncio.gather(*reads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--tensors", type=int, default=16)
    parser.add_argument("--tensor-bytes", type=int, default=4 << 20)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 256, options.tensor_bytes, dtype=np.uint8) for _ in range(options.tensors)]
    with te_engine.Engine() as engine:
        # Memory of the program's own; the engine keeps the arrays until they are unregistered.
        regions = [engine.register(array) for array in arrays]
        tensors = [
            Tensor(f"layer.{i}", region.address, len(array), hashlib.sha256(array).hexdigest())
            for i, (region, array) in enumerate(zip(regions, arrays))
        ]
        begun = time.monotonic()
        seconds = run_workers(options.workers, Weights(engine.name, tensors))
        moved = options.workers * options.tensors * options.tensor_bytes
        print(f"{options.workers} workers pulled {moved >> 20} MiB; the slowest took {max(seconds) * 1000:.0f} ms")
        print(f"every sum was checked; with their start {time.monotonic() - begun:.1f} s")
        for region in regions:
            region.unregister()


def run_workers(n: int, weights: Weights) -> list[float]:
    """Starts the workers, and waits for the seconds of each."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(n):
        here, there = context.Pipe()
        process = context.Process(target=worker, args=(rank, weights, there))
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    try:
        return [float(pipe.recv()) for pipe in pipes]
    except EOFError:
        raise SystemExit("a worker ended before it was done") from None
    finally:
        for process in processes:
            process.join(30)


if __name__ == "__main__":
    main()
