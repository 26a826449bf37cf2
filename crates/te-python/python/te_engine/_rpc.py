"""Messages between processes beside the engine: bytes and arrays, over plain TCP.

The names are Mooncake's; the bytes on the wire are not, so that both ends must be this package.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["ReceivedData", "ReceivedTensor", "RpcInterface", "create_rpc_client", "create_rpc_server"]

_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"teR1"
_MOST_FACTS = 1 << 16
_MOST_BYTES = 1 << 40
# A listener that answers with one of these is broken; everything else passes.
_BROKEN = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP)
_PAUSE = 0.05


class ReceivedData:
    """Bytes that have arrived."""

    def __init__(self, *_: object) -> None:
        raise TypeError("ReceivedData is made by nobody: a callback is given a dict")

    source_address: str = ""
    _data: bytes = b""

    @property
    def data_size(self) -> int:
        """Bytes."""
        return len(self._data)

    def get_bytes(self) -> bytes:
        """The bytes."""
        return self._data

    def get_memory_view(self) -> memoryview:
        """The bytes, without a copy."""
        return memoryview(self._data)


class ReceivedTensor:
    """An array that has arrived."""

    def __init__(self, *_: object) -> None:
        raise TypeError("ReceivedTensor is what a callback is given")

    source_address: str = ""
    dtype: str = ""
    shape: Sequence[int] = ()
    _data: bytes = b""

    @property
    def total_bytes(self) -> int:
        """Bytes."""
        return len(self._data)

    def get_data_size(self) -> int:
        """Bytes."""
        return len(self._data)

    def get_data_as_bytes(self) -> bytes:
        """The bytes of the elements."""
        return self._data

    def get_memory_view(self) -> memoryview:
        """The same, without a copy."""
        return memoryview(self._data)


class RpcInterface:
    """Sends and receives messages. A message is acknowledged when the receiver's callback has returned."""

    def __init__(self) -> None:
        self._timeout = 30.0
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._on_data: Callable[[dict[str, Any]], object] | None = None
        self._on_tensor: Callable[[ReceivedTensor], object] | None = None

    def initialize(
        self,
        listen_address: str = "",
        thread_count: int = 0,
        timeout_seconds: int = 30,
        pool_size: int = 100,
    ) -> bool:
        """Prepares sending, and receiving where an address to listen at is given."""
        if not self.initialize_client(pool_size, timeout_seconds):
            return False
        return not listen_address or self.initialize_server(listen_address, 8, timeout_seconds)

    def initialize_client(self, pool_size: int = 100, timeout_seconds: int = 30) -> bool:
        """Prepares sending."""
        self._timeout = float(timeout_seconds)
        return True

    def initialize_server(
        self, listen_address: str, thread_count: int = 8, timeout_seconds: int = 30
    ) -> bool:
        """Opens the port, ``host:port``; False where that fails."""
        self._timeout = float(timeout_seconds)
        host, _, port = listen_address.rpartition(":")
        try:
            self._listener = socket.create_server((host.strip("[]"), int(port)))
        except (OSError, ValueError, OverflowError):
            return False
        return True

    def start_server(self) -> bool:
        """Begins to receive, in threads of its own."""
        if self._listener is None:
            return False
        if self._thread is None:
            self._stopped = threading.Event()
            words = (self._listener, self._stopped)
            work = threading.Thread(target=self._serve, args=words, daemon=True)
            self._thread = work
            work.start()
        return True

    def start_server_async(self) -> bool:
        """The same."""
        return self.start_server()

    def stop_server(self) -> None:
        """Closes the port."""
        listener, self._listener, self._thread = self._listener, None, None
        self._stopped.set()
        if listener is not None:
            try:
                # A thread that waits for a connection sees only this.
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()

    def set_data_receive_callback(
        self, callback: Callable[[dict[str, Any]], object], /
    ) -> None:
        """Who is called with bytes that arrive: ``{"source": address, "data": bytes}``."""
        self._on_data = callback

    def set_tensor_receive_callback(self, callback: Callable[[ReceivedTensor], object], /) -> None:
        """Who is called with arrays that arrive."""
        self._on_tensor = callback

    def send_data(self, target_address: str, data: bytes) -> int:
        """Sends bytes: 0 once the receiver has them, else −1."""
        if not isinstance(data, bytes):
            raise TypeError(f"bytes are expected, not {type(data).__name__}")
        return self._send(target_address, {"kind": "data"}, memoryview(data).cast("B"))

    def send_tensor(self, target_address: str, tensor: Any) -> int:
        """Sends an array, or what has ``numpy()``: 0 once the receiver has it, else −1."""
        array = tensor.numpy() if hasattr(tensor, "numpy") else tensor
        view = memoryview(array)
        facts = {"kind": "tensor", "dtype": str(array.dtype), "shape": list(view.shape or ())}
        return self._send(target_address, facts, memoryview(view.tobytes()))

    def send_data_async(
        self, target_address: str, data: bytes, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[int]:
        """`send_data` in a thread; a future of that loop."""
        return loop.run_in_executor(None, self.send_data, target_address, data)

    def send_tensor_async(
        self, target_address: str, tensor: Any, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[int]:
        """`send_tensor` in a thread; a future of that loop."""
        return loop.run_in_executor(None, self.send_tensor, target_address, tensor)

    def _send(self, target: str, facts: dict[str, Any], data: memoryview) -> int:
        host, _, port = target.rpartition(":")
        head = json.dumps(facts).encode()
        try:
            address = (host.strip("[]"), int(port))
            with socket.create_connection(address, self._timeout) as stream:
                stream.sendall(_HEAD.pack(_MAGIC, len(head), data.nbytes) + head)
                stream.sendall(data)
                return 0 if stream.recv(1) == b"\x01" else -1
        except (OSError, ValueError, OverflowError):
            return -1

    def _serve(self, listener: socket.socket, stopped: threading.Event) -> None:
        while not stopped.is_set():
            try:
                stream, _ = listener.accept()
            except OSError as error:
                if error.errno in _BROKEN:
                    break
                # Out of descriptors, or a connection that is gone already.
                stopped.wait(_PAUSE)
                continue
            try:
                threading.Thread(target=self._receive, args=(stream,), daemon=True).start()
            except RuntimeError:
                # Without a thread for it the sender sees a connection that ends.
                stream.close()
        if self._thread is threading.current_thread():
            self._thread = None

    def _receive(self, stream: socket.socket) -> None:
        with stream:
            try:
                stream.settimeout(self._timeout)
                magic, head, size = _HEAD.unpack(_exactly(stream, _HEAD.size))
                if magic != _MAGIC or head > _MOST_FACTS or size > _MOST_BYTES:
                    return
                facts = json.loads(_exactly(stream, head))
                data = _exactly(stream, size)
                if self._deliver("{}:{}".format(*stream.getpeername()[:2]), facts, data):
                    stream.sendall(b"\x01")
            except (OSError, EOFError, ValueError, KeyError, TypeError):
                # The sender sees that nothing was acknowledged.
                return

    def _deliver(self, source: str, facts: dict[str, Any], data: bytes) -> bool:
        if facts["kind"] == "data" and self._on_data is not None:
            self._on_data({"source": source, "data": data})
            return True
        if facts["kind"] == "tensor" and self._on_tensor is not None:
            tensor = object.__new__(ReceivedTensor)
            tensor.source_address, tensor._data = source, data
            tensor.dtype, tensor.shape = str(facts["dtype"]), [int(n) for n in facts["shape"]]
            self._on_tensor(tensor)
            return True
        return False


def _exactly(stream: socket.socket, size: int) -> bytes:
    """So many bytes. Room is taken as they come, whatever the sender says."""
    parts = []
    while size > 0:
        part = stream.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def create_rpc_client(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    """One that sends."""
    return RpcInterface()


def create_rpc_server(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    """One that receives."""
    return RpcInterface()
