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
    def __new__(cls, name: str = "127.0.0.1", **wishes: Unpack[_Wishes]) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def transports(self) -> list[str]: ...
    @property
    def quarantined_bytes(self) -> int: ...
    def allocate(self, length: int, *, location: str = "*") -> Region: ...
    def register(
        self, buffer: _Memory, *, location: str = "*", remote: bool = True
    ) -> Region: ...
    def unregister(self, address: int) -> None: ...
    def open(self, name: str) -> Segment: ...
    def notify(self, peer: str, name: str, message: str) -> None: ...
    def notifications(self) -> list[tuple[str, str]]: ...
    def probe(self, peer: str) -> float: ...
    def topology(self) -> str: ...
    def stats(self) -> dict[str, int]: ...
    def close(self, timeout: float | None = None) -> _Report: ...
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
    @property
    def address(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def location(self) -> str: ...
    @property
    def registered(self) -> bool: ...
    def __len__(self) -> int: ...
    def unregister(self) -> None: ...
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
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> int: ...
    @property
    def transport(self) -> str | None: ...
    def buffers(self) -> list[tuple[int, int, str]]: ...
    def refresh(self) -> bool: ...
    def write(self, local: _Memory, address: int, **terms: Unpack[_Terms]) -> int: ...
    def read(self, local: _Memory, address: int, **terms: Unpack[_Terms]) -> int: ...
    def submit_write(
        self, local: _Memory, address: int, **terms: Unpack[_Terms]
    ) -> Transfer: ...
    def submit_read(
        self, local: _Memory, address: int, **terms: Unpack[_Terms]
    ) -> Transfer: ...
    def write_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> int: ...
    def read_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> int: ...
    def submit_write_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> Transfer: ...
    def submit_read_many(
        self,
        local: _Memory | None,
        offsets: _Numbers,
        addresses: _Numbers,
        lengths: _Numbers | int,
        **terms: Unpack[_Terms],
    ) -> Transfer: ...

@final
class Transfer(Awaitable[int]):
    @property
    def state(self) -> str: ...
    @property
    def done(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def result(self) -> int: ...
    def cancel(self) -> None: ...
    def add_done_callback(self, function: Callable[[Transfer], object]) -> None: ...
    def __await__(self) -> Generator[Any, None, int]: ...

@final
class TransferOpcode:
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
    name: str
    msg: str
    def __new__(cls, name: str = ..., msg: str = ...) -> Self: ...

@final
class InnerTransferEngine: ...

@final
class TransferEngine:
    TransferOpcode: ClassVar[type[_Opcode]]
    def __new__(cls) -> Self: ...
    def initialize(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str | None,
        device_name: str | None,
        /,
    ) -> int: ...
    def initialize_ext(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str | None,
        device_name: str | None,
        metadata_type: str | None,
        /,
    ) -> int: ...
    def get_rpc_port(self) -> int: ...
    def get_engine(self) -> InnerTransferEngine | None: ...
    def get_engine_ptr(self) -> int: ...
    def allocate_managed_buffer(self, length: int, /) -> int: ...
    def free_managed_buffer(self, buffer_addr: int, length: int, /) -> int: ...
    def register_memory(self, buffer_addr: int, capacity: int, location: str = "*") -> int: ...
    def unregister_memory(self, buffer_addr: int, /) -> int: ...
    def batch_register_memory(
        self, buffer_addresses: _Numbers, capacities: _Numbers, location: str = "*"
    ) -> int: ...
    def batch_unregister_memory(self, buffer_addresses: _Numbers, /) -> int: ...
    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str | None = None,
    ) -> int: ...
    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str | None = None,
    ) -> int: ...
    def transfer_sync(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        opcode: _Opcode,
        notify: TransferNotify | None = None,
        transport_hint: str | None = None,
    ) -> int: ...
    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int: ...
    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int: ...
    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        opcode: _Opcode,
        notify: TransferNotify | None = None,
        transport_hint: str | None = None,
    ) -> int: ...
    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int: ...
    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        transport_hint: str | None = None,
    ) -> int: ...
    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: _Numbers,
        peer_buffer_addresses: _Numbers,
        lengths: _Numbers,
        opcode: _Opcode,
        transport_hint: str | None = None,
    ) -> int: ...
    def get_batch_transfer_status(self, batch_ids: _Numbers, /) -> int: ...
    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str | None = None,
    ) -> int: ...
    def transfer_check_status(self, batch_id: int, /) -> int: ...
    def get_first_buffer_address(self, segment_name: str, /) -> int: ...
    def write_bytes_to_buffer(self, dest_address: int, src_ptr: str | bytes, length: int, /) -> int: ...
    def read_bytes_from_buffer(self, source_address: int, length: int, /) -> bytes: ...
    def get_local_topology(self, device_name: str | None = None) -> str: ...
    def get_notifies(self) -> list[TransferNotify]: ...
    def send_probe(self, peer_server_name: str) -> int: ...
    def warmup_efa_segment(self, segment_name: str) -> int: ...

def last_error() -> EngineError | None: ...
def close_all(timeout: float) -> None: ...
def run_program(program: list[str], words: list[str]) -> int: ...
