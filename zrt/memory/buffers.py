"""`BufferPolicy` describes a kind of memory; a `Buffer` owns such memory and shows it as a numpy array."""

from __future__ import annotations

import mmap
import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np

from zrt._common.arguments import boolean, require_type
from zrt._common.public import public
from zrt._native import lib
from zrt._native.cdata import address_of
from zrt._native.handle import Handle, Owner
from zrt.errors import AllocationError, ArgumentError, ClosedError, DTypeError, LockError
from zrt.memory import arrays
from zrt.types import ElementType, as_shape, nbytes, unpack

KIB: Final = 1 << 10
MIB: Final = 1 << 20
SMALLEST_ALIGNMENT: Final = 64
LARGEST_ALIGNMENT: Final = 1 << 30
HUGE_PAGE: Final = 2 * MIB


@public
@dataclass(frozen=True, slots=True)
class BufferPolicy:
    """The kind of memory that a buffer allocates; every combination works.

    `alignment` is in bytes, a power of two from 64 to 1 GiB. `hugepage` asks for huge pages (``MADV_HUGEPAGE``, a
    hint that the kernel may ignore). `prefault` touches every page before the first use. `lock` keeps the pages in
    RAM (``mlock``); if the system refuses, making the buffer raises `LockError`. `auto` must be given alone and
    chooses the others by size, see `resolve`. Raises `ArgumentError` for an invalid alignment, `DTypeError` for
    another option that is not True or False.
    """

    alignment: int = SMALLEST_ALIGNMENT
    hugepage: bool = False
    prefault: bool = False
    lock: bool = False
    auto: bool = False

    PLAIN: ClassVar[BufferPolicy]
    """Zeroed memory, aligned to 64 bytes."""
    AUTO: ClassVar[BufferPolicy]
    """Chosen by size."""
    BALANCED: ClassVar[BufferPolicy]
    """The same as AUTO."""
    LATENCY: ClassVar[BufferPolicy]
    """Plain and prefaulted, so that the first run has no page faults."""
    THROUGHPUT_LARGE: ClassVar[BufferPolicy]
    """Aligned to 2 MiB, huge pages, prefaulted, for any size."""
    PINNED_HOST_CANDIDATE: ClassVar[BufferPolicy]
    """THROUGHPUT_LARGE and locked. CUDA does not pin it, so it does not speed up transfers by itself."""

    def __post_init__(self) -> None:
        alignment = self.alignment
        usable = isinstance(alignment, int) and SMALLEST_ALIGNMENT <= alignment <= LARGEST_ALIGNMENT
        if not usable or alignment & (alignment - 1):
            raise ArgumentError(
                f"alignment {alignment!r}: expected a power of two from {SMALLEST_ALIGNMENT} to {LARGEST_ALIGNMENT}"
            )
        hugepage, prefault, lock, auto = [
            boolean(getattr(self, name), name) for name in ("hugepage", "prefault", "lock", "auto")
        ]
        if auto and (alignment != SMALLEST_ALIGNMENT or hugepage or prefault or lock):
            raise ArgumentError("auto chooses alignment, hugepage, prefault and lock: give it alone")

    def resolve(self, nbytes: int) -> BufferPolicy:
        """The policy for a buffer of `nbytes` bytes: for AUTO its choice, else the policy itself.

        Below 1 MiB plain; from 1 MiB aligned to 4096 bytes and prefaulted; from 2 MiB aligned to 2 MiB,
        hinted for huge pages and prefaulted.
        """
        require_type(nbytes, int, "nbytes", "an int")
        if not self.auto:
            return self
        if nbytes < MIB:
            return self.PLAIN
        return _PREFAULTED_PAGES if nbytes < HUGE_PAGE else self.THROUGHPUT_LARGE

    @classmethod
    def parse(cls, text: str) -> BufferPolicy:
        """The policy that `text` names; the inverse of `str`.

        Either a preset's name (``"throughput_large"``, in any case) or settings joined by commas
        (``"alignment=4096,prefault"``). Raises `ArgumentError`.
        """
        require_type(text, str, "buffer policy", "a str")
        word = text.strip().lower().replace("-", "_")
        if word in _PRESETS:
            return _PRESETS[word]
        settings: dict[str, Any] = {}
        for setting in word.split(","):
            key, sign, value = setting.strip().partition("=")
            # Python reads no number of thousands of digits.
            if key == "alignment" and value.strip().isdecimal() and len(value) < 20:
                settings[key] = int(value)
            elif key in ("hugepage", "prefault", "lock") and not sign:
                settings[key] = True
            else:
                raise ArgumentError(
                    f"buffer policy {text!r}: expected one of {', '.join(_PRESETS)}, or some of "
                    "alignment=BYTES, hugepage, prefault, lock, joined by commas"
                )
        return cls(**settings)

    def __str__(self) -> str:
        for name, preset in _PRESETS.items():
            if preset == self:
                return name
        settings = [] if self.alignment == SMALLEST_ALIGNMENT else [f"alignment={self.alignment}"]
        return ",".join(settings + [key for key in ("hugepage", "prefault", "lock") if getattr(self, key)])


_PREFAULTED_PAGES: Final = BufferPolicy(alignment=4096, prefault=True)

BufferPolicy.PLAIN = BufferPolicy()
BufferPolicy.AUTO = BufferPolicy.BALANCED = BufferPolicy(auto=True)
BufferPolicy.LATENCY = BufferPolicy(prefault=True)
BufferPolicy.THROUGHPUT_LARGE = BufferPolicy(HUGE_PAGE, hugepage=True, prefault=True)
BufferPolicy.PINNED_HOST_CANDIDATE = BufferPolicy(HUGE_PAGE, hugepage=True, prefault=True, lock=True)

_PRESETS: Final[dict[str, BufferPolicy]] = {
    name.lower(): getattr(BufferPolicy, name)
    for name in ("AUTO", "BALANCED", "PLAIN", "LATENCY", "THROUGHPUT_LARGE", "PINNED_HOST_CANDIDATE")
}


@public
class Buffer(Owner):
    """Zeroed memory of a chosen kind for one tensor, which ONNX Runtime can read or write without a copy.

    `shape` is the tensor's; `dtype` is a numpy dtype, a name, or an `ElementType`. A packed type (4 or 2
    bits) is held as the bytes into which ONNX Runtime packs it. The memory is freed when the buffer and all views and
    lanes over it are gone.

    Raises `ShapeError` for an invalid shape, `DTypeError` for a type that ONNX Runtime does not support or whose
    elements have no fixed size, `AllocationError` if the system has no memory, `LockError` if it refuses to lock it.
    """

    __slots__ = ("_array", "element_type", "nbytes", "policy", "resolved", "shape")

    shape: tuple[int, ...]
    """The tensor's shape; that of a packed type counts elements, not bytes."""
    element_type: ElementType
    nbytes: int
    """The bytes of the tensor."""
    policy: BufferPolicy
    """The policy as given."""
    resolved: BufferPolicy
    """The policy in effect: with AUTO, its choice."""
    _array: np.ndarray[Any, Any] | None

    def __init__(self, shape: Iterable[int], dtype: object, policy: BufferPolicy = BufferPolicy.AUTO) -> None:
        require_type(policy, BufferPolicy, "policy", "a BufferPolicy")
        self.element_type = held(dtype)
        self.shape = as_shape(shape)
        self.nbytes = nbytes(self.element_type, self.shape)
        self.policy = policy
        self.resolved = policy.resolve(self.nbytes)
        self._handle = _allocate(self.nbytes, self.resolved)
        self._array = arrays.view(self._handle, self.address, self.shape, self.element_type)

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The memory as a numpy array: of `shape`, or for a packed type the `uint8` array of its bytes.

        Each access returns the same array. It and every view of it stay valid after the buffer is closed or freed.
        Raises `ClosedError` after `close`.
        """
        array = self._array
        if array is None:
            raise ClosedError("this Buffer is closed")
        return array

    @property
    def address(self) -> int:
        """The address of the memory, a multiple of `alignment`. Raises `ClosedError` after `close`."""
        handle = self._open()
        return address_of(handle.pointer.data)

    @property
    def alignment(self) -> int:
        """The alignment in bytes; with AUTO, its choice."""
        return self.resolved.alignment

    @property
    def locked(self) -> bool:
        """Whether the pages are locked in memory."""
        return self.resolved.lock

    @property
    def hugepage(self) -> Literal["asked", "granted", "refused"] | None:
        """The state of the huge-page hint; None without a hint.

        ``granted``: this memory has huge pages now. ``asked``: the kernel accepted the hint, and this memory has no
        huge pages (yet). ``refused``: the kernel refused the hint. Each access reads ``/proc/self/smaps``. Raises
        `ClosedError` after `close`.
        """
        return hugepage_state(self._open(), b"AnonHugePages:")

    def unpack(self) -> np.ndarray[Any, Any]:
        """The elements of a packed type, as a fresh ml_dtypes array of `shape`.

        Raises `DTypeError` for other types and `ClosedError` after `close`.
        """
        return unpack(self.array, self.element_type, self.shape)

    def close(self) -> None:
        """Frees the memory as soon as no view or lane uses it. Closing twice has no effect."""
        self._array = None
        super().close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<zrt.Buffer {self.element_type.onnx_name} {list(self.shape)}, {self.policy}{state}>"


def held(dtype: object) -> ElementType:
    """The element type of `dtype`. Raises `DTypeError` for types that zrt's own memory cannot hold."""
    element_type = ElementType.of(dtype)
    if element_type is ElementType.STRING:
        raise DTypeError("a buffer cannot hold STRING: strings live in ONNX Runtime's own memory")
    if element_type.refused:
        raise DTypeError(f"a buffer cannot hold {element_type.name}: {element_type.refused}")
    return element_type


def _allocate(size: int, policy: BufferPolicy) -> Handle:
    if size > sys.maxsize:
        raise AllocationError(f"no memory for {size} bytes: more than an address space has")
    asked = (
        (lib.ZRT_MEMORY_HUGEPAGE if policy.hugepage else 0)
        | (lib.ZRT_MEMORY_PREFAULT if policy.prefault else 0)
        | (lib.ZRT_MEMORY_LOCK if policy.lock else 0)
    )
    handle = Handle.block("zrt_memory", (), lib.zrt_memory_free)
    code = lib.zrt_memory_new(handle.pointer, size, policy.alignment, asked)
    if code:
        # The traceback of the error must not keep the memory.
        del handle
        if code < 0:
            raise lock_error(-code, size)
        raise AllocationError(f"no memory for {size} bytes ({policy}): {os.strerror(code)}")
    return handle


def lock_error(code: int, size: int) -> LockError:
    """The error for memory that the system refuses to lock."""
    pages = -(-max(size, 1) // mmap.PAGESIZE)
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    allowed = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit // KIB} KiB"
    return LockError(
        code,
        f"cannot lock {pages * mmap.PAGESIZE // KIB} KiB of memory: {os.strerror(code)}. "
        f"RLIMIT_MEMLOCK, for all that this process locks, is {allowed}; `ulimit -l` raises it",
    )


def hugepage_state(handle: Handle, kind: bytes) -> Literal["asked", "granted", "refused"] | None:
    """The state of the huge-page hint; `kind` is the key of ``/proc/self/smaps`` that counts its huge pages."""
    memory = handle.pointer
    state = memory.hugepage
    if state == lib.ZRT_HUGEPAGE_NOT_ASKED:
        return None
    if state == lib.ZRT_HUGEPAGE_REFUSED:
        return "refused"
    return "granted" if _huge_kib(address_of(memory.data), kind) else "asked"


def _huge_kib(address: int, kind: bytes) -> int:
    """The KiB in huge pages of the mapping that contains `address`; 0 if the system has no ``/proc/self/smaps``."""
    inside = False
    try:
        with open("/proc/self/smaps", "rb") as smaps:
            for line in smaps:
                key, _, value = line.partition(b" ")
                if not key.endswith(b":"):
                    first, last = (int(bound, 16) for bound in key.split(b"-"))
                    inside = first <= address < last
                elif inside and key == kind:
                    return int(value.split()[0])
    except OSError:
        pass
    return 0
