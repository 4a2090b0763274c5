"""`MappedFile`: a file mapped into memory, for zero-copy weights."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from zrt._common.arguments import boolean, integer, path_bytes
from zrt._common.public import public
from zrt._native import lib
from zrt._native.cdata import address_of
from zrt._native.handle import Handle, Owner
from zrt.errors import ArgumentError, ModelError, ModelNotFoundError, ShapeError
from zrt.memory import arrays
from zrt.memory.buffers import held, hugepage_state, lock_error
from zrt.types import ElementType, as_shape, nbytes
from zrt.values.value import Value

# O_NONBLOCK: opening a pipe must not wait for its writer.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK

ACCESS: dict[str, int] = {"normal": 0, "sequential": lib.ZRT_ADVICE_SEQUENTIAL, "random": lib.ZRT_ADVICE_RANDOM}


@public
class MappedFile(Owner):
    """A file mapped into memory, read-only: the system reads its pages on first access, and processes share them.

    `access` is the expected pattern: ``"normal"``, ``"sequential"`` (read further ahead) or ``"random"`` (no reading
    ahead). `prefetch` starts to read the whole file now (``MADV_WILLNEED``), `hugepage` asks for huge pages
    (``MADV_HUGEPAGE``), `lock` reads the whole file and keeps it in memory (``mlock``; raises `LockError` where that
    fails). `refused` lists the advice that the system does not take.

    The mapping is released when this object and all arrays and values over it are freed, also those of sessions.

    **The file must keep its length.** If it becomes shorter, a read past its end kills the process (``SIGBUS``); if its
    content changes, the weights change. To replace it, write another file and rename that over it: the mapping keeps
    the old file. Making an array checks the length; later reads do not.

    Raises `ModelNotFoundError`, or `ModelError` where it is not a regular file, empty, or unreadable.
    """

    __slots__ = ("nbytes", "path", "refused")

    path: str
    nbytes: int
    """The file's length when it was mapped, in bytes."""
    refused: tuple[str, ...]
    """The advice that the system did not take: some of "sequential", "random", "prefetch", "hugepage"."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        access: Literal["normal", "sequential", "random"] = "normal",
        prefetch: bool = False,
        hugepage: bool = False,
        lock: bool = False,
    ) -> None:
        self._handle = None
        name = path_bytes(path, "path")
        self.path = os.fsdecode(name)
        if not isinstance(access, str) or access not in ACCESS:
            raise ArgumentError(f"access: {access!r} is none of {', '.join(ACCESS)}")
        wanted: list[tuple[str, int]] = [(access, ACCESS[access])] if ACCESS[access] else []
        if boolean(hugepage, "hugepage"):
            wanted.append(("hugepage", lib.ZRT_ADVICE_HUGEPAGE))
        if boolean(prefetch, "prefetch"):
            wanted.append(("prefetch", lib.ZRT_ADVICE_WILLNEED))
        handle = self._map(partial(os.open, name, _READ))
        self.refused = tuple(word for word, advice in wanted if lib.zrt_memory_advise(handle.pointer, advice))
        if boolean(lock, "lock"):
            code = lib.zrt_memory_lock(handle.pointer)
            if code:
                # As in `_map`: the error must not keep the file open.
                del handle
                raise lock_error(code, self.nbytes)
        self._handle = handle

    @classmethod
    def _of(cls, file: int, path: str) -> Self:
        """The mapping of the file with this descriptor, which the caller keeps."""
        mapped = cls.__new__(cls)
        mapped._handle = None
        mapped.path, mapped.refused = path, ()
        mapped._handle = mapped._map(partial(os.dup, file))
        return mapped

    def _map(self, open_file: Callable[[], int]) -> Handle:
        """A new mapping, which owns the descriptor that `open_file` returns."""
        subject = f"file {self.path!r}"
        handle = Handle.block("zrt_memory", (), lib.zrt_memory_free)
        try:
            code = lib.zrt_memory_map(handle.pointer, open_file())
        except OSError as error:
            code = error.errno or errno.EIO
        if not code and handle.pointer.data:
            self.nbytes = handle.pointer.length
            return handle
        # The traceback of the error must not keep the file open.
        del handle
        if not code:
            raise ModelError(f"{subject} is empty")
        if code == errno.ENOENT:
            raise ModelNotFoundError(f"{subject}: there is no such file")
        if code == errno.EISDIR:
            raise ModelError(f"{subject} is a directory")
        raise ModelError(f"{subject} cannot be mapped: {os.strerror(code)}")

    def _close_file(self) -> None:
        """Closes the descriptor, after all arrays were made: a model may have more files than a process may open."""
        handle = self._open()
        lib.zrt_memory_close_file(handle.pointer)

    def array(
        self, dtype: object = np.uint8, shape: Iterable[int] | None = None, offset: int = 0
    ) -> np.ndarray[Any, Any]:
        """A read-only array over the file's bytes from `offset` on, a multiple of the type's size.

        Without `shape` it is flat, up to the file's end. Packed types give the uint8 array of their bytes. Raises
        `ShapeError` where the file is too short, `ArgumentError` for a wrong offset or byte order, `DTypeError` for a
        type that ONNX Runtime does not have.
        """
        return arrays.view(*self._place(dtype, shape, offset), writeable=False)

    def tensor(self, dtype: object, shape: Iterable[int] | None = None, offset: int = 0) -> Value:
        """Like `array`, as a `Value`. For packed types, `shape` is the logical shape."""
        handle, address, dims, kind = self._place(dtype, shape, offset)
        array = arrays.view(handle, address, dims, kind, writeable=False)
        subject = f"file {self.path!r}"
        return Value.from_packed(array, kind, dims, subject) if kind.packed else Value.from_array(array, subject)

    def _place(
        self, dtype: object, shape: Iterable[int] | None, offset: int
    ) -> tuple[Handle, int, tuple[int, ...], ElementType]:
        """The handle, address, shape and type of a part of the file; raises where the file does not contain it."""
        subject = f"file {self.path!r}"
        kind = held(dtype)
        if not _native(dtype):
            raise ArgumentError(f"{subject}: {dtype!r} is in the other byte order than this machine's")
        start = integer(offset, "offset", 0, 2**63 - 1)
        alignment = max(kind.bits // 8, 1)
        if start % alignment:
            raise ArgumentError(f"{subject}: offset {start} is no multiple of {alignment}, the size of {kind.dtype}")
        handle = self._open()
        dims = as_shape([max(self.nbytes - start, 0) * 8 // kind.bits] if shape is None else shape)
        size = nbytes(kind, dims)
        if start + size > self.nbytes or (shape is None and start + size != self.nbytes):
            raise ShapeError(
                f"{subject}: {kind.onnx_name} of shape {list(dims)} takes {size} bytes from offset {start}, "
                f"the file has {self.nbytes}"
            )
        now = lib.zrt_memory_file_size(handle.pointer)
        if now < start + size:
            raise ModelError(f"{subject} had {self.nbytes} bytes when it was mapped, and has {now} now")
        return handle, address_of(handle.pointer.data) + start, dims, kind

    @property
    def hugepage(self) -> Literal["asked", "granted", "refused"] | None:
        """The outcome of the huge-page advice, as in `Buffer.hugepage`; None where none was given."""
        return hugepage_state(self._open(), b"FilePmdMapped:")

    def __repr__(self) -> str:
        return f"<zrt.MappedFile {self.path!r}, {self.nbytes} bytes{', closed' if self.closed else ''}>"


def _native(dtype: Any) -> bool:
    try:
        return bool(np.dtype(dtype).isnative)
    except TypeError:
        # A name that only zrt knows.
        return True
