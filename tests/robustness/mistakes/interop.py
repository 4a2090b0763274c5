"""External memory and semaphores: zrt finds mistakes before the provider gets them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np

import zrt
from tests.robustness.mistakes.devices import DEVICE, PAIRS, STREAM, device
from tests.robustness.vocabulary import Bad, Kind, Single, Take, World
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError

FD = zrt.ExternalMemoryType.VK_MEMORY_OPAQUE_FD
SEMAPHORE_FD = zrt.ExternalSemaphoreType.VK_TIMELINE_SEMAPHORE_OPAQUE_FD
BYTES = 64


@functools.cache
def opened() -> IO[bytes]:
    """A file that stays open until the process ends."""
    made = tempfile.TemporaryFile()  # noqa: SIM115
    made.truncate(BYTES)
    return made


def file() -> int:
    return opened().fileno()


def processor() -> zrt.EpDevice:
    return next(each for each in zrt.ep_devices() if each.provider == "CPUExecutionProvider")


def importer(w: World) -> zrt.ExternalResourceImporter:
    return zrt.ExternalResourceImporter(device())


def memory(w: World) -> zrt.ExternalMemory:
    return importer(w).import_memory(FD, file(), BYTES)


def semaphore(w: World) -> zrt.ExternalSemaphore:
    return importer(w).import_semaphore(SEMAPHORE_FD, file())


# Without the rows whose only mistake is a device that cannot import anything.
NO_DEVICE = [bad for bad in DEVICE if bad.error is not UnsupportedError]

KINDS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: "vulkan_memory", ArgumentError, "kind", "vulkan_memory"),
    Bad(Kind.WRONG_VALUE, lambda w: 9, ArgumentError, "kind", "9"),
    Bad(Kind.NEGATIVE, lambda w: -1, ArgumentError, "kind", "-1"),
    Bad(Kind.WRONG_TYPE, lambda w: None, ArgumentError, "kind", "None"),
]

HANDLES = [
    Bad(Kind.WRONG_TYPE, lambda w: "3", DTypeError, "handle", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "handle", "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: True, DTypeError, "handle", "bool"),
    Bad(Kind.NEGATIVE, lambda w: -1, ArgumentError, "handle", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: 2**31 - 1, ArgumentError, "handle", "no open file"),
    Bad(Kind.HUGE, lambda w: 2**64, ArgumentError, "handle", str(2**64)),
]

SIZES = [
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, DTypeError, "size", "float"),
    Bad(Kind.WRONG_VALUE, lambda w: 0, ArgumentError, "size", "0"),
    Bad(Kind.NEGATIVE, lambda w: -64, ArgumentError, "size", "-64"),
    Bad(Kind.HUGE, lambda w: 2**63, ArgumentError, "size", str(2**63)),
]

OFFSETS = [
    Bad(Kind.WRONG_TYPE, lambda w: "8", DTypeError, "offset", "str"),
    Bad(Kind.NEGATIVE, lambda w: -8, ArgumentError, "offset", "-8"),
    Bad(Kind.HUGE, lambda w: 2**63, ArgumentError, "offset", str(2**63)),
]

SHAPES = [
    Bad(Kind.WRONG_SHAPE, lambda w: (17,), ShapeError, "68", "64"),
    Bad(Kind.HUGE, lambda w: (2**62, 2**62), ShapeError, "64"),
    Bad(Kind.HUGE, lambda w: (2**63,), ShapeError, str(2**63)),
    Bad(Kind.NEGATIVE, lambda w: (-1,), ShapeError, "-1"),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", ShapeError, "'a'"),
    Bad(Kind.WRONG_TYPE, lambda w: None, ShapeError, "None"),
]

TYPES = [
    Bad(Kind.WRONG_DTYPE, lambda w: np.complex64, UnsupportedError, "COMPLEX64"),
    Bad(Kind.WRONG_DTYPE, lambda w: str, UnsupportedError, "STRING"),
    Bad(Kind.WRONG_DTYPE, lambda w: "nonesuch", DTypeError, "nonesuch"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "None"),
]

VALUES = [
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, DTypeError, "value", "float"),
    Bad(Kind.NEGATIVE, lambda w: -1, ArgumentError, "value", "-1"),
    Bad(Kind.HUGE, lambda w: 2**64, ArgumentError, "value", str(2**64)),
]


def asked(name: str) -> list[Take]:
    """The rows that `wait` and `signal` share."""
    call = f"ExternalSemaphore.{name}"
    return [
        (call, "stream", STREAM, lambda w, bad: getattr(semaphore(w), name)(bad, 1)),
        (call, "value", VALUES, lambda w, bad: getattr(semaphore(w), name)(zrt.SyncStream(device()), bad)),
    ]


TAKES: list[Take] = [
    ("ExternalResourceImporter.__init__", "device", NO_DEVICE, lambda w, bad: zrt.ExternalResourceImporter(bad)),
    (
        "ExternalResourceImporter.import_memory",
        "kind",
        KINDS,
        lambda w, bad: importer(w).import_memory(bad, file(), 64),
    ),
    (
        "ExternalResourceImporter.import_memory",
        "handle",
        HANDLES,
        lambda w, bad: importer(w).import_memory(FD, bad, 64),
    ),
    (
        "ExternalResourceImporter.import_memory",
        "size",
        SIZES,
        lambda w, bad: importer(w).import_memory(FD, file(), bad),
    ),
    (
        "ExternalResourceImporter.import_memory",
        "offset",
        [*OFFSETS, Bad(Kind.WRONG_VALUE, lambda w: 64, ArgumentError, "offset", "beyond the 64 bytes")],
        lambda w, bad: importer(w).import_memory(FD, file(), 64, bad),
    ),
    (
        "ExternalResourceImporter.import_semaphore",
        "kind",
        KINDS,
        lambda w, bad: importer(w).import_semaphore(bad, file()),
    ),
    (
        "ExternalResourceImporter.import_semaphore",
        "handle",
        HANDLES,
        lambda w, bad: importer(w).import_semaphore(SEMAPHORE_FD, bad),
    ),
    ("ExternalMemory.tensor", "shape", SHAPES, lambda w, bad: memory(w).tensor(bad, "float32")),
    ("ExternalMemory.tensor", "dtype", TYPES, lambda w, bad: memory(w).tensor((1,), bad)),
    ("ExternalMemory.tensor", "offset", OFFSETS, lambda w, bad: memory(w).tensor((1,), "float32", bad)),
    *asked("wait"),
    *asked("signal"),
    ("init_graphics_interop", "device", NO_DEVICE, lambda w, bad: zrt.init_graphics_interop(bad, "vulkan")),
    ("init_graphics_interop", "options", PAIRS, lambda w, bad: zrt.init_graphics_interop(device(), "vulkan", 0, bad)),
    ("deinit_graphics_interop", "device", NO_DEVICE, lambda w, bad: zrt.deinit_graphics_interop(bad)),
]

SINGLE: list[Single] = [
    (
        "ExternalResourceImporter.can_import",
        Kind.WRONG_TYPE,
        lambda w: importer(w).can_import(3),
        DTypeError,
        ("kind", "int"),
    ),
    (
        "ExternalResourceImporter.import_memory",
        Kind.WRONG_VALUE,
        lambda w: zrt.ExternalResourceImporter(processor()).import_memory(FD, file(), 64),
        UnsupportedError,
        ("CPUExecutionProvider", "imports nothing"),
    ),
    (
        "ExternalResourceImporter.import_semaphore",
        Kind.WRONG_VALUE,
        lambda w: zrt.ExternalResourceImporter(processor()).import_semaphore(SEMAPHORE_FD, file()),
        UnsupportedError,
        ("CPUExecutionProvider", "imports nothing"),
    ),
    (
        "ExternalResourceImporter.import_memory",
        Kind.WRONG_VALUE,
        lambda w: importer(w).import_memory("d3d12_heap", 0, 64),
        ArgumentError,
        ("handle", "0"),
    ),
    (
        "ExternalMemory.tensor",
        Kind.WRONG_VALUE,
        lambda w: memory(w).tensor((1,), "float32", 2),
        ArgumentError,
        ("offset", "no multiple"),
    ),
    (
        "ExternalMemory.__init__",
        Kind.WRONG_TYPE,
        lambda w: zrt.ExternalMemory(5, 5, 5, 5),
        DTypeError,
        ("import_memory",),
    ),
    (
        "ExternalSemaphore.__init__",
        Kind.WRONG_TYPE,
        lambda w: zrt.ExternalSemaphore(5, 5, 5),
        DTypeError,
        ("import_sem",),
    ),
    (
        "init_graphics_interop",
        Kind.UNKNOWN_NAME,
        lambda w: zrt.init_graphics_interop(device(), "metal"),
        ArgumentError,
        ("graphics_api", "metal"),
    ),
    (
        "init_graphics_interop",
        Kind.NEGATIVE,
        lambda w: zrt.init_graphics_interop(device(), "d3d12", -1),
        ArgumentError,
        ("command_queue", "-1"),
    ),
    (
        "init_graphics_interop",
        Kind.WRONG_VALUE,
        lambda w: zrt.init_graphics_interop(processor(), "vulkan"),
        UnsupportedError,
        ("CPUExecutionProvider", "graphics interop"),
    ),
    (
        "deinit_graphics_interop",
        Kind.WRONG_VALUE,
        lambda w: zrt.deinit_graphics_interop(processor()),
        UnsupportedError,
        ("CPUExecutionProvider", "graphics interop"),
    ),
]

CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "ExternalResourceImporter.can_import": lambda w, it: it.can_import(FD),
    "ExternalResourceImporter.import_memory": lambda w, it: it.import_memory(FD, file(), 64),
    "ExternalResourceImporter.import_semaphore": lambda w, it: it.import_semaphore(SEMAPHORE_FD, file()),
    "ExternalResourceImporter.__enter__": lambda w, it: it.__enter__(),
    "ExternalMemory.tensor": lambda w, it: it.tensor((1,), "float32"),
    "ExternalMemory.__enter__": lambda w, it: it.__enter__(),
    "ExternalSemaphore.wait": lambda w, it: it.wait(zrt.SyncStream(device()), 1),
    "ExternalSemaphore.signal": lambda w, it: it.signal(zrt.SyncStream(device()), 1),
    "ExternalSemaphore.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {
    "ExternalResourceImporter": importer,
    "ExternalMemory": memory,
    "ExternalSemaphore": semaphore,
}

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "handles": (HANDLES, {Kind.NEGATIVE, Kind.HUGE}),
    "sizes": (SIZES, {Kind.NEGATIVE, Kind.HUGE}),
    "shapes of external tensors": (SHAPES, {Kind.WRONG_SHAPE, Kind.NEGATIVE, Kind.HUGE}),
}
