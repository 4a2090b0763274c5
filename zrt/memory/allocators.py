"""Kinds of memory (`MemoryInfo`), allocators, their allocations and counters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from zrt._common.arguments import boolean, choose, entries, integer, require_type, text
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.cdata import address_of, new_array
from zrt._native.handle import Handle, Owner
from zrt._native.library import api, load_api
from zrt.errors import AllocationError, ArgumentError, DTypeError, OrtError, UnsupportedError
from zrt.memory import arrays
from zrt.types import AllocatorType, DeviceMemType, DeviceType, ElementType, MemType

# The names whose device ORT knows, and its kind; for others, `OrtMemoryInfo` needs the vendor. Pinned memory counts as
# the host's.
NAMED = {
    "Cpu": DeviceType.CPU,
    "CpuAligned4K": DeviceType.CPU,
    "Cuda": DeviceType.GPU,
    "CudaPinned": DeviceType.CPU,
    "DML": DeviceType.GPU,
    "Hip": DeviceType.GPU,
    "HipPinned": DeviceType.CPU,
    "OpenVINO_GPU": DeviceType.GPU,
    "OpenVINO_RT_NPU": DeviceType.NPU,
    "QnnHtpShared": DeviceType.CPU,
    "WebGPU_Buf": DeviceType.GPU,
    "WebNN_Ten": DeviceType.GPU,
}

# The largest number of a device: ORT keeps 16 bits of it.
MOST_DEVICE_ID = 2**15 - 1

# Larger than any address space. ORT's arena doubles its step up to the request's size, and that must not overflow.
MOST_BYTES = 1 << 62

# The first version of an ``OrtAllocator`` with counters.
_STATS_SINCE = 23


@public
@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """A kind of memory on a device, as ``OrtMemoryInfo`` describes it.

    `name` is ORT's name of the allocator ("Cpu", "Cuda", "CudaPinned" ...), `device_id` the device's number. For ORT's
    own names the other fields follow from the name; `of` describes any other memory.
    """

    name: str
    device_id: int = 0
    allocator_type: AllocatorType = AllocatorType.DEVICE
    mem_type: MemType = MemType.DEFAULT
    device_type: DeviceType = field(default=DeviceType.CPU, compare=False)
    device_mem_type: DeviceMemType = field(default=DeviceMemType.DEFAULT, compare=False)
    """Whether it is the device's own memory, or memory that the CPU can read too."""
    vendor_id: int | None = field(default=None, compare=False)
    """The PCI number of the device's vendor, 0 for none; with `None` it follows from the name."""
    alignment: int = field(default=0, compare=False)
    """The alignment of addresses in bytes; 0 for ORT's default. ORT does not report it for its own allocations."""

    def __post_init__(self) -> None:
        kinds = {
            "allocator_type": AllocatorType,
            "mem_type": MemType,
            "device_type": DeviceType,
            "device_mem_type": DeviceMemType,
        }
        for name, kind in kinds.items():
            object.__setattr__(self, name, choose(kind, getattr(self, name), f"MemoryInfo.{name}"))
        # ORT itself may report a number below 0.
        number = integer(self.device_id, "MemoryInfo.device_id", -MOST_DEVICE_ID - 1, MOST_DEVICE_ID)
        object.__setattr__(self, "device_id", number)
        if self.vendor_id is not None:
            integer(self.vendor_id, "MemoryInfo.vendor_id", 0, 2**32 - 1)
        if integer(self.alignment, "MemoryInfo.alignment", 0, 1 << 30).bit_count() > 1:
            raise ArgumentError(f"MemoryInfo.alignment: {self.alignment} is not a power of two")
        # A name of another type is refused where it is used.
        if self.device_type == DeviceType.CPU and isinstance(self.name, str):
            object.__setattr__(self, "device_type", NAMED.get(self.name, DeviceType.CPU))

    @classmethod
    def cpu(cls) -> MemoryInfo:
        """The host's memory."""
        return cls("Cpu")

    @classmethod
    def cuda(cls, device_id: int = 0) -> MemoryInfo:
        """The memory of CUDA device `device_id`."""
        return cls("Cuda", integer(device_id, "device_id", 0, MOST_DEVICE_ID))

    @classmethod
    def cuda_pinned(cls, device_id: int = 0) -> MemoryInfo:
        """Host memory that CUDA device `device_id` copies from and to directly (pinned memory)."""
        return cls("CudaPinned", integer(device_id, "device_id", 0, MOST_DEVICE_ID), mem_type=MemType.CPU_OUTPUT)

    @classmethod
    def of(
        cls,
        name: str,
        device_type: DeviceType | str,
        device_id: int = 0,
        *,
        vendor_id: int = 0,
        host_accessible: bool = False,
        alignment: int = 0,
        allocator_type: AllocatorType | str = AllocatorType.DEVICE,
    ) -> MemoryInfo:
        """Memory of any device under any name, for example that of a plugin provider's allocator.

        `vendor_id` is the PCI number of the device's vendor, `host_accessible` is true if the CPU can read
        it, `alignment` is a power of two or 0.
        """
        text(name, "MemoryInfo.name")
        host = boolean(host_accessible, "host_accessible")
        return cls(
            name,
            integer(device_id, "device_id", 0, MOST_DEVICE_ID),
            choose(AllocatorType, allocator_type, "allocator_type"),
            MemType.CPU if host else MemType.DEFAULT,
            choose(DeviceType, device_type, "device_type"),
            DeviceMemType.HOST_ACCESSIBLE if host else DeviceMemType.DEFAULT,
            vendor_id,
            alignment,
        )

    @classmethod
    def _read(cls, pointer: Any) -> MemoryInfo:
        """The description in a borrowed ``OrtMemoryInfo``."""
        place = ffi.new("zrt_location *")
        status.check(lib.zrt_locate(api(), pointer, place))
        kinds = (place.allocator_type, place.mem_type, place.device_type, place.device_mem_type)
        return _known(status.string(place.name), place.device_id, kinds, place.vendor_id)

    @property
    def is_host(self) -> bool:
        """Whether the CPU can read and write it, so that numpy views are possible."""
        # Pinned memory is host memory, although its device type is that of the GPU.
        return self.device_type == DeviceType.CPU or self.mem_type in (MemType.CPU_INPUT, MemType.CPU_OUTPUT)

    def _beside(self, other: MemoryInfo) -> bool:
        """Whether both are on the host or both on the same device, so that ORT needs no copy between them."""
        if self.is_host or other.is_host:
            return self.is_host and other.is_host
        return (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def same(self, other: MemoryInfo) -> bool:
        """Whether ONNX Runtime finds both equal: it compares vendor and alignment too, which ``==`` does not."""
        require_type(other, MemoryInfo, "other", "a MemoryInfo")
        one, two = self.handle(), other.handle()
        return bool(status.fetch(api().CompareMemoryInfo, "int", one.pointer, two.pointer) == 0)

    def _resolved(self) -> MemoryInfo:
        """The description that ONNX Runtime has of this memory: with the fields that follow from the name."""
        handle = self.handle()
        return MemoryInfo._read(handle.pointer)

    def handle(self) -> Handle:
        """A new ``OrtMemoryInfo`` of this description."""
        table = load_api()
        name = text(self.name, "MemoryInfo.name")
        function = table.CreateMemoryInfo
        arguments: tuple[Any, ...] = (int(self.allocator_type), self.device_id, int(self.mem_type))
        if self.vendor_id is not None and (self.alignment or self.name not in NAMED):
            function = api().CreateMemoryInfo_V2
            place = (int(self.device_type), self.vendor_id, self.device_id, int(self.device_mem_type))
            arguments = (*place, self.alignment, int(self.allocator_type))
        try:
            return Handle.make(table.ReleaseMemoryInfo, [], function, "OrtMemoryInfo", name, *arguments)
        except OrtError as error:
            raise ArgumentError(f"memory {self.name!r}: {error}") from error


CPU = MemoryInfo.cpu()


@lru_cache(maxsize=64)
def _known(name: str, device_id: int, kinds: tuple[int, int, int, int], vendor_id: int) -> MemoryInfo:
    """The description of these numbers of C; every tensor has one, and a process has few."""
    allocator_type, mem_type, device_type, device_mem_type = kinds
    types = (AllocatorType(allocator_type), MemType(mem_type), DeviceType(device_type), DeviceMemType(device_mem_type))
    return MemoryInfo(name, device_id, *types, vendor_id)


def write_pairs(pairs: Mapping[str, str] | None, subject: str) -> Handle:
    """A new ``OrtKeyValuePairs`` of `pairs`, empty for None; error messages name them `subject`."""
    items = entries({} if pairs is None else pairs, subject)
    table = load_api()
    handle = Handle.make(table.ReleaseKeyValuePairs, [], table.CreateKeyValuePairs, "OrtKeyValuePairs")
    for key, value in items:
        api().AddKeyValuePair(handle.pointer, key, value)
    return handle


def fetch_pairs(function: Any, *arguments: Any) -> dict[str, str]:
    """Calls a function of the table that makes an ``OrtKeyValuePairs``, and reads that; it may make none."""
    pairs = Handle.make(load_api().ReleaseKeyValuePairs, [], function, "OrtKeyValuePairs", *arguments)
    return read_pairs(pairs.pointer) if pairs.pointer else {}


def read_pairs(pointer: Any) -> dict[str, str]:
    """The content of a borrowed ``OrtKeyValuePairs``; paths may be no UTF-8."""
    keys, values, count = ffi.new("const char *const **"), ffi.new("const char *const **"), ffi.new("size_t *")
    api().GetKeyValuePairs(pointer, keys, values, count)
    return {os.fsdecode(ffi.string(keys[0][i])): os.fsdecode(ffi.string(values[0][i])) for i in range(count[0])}


def session_memories(function: Any, session: Handle, count: int) -> list[MemoryInfo]:
    """The memories of a session's inputs or outputs; `function` is the entry of the table that lists them."""
    places = new_array("const OrtMemoryInfo *", count)
    if count:
        status.check(function(session.pointer, places, count))
    return [MemoryInfo._read(place) for place in places]


def has_device(session: Handle, inputs: int, outputs: int) -> bool:
    """Whether a session with that many inputs and outputs has any of them on a device."""
    table = api()
    sides = ((table.SessionGetMemoryInfoForInputs, inputs), (table.SessionGetMemoryInfoForOutputs, outputs))
    return any(not memory.is_host for where, count in sides for memory in session_memories(where, session, count))


def require_memory(session: Handle, memory: MemoryInfo, subject: str) -> None:
    """Raises `ArgumentError` if a session has no such memory: ORT would use host memory and say nothing."""
    if memory != CPU:
        with status.named(subject):
            Allocator._of(session, memory)


def _counter(name: str, *, level: bool = False) -> Any:
    """A counter of that name of ORT's; a level, such as a maximum, has no difference to an earlier one."""
    return field(default=0, metadata={"name": name, "level": level})


@public
@dataclass(frozen=True, slots=True)
class AllocatorStats:
    """An allocator's counters, in bytes and calls. A counter that the allocator does not keep is 0.

    The fields have ORT's names in Python's spelling; `raw` has the names and texts that ORT returned.
    """

    bytes_in_use: int = _counter("InUse")
    total_allocated_bytes: int = _counter("TotalAllocated")
    max_bytes_in_use: int = _counter("MaxInUse", level=True)
    max_alloc_size: int = _counter("MaxAllocSize", level=True)
    bytes_limit: int = _counter("Limit", level=True)
    num_allocs: int = _counter("NumAllocs")
    num_reserves: int = _counter("NumReserves")
    num_arena_extensions: int = _counter("NumArenaExtensions")
    num_arena_shrinkages: int = _counter("NumArenaShrinkages")
    raw: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    requested_bytes_in_use: int = _counter("RequestedInUse")
    """The part of `bytes_in_use` that was asked for, without padding; ONNX Runtime counts it since 1.28."""

    @classmethod
    def _parse(cls, raw: dict[str, str]) -> AllocatorStats:
        """Reads ORT's key-value pairs."""
        counters = {item.name: item.metadata["name"] for item in fields(cls) if item.metadata}
        return cls(raw=raw, **{name: int(raw.get(key, "0")) for name, key in counters.items()})

    def __sub__(self, before: AllocatorStats) -> AllocatorStats:
        """The changes of the counters since `before`; maxima and the limit keep their current values."""
        names = [item.name for item in fields(self) if item.metadata and not item.metadata["level"]]
        return replace(self, **{name: getattr(self, name) - getattr(before, name) for name in names})


@public
class Allocator(Owner):
    """A session's allocator for a kind of memory, or (`Allocator.default()`) the process's default CPU allocator.

    Its allocations keep it alive. `Environment.shared_allocator` returns the allocators of devices.
    """

    __slots__ = ("memory",)

    memory: MemoryInfo

    def __init__(self, session: Owner, memory: MemoryInfo = CPU) -> None:
        require_type(memory, MemoryInfo, "memory", "a MemoryInfo")
        require_type(session, Owner, "session", "a Session")
        made = self._of(session._open(), memory)
        self._handle, self.memory = made._handle, made.memory

    @classmethod
    def _of(cls, session: Handle, memory: MemoryInfo = CPU) -> Allocator:
        """The allocator of a session, given by its handle."""
        table = api()
        info = memory.handle()
        arguments = ("OrtAllocator", session.pointer, info.pointer)
        try:
            handle = Handle.make(table.ReleaseAllocator, [session], table.CreateAllocator, *arguments)
        except TypeError as error:
            raise DTypeError(f"session: expected a Session: {error}") from error
        except OrtError as error:
            raise ArgumentError(f"this session has no allocator for {memory.name!r}: {error}") from error
        return cls._adopt(handle)

    @classmethod
    def _adopt(cls, handle: Handle) -> Allocator:
        """The allocator that a handle owns."""
        allocator = cls.__new__(cls)
        allocator._handle = handle
        info = status.fetch(api().AllocatorGetInfo, "const OrtMemoryInfo *", handle.pointer)
        allocator.memory = MemoryInfo._read(info)
        return allocator

    @classmethod
    def default(cls) -> Allocator:
        """The process's default CPU allocator, which has no arena."""
        allocator = cls.__new__(cls)
        allocator._handle = Handle.borrow(default_allocator())
        allocator.memory = CPU
        return allocator

    def allocate(self, nbytes: int) -> Allocation:
        """Allocates `nbytes` bytes, at least 1; their content is undefined.

        Raises `AllocationError` if the memory cannot be allocated.
        """
        handle = self._open()
        size = integer(nbytes, "nbytes", 1, 2**64 - 1)
        wanted = f"{size} bytes of {self.memory.name}"
        if size > MOST_BYTES:
            raise AllocationError(f"no memory for {wanted}: more than an address space has")
        block = allocation_block(handle.pointer, [handle])
        with status.named(f"no memory for {wanted}", AllocationError):
            status.check(api().AllocatorAlloc(handle.pointer, size, ffi.addressof(block.pointer, "data")))
        if not block.pointer.data:
            raise AllocationError(f"no memory for {wanted}")
        block.pointer.bytes = size
        return Allocation(block, self.memory)

    def stats(self) -> AllocatorStats:
        """The current counters; all 0 for an allocator that keeps none."""
        handle = self._open()
        # ORT calls this function of a provider's allocator without a check that it exists.
        if handle.pointer.version < _STATS_SINCE or not handle.pointer.GetStats:
            return AllocatorStats()
        return AllocatorStats._parse(fetch_pairs(api().AllocatorGetStats, handle.pointer))


@public
class Allocation(Owner):
    """Memory from an `Allocator`, freed when this object and every view of it are gone.

    It keeps the allocator, and with it the session, alive.
    """

    __slots__ = ("memory",)

    memory: MemoryInfo
    """The kind of memory."""

    def __init__(self, handle: Handle, memory: MemoryInfo) -> None:
        """Takes ownership of an allocation; users call `Allocator.allocate`."""
        if not isinstance(handle, Handle):
            raise DTypeError(f"an Allocation is made by Allocator.allocate, not of a {type(handle).__name__}")
        self._handle = handle
        self.memory = memory

    @property
    def address(self) -> int:
        """The address of its first byte, on its own device."""
        handle = self._open()
        return address_of(handle.pointer.data)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        handle = self._open()
        return int(handle.pointer.bytes)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A view of the bytes (uint8), which keeps the memory alive; on the host only."""
        handle = self._open()
        if not self.memory.is_host:
            raise UnsupportedError(f"this allocation lies on {self.memory.name}:{self.memory.device_id}")
        address = address_of(handle.pointer.data)
        return arrays.view(handle, address, (int(handle.pointer.bytes),), ElementType.UINT8)

    def __repr__(self) -> str:
        handle = self._handle
        if handle is None:
            return "Allocation(closed)"
        return f"Allocation({int(handle.pointer.bytes)} bytes of {self.memory.name})"


def allocation_block(allocator: Any, parents: Sequence[Handle] = ()) -> Handle:
    """A ``zrt_allocation`` without memory, which frees the memory of `allocator` that ORT stores in it."""
    block = Handle.block("zrt_allocation", parents, lib.zrt_allocation_free)
    block.pointer.api, block.pointer.allocator = api(), allocator
    return block


def take_string(allocator: Any, text: Any) -> str:
    """The text of a C string that ORT allocated for the caller; frees the C string."""
    try:
        return status.string(text)
    finally:
        free(allocator, text)


def free(allocator: Any, pointer: Any) -> None:
    """Frees what ORT allocated for the caller. There is nothing to do about a free that fails."""
    status.dismiss(load_api().AllocatorFree(allocator, pointer))


def default_allocator() -> Any:
    """The process's default ``OrtAllocator``, borrowed."""
    return status.make(load_api().GetAllocatorWithDefaultOptions, "OrtAllocator")


@cache
def cpu_memory() -> Handle:
    """The host's ``OrtMemoryInfo``, which all sessions of the process share."""
    return CPU.handle()


def handle_of(memory: MemoryInfo) -> Handle:
    """The ``OrtMemoryInfo`` of a memory; that of the host is not made anew."""
    return cpu_memory() if memory is CPU else memory.handle()


os.register_at_fork(after_in_child=cpu_memory.cache_clear)
