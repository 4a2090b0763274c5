"""External memory and semaphores: zrt finds mistakes before the provider gets them."""

import functools
import tempfile
from typing import IO, Any

import numpy as np

import zrt
from tests.robustness.mistakes.devices import DEVICE, PAIRS, STREAM, device
from tests.robustness.vocabulary import Bad, Kind, Take, World, unsupported, wrong_types
from zrt.errors import ArgumentError, ShapeError, UnsupportedError

FD = zrt.ExternalMemoryType.VK_MEMORY_OPAQUE_FD
SEMAPHORE_FD = zrt.ExternalSemaphoreType.VK_TIMELINE_SEMAPHORE_OPAQUE_FD
BYTES = 64
IMPORTER = "ExternalResourceImporter"


@functools.cache
def opened() -> IO[bytes]:
    """A file that stays open until the process ends."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.truncate(BYTES)
    return file


def file() -> int:
    return opened().fileno()


def processor() -> zrt.EpDevice:
    return next(each for each in zrt.ep_devices() if each.provider == "CPUExecutionProvider")


def on_the_processor() -> zrt.ExternalResourceImporter:
    return zrt.ExternalResourceImporter(processor())


def importer(w: World) -> zrt.ExternalResourceImporter:
    return zrt.ExternalResourceImporter(device())


def import_memory(w: World, kind: Any = FD, handle: Any = ..., size: Any = BYTES, offset: Any = 0) -> Any:
    return importer(w).import_memory(kind, file() if handle is ... else handle, size, offset)


def semaphore(w: World) -> zrt.ExternalSemaphore:
    return importer(w).import_semaphore(SEMAPHORE_FD, file())


# Without the rows whose only mistake is a device that cannot import anything.
NO_DEVICE = [bad for bad in DEVICE if bad.error is not UnsupportedError]

KINDS = [
    Bad(Kind.UNKNOWN_NAME, lambda w: "vulkan_memory", "kind", "vulkan_memory", error=ArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: 9, "kind", "9"),
    Bad(Kind.NEGATIVE, lambda w: -1, "kind", "-1"),
    Bad(Kind.WRONG_TYPE, lambda w: None, "kind", "None", error=ArgumentError),
]

HANDLES = [
    *wrong_types("handle", "3", None, True),
    Bad(Kind.NEGATIVE, lambda w: -1, "handle", "-1"),
    Bad(Kind.WRONG_VALUE, lambda w: 2**31 - 1, "handle", "no open file"),
    Bad(Kind.HUGE, lambda w: 2**64, "handle", str(2**64)),
]

SIZES = [
    *wrong_types("size", 1.5),
    Bad(Kind.WRONG_VALUE, lambda w: 0, "size", "0"),
    Bad(Kind.NEGATIVE, lambda w: -64, "size", "-64"),
    Bad(Kind.HUGE, lambda w: 2**63, "size", str(2**63)),
]

BEYOND = Bad(Kind.WRONG_VALUE, lambda w: 64, "offset", "beyond the 64 bytes")
OFFSETS = [
    *wrong_types("offset", "8"),
    Bad(Kind.NEGATIVE, lambda w: -8, "offset", "-8"),
    Bad(Kind.HUGE, lambda w: 2**63, "offset", str(2**63)),
]

SHAPES = [
    Bad(Kind.WRONG_SHAPE, lambda w: (17,), "68", "64"),
    Bad(Kind.HUGE, lambda w: (2**62, 2**62), "64", error=ShapeError),
    Bad(Kind.HUGE, lambda w: (2**63,), str(2**63), error=ShapeError),
    Bad(Kind.NEGATIVE, lambda w: (-1,), "-1", error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", "'ab'", error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: None, "None", error=ShapeError),
]

TYPES = [
    Bad(Kind.WRONG_DTYPE, lambda w: np.complex64, "COMPLEX64", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: str, "STRING", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: "nonesuch", "nonesuch"),
    Bad(Kind.WRONG_TYPE, lambda w: None, "None"),
]

VALUES = [
    *wrong_types("value", 1.5),
    Bad(Kind.NEGATIVE, lambda w: -1, "value", "-1"),
    Bad(Kind.HUGE, lambda w: 2**64, "value", str(2**64)),
]


def asked(name: str) -> list[Take]:
    """The rows that `wait` and `signal` share."""
    call = f"ExternalSemaphore.{name}"
    return [
        (call, "stream", STREAM, lambda w, bad: getattr(semaphore(w), name)(bad, 1)),
        (call, "value", VALUES, lambda w, bad: getattr(semaphore(w), name)(zrt.SyncStream(device()), bad)),
    ]


TAKES = [
    ("ExternalResourceImporter.__init__", "device", NO_DEVICE, lambda w, bad: zrt.ExternalResourceImporter(bad)),
    (f"{IMPORTER}.import_memory", "kind", KINDS, lambda w, bad: import_memory(w, kind=bad)),
    (f"{IMPORTER}.import_memory", "handle", HANDLES, lambda w, bad: import_memory(w, handle=bad)),
    (f"{IMPORTER}.import_memory", "size", SIZES, lambda w, bad: import_memory(w, size=bad)),
    (f"{IMPORTER}.import_memory", "offset", [*OFFSETS, BEYOND], lambda w, bad: import_memory(w, offset=bad)),
    (f"{IMPORTER}.import_semaphore", "kind", KINDS, lambda w, bad: importer(w).import_semaphore(bad, file())),
    (f"{IMPORTER}.import_semaphore", "handle", HANDLES, lambda w, bad: importer(w).import_semaphore(SEMAPHORE_FD, bad)),
    ("ExternalMemory.tensor", "shape", SHAPES, lambda w, bad: import_memory(w).tensor(bad, "float32")),
    ("ExternalMemory.tensor", "dtype", TYPES, lambda w, bad: import_memory(w).tensor((1,), bad)),
    ("ExternalMemory.tensor", "offset", OFFSETS, lambda w, bad: import_memory(w).tensor((1,), "float32", bad)),
    *asked("wait"),
    *asked("signal"),
    ("init_graphics_interop", "device", NO_DEVICE, lambda w, bad: zrt.init_graphics_interop(bad, "vulkan")),
    ("init_graphics_interop", "options", PAIRS, lambda w, bad: zrt.init_graphics_interop(device(), "vulkan", 0, bad)),
    ("deinit_graphics_interop", "device", NO_DEVICE, lambda w, bad: zrt.deinit_graphics_interop(bad)),
]

SINGLE = {
    "ExternalResourceImporter.can_import": [Bad(Kind.WRONG_TYPE, lambda w: importer(w).can_import(3), "kind", "int")],
    "ExternalResourceImporter.import_memory": [
        unsupported(
            lambda w: on_the_processor().import_memory(FD, file(), 64), "CPUExecutionProvider", "imports nothing"
        ),
        Bad(Kind.WRONG_VALUE, lambda w: importer(w).import_memory("d3d12_heap", 0, 64), "handle", "0"),
    ],
    "ExternalResourceImporter.import_semaphore": [
        unsupported(
            lambda w: on_the_processor().import_semaphore(SEMAPHORE_FD, file()), "CPUExecutionProvider", "nothing"
        )
    ],
    "ExternalMemory.tensor": [
        Bad(Kind.WRONG_VALUE, lambda w: import_memory(w).tensor((1,), "float32", 2), "offset", "no multiple")
    ],
    "ExternalMemory.__init__": [Bad(Kind.WRONG_TYPE, lambda w: zrt.ExternalMemory(5, 5, 5, 5), "import_memory")],
    "ExternalSemaphore.__init__": [Bad(Kind.WRONG_TYPE, lambda w: zrt.ExternalSemaphore(5, 5, 5), "import_sem")],
    "init_graphics_interop": [
        Bad(Kind.UNKNOWN_NAME, lambda w: zrt.init_graphics_interop(device(), "metal"), "graphics_api", "metal",
            error=ArgumentError),
        Bad(Kind.NEGATIVE, lambda w: zrt.init_graphics_interop(device(), "d3d12", -1), "command_queue", "-1"),
        unsupported(
            lambda w: zrt.init_graphics_interop(processor(), "vulkan"), "CPUExecutionProvider", "graphics interop"
        ),
    ],
    "deinit_graphics_interop": [
        unsupported(lambda w: zrt.deinit_graphics_interop(processor()), "CPUExecutionProvider", "graphics interop")
    ],
}  # fmt: skip

CLOSED_SELF = {
    "ExternalResourceImporter.can_import": lambda w, it: it.can_import(FD),
    "ExternalResourceImporter.import_memory": lambda w, it: it.import_memory(FD, file(), 64),
    "ExternalResourceImporter.import_semaphore": lambda w, it: it.import_semaphore(SEMAPHORE_FD, file()),
    "ExternalMemory.tensor": lambda w, it: it.tensor((1,), "float32"),
    "ExternalSemaphore.wait": lambda w, it: it.wait(zrt.SyncStream(device()), 1),
    "ExternalSemaphore.signal": lambda w, it: it.signal(zrt.SyncStream(device()), 1),
}

CLOSABLE = {"ExternalResourceImporter": importer, "ExternalMemory": import_memory, "ExternalSemaphore": semaphore}
