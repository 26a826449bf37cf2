"""What calls of :mod:`te_engine` raise.

Each exception has what is known of the failure as fields; the text has the same for people.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = [
    "BuildError",
    "BusyError",
    "ClosedError",
    "DeviceMemoryError",
    "EngineError",
    "ForkedError",
    "OpenError",
    "PeerError",
    "RegisterError",
    "TransferError",
    "TransferTimeout",
]


class EngineError(Exception):
    """A call of the engine failed.

    Fields that do not apply are None.
    """

    code: int
    """Mooncake's number for it, below 0."""
    kind: str
    """That number in words, such as ``"socket"``."""
    phase: str
    """What was being done: ``"build"``, ``"register"``, ``"open"``, ``"connect"``, ``"payload"``, …"""
    peer: str | None
    """The peer's name."""
    index: int | None
    """Position of the request in its call, from 0."""
    attempt: int
    """How often a piece of the request was tried, from 1; 0 when none was."""
    transport: str | None
    """The transport that had it last."""
    cause: str
    """What happened: the error and its causes."""
    remote_side: str | None
    """The peer's memory: ``"untouched"``, ``"settled"`` (no more will change), ``"in doubt"``."""
    local_state: str
    """Our memory: ``"free"``, ``"in use"``, or ``"quarantined"``: a transport still holds it."""
    retryable: bool
    """Whether the same call may succeed later without anybody changing anything."""

    def __init__(self, text: str = "", /, **facts: Any) -> None:
        super().__init__(text)
        self.code = facts.get("code", -1)
        self.kind = facts.get("kind", "invalid argument")
        self.phase = facts.get("phase", "")
        self.peer = facts.get("peer")
        self.index = facts.get("index")
        self.attempt = facts.get("attempt", 0)
        self.transport = facts.get("transport")
        self.cause = facts.get("cause", text)
        self.remote_side = facts.get("remote_side")
        self.local_state = facts.get("local_state", "free")
        self.retryable = facts.get("retryable", False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), str(self), dict(self.__dict__))


def _again(kind: type[EngineError], text: str, facts: dict[str, Any]) -> EngineError:
    return kind(text, **facts)


class BuildError(EngineError):
    """The engine could not be made; nothing of it runs."""


class RegisterError(EngineError):
    """Memory could not be registered or unregistered."""


class BusyError(RegisterError):
    """A transport still holds the memory: keep it, and call again later."""


class OpenError(EngineError):
    """A segment could not be opened, or publishes nothing."""


class TransferError(EngineError):
    """Bytes were not moved, or nothing is known of them. ``local_state`` tells whether our memory is free."""


class TransferTimeout(TransferError, TimeoutError):
    """The time of a transfer was over, or that of a wait (then it goes on: ``local_state`` is ``"in use"``)."""


class PeerError(EngineError):
    """A notification or a probe failed."""


class ForkedError(EngineError):
    """The engine belongs to the process that this one was forked from; make another one here."""


class ClosedError(EngineError):
    """The engine is closed."""


class DeviceMemoryError(EngineError):
    """The memory is that of a GPU or another device, which this build cannot move. Copy it to host memory first."""


_BY_PHASE: dict[str, type[EngineError]] = {
    "build": BuildError,
    "register": RegisterError,
    "unregister": RegisterError,
    "memory": RegisterError,
    "open": OpenError,
    "notify": PeerError,
    "probe": PeerError,
    "fork": ForkedError,
    "closed": ClosedError,
    "panic": EngineError,
    "topology": EngineError,
}

_BUSY = -4


def of_failure(about: str | None, facts: dict[str, Any]) -> EngineError:
    """The exception for these facts; `about` is the class that the call usually raises."""
    kind = _BY_PHASE.get(facts["phase"], TransferError)
    if about is not None and kind not in (ForkedError, ClosedError):
        kind = getattr(sys.modules[__name__], about)
    if kind is RegisterError and facts["code"] == _BUSY:
        kind = BusyError
    if kind is TransferError and facts["timed_out"]:
        kind = TransferTimeout
    return kind(facts["text"], **facts)


def of_device(device: int) -> DeviceMemoryError:
    """The exception for memory of a device, by DLPack's number for its kind."""
    name = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed"}
    text = (
        f"the memory is that of a device ({name.get(device, f'kind {device}')}), "
        "which this build cannot move: copy it to host memory first"
    )
    return DeviceMemoryError(text, phase="memory", cause=text)

