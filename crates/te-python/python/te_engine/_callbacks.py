"""The thread that runs callbacks: one of Python's own, which the end of the interpreter may take away at any time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol


class _Due(Protocol):
    def take(self) -> tuple[Callable[[Any], object], Any] | None: ...
    def failed(self, function: Callable[[Any], object], error: BaseException) -> None: ...


def start(due: _Due) -> None:
    """Starts a thread that calls what is due, until nothing more can be."""
    threading.Thread(target=_run, args=(due,), name="te-callbacks", daemon=True).start()


def _run(due: _Due) -> None:
    while (call := due.take()) is not None:
        function, argument = call
        try:
            function(argument)
        except SystemExit:
            # As in any thread: it ends the callback and nothing more.
            pass
        except BaseException as error:
            due.failed(function, error)
        # Waiting for the next one keeps nothing of this one.
        del call, function, argument
