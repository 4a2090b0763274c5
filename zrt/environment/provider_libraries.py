"""Provider libraries that are registered with ONNX Runtime at run time, and who uses them and their allocators.

ONNX Runtime unloads a library when it is unregistered, even while its code runs. So every session, stream and options
object that may run the code holds a reference to its libraries here, and such a library cannot be unregistered.

ONNX Runtime frees a shared allocator of the environment, even one that is in use, when it is replaced or released, and
when a library with memory of that place is unregistered. So allocators that zrt lends are counted here (`lend`), and
code that would free one asks first (`freeing`).
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any, TypeAlias

from zrt._common.arguments import absolute, path_bytes, text
from zrt._native import library_files, status
from zrt._native.cdata import address_of, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import cuda_parts
from zrt.errors import (
    ArgumentError,
    BusyError,
    ClosedError,
    Error,
    ProviderError,
    ProviderNotFoundError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.memory.allocators import MemoryInfo
from zrt.types import DeviceMemType

LOADING = "a session is being loaded by policy or with the environment's allocators, which reads ORT's list of them"

# Device type, kind of memory, vendor, device. ORT compares the alignment as well, which the C API does not return.
Place: TypeAlias = tuple[int, int, int, int]

HOST: Place = (0, 0, 0, 0)

# Guards the tables below, and ONNX Runtime's list of devices, which ORT returns without a lock of its own.
lock: threading.RLock = threading.RLock()
# Only the reference counts are used: each allocator that was lent is a child of its place's handle.
_lent: dict[Place, Handle] = {}
_libraries: dict[str, Library] = {}
# The threads that read ONNX Runtime's lists of devices and allocators in a load.
_selecting: list[int] = []
_selected = threading.Condition(lock)
# The threads that free allocators, and hold the lock meanwhile: a load with bounded memory does so.
_freeing: list[int] = []
# Released devices that a failed registration left in ONNX Runtime's list, and that registration.
_dangling: set[int] = set()
_spoiled_by = ""


class Library:
    """One registered library; `devices` are the addresses of its devices."""

    __slots__ = ("devices", "handle", "name", "path", "registered")

    def __init__(self, name: str, path: str) -> None:
        self.name: str = name
        self.path: str = path
        self.devices: list[int] = []
        # Only the reference count is used: every object that uses the library is a child of this handle.
        self.handle: Handle = Handle.block("char")
        self.registered: bool = True

    def users(self) -> int:
        """The number of sessions, streams and options that use it."""
        return int(self.handle.reference.references) - 1

    def places(self) -> set[Place]:
        """The places where its devices have memory."""
        table = api()
        devices = [pointer_to(address, "const OrtEpDevice") for address in self.devices]
        memories = [table.EpDevice_MemoryInfo(device, kind) for device in devices for kind in DeviceMemType]
        return {place_of(memory) for memory in memories if memory}


def device_pointers(environment: Any) -> list[Any]:
    """The ``OrtEpDevice`` pointers that are valid now. Call this, and use the pointers, under `lock`."""
    addresses = dict.fromkeys(_addresses(environment))
    return [pointer_to(address, "const OrtEpDevice") for address in addresses if address not in _dangling]


def _addresses(environment: Any) -> list[int]:
    """ONNX Runtime's list of devices, with those of the last registration at the end."""
    devices = status.fetch_list(api().GetEpDevices, "const OrtEpDevice *const", environment)
    return [address_of(device) for device in devices]


def register(environment: Any, name: str, path: str | os.PathLike[str]) -> None:
    """Loads a provider library under a name of the caller's."""
    global _spoiled_by
    named = text(name, "provider library name")
    # A subclass of str may override the hash.
    name = named.decode()
    if not name:
        raise ArgumentError("provider library name: it is empty")
    file = path_bytes(path, "provider library path")
    problem = library_files.problem(file)
    if problem:
        kind = ProviderError if os.path.exists(file) else ProviderNotFoundError
        raise kind(f"provider library {name!r}: {os.fsdecode(file)!r}: {problem}")
    place = absolute(os.fsdecode(file))
    subject = f"provider library {name!r}: {place!r}"
    with lock:
        if name in _libraries:
            raise ArgumentError(f"provider library {name!r} is registered already, from {_libraries[name].path!r}")
        if _selecting:
            raise BusyError(f"{subject}: {LOADING}")
        with status.named(subject):
            cuda_parts.require(place)
        library = Library(name, place)
        before = len(_addresses(environment))
        failed: Any = True
        try:
            failed = api().RegisterExecutionProviderLibrary(environment, named, os.fsencode(place))
        finally:
            fresh = _addresses(environment)[before:]
            if failed is True and fresh:
                # An interrupt during the call hides its result: take back what it registered. Without new devices the
                # name may be that of one of ONNX Runtime's own providers.
                with suppress(Error):
                    status.check(api().UnregisterExecutionProviderLibrary(environment, named))
                fresh = _addresses(environment)[before:]
            if not failed:
                library.devices = fresh
                _dangling.difference_update(fresh)
                _libraries[name] = library
            elif fresh:
                _dangling.update(fresh)
                _spoiled_by = subject
        with status.named(subject, ProviderError):
            status.check(failed)


def unregister(environment: Any, name: str) -> None:
    """Unloads a library that nothing uses any more."""
    named = text(name, "provider library name")
    name = named.decode()
    with lock:
        library = _libraries.get(name)
        if library is None:
            known = ", ".join(map(repr, _libraries)) or "none"
            raise UnknownNameError(f"no provider library is registered as {name!r}; there are {known}")
        busy, places = library.users(), library.places()
    if busy:
        # Unreachable sessions in reference cycles do not count as users: collect them first.
        gc.collect()
    with freeing(places, f"provider library {name!r} is in use"):
        # Another thread may have unregistered it meanwhile.
        if _libraries.get(name) is not library:
            raise UnknownNameError(f"no provider library is registered as {name!r} any more")
        if library.users():
            raise BusyError(
                f"provider library {name!r} is in use: {library.users()} of its sessions, streams and options are alive"
            )
        # ONNX Runtime drops the library also where it reports a failure.
        library.registered = False
        del _libraries[name]
        try:
            status.check(api().UnregisterExecutionProviderLibrary(environment, named))
        finally:
            _dangling.update(set(_addresses(environment)).intersection(library.devices))


def registered() -> dict[str, str]:
    """The paths of the registered libraries, by name."""
    with lock:
        return {name: library.path for name, library in _libraries.items()}


def owner_of(pointer: Any) -> Library | None:
    """The library of a device, None for the devices of ONNX Runtime itself. Call it under `lock`."""
    address = address_of(pointer)
    return next((library for library in _libraries.values() if address in library.devices), None)


def hold(libraries: Iterable[Library | None]) -> Handle:
    """A handle that keeps these libraries registered; raises `ClosedError` if one was unregistered."""
    with lock:
        handles = []
        for library in {library for library in libraries if library is not None}:
            if not library.registered:
                raise ClosedError(f"provider library {library.name!r} was unregistered, and its devices went with it")
            handles.append(library.handle)
        return Handle.block("char", handles)


def check_whole() -> None:
    """Raises `UnsupportedError` if ONNX Runtime's list has pointers to released devices, and cannot be walked.

    It keeps raising to the end of the process: a new device at the same address makes an entry valid again, but only
    for as long as that device lives.
    """
    if _spoiled_by:
        raise UnsupportedError(
            f"the registration of {_spoiled_by} failed half-way and left released devices in ONNX Runtime's list; "
            "calls that walk that list need a new process"
        )


def hold_all() -> Handle:
    """A handle that keeps every library registered whose devices or allocators a load may choose. Raises as
    `check_whole` does."""
    with lock:
        check_whole()
        return hold(_libraries.values())


@contextmanager
def selecting() -> Iterator[Handle]:
    """Blocks changes of ONNX Runtime's lists of devices and allocators, while ORT walks them without a lock.

    Yields the handle of `hold_all`.
    """
    with lock:
        libraries = hold_all()
        _selecting.append(get_ident())
    try:
        yield libraries
    finally:
        with lock:
            _selecting.remove(get_ident())
            _selected.notify_all()


def offers(place: Place) -> bool:
    """Whether a library has devices with memory at that place. Call it under `lock`."""
    return any(place in library.places() for library in _libraries.values())


def place_of(memory: Any) -> Place:
    """The place that an ``OrtMemoryInfo`` describes."""
    info = MemoryInfo._read(memory)
    return info.device_type, info.device_mem_type, info.vendor_id or 0, info.device_id


def lend(pointer: Any, place: Place) -> Handle:
    """A handle of an allocator of the environment, which blocks `freeing` while it is alive. Call it under `lock`."""
    if place not in _lent:
        _lent[place] = Handle.block("char")
    return Handle(Handle.block("char", [_lent[place]]).reference, pointer)


def _is_lent(places: Iterable[Place]) -> bool:
    """Whether an allocator of one of these places, or an allocation of it, is alive."""
    return any(place in _lent and _lent[place].reference.references > 1 for place in places)


@contextmanager
def freeing(places: Iterable[Place], subject: str, wait: bool = False) -> Iterator[None]:
    """Lets its block free the environment's allocators of these places; raises `BusyError` if one is in use.

    With `wait` it waits for loads of other threads that read ONNX Runtime's lists; else these raise `BusyError` too.
    """
    with lock:
        busy = _is_lent(places)
    if busy:
        gc.collect()
    with lock:
        while wait and _selecting and get_ident() not in _selecting:
            _selected.wait()
        if _selecting:
            raise BusyError(f"{subject}: {LOADING}")
        if _is_lent(places):
            raise BusyError(f"{subject}: an allocator of its memory, or an allocation of that one, is alive")
        _freeing.append(get_ident())
        try:
            yield
        finally:
            _freeing.pop()


def is_awaited() -> bool:
    """Whether loads of other threads may wait for what the calling thread does: it is in `selecting` or `freeing`."""
    return get_ident() in (*_selecting, *_freeing)


def _forked() -> None:
    global lock, _selected
    lock = threading.RLock()
    _selected = threading.Condition(lock)
    # A callback of a load may fork: that load goes on in the child too.
    for threads in (_selecting, _freeing):
        threads[:] = [thread for thread in threads if thread == get_ident()]


os.register_at_fork(after_in_child=_forked)
