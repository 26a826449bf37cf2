"""Disaggregated serving in small: one process fills a paged KV cache, another takes over the pages that it needs.

Both sides have a cache of layers × (K, V) × blocks. For each request the decode side picks free blocks of its own and
says which; the prefill side computes (here: makes up) the request's blocks and writes all of them, layer by layer, into
those places with one call, together with a notification. The decode side waits for the notification and uses the blocks
without asking anybody; here it checks every byte.

    python prefill_decode.py --layers 8 --blocks 256 --block-bytes 65536 --requests 16
"""
from __future__ import annotations

import argparse
import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

import te_engine

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]

REQUEST_BLOCKS = 24


@dataclass(frozen=True)
class Layout:
    """Where the block of a layer lies: all K blocks of a layer, then its V blocks, then the next layer."""

    layers: int
    blocks: int
    block_bytes: int

    @property
    def size(self) -> int:
        return self.layers * 2 * self.blocks * self.block_bytes

    def offsets(self, blocks: Numbers) -> Numbers:
        """Offsets of these blocks in every layer, K and V, one after the other."""
        planes = np.arange(self.layers * 2, dtype=np.uint64)[:, None] * np.uint64(self.blocks)
        return ((planes + blocks[None, :]) * np.uint64(self.block_bytes)).ravel()


class Cache:
    """A KV cache in memory that the engine made and peers may write."""

    def __init__(self, engine: te_engine.Engine, layout: Layout) -> None:
        self.layout = layout
        self.region = engine.allocate(layout.size)
        self.bytes: Bytes = np.frombuffer(memoryview(self.region), dtype=np.uint8)

    def block(self, offset: int) -> Bytes:
        return self.bytes[offset : offset + self.layout.block_bytes]


def content(request: int, layout: Layout) -> Bytes:
    """The blocks that a model would compute for a request: [layer and K or V][block][bytes]."""
    shape = (layout.layers * 2, REQUEST_BLOCKS, layout.block_bytes)
    return np.random.default_rng(request).integers(0, 256, shape, dtype=np.uint8)


def decode(layout: Layout, requests: int, pipe: Connection) -> None:
    """Gives its free blocks away, waits for each request's notification, and checks what came."""
    order = np.random.default_rng(0).permutation(layout.blocks).astype(np.uint64)
    with te_engine.Engine() as engine:
        cache = Cache(engine, layout)
        pipe.send((engine.name, cache.region.address))
        for request in range(requests):
            places = np.roll(order, request * REQUEST_BLOCKS)[:REQUEST_BLOCKS]
            pipe.send(places)
            wait_for(engine, str(request))
            wanted = content(request, layout).reshape(-1, layout.block_bytes)
            for offset, block in zip(layout.offsets(places), wanted):
                if not np.array_equal(cache.block(int(offset)), block):
                    raise SystemExit(f"request {request}: the block at {offset} is wrong")
            pipe.send("checked")


def wait_for(engine: te_engine.Engine, request: str, seconds: float = 30.0) -> None:
    """Waits until the notification of a request is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, message in engine.notifications():
            if name == "prefilled" and message == request:
                return
        time.sleep(0.0002)
    raise SystemExit(f"request {request} was not announced within {seconds} s")


def prefill(layout: Layout, requests: int, pipe: Connection) -> None:
    """Fills its blocks and writes them into the decode side's places."""
    with te_engine.Engine() as engine:
        cache = Cache(engine, layout)
        target, base = pipe.recv()
        segment = engine.open(target)
        seconds, moved = 0.0, 0
        for request in range(requests):
            own = layout.offsets(np.arange(REQUEST_BLOCKS, dtype=np.uint64))
            for offset, block in zip(own, content(request, layout).reshape(-1, layout.block_bytes)):
                cache.block(int(offset))[:] = block
            places: Numbers = pipe.recv()
            there = layout.offsets(places) + np.uint64(base)
            begun = time.monotonic()
            moved += segment.write_many(cache.region, own, there, layout.block_bytes, notify=("prefilled", str(request)))
            seconds += time.monotonic() - begun
            assert pipe.recv() == "checked"
        blocks = requests * REQUEST_BLOCKS * layout.layers * 2
        print(f"{requests} requests, {blocks} blocks, {moved >> 20} MiB in {seconds * 1000:.0f} ms: {moved / seconds / 1e9:.2f} GB/s")
        print("every byte was checked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=256)
    parser.add_argument("--block-bytes", type=int, default=64 << 10)
    parser.add_argument("--requests", type=int, default=16)
    options = parser.parse_args()
    layout = Layout(options.layers, options.blocks, options.block_bytes)
    here, there = multiprocessing.Pipe()
    # A fresh process: an engine does not outlive a fork.
    process = multiprocessing.get_context("spawn").Process(target=decode, args=(layout, options.requests, there))
    process.start()
    there.close()
    try:
        prefill(layout, options.requests, here)
    finally:
        here.close()
        process.join(30)
    if process.exitcode != 0:
        raise SystemExit(f"the decode side ended with {process.exitcode}")


if __name__ == "__main__":
    main()
