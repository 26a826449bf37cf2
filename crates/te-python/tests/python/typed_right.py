"""Uses of the package that checkers of types must accept."""
from __future__ import annotations

import asyncio

import numpy as np

import te_engine
from te_engine.compat import TransferEngine, TransferNotify, TransferOpcode


def native() -> int:
    with te_engine.Engine("127.0.0.1", metadata="P2PHANDSHAKE", protocol="tcp") as engine:
        region: te_engine.Region = engine.allocate(4096, location="cpu:0")
        view = memoryview(region)
        segment: te_engine.Segment = engine.open(engine.name)
        moved: int = segment.write(view[:64], region.address + 64, timeout=1.5, checked=True, notify=("a", "b"))
        moved += segment.write_many(region, np.arange(4, dtype=np.uint64), [1, 2, 3, 4], 1)
        transfer: te_engine.Transfer = segment.submit_read(bytearray(64), region.address)
        transfer.add_done_callback(finished)
        moved += transfer.wait(timeout=2)
        engine.register((region.address, 16)).unregister()
        names: list[tuple[str, str]] = engine.notifications()
        return moved + len(names)


def finished(transfer: te_engine.Transfer) -> None:
    assert transfer.done


async def awaited(segment: te_engine.Segment, address: int) -> int:
    first = await segment.submit_write(b"x", address)
    both = await asyncio.gather(segment.submit_write(b"x", address), segment.submit_write(b"y", address))
    return first + sum(both)


def failures(segment: te_engine.Segment) -> str | None:
    try:
        segment.write(b"x", 1)
    except te_engine.TransferError as error:
        code: int = error.code
        phase: str = error.phase
        index: int | None = error.index
        return error.peer if code and phase and index is None else None
    return None


def codes() -> int:
    engine = TransferEngine()
    code: int = engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
    code |= engine.transfer_sync("h", 1, 2, 3, TransferOpcode.Write, TransferNotify("n", "m"))
    code |= engine.batch_transfer_sync_write("h", [1], [2], [3])
    engine.get_batch_transfer_status([engine.batch_transfer_async_read("h", [1], [2], [3])])
    return code
