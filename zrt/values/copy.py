"""Copies between arrays, values and buffers, on the host and on devices."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import require_type, wrong_type
from zrt._common.installation import install_line
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import NULL
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import cuda_parts, provider_libraries
from zrt.environment.environment import current
from zrt.environment.streams import SyncStream
from zrt.errors import ArgumentError, ClosedError, DTypeError, NotImplementedByOrtError, ShapeError, UnsupportedError
from zrt.memory import arrays
from zrt.memory.allocators import MemoryInfo
from zrt.memory.buffers import Buffer
from zrt.types import ElementType
from zrt.values.type_info import phrase, type_name
from zrt.values.value import Value, as_value, no_memory

Copyable: TypeAlias = "np.ndarray[Any, Any] | Value | Buffer"
# A stream and its handle, which keeps it open during a call.
Queue: TypeAlias = "tuple[SyncStream, Handle] | None"

_CUDA = "zrt.cuda"


@public
def copy(source: Copyable, destination: Copyable, stream: SyncStream | None = None) -> None:
    """Copies one tensor's content into another of the same element type and shape. See `copy_all`."""
    copy_all([(source, destination)], stream)


@public
def copy_all(pairs: Iterable[tuple[Copyable, Copyable]], stream: SyncStream | None = None) -> None:
    """Copies each (source, destination) pair; all are checked before the first byte is copied.

    On the host numpy copies, and arrays may be strided. To and from a device ONNX Runtime copies, with code from the
    device's provider library: first, so that a device without such code is refused before numpy copies anything. No
    pair may read what another one writes. With a `stream` of the device, the copy may still be queued when this
    returns; the stream keeps the tensors alive until `SyncStream.release_copies`.

    Raises `DTypeError` or `ShapeError` on a mismatch, `ArgumentError` for a read-only destination, and
    `UnsupportedError` if no provider library can copy to or from the device.
    """
    try:
        each = iter(pairs)
    except TypeError as error:
        raise wrong_type("pairs", "(source, destination) pairs", pairs) from error
    require_type(stream, SyncStream | None, "stream", "a SyncStream")
    queue = None if stream is None else (stream, stream._open())
    on_host: list[tuple[Any, Any]] = []
    # The other pairs, by where they come from and go to.
    routes: dict[tuple[MemoryInfo, MemoryInfo], list[tuple[Value, Value]]] = {}
    for index, pair in enumerate(each):
        source, destination = _check(pair, index)
        if isinstance(source, Value) and isinstance(destination, Value):
            routes.setdefault((source.memory, destination.memory), []).append((source, destination))
        else:
            on_host.append((source, destination))
    for first, *_ in routes.values():
        if stream is not None and not any(stream._reaches(side._open()) for side in first):
            raise ArgumentError(f"stream: it belongs to {stream.device}, and the copy is between other devices")
    # Before the copies on the host, since only here a device without copies is found.
    for (origin, target), group in routes.items():
        _copy_route(origin, target, group, queue)
    for source, destination in on_host:
        np.copyto(destination, source, casting="equiv")


def _check(pair: Any, index: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | tuple[Value, Value]:
    """Both sides as arrays if both are on the host, else both as values."""
    subject = f"copy {index}"
    try:
        source, destination = pair
    except (TypeError, ValueError):
        raise wrong_type(subject, "a (source, destination) pair", pair) from None
    kinds, forms = zip(*(_describe(side, subject) for side in (source, destination)), strict=True)
    if kinds[0] is not kinds[1]:
        raise DTypeError(f"{subject}: the source holds {type_name(kinds[0])}, the destination {type_name(kinds[1])}")
    if forms[0] != forms[1]:
        raise ShapeError(f"{subject}: the source has shape {list(forms[0])}, the destination {list(forms[1])}")
    if kinds[0].packed and isinstance(source, np.ndarray) != isinstance(destination, np.ndarray):
        raise DTypeError(
            f"{subject}: an array of {type_name(kinds[0])} has a byte for each element, a value or a buffer packs "
            "them: see zrt.types.pack and unpack"
        )
    if not (destination.writeable if isinstance(destination, Value) else _array(destination).flags.writeable):
        raise ArgumentError(f"{subject}: the destination is read-only")
    if _on_host(source) and _on_host(destination):
        return _array(source), _array(destination)
    return as_value(source, f"{subject}, source"), as_value(destination, f"{subject}, destination")


def _describe(side: Any, subject: str) -> tuple[ElementType, tuple[int, ...]]:
    if isinstance(side, np.ndarray):
        # A subclass may override attributes: read a plain array.
        side = arrays.plain(side, subject)
        element_type = arrays.element_type_of(side, subject)
    elif isinstance(side, (Value, Buffer)):
        if side.closed:
            raise ClosedError(f"{subject}: this {type(side).__name__} is closed")
        if isinstance(side, Value) and not side.is_tensor:
            raise UnsupportedError(f"{subject}: {phrase(side.kind)} cannot be copied, only tensors can")
        element_type = side.element_type
    else:
        raise no_memory(subject, "an array, a Value or a Buffer", side)
    if element_type is ElementType.STRING:
        raise UnsupportedError(f"{subject}: strings cannot be copied as bytes")
    return element_type, side.shape


def _on_host(side: Copyable) -> bool:
    return not isinstance(side, Value) or side.memory.is_host


def _array(side: Copyable) -> np.ndarray[Any, Any]:
    if isinstance(side, Buffer):
        return side.array
    return side.numpy() if isinstance(side, Value) else np.asarray(side)


def _copy_route(
    origin: MemoryInfo, target: MemoryInfo, group: list[tuple[Value, Value]], queue: Queue, retried: bool = False
) -> None:
    """Copies pairs from one memory to another by one call of ``CopyTensors``, and by a second one where CUDA's
    provider library has to be registered first."""
    sources = [source._open() for source, _ in group]
    destinations = [destination._open() for _, destination in group]
    if queue is not None:
        # Keep them before the call: ORT may read and write them after it returns.
        queue[0]._keep([*sources, *destinations])
    try:
        status.check(
            api().CopyTensors(
                current().pointer,
                [handle.pointer for handle in sources],
                [handle.pointer for handle in destinations],
                NULL if queue is None else queue[1].pointer,
                len(group),
            )
        )
    except NotImplementedByOrtError as error:
        reason = "CUDA's provider library has none" if retried else register_cuda(origin, target)
        if reason:
            raise UnsupportedError(
                f"no copy from {origin.name} to {target.name}: {reason} (ONNX Runtime: {error})"
            ) from error
        _copy_route(origin, target, group, queue, retried=True)


def register_cuda(*memories: MemoryInfo) -> str:
    """Registers CUDA's provider library, which can copy; returns what is missing, or "" if it is registered.

    A session on CUDA is not enough: ``CopyTensors`` uses the copies of registered provider libraries only.
    """
    if not any(memory.name.startswith("Cuda") for memory in memories):
        return "no provider library that can copy so is registered with this process's environment"
    with provider_libraries.lock:
        if _CUDA in provider_libraries.registered():
            return ""
        provider = cuda_parts.provider_file()
        if not os.path.exists(provider):
            return f"CUDA's provider library is not there: {provider}. To install it: {install_line('cuda')}"
        provider_libraries.register(current().pointer, _CUDA, provider)
        return ""
