"""Where memory lies (`MemoryInfo`), who hands it out (`Allocator`), and what that cost (`AllocatorStats`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zrt._native import ffi, status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.arguments import text
from zrt.errors import ArgumentError, DTypeError, Error
from zrt.types import AllocatorType, DeviceType, MemType


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """A kind of memory on a device, as ``OrtMemoryInfo`` describes it.

    `name` is ORT's name of the allocator ("Cpu", "Cuda", "CudaPinned" ...), `device_id` the device's number.
    """

    name: str
    device_id: int = 0
    allocator_type: AllocatorType = AllocatorType.DEVICE
    mem_type: MemType = MemType.DEFAULT
    device_type: DeviceType = field(default=DeviceType.CPU, compare=False)

    @classmethod
    def cpu(cls) -> MemoryInfo:
        """The host's memory."""
        return cls("Cpu")

    @classmethod
    def cuda(cls, device_id: int = 0) -> MemoryInfo:
        """The memory of CUDA device `device_id`."""
        return cls("Cuda", device_id, device_type=DeviceType.GPU)

    @classmethod
    def cuda_pinned(cls, device_id: int = 0) -> MemoryInfo:
        """Host memory that CUDA device `device_id` copies from and to without a detour."""
        return cls("CudaPinned", device_id, mem_type=MemType.CPU_OUTPUT)

    @classmethod
    def read(cls, pointer: Any) -> MemoryInfo:
        """What a borrowed ``OrtMemoryInfo`` says."""
        table = api()
        name = status.fetch(table.MemoryInfoGetName, "const char *", pointer)
        device = ffi.new("OrtMemoryInfoDeviceType *")
        table.MemoryInfoGetDeviceType(pointer, device)
        return cls(
            ffi.string(name).decode(),
            status.fetch(table.MemoryInfoGetId, "int", pointer),
            AllocatorType(status.fetch(table.MemoryInfoGetType, "OrtAllocatorType", pointer)),
            MemType(status.fetch(table.MemoryInfoGetMemType, "OrtMemType", pointer)),
            DeviceType(device[0]),
        )

    @property
    def is_host(self) -> bool:
        """Whether the processor can read and write it: numpy views are possible."""
        # Pinned memory carries its GPU's device type and is still the host's.
        return self.device_type == DeviceType.CPU or self.mem_type in (MemType.CPU_INPUT, MemType.CPU_OUTPUT)

    def beside(self, other: MemoryInfo) -> bool:
        """Whether both lie on the host, or both on the same device: ORT then copies nothing between them."""
        if self.is_host or other.is_host:
            return self.is_host and other.is_host
        return (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def handle(self) -> Handle:
        """A new ``OrtMemoryInfo`` of this description. ``OrtApi::CreateMemoryInfo``."""
        table = api()
        name = text(self.name, "MemoryInfo.name")
        try:
            pointer = status.make(
                table.CreateMemoryInfo,
                "OrtMemoryInfo",
                name,
                int(self.allocator_type),
                self.device_id,
                int(self.mem_type),
            )
        except Error as error:
            raise ArgumentError(f"memory {self.name!r}: {error}") from error
        except OverflowError as error:
            raise ArgumentError(f"memory {self.name!r}: device_id {self.device_id}: {error}") from error
        except TypeError as error:
            raise DTypeError(f"{self!r}: device_id is an int: {error}") from error
        return Handle.own(pointer, table.ReleaseMemoryInfo)


CPU = MemoryInfo.cpu()


@dataclass(frozen=True, slots=True)
class AllocatorStats:
    """An allocator's counters, in bytes and calls; those that it does not keep are 0.

    The names are ORT's (``OrtApi::AllocatorGetStats``) in Python's spelling; `raw` has them as they came.
    """

    bytes_in_use: int = 0
    total_allocated_bytes: int = 0
    max_bytes_in_use: int = 0
    max_alloc_size: int = 0
    bytes_limit: int = 0
    num_allocs: int = 0
    num_reserves: int = 0
    num_arena_extensions: int = 0
    num_arena_shrinkages: int = 0
    raw: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, raw: dict[str, str]) -> AllocatorStats:
        """From ORT's key-value pairs."""

        def number(key: str) -> int:
            return int(raw.get(key, "0"))

        return cls(
            number("InUse"),
            number("TotalAllocated"),
            number("MaxInUse"),
            number("MaxAllocSize"),
            number("Limit"),
            number("NumAllocs"),
            number("NumReserves"),
            number("NumArenaExtensions"),
            number("NumArenaShrinkages"),
            raw,
        )

    def __sub__(self, before: AllocatorStats) -> AllocatorStats:
        """What happened since `before`: the counters' differences; maxima and the limit stay as they are now."""
        return AllocatorStats(
            self.bytes_in_use - before.bytes_in_use,
            self.total_allocated_bytes - before.total_allocated_bytes,
            self.max_bytes_in_use,
            self.max_alloc_size,
            self.bytes_limit,
            self.num_allocs - before.num_allocs,
            self.num_reserves - before.num_reserves,
            self.num_arena_extensions - before.num_arena_extensions,
            self.num_arena_shrinkages - before.num_arena_shrinkages,
            self.raw,
        )


def read_pairs(pointer: Any) -> dict[str, str]:
    """The content of a borrowed ``OrtKeyValuePairs``."""
    keys, values, count = (
        ffi.new("const char *const **"),
        ffi.new("const char *const **"),
        ffi.new("size_t *"),
    )
    api().GetKeyValuePairs(pointer, keys, values, count)
    return {ffi.string(keys[0][i]).decode(): ffi.string(values[0][i]).decode(errors="replace") for i in range(count[0])}


class Allocator(Owner):
    """ORT's allocator of a session for a kind of memory, or (`Allocator.default()`) the process's plain one.

    Values that it allocated keep it alive. ``OrtApi::CreateAllocator``, ``GetAllocatorWithDefaultOptions``.
    """

    __slots__ = ("memory",)

    memory: MemoryInfo

    def __init__(self, session: Owner, memory: MemoryInfo = CPU) -> None:
        if not isinstance(memory, MemoryInfo):
            raise DTypeError(f"memory: expected a MemoryInfo, got {type(memory).__name__}")
        if not isinstance(session, Owner):
            raise DTypeError(f"session: expected a Session, got {type(session).__name__}")
        self._make(session._open(), memory)

    @classmethod
    def of(cls, owner: Handle, memory: MemoryInfo = CPU) -> Allocator:
        """The allocator of a session, given by its handle."""
        allocator = cls.__new__(cls)
        allocator._make(owner, memory)
        return allocator

    def _make(self, owner: Handle, memory: MemoryInfo) -> None:
        table = api()
        where = memory.handle()
        try:
            pointer = status.make(table.CreateAllocator, "OrtAllocator", owner.pointer, where.pointer)
        except TypeError as error:
            raise DTypeError(f"session: expected a Session: {error}") from error
        except Error as error:
            raise ArgumentError(f"this session has no allocator for {memory.name!r}: {error}") from error
        self._handle = Handle.own(pointer, table.ReleaseAllocator, [owner])
        self.memory = self._read_memory()

    @classmethod
    def default(cls) -> Allocator:
        """The process's plain allocator on the host."""
        allocator = cls.__new__(cls)
        pointer = status.make(api().GetAllocatorWithDefaultOptions, "OrtAllocator")
        allocator._handle = Handle.borrow(pointer)
        allocator.memory = CPU
        return allocator

    def _read_memory(self) -> MemoryInfo:
        return MemoryInfo.read(status.fetch(api().AllocatorGetInfo, "const OrtMemoryInfo *", self._open().pointer))

    def stats(self) -> AllocatorStats:
        """The counters now; all 0 for an allocator that keeps none. ``OrtApi::AllocatorGetStats``."""
        handle = self._open()
        table = api()
        pointer = status.make(table.AllocatorGetStats, "OrtKeyValuePairs", handle.pointer)
        try:
            return AllocatorStats.parse(read_pairs(pointer))
        finally:
            table.ReleaseKeyValuePairs(pointer)


def take_string(allocator: Any, text: Any) -> str:
    """A string that ORT allocated for us, freed."""
    try:
        return str(ffi.string(text).decode(errors="replace"))
    finally:
        api().AllocatorFree(allocator, text)


def default_allocator() -> Any:
    """The process's plain ``OrtAllocator``, borrowed."""
    return status.make(api().GetAllocatorWithDefaultOptions, "OrtAllocator")
