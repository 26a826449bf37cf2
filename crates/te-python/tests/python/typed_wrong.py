"""Mistakes that checkers of types must find, and nothing else."""
from __future__ import annotations

import te_engine
from te_engine.compat import TransferEngine, TransferOpcode


def wrong(engine: te_engine.Engine, codes: TransferEngine) -> None:
    engine.allocate("4096")  # wrong
    engine.open(5)  # wrong
    segment = engine.open("peer")
    segment.write(b"x", "address")  # wrong
    segment.write(b"x", 1, timeout="1")  # wrong
    segment.write(5, 1)  # wrong
    segment.submit_write(b"x", 1).wait("soon")  # wrong
    engine.no_such_call()  # wrong
    text: str = segment.write(b"x", 1)  # wrong
    codes.register_memory("x", 1)  # wrong
    codes.transfer_sync("h", 1, 2, 3, 1)  # wrong
    codes.transfer_sync("h", 1, 2, 3, TransferOpcode.Write, notify="x")  # wrong
    print(text)
