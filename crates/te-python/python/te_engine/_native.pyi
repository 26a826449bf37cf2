"""The extension module; its public names are those of ``te_engine`` and ``te_engine.compat``."""

import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypedDict, final

from typing_extensions import Buffer, Self, Unpack

from te_engine.errors import EngineError

__version__: Final[str]

class _DLPack(Protocol):
    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class _ArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Memory: TypeAlias = Region | tuple[int, int] | Buffer | _DLPack | _ArrayInterface
# Arrays of numpy are buffers, which its stubs say from Python 3.12 on.
_Numbers: TypeAlias = Sequence[int] | Buffer | _ArrayInterface

class _Wishes(TypedDict, total=False):
    metadata: str
    port: int | None
    protocol: str
    nics: Sequence[str]
    config: str | os.PathLike[str] | None

class _Terms(TypedDict, total=False):
    timeout: float | None
    checked: bool
    notify: tuple[str, str] | None

class _Report(TypedDict):
    open_tasks: int
    joined: bool
    kept_bytes: int

@final
class Engine:
    """A transfer engine. As a context manager it is closed at the end; else when the last object of it
    goes, or the interpreter does.

    `name` is the address or name that peers reach this host by. By keyword: `metadata`, `P2PHANDSHAKE` or
    `scheme://rest`; `port`, 0 to 65535, to be found at the same name again; `protocol`, `"tcp"` to leave
    RDMA out; `nics`, the only ones to use; `config`, a file. Raises BuildError.
    """
    def __new__(cls, name: str = "127.0.0.1", **wishes: Unpack[_Wishes]) -> Self: ...
    @property
    def name(self) -> str:
        """The name that others open: ``host:port`` where there is no metadata service."""
    @property
    def port(self) -> int:
        """The port that peers talk to."""
    @property
    def transports(self) -> list[str]:
        """The transports, in order of preference."""
    @property
    def quarantined_bytes(self) -> int:
        """Bytes of local memory whose transfers have ended while a transport still holds them."""
    def allocate(self, length: int, *, location: str = "*") -> Region:
        """Allocates `length` bytes of zeroed memory, 1 to 2^40, and registers them. It lives as long as the region and every view of it."""
    def register(
        self, buffer: _Memory, *, location: str = "*", remote: bool = True
    ) -> Region:
        """Registers memory: a buffer, an array, a tensor, or ``(address, length)``. What has an owner is
        kept until it is unregistered. Peers may read it, and write it unless its owner calls it read-only;
        with ``remote=False`` they may not touch it.

        Raises RegisterError, DeviceMemoryError, TypeError, ValueError (gaps).
        """
    def unregister(self, address: int) -> None:
        """Ends the registration of the memory that begins at `address`; see `Region.unregister`."""
    def open(self, name: str) -> Segment:
        """Opens a peer's published memory by its name.

        Raises OpenError.
        """
    def notify(self, peer: str, name: str, message: str) -> None:
        """Sends a notification to the engine of that name.

        Raises PeerError; `retryable` where the peer had no room.
        """
    def notifications(self) -> list[tuple[str, str]]:
        """Takes the notifications that have arrived, oldest first: (name, message)."""
    def probe(self, peer: str) -> float:
        """Asks the engine of that name whether it lives; gives the round-trip time in seconds.

        Raises PeerError, after 2 seconds at most.
        """
    def topology(self) -> str:
        """The NICs of this machine and the memory that they are near to, as JSON."""
    def stats(self) -> dict[str, int]:
        """Counters since the engine was made."""
    def close(self, timeout: float | None = None) -> _Report:
        """Ends the engine within `timeout` seconds, the configured ones where none is given: every transfer
        becomes final, every thread ends. Calling it again does nothing.

        Gives ``open_tasks``, ``joined`` and ``kept_bytes``; all is well with 0, True and 0.
        """
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Region(Buffer):
    """Memory that is registered with an engine. As a context manager it is unregistered at the end."""
    @property
    def address(self) -> int:
        """First address, in this process. Peers name the memory by it."""
    @property
    def length(self) -> int:
        """Bytes."""
    @property
    def location(self) -> str:
        """Where the memory lies: ``"cpu:0"``, or ``"*"`` where that is not known."""
    @property
    def registered(self) -> bool:
        """Whether it was not unregistered through this object."""
    def __len__(self) -> int: ...
    def unregister(self) -> None:
        """Ends the registration. Waits for transfers that use the memory, a few seconds at most.

        Raises BusyError while a transport still holds it, or another thread is about to do the same: it
        must be kept, and the call repeated.
        """
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Segment:
    """The published memory of a peer, or of this engine."""
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def address(self) -> int:
        """First address of the first published buffer.

        Raises OpenError where there is none.
        """
    @property
    def transport(self) -> str | None:
        """The transport that requests go by, or None where none reaches it."""
    def buffers(self) -> list[tuple[int, int, str]]:
        """The published buffers: first address, bytes, location. As they are known here; see `refresh`."""
    def refresh(self) -> bool:
        """Asks its owner, or the metadata service, what is published now. Says whether that was answered."""
    def write(self, local: _Memory, address: int, **terms: Unpack[_Terms]) -> int:
        """Copies `local` to `address` of the peer, and waits for the end. Gives the bytes moved.

        By keyword: `timeout` in seconds, `checked` (sums are compared), `notify` (name, message).
        Raises TransferError; the memory is free then, or `local_state` says otherwise.
        """
    def read(self, local: _Memory, address: int, **terms: Unpack[_Terms]) -> int:
        """Copies from `address` of the peer into `local`, and waits for the end. Gives the bytes moved.

        By keyword: `timeout` in seconds, `checked` (sums are compared), `notify` (name, message).
        Raises TransferError; the memory is free then, or `local_state` says otherwise.
        """
    def submit_write(
        self, local: _Memory, address: int, **terms: Unpack[_Terms]
    ) -> Transfer:
        """Begins what `write` does.

        Raises TransferError where nothing was begun, `retryable` where too much is outstanding; later
        errors come from the Transfer.
        """
    def submit_read(
        self, local: _Memory, address: int, **terms: Unpack[_Terms]
    ) -> Transfer:
        """Begins what `read` does.

        Raises TransferError where nothing was begun, `retryable` where too much is outstanding; later
        errors come from the Transfer.
        """
    def write_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> int:
        """Does `write` for many pieces at once: piece `i` has `lengths[i]` bytes, at `offsets[i]` of
        `local` and at `addresses[i]` of the peer. Without `local`, offsets are addresses here, of
        memory that the caller keeps. One length may stand for all.

        The lists may be arrays of 64-bit integers. Raises IndexError for a piece outside `local`.
        """
    def read_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> int:
        """Does `read` for many pieces at once: piece `i` has `lengths[i]` bytes, at `offsets[i]` of
        `local` and at `addresses[i]` of the peer. Without `local`, offsets are addresses here, of
        memory that the caller keeps. One length may stand for all.

        The lists may be arrays of 64-bit integers. Raises IndexError for a piece outside `local`.
        """
    def submit_write_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> Transfer:
        """Begins what `write_many` does."""
    def submit_read_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> Transfer:
        """Begins what `read_many` does."""

@final
class Transfer(Awaitable[int]):
    """Requests under way. Await it, wait for it, or be called back. The memory of its requests is kept until
    the engine uses it no more, also where this object is dropped before.
    """
    @property
    def state(self) -> str:
        """``"waiting"``, and in the end ``"completed"`` or ``"failed"``."""
    @property
    def done(self) -> bool:
        """Whether every request has ended."""
    @property
    def bytes(self) -> int:
        """Bytes that are known to be in place."""
    @property
    def notify(self) -> str | None:
        """What became of the notification: ``"sending"``, ``"delivered"``, ``"full"`` (the peer had no room) or
        ``"failed"``. None where none was asked for, or the transfer has not completed.
        """
    def wait(self, timeout: float | None = None) -> int:
        """Waits until every request has ended, at most `timeout` seconds; gives the bytes moved.

        Raises TransferError, and TransferTimeout where it goes on.
        """
    def result(self) -> int:
        """The bytes moved, of a transfer that has ended.

        Raises TransferError, and TransferTimeout where it goes on.
        """
    def cancel(self) -> None:
        """Calls it back: requests that are open end as canceled once their memory is free. Does not wait."""
    def add_done_callback(self, function: Callable[[Transfer], object]) -> None:
        """Calls `function` with this transfer once it has ended, in a thread of the engine."""
    def __await__(self) -> Generator[Any, None, int]: ...

@final
class TransferOpcode:
    """The direction of a transfer."""
    Read: ClassVar[TransferOpcode]
    Write: ClassVar[TransferOpcode]
    __members__: ClassVar[dict[str, TransferOpcode]]
    def __new__(cls, value: int) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

_Opcode: TypeAlias = TransferOpcode

@final
class TransferNotify:
    """A notification: who sends it, and what."""
    name: str
    msg: str
    def __new__(cls, name: str = ..., msg: str = ...) -> Self: ...

@final
class InnerTransferEngine:
    """An engine as an object to be handed on; nothing can be done with it from Python."""

class TransferEngine:
    """A transfer engine with Mooncake's calls. Numbers below 0, or 0 where a handle is given, are failures."""
    TransferOpcode: ClassVar[type[_Opcode]]
    def __new__(cls) -> Self: ...
    def initialize(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str | None,
        device_name: str | None,
        /,
    ) -> int:
        """Starts the engine: 0, or −1. A metadata server without a scheme is etcd (A151)."""
    def initialize_ext(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str | None,
        device_name: str | None,
        metadata_type: str | None,
        /,
    ) -> int:
        """Starts the engine with the kind of its metadata service given apart: 0, or −1 (A152)."""
    def get_rpc_port(self) -> int:
        """The port that peers talk to; 0 before `initialize`."""
    def get_engine(self) -> InnerTransferEngine | None:
        """The engine as an object to be handed on; None before `initialize`."""
    def get_engine_ptr(self) -> int:
        """A number that tells engines apart, 0 before `initialize`. It is no pointer to anything that
        Mooncake's C++ could use.
        """
    def allocate_managed_buffer(self, length: int, /) -> int:
        """Registered memory of at least so many bytes; its address, or 0 (A154)."""
    def free_managed_buffer(self, buffer_addr: int, length: int, /) -> int:
        """Takes memory back that `allocate_managed_buffer` gave for this length: 0, or −1."""
    def register_memory(self, buffer_addr: int, capacity: int, location: str = "*") -> int:
        """Registers memory that the caller keeps: 0, or a number below 0 (A155)."""
    def unregister_memory(self, buffer_addr: int, /) -> int:
        """Ends a registration: 0, −3 where there is none, −4 while a transport still holds the memory."""
    def batch_register_memory(
        self, buffer_addresses: _Numbers, capacities: _Numbers, location: str = "*"
    ) -> int:
        """Registers several buffers, all or none."""
    def batch_unregister_memory(self, buffer_addresses: _Numbers, /) -> int:
        """Ends several registrations, past failures; the first failure's number."""
    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str | None = None,
    ) -> int:
        """Copies to a host and waits for the end: 0, or −1. Nothing is read any more when it returns, or
        `unregister_memory` answers −4 (A156).
        """
    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str | None = None,
    ) -> int:
        """Copies from a host and waits for the end: 0, or −1."""
    def transfer_sync(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        opcode: _Opcode,
        notify: TransferNotify | None = None,
        transport_hint: str | None = None,
    ) -> int:
        """Copies to or from a host, then notifies it where that is asked for: 0, or −1 (A157)."""
    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int:
        """Copies several pieces to a host and waits for the end of all: 0, or −1 (A158)."""
    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int:
        """Copies several pieces from a host and waits for the end of all: 0, or −1."""
    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        opcode: _Opcode,
        notify: TransferNotify | None = None,
        transport_hint: str | None = None,
    ) -> int:
        """Copies several pieces to or from a host, then notifies it where that is asked for: 0, or −1."""
    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int:
        """Begins to copy several pieces to a host: a handle, or 0."""
    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int:
        """Begins to copy several pieces from a host: a handle, or 0."""
    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        opcode: _Opcode,
        transport_hint: str | None = None,
    ) -> int:
        """Begins to copy several pieces to or from a host: a handle, or 0 (A159)."""
    def get_batch_transfer_status(self, batch_ids: _Numbers, /) -> int:
        """Waits for all of these handles and frees them: 0, or −1 where any failed (A160)."""
    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str | None = None,
    ) -> int:
        """Begins to copy to a host: a handle, or 0 (A161)."""
    def transfer_check_status(self, batch_id: int, /) -> int:
        """How a handle stands: 1 done, 0 running, −1 failed, −2 its time ran out (A161)."""
    def get_first_buffer_address(self, segment_name: str, /) -> int:
        """Where the first published buffer of a segment begins, or 0 (A162)."""
    def write_bytes_to_buffer(self, dest_address: int, src_ptr: str | bytes, length: int, /) -> int:
        """Copies `length` of the bytes to an address of this process: 0, or −1 (A163)."""
    def read_bytes_from_buffer(self, source_address: int, length: int, /) -> bytes:
        """The bytes at an address of this process (A163).

        Raises EngineError where they cannot be read.
        """
    def get_local_topology(self, device_name: str | None = None) -> str:
        """The NICs of this machine, as JSON; `device_name` names the only ones to look at (A164)."""
    def get_notifies(self) -> list[TransferNotify]:
        """Takes the notifications that have arrived, oldest first (A165)."""
    def send_probe(self, peer_server_name: str) -> int:
        """Asks the engine of that name whether it lives: 0, or a number below 0 (A165)."""
    def warmup_efa_segment(self, segment_name: str) -> int:
        """Does nothing: there is no EFA here (A166)."""

def last_error() -> EngineError | None:
    """The last failure of a call on this thread, as an exception that is not raised, or None. A call that
    succeeds leaves it.
    """
def close_all(timeout: float) -> None:
    """Closes every engine of this process, within `timeout` seconds."""
def run_program(program: list[str], words: list[str]) -> int:
    """The program `te`; gives its exit code. `program` is what starts it once more."""
