"""Memory that processes of one host share, by exchanging short texts.

Each rank calls ``create``, hands its blob to all, and calls ``complete`` with the blobs of all ranks, in
their order. The owner's memory has no name in any file system, so that nothing is left behind.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import weakref

_BLOB_BYTES = 256
_FIELDS = ("name", "size", "world_size", "owner_rank")


class SharedSegment:
    """Memory of the owner rank, as this process sees it."""

    def __init__(self) -> None:
        raise TypeError("SharedSegment is made by SharedSegment.create()")

    @staticmethod
    def supported(mmap: bool = True, host_register: bool = False) -> bool:
        """Whether memory can be shared that way here: host memory that no GPU needs to know of."""
        return bool(mmap) and not host_register

    @staticmethod
    def create(
        name: str,
        size: int,
        world_size: int,
        rank_id: int,
        owner_rank: int = 0,
        device_id: int = 0,
        mmap: bool = True,
        host_register: bool = False,
    ) -> tuple[SharedSegment, bytes]:
        """Phase one: gives the segment and what the other ranks must be told. Raises RuntimeError."""
        if not SharedSegment.supported(mmap, host_register):
            raise RuntimeError("this build shares host memory only, without a GPU")
        if size <= 0 or not 0 <= rank_id < world_size or not 0 <= owner_rank < world_size:
            raise RuntimeError("size, world_size, rank_id and owner_rank do not fit together")
        made = object.__new__(SharedSegment)
        made._plan = dict(zip(_FIELDS, (name, size, world_size, owner_rank), strict=True))
        made._size, made._owner = size, owner_rank
        made._map = None
        told = dict(made._plan, rank=rank_id)
        if rank_id == owner_rank:
            fd = os.memfd_create(f"te-{name}"[:200], os.MFD_CLOEXEC)
            # The other ranks open it through this process, so that it stays open as long as the segment.
            weakref.finalize(made, os.close, fd).atexit = False
            os.ftruncate(fd, size)
            made._open(fd)
            told |= {"process": os.getpid(), "fd": fd}
        blob = json.dumps(told).encode()
        if len(blob) > _BLOB_BYTES:
            raise RuntimeError("the name is too long")
        return made, blob.ljust(_BLOB_BYTES)

    _plan: dict[str, object]
    _size: int
    _owner: int
    _map: mmap.mmap | None

    def complete(self, blobs: list[bytes]) -> None:
        """Phase two; blobs are indexed by rank. Raises RuntimeError where they do not fit together."""
        told = [self._read(blob) for blob in blobs]
        if len(told) != self._plan["world_size"]:
            raise RuntimeError(f"{len(told)} blobs for {self._plan['world_size']} ranks")
        for rank, one in enumerate(told):
            if one.get("rank") != rank or any(one.get(key) != self._plan[key] for key in _FIELDS):
                raise RuntimeError(f"the blob of rank {rank} is of another segment")
        if self._map is None:
            owner = told[self._owner]
            try:
                fd = os.open(f"/proc/{owner['process']}/fd/{owner['fd']}", os.O_RDWR)
            except (KeyError, OSError) as error:
                raise RuntimeError(f"the owner's memory cannot be reached: {error}") from error
            try:
                self._open(fd)
            finally:
                os.close(fd)

    def ready(self) -> bool:
        """Whether the memory is there."""
        return self._map is not None

    def size(self) -> int:
        """Bytes."""
        return self._size

    def base_addr(self) -> int:
        """First address in this process, or 0."""
        if self._map is None:
            return 0
        return ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def device_addr(self) -> int:
        """First address for a GPU; there is none."""
        return 0

    def _open(self, fd: int) -> None:
        if os.fstat(fd).st_size != self.size():
            raise RuntimeError("the owner's memory has another size")
        self._map = mmap.mmap(fd, self.size())

    @staticmethod
    def _read(blob: bytes) -> dict[str, object]:
        if len(blob) != _BLOB_BYTES:
            raise RuntimeError(f"a blob has {_BLOB_BYTES} bytes, not {len(blob)}")
        try:
            told = json.loads(blob)
        except ValueError as error:
            raise RuntimeError(f"a blob cannot be read: {error}") from error
        if not isinstance(told, dict):
            raise RuntimeError("a blob cannot be read")
        return told
