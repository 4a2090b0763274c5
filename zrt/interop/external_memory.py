"""Memory and semaphores of Direct3D and Vulkan, imported into a provider's device.

Not tested on hardware: the tests import through a provider library of their own, on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from zrt._common.arguments import choose, integer, require_type
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.cdata import NULL, new_array, pointer_to
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.environment.devices import EpDevice
from zrt.environment.streams import SyncStream
from zrt.errors import ArgumentError, DTypeError, Error, NotImplementedByOrtError, ShapeError, UnsupportedError
from zrt.memory.allocators import write_pairs
from zrt.types import ElementType, as_shape, nbytes
from zrt.values.value import Value

MOST = 2**63 - 1


@public
class ExternalMemoryType(IntEnum):
    """The kind of memory that a handle stands for (``OrtExternalMemoryHandleType``)."""

    D3D12_RESOURCE = 0
    D3D12_HEAP = 1
    VK_MEMORY_WIN32 = 2
    VK_MEMORY_OPAQUE_FD = 3


@public
class ExternalSemaphoreType(IntEnum):
    """The kind of semaphore that a handle stands for (``OrtExternalSemaphoreType``)."""

    D3D12_FENCE = 0
    VK_TIMELINE_SEMAPHORE_WIN32 = 1
    VK_TIMELINE_SEMAPHORE_OPAQUE_FD = 2


@public
class GraphicsApi(IntEnum):
    """The graphics API that the GPU is shared with (``OrtGraphicsApi``)."""

    NONE = 0
    D3D12 = 1
    VULKAN = 2


# The kinds whose handles are file descriptors; all others are Windows handles.
FILES = (ExternalMemoryType.VK_MEMORY_OPAQUE_FD, ExternalSemaphoreType.VK_TIMELINE_SEMAPHORE_OPAQUE_FD)


def _table() -> Any:
    return api().GetInteropApi()


@contextmanager
def _asking(device: EpDevice, request: str) -> Iterator[None]:
    """Makes an error name the device and the request that its provider, or ONNX Runtime on its behalf, refused."""
    try:
        yield
    except NotImplementedByOrtError as error:
        raise UnsupportedError(f"{device}, {request}: {error}") from error
    except Error as error:
        raise status.about(f"{device}, {request}", error) from error


def _native(handle: Any, kind: IntEnum, subject: str) -> Any:
    """A handle of the operating system as C takes it."""
    # Not `in`: members of the two enumerations with the same number are equal.
    if not any(kind is each for each in FILES):
        return pointer_to(integer(handle, subject, 1, 2**64 - 1))
    number = integer(handle, subject)
    try:
        os.fstat(number)
    except OSError as error:
        raise ArgumentError(f"{subject}: {number} is no open file: {error.strerror}") from None
    return pointer_to(number)


@public
class ExternalResourceImporter(Owner):
    """Imports memory and semaphores of graphics APIs into a device.

    It can be created for every device. If the device's provider imports nothing, `can_import` returns False and the
    other methods raise `UnsupportedError`. Imported objects keep the importer alive.

    Not tested on hardware: Direct3D and Vulkan.
    """

    __slots__ = ("device",)

    device: EpDevice
    """The device that imports."""

    def __init__(self, device: EpDevice) -> None:
        self._handle = None
        owner = _opened(device)
        self.device = device
        table = _table()
        release, create = table.ReleaseExternalResourceImporter, table.CreateExternalResourceImporterForDevice
        try:
            self._handle = Handle.make(release, [owner], create, "OrtExternalResourceImporter", owner.pointer)
        except NotImplementedByOrtError:
            self._handle = Handle.borrow(NULL)
        except Error as error:
            raise status.about(str(device), error) from error

    def _importing(self, kind: str) -> Handle:
        handle = self._open()
        if not handle.pointer:
            raise UnsupportedError(f"{self.device}, {kind}: its provider imports nothing")
        return handle

    def can_import(self, kind: ExternalMemoryType | ExternalSemaphoreType) -> bool:
        """Whether the provider imports memory or semaphores of that kind."""
        handle = self._open()
        kinds = ExternalMemoryType, ExternalSemaphoreType
        require_type(kind, kinds, "kind", "an ExternalMemoryType or an ExternalSemaphoreType")
        if not handle.pointer:
            return False
        table = _table()
        memory = isinstance(kind, ExternalMemoryType)
        function = table.CanImportMemory if memory else table.CanImportSemaphore
        return bool(status.fetch(function, "bool", handle.pointer, int(kind)))

    def import_memory(
        self, kind: ExternalMemoryType | int | str, handle: int, size: int, offset: int = 0
    ) -> ExternalMemory:
        """Imports the memory of `size` bytes that a handle stands for, without its first `offset` bytes.

        `handle` is a file descriptor for ``VK_MEMORY_OPAQUE_FD``, and a Windows handle for other kinds. The provider
        decides whether the handle may be closed after the import.
        """
        importer = self._importing("memory")
        described = ffi.new("OrtExternalMemoryDescriptor *")
        described.version = lib.ZRT_API_VERSION
        described.handle_type = of = choose(ExternalMemoryType, kind, "kind")
        described.native_handle = _native(handle, of, "handle")
        described.size_bytes = integer(size, "size", 1, MOST)
        described.offset_bytes = integer(offset, "offset", 0, MOST)
        if offset >= size:
            raise ArgumentError(f"offset: {offset} is beyond the {size} bytes of the memory")
        table = _table()
        release, load = table.ReleaseExternalMemoryHandle, table.ImportMemory
        with _asking(self.device, f"memory of kind {of.name}"):
            owned = Handle.make(release, [importer], load, "OrtExternalMemoryHandle", importer.pointer, described)
        return ExternalMemory(owned, importer, self.device, size - offset)

    def import_semaphore(self, kind: ExternalSemaphoreType | int | str, handle: int) -> ExternalSemaphore:
        """Imports the timeline semaphore, or fence, that a handle stands for."""
        importer = self._importing("semaphores")
        described = ffi.new("OrtExternalSemaphoreDescriptor *")
        described.version = lib.ZRT_API_VERSION
        described.type = of = choose(ExternalSemaphoreType, kind, "kind")
        described.native_handle = _native(handle, of, "handle")
        table = _table()
        release, load = table.ReleaseExternalSemaphoreHandle, table.ImportSemaphore
        with _asking(self.device, f"semaphores of kind {of.name}"):
            owned = Handle.make(release, [importer], load, "OrtExternalSemaphoreHandle", importer.pointer, described)
        return ExternalSemaphore(owned, importer, self.device)

    def __repr__(self) -> str:
        return f"ExternalResourceImporter({'closed' if self.closed else self.device})"


class _Imported(Owner):
    """Memory or a semaphore that an importer imported, with the handle of the importer."""

    __slots__ = ("_importer", "device")

    device: EpDevice
    """The device that imported it."""

    def __init__(self, handle: Handle, importer: Handle, device: EpDevice) -> None:
        """For `ExternalResourceImporter`."""
        if not isinstance(handle, Handle):
            name = type(self).__name__
            maker = f"import_{name.removeprefix('External').lower()}"
            raise DTypeError(f"an {name} is made by ExternalResourceImporter.{maker}")
        self._handle = handle
        self._importer = importer
        self.device = device


@public
class ExternalMemory(_Imported):
    """Imported memory, which `ExternalResourceImporter.import_memory` returns. Tensors over it keep it alive."""

    __slots__ = ("nbytes",)

    nbytes: int
    """The size in bytes of the part that tensors can use."""

    def __init__(self, handle: Handle, importer: Handle, device: EpDevice, nbytes: int) -> None:
        """For `ExternalResourceImporter.import_memory`."""
        super().__init__(handle, importer, device)
        self.nbytes = nbytes

    def tensor(self, shape: tuple[int, ...], dtype: Any, offset: int = 0) -> Value:
        """A tensor that borrows the memory, from `offset` bytes on.

        Raises `ShapeError` if the tensor would end beyond the memory.
        """
        handle = self._open()
        element_type = ElementType.of(dtype)
        if element_type.refused or not element_type.bits:
            reason = element_type.refused or "they have no fixed size"
            raise UnsupportedError(f"{element_type.name} tensors: {reason}")
        dims = as_shape(shape, "shape")
        begin = integer(offset, "offset", 0, MOST)
        end = begin + nbytes(element_type, dims)
        if end > self.nbytes:
            raise ShapeError(
                f"{element_type.name} of shape {dims} from byte {begin} on ends at {end}: the memory has {self.nbytes}"
            )
        width = max(element_type.bits // 8, 1)
        if begin % width:
            raise ArgumentError(f"offset: {begin} is no multiple of the {width} bytes of {element_type.name}")
        described, places = ffi.new("OrtExternalTensorDescriptor *"), new_array("int64_t", dims)
        described.version = lib.ZRT_API_VERSION
        described.element_type = int(element_type)
        described.shape, described.rank, described.offset_bytes = places, len(dims), begin
        arguments = (self._importer.pointer, handle.pointer, described)
        with _asking(self.device, "a tensor over imported memory"):
            tensor = Handle.make(api().ReleaseValue, [handle], _table().CreateTensorFromMemory, "OrtValue", *arguments)
        if not tensor.pointer:
            raise UnsupportedError(f"{self.device} made no tensor over imported memory, and gave no reason")
        return Value(tensor)


@public
class ExternalSemaphore(_Imported):
    """An imported timeline semaphore or fence, which `ExternalResourceImporter.import_semaphore` returns."""

    __slots__ = ()

    def wait(self, stream: SyncStream, value: int) -> None:
        """Makes later work on the stream wait until the semaphore reaches `value`; returns at once."""
        self._ask("WaitSemaphore", stream, value)

    def signal(self, stream: SyncStream, value: int) -> None:
        """Sets the semaphore to `value` when all earlier work on the stream is done; returns at once."""
        self._ask("SignalSemaphore", stream, value)

    def _ask(self, name: str, stream: SyncStream, value: int) -> None:
        handle = self._open()
        require_type(stream, SyncStream, "stream", "a SyncStream")
        queue = stream._open()
        if stream.device != self.device:
            raise ArgumentError(f"stream: it belongs to {stream.device}, the semaphore to {self.device}")
        number = integer(value, "value", 0, 2**64 - 1)
        # The stream may use the semaphore after this call returns.
        stream._keep([handle])
        with _asking(self.device, "semaphores"):
            status.check(getattr(_table(), name)(self._importer.pointer, handle.pointer, queue.pointer, number))


@public
def init_graphics_interop(
    device: EpDevice,
    graphics_api: GraphicsApi | int | str,
    command_queue: int = 0,
    options: Mapping[str, str] | None = None,
) -> None:
    """Prepares a device for sharing the GPU with a graphics API. Call it before creating streams of the device.

    `command_queue` is the address of Direct3D's queue, 0 for none; `options` are those of the provider. Raises
    `UnsupportedError` if the provider does not implement it.

    Not tested on hardware.
    """
    owner = _opened(device)
    pairs = write_pairs(options, "options")
    config = ffi.new("OrtGraphicsInteropConfig *")
    config.version = lib.ZRT_API_VERSION
    config.graphics_api = choose(GraphicsApi, graphics_api, "graphics_api")
    config.command_queue = pointer_to(integer(command_queue, "command_queue", 0, 2**64 - 1))
    config.additional_options = pairs.pointer
    with _asking(device, "graphics interop"):
        status.check(_table().InitGraphicsInteropForEpDevice(owner.pointer, config))


@public
def deinit_graphics_interop(device: EpDevice) -> None:
    """Ends the sharing that `init_graphics_interop` started. Not tested on hardware."""
    owner = _opened(device)
    with _asking(device, "graphics interop"):
        status.check(_table().DeinitGraphicsInteropForEpDevice(owner.pointer))


def _opened(device: EpDevice) -> Handle:
    require_type(device, EpDevice, "device", "an EpDevice")
    return device._open()
