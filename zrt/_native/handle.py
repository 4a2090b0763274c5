"""Ownership of what C makes: a `Handle` owns one pointer, `Owner` is the base of every object that has a handle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from zrt._common import public
from zrt._common.public import public_in
from zrt._native import ffi, lib
from zrt._native.status import check
from zrt.errors import AllocationError, ClosedError, NotCopyableError

_unref = lib.zrt_handle_unref

if lib.zrt_handle_watch_forks():
    raise MemoryError("no memory to watch for forks")


def _references(parents: Sequence[Handle]) -> list[Any]:
    # A borrowed pointer has no reference: ORT keeps it to the end of the process.
    return [parent.reference for parent in parents if parent.reference is not None]


def _counted(reference: Any, kept: tuple[object, ...]) -> Any:
    """The reference, which its finalizer drops. It keeps `kept` alive, and GC can see that."""
    if not kept:
        return ffi.gc(reference, _unref)
    return ffi.gc(reference, partial(lib.zrt_handle_unref_kept, ffi.new_handle(kept)))


@public_in("zrt.typing")
class Handle:
    """Owns one pointer. Releases it once, and its references to its parents afterwards.

    C counts the references (handle.c), so parents outlive their children in whatever order GC finalizes objects. Hold
    the `Handle` in a local variable while its `pointer` is in use: another thread may close the object that owns it.
    """

    __slots__ = ("__weakref__", "kept", "pointer", "reference")

    kept: tuple[object, ...]
    """Python objects that the handle and its dependents need. C must not own them: they may refer back to the handle,
    and GC does not see cycles through C."""
    pointer: Any
    reference: Any

    def __init__(self, reference: Any, pointer: Any, kept: tuple[object, ...] = ()) -> None:
        self.reference = reference
        self.pointer = pointer
        self.kept = kept

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotCopyableError("a Handle owns one pointer: no copy, no pickle")

    @classmethod
    def own(cls, pointer: Any, release: Any, parents: Sequence[Handle] = (), kept: tuple[object, ...] = ()) -> Self:
        """Takes ownership of `pointer`; `release` is the C function that frees it, and `parents` outlive it."""
        release = ffi.cast("zrt_release", release)
        references = _references(parents)
        for parent in parents:
            kept += parent.kept
        reference = lib.zrt_handle_new(pointer, release, references, len(references))
        if not reference:
            if pointer:
                release(pointer)
            raise AllocationError("no memory for a handle")
        return cls(_counted(reference, kept), pointer, kept)

    @classmethod
    def make(
        cls,
        release: Any,
        parents: Sequence[Handle],
        function: Any,
        kind: str,
        *arguments: Any,
        kept: tuple[object, ...] = (),
    ) -> Self:
        """Calls a function whose last argument is where it stores a new pointer to a `kind`.

        The function returns a status, or None for success, or raises. The handle exists before the call and the
        function stores into it, so an interrupt right after the call leaks nothing.
        """
        handle = cls.own(ffi.NULL, release, parents, kept)
        # The pointer is the first field of what the reference points to.
        check(function(*arguments, ffi.cast(f"{kind} **", handle.reference)))
        handle.pointer = ffi.cast(f"{kind} *", handle.reference.pointer)
        return handle

    @classmethod
    def block(cls, ctype: str, parents: Sequence[Handle] = (), release: Any = None) -> Handle:
        """A zeroed C object of type `ctype` ("zrt_lane", "int64_t[3]") on the C heap.

        `release` is the C function that frees it together with what it owns.
        """
        references = _references(parents)
        kept = sum((parent.kept for parent in parents), ())
        reference = lib.zrt_handle_block(ffi.sizeof(ctype), references, len(references))
        if not reference:
            raise AllocationError(f"no memory for {ctype}")
        if release is not None:
            reference.release = ffi.cast("zrt_release", release)
        kind = ctype.partition("[")[0] + " *"
        return cls(_counted(reference, kept), ffi.cast(kind, reference.pointer), kept)

    @classmethod
    def borrow(cls, pointer: Any) -> Self:
        """A pointer that ORT keeps to the end of the process, with nothing to release."""
        return cls(None, pointer)

    @property
    def address(self) -> int:
        """The address of the reference, for builtins (builtin.h): the handle must outlive their use of it."""
        return int(ffi.cast("uintptr_t", self.reference))

    def holding(self, *others: Handle) -> Self:
        """A handle on the same pointer that also keeps `others` alive; they are released after it."""
        # A block releases its last parent first.
        block = Handle.block("char", [*others, self])
        return type(self)(block.reference, self.pointer, block.kept)

    @classmethod
    def pin(cls, thing: object) -> Handle:
        """A handle that owns a reference to a Python object, for as long as anything in C depends on it."""
        reference = lib.zrt_handle_object(id(thing))
        if not reference:
            raise AllocationError("no memory for a handle")
        return cls(ffi.gc(reference, _unref), reference.pointer)


class NotCopyable:
    """Base of objects that stand for one thing in ONNX Runtime."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # A copy of the slots would be a second owner of the same resource.
        raise NotCopyableError(f"each {type(self).__name__} stands for one thing in ONNX Runtime: no copy, no pickle")


class Single(NotCopyable):
    """Base of objects that own a resource.

    An object whose constructor did not finish raises `ClosedError`. A class of a hot path is not `guarded`, and has a
    ``__new__`` that makes it closed.
    """

    __slots__ = ()

    def __init_subclass__(cls, guarded: bool = True) -> None:
        super().__init_subclass__()
        if guarded:
            public.guarded(cls)


class Owner(Single, guarded=False):
    """Base of objects with a handle: `close()` or ``with`` releases it early. Views and runs over it stay valid."""

    __slots__ = ("__weakref__", "_handle")

    _handle: Handle | None

    def _open(self) -> Handle:
        try:
            handle = self._handle
        except AttributeError:
            raise public.not_made(self) from None
        if handle is None:
            raise ClosedError(f"this {type(self).__name__} is closed")
        return handle

    def close(self) -> None:
        """Closes the object; closing twice is fine. Runs in progress and views keep the memory until they end."""
        self._handle = None

    @property
    def closed(self) -> bool:
        """Whether `close` was called. An object whose constructor raised is closed too."""
        try:
            return self._handle is None
        except (AttributeError, ClosedError):
            return True

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
