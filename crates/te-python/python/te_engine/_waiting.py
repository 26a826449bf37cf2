"""Awaiting a transfer: the event loop sleeps, and a thread of the engine wakes it once."""

from __future__ import annotations

import asyncio

from te_engine._native import Transfer


async def wait(transfer: Transfer) -> int:
    """Gives the bytes moved. Where it is cancelled the transfer is called back; its memory is kept until it is free."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def told(_: Transfer) -> None:
        try:
            loop.call_soon_threadsafe(end)
        except RuntimeError:
            # The loop is closed, and nobody waits there any more.
            pass

    if not transfer.done:
        transfer.add_done_callback(told)
        try:
            await ended
        except asyncio.CancelledError:
            transfer.cancel()
            raise
    return transfer.result()
