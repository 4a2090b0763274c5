"""Provider libraries that are registered with ONNX Runtime at run time, and what depends on each of them.

ONNX Runtime unloads a library when it is unregistered, whoever still runs code of it. So every session, stream and
options object that may do so holds its libraries here, and a library that is held is not unregistered.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from zrt._common.arguments import path_bytes, text
from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import allocator_registry
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
from zrt.types import DeviceMemType

LOADING = "a session is being loaded by policy or with the environment's allocators, over what there is"

# Guards the tables below, and ONNX Runtime's list of devices, which it hands out without a lock of its own.
lock = threading.RLock()
_libraries: dict[str, Library] = {}
_selecting = 0
# What a registration that failed half-way left in ONNX Runtime's list: devices that are gone; and which it was.
_dangling: set[int] = set()
_spoiled_by = ""


class Library:
    """One registered library; `devices` are the addresses of those that came with it."""

    __slots__ = ("devices", "handle", "name", "path", "registered")

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.devices: list[int] = []
        # Nothing but its count of references is of use: who depends on the library is its child.
        self.handle = Handle.block("char")
        self.registered = True

    def users(self) -> int:
        """How many sessions, streams and options hold it."""
        return int(self.handle.reference.references) - 1

    def places(self) -> set[allocator_registry.Place]:
        """Where its devices have memory."""
        table = api()
        devices = [ffi.cast("const OrtEpDevice *", address) for address in self.devices]
        memories = [table.EpDevice_MemoryInfo(device, kind) for device in devices for kind in DeviceMemType]
        return {allocator_registry.place_of(memory) for memory in memories if memory}


def device_pointers(environment: Any) -> list[Any]:
    """The ``OrtEpDevice`` pointers that are valid now; to be called and used under `lock`."""
    addresses = dict.fromkeys(_addresses(environment))
    return [ffi.cast("const OrtEpDevice *", address) for address in addresses if address not in _dangling]


def _addresses(environment: Any) -> list[int]:
    """ONNX Runtime's list as it is; what is registered comes last."""
    place, count = ffi.new("const OrtEpDevice *const **"), ffi.new("size_t *")
    status.check(api().GetEpDevices(environment, place, count))
    return [int(ffi.cast("uintptr_t", place[0][i])) for i in range(count[0])]


def register(environment: Any, name: str, path: str | os.PathLike[str]) -> None:
    """``OrtApi::RegisterExecutionProviderLibrary``: loads a provider library under a name of the caller's."""
    global _spoiled_by
    named = text(name, "provider library name")
    if not named:
        raise ArgumentError("provider library name: it is empty")
    file = os.path.abspath(path_bytes(path, "provider library path"))
    subject = f"provider library {name!r}: {os.fsdecode(file)!r}"
    if not os.path.exists(file):
        raise ProviderNotFoundError(f"{subject}: there is no such file")
    if not os.path.isfile(file):
        raise ProviderError(f"{subject} is not a file")
    with lock:
        if name in _libraries:
            raise ArgumentError(f"provider library {name!r} is registered already, from {_libraries[name].path!r}")
        if _selecting:
            raise BusyError(f"{subject}: {LOADING}")
        library = Library(name, os.fsdecode(file))
        before = len(_addresses(environment))
        failed: Any = True
        try:
            failed = api().RegisterExecutionProviderLibrary(environment, named, file)
        finally:
            fresh = _addresses(environment)[before:]
            if not failed:
                library.devices = fresh
                _dangling.difference_update(fresh)
                _libraries[name] = library
            elif fresh:
                _dangling.update(fresh)
                _spoiled_by = subject
        try:
            status.check(failed)
        except Error as error:
            raise ProviderError(f"{subject}: {error}") from error


def unregister(environment: Any, name: str) -> None:
    """``OrtApi::UnregisterExecutionProviderLibrary``: unloads the library, which nothing may use any more."""
    text(name, "provider library name")
    with lock:
        library = _libraries.get(name)
        if library is None:
            known = ", ".join(map(repr, _libraries)) or "none"
            raise UnknownNameError(f"no provider library is registered as {name!r}; there are {known}")
        busy, places = library.users(), library.places()
    if busy:
        # Sessions that nobody can reach, but that wait for the collector, are no users.
        gc.collect()
    with freeing(places, f"provider library {name!r} is in use"):
        # Another thread may have been quicker.
        if _libraries.get(name) is not library:
            raise UnknownNameError(f"no provider library is registered as {name!r} any more")
        if library.users():
            raise BusyError(
                f"provider library {name!r} is in use: {library.users()} of its sessions, streams and options are alive"
            )
        # ONNX Runtime lets go of it even where it then reports a failure.
        library.registered = False
        del _libraries[name]
        try:
            status.check(api().UnregisterExecutionProviderLibrary(environment, text(name, "name")))
        finally:
            _dangling.update(set(_addresses(environment)).intersection(library.devices))


def registered() -> dict[str, str]:
    """The paths of the registered libraries, by name."""
    with lock:
        return {name: library.path for name, library in _libraries.items()}


def owner_of(pointer: Any) -> Library | None:
    """The library that a device came with; None for the devices of ONNX Runtime itself. Under `lock`."""
    address = int(ffi.cast("uintptr_t", pointer))
    return next((library for library in _libraries.values() if address in library.devices), None)


def hold(libraries: Iterable[Library | None]) -> Handle:
    """A handle as long as which these libraries stay registered; `ClosedError` where one is not any more."""
    with lock:
        handles = []
        for library in {library for library in libraries if library is not None}:
            if not library.registered:
                raise ClosedError(f"provider library {library.name!r} was unregistered, and its devices went with it")
            handles.append(library.handle)
        return Handle.block("char", handles)


def check_whole() -> None:
    """Raises where a registration failed in a way after which ONNX Runtime's list of devices cannot be walked.

    For good: a device that comes to lie where one was that is gone makes its entry sound, but only while it is there.
    """
    if _spoiled_by:
        raise UnsupportedError(
            f"the registration of {_spoiled_by} failed half-way and left devices that are gone in ONNX Runtime's list; "
            "what goes through that list needs a new process"
        )


@contextmanager
def selecting() -> Iterator[Handle]:
    """While ONNX Runtime goes through its devices or allocators none come or go: it walks its lists without a lock.

    Gives a hold on every library that it may choose from.
    """
    global _selecting
    with lock:
        check_whole()
        libraries = hold(_libraries.values())
        _selecting += 1
    try:
        yield libraries
    finally:
        with lock:
            _selecting -= 1


def offers(place: allocator_registry.Place) -> bool:
    """Whether a library has devices with such memory. Under `lock`."""
    return any(place in library.places() for library in _libraries.values())


@contextmanager
def freeing(places: Iterable[allocator_registry.Place], subject: str) -> Iterator[None]:
    """Within it ONNX Runtime may free the environment's allocators of these places; `BusyError` where one is in use."""
    with lock:
        busy = allocator_registry.lent(places)
    if busy:
        gc.collect()
    with lock:
        if _selecting:
            raise BusyError(f"{subject}: {LOADING}")
        if allocator_registry.lent(places):
            raise BusyError(f"{subject}: an allocator of its memory, or what that allocated, is alive")
        yield


def _forked() -> None:
    global lock
    lock = threading.RLock()


os.register_at_fork(after_in_child=_forked)
