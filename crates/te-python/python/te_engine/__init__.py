"""Read and write pieces of other machines' memory.

    import te_engine

    with te_engine.Engine("10.0.0.1") as engine:
        ours = engine.allocate(1 << 20)
        theirs = engine.open("10.0.0.2:12345")
        theirs.write(ours, theirs.address)

:mod:`te_engine.compat` has the calls of Mooncake's ``mooncake.engine``.
"""

import atexit

# Before any thread of the program can be the first to import `threading`.
from te_engine import _callbacks as _callbacks
from te_engine._native import (
    Engine,
    Region,
    Segment,
    Transfer,
    __version__,
    close_all,
    last_error,
)
from te_engine.errors import (
    BuildError,
    BusyError,
    ClosedError,
    DeviceMemoryError,
    EngineError,
    ForkedError,
    OpenError,
    PeerError,
    RegisterError,
    TransferError,
    TransferTimeout,
)

__all__ = [
    "BuildError",
    "BusyError",
    "ClosedError",
    "DeviceMemoryError",
    "Engine",
    "EngineError",
    "ForkedError",
    "OpenError",
    "PeerError",
    "Region",
    "RegisterError",
    "Segment",
    "Transfer",
    "TransferError",
    "TransferTimeout",
    "__version__",
    "last_error",
]

# Engines that are alive when the interpreter ends are closed before it takes its threads away.
_AT_EXIT_SECONDS = 5.0
atexit.register(close_all, _AT_EXIT_SECONDS)
del atexit, close_all
