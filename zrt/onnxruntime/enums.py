"""The enumerations of the official package, which behave as its binding's do.

Members compare with numbers by value, convert to `int`, and hash as their number; an unknown number makes a member
without a name. Two of them equal only members of their own class: those are marked `strict`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from zrt.onnxruntime import conversions


class _Member:
    """A member in the body of its class, until the class is complete."""

    def __init__(self, value: int) -> None:
        self.value = value


def member(value: int) -> Any:
    return _Member(value)


class _Members:
    """`__members__`: a new dictionary for each caller, from the class and from its members."""

    def __get__(self, instance: object, owner: type[Enumeration]) -> dict[str, Enumeration]:
        return {name: getattr(owner, name) for name in owner._names}


class Enumeration:
    """The base of all enumerations: a number, with a name if it is a known one."""

    __members__ = _Members()
    _number: int
    _names: ClassVar[dict[str, int]] = {}
    _strict: ClassVar[bool] = False
    _limits: ClassVar[tuple[int, int]] = conversions.UINT32

    def __init_subclass__(cls, strict: bool = False, signed: bool = False) -> None:
        numbers = {name: member.value for name, member in vars(cls).items() if isinstance(member, _Member)}
        cls._names, cls._strict = numbers, strict
        cls._limits = conversions.INT32 if signed else conversions.UINT32
        for name, value in numbers.items():
            setattr(cls, name, cls(value))

    def __init__(self, value: Any) -> None:
        vars(self)["_number"] = conversions.integer(value, f"{type(self).__name__}: value", self._limits)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{self} never changes: it gets no {name!r}")

    @property
    def name(self) -> str:
        """The name of the member; "???" for a number that has none."""
        return next((name for name, value in self._names.items() if value == self._number), "???")

    @property
    def value(self) -> int:
        """The number of the member."""
        return self._number

    def __int__(self) -> int:
        return self._number

    __index__ = __int__
    __hash__ = __int__

    def __eq__(self, other: object) -> bool:
        if self._strict:
            return type(self) is type(other) and self._number == other._number
        return bool(self._number == (other._number if isinstance(other, Enumeration) else other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {self._number}>"

    def __getstate__(self) -> int:
        return self._number

    def __setstate__(self, state: Any) -> None:
        self.__init__(state)  # type: ignore[misc]


def _comparison(compare: Callable[[int, int], bool]) -> Callable[[Enumeration, Any], bool]:
    def method(self: Enumeration, other: Any) -> bool:
        if self._strict and type(self) is not type(other):
            raise TypeError("Expected an enumeration of matching type!")
        return compare(self._number, int(other))

    return method


def _arithmetic(combine: Callable[[int, int], int]) -> Callable[[Enumeration, Any], int]:
    return lambda self, other: combine(self._number, int(other))


class Ordered(Enumeration):
    """An enumeration whose members have an order."""

    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)


class Flags(Ordered):
    """An enumeration of flags: a combination of members is an `int`."""

    __and__ = __rand__ = _arithmetic(operator.and_)
    __or__ = __ror__ = _arithmetic(operator.or_)
    __xor__ = __rxor__ = _arithmetic(operator.xor)

    def __invert__(self) -> int:
        return ~self._number


class ArenaExtendStrategy(Ordered, strict=True, signed=True):
    """How an arena grows: to the next power of two, or by the requested size."""

    kNextPowerOfTwo = member(0)  # noqa: N815
    kSameAsRequested = member(1)  # noqa: N815


class ExecutionMode(Enumeration):
    """Whether a session runs nodes one after another or in parallel."""

    ORT_SEQUENTIAL = member(0)
    ORT_PARALLEL = member(1)


class ExecutionOrder(Enumeration, strict=True, signed=True):
    """The order of nodes in a session: topological, by priority, or such that it saves memory."""

    DEFAULT = member(0)
    PRIORITY_BASED = member(1)
    MEMORY_EFFICIENT = member(2)


class GraphOptimizationLevel(Enumeration):
    """Which graph optimizations a session applies at load; each level includes those before it."""

    ORT_DISABLE_ALL = member(0)
    ORT_ENABLE_BASIC = member(1)
    ORT_ENABLE_EXTENDED = member(2)
    ORT_ENABLE_LAYOUT = member(3)
    ORT_ENABLE_ALL = member(99)


class OrtAllocatorType(Enumeration, signed=True):
    """Whether an allocator takes memory from the device for each request, or from an arena."""

    INVALID = member(-1)
    ORT_DEVICE_ALLOCATOR = member(0)
    ORT_ARENA_ALLOCATOR = member(1)


class OrtCompileApiFlags(Flags):
    """When the compilation of a model fails rather than go on."""

    NONE = member(0)
    ERROR_IF_NO_NODES_COMPILED = member(1)
    ERROR_IF_OUTPUT_FILE_EXISTS = member(2)


class OrtCompiledModelCompatibility(Enumeration):
    """How well a compiled model suits the devices of this machine."""

    EP_NOT_APPLICABLE = member(0)
    EP_SUPPORTED_OPTIMAL = member(1)
    EP_SUPPORTED_PREFER_RECOMPILATION = member(2)
    EP_UNSUPPORTED = member(3)


class OrtDeviceEpIncompatibilityReason(Flags, signed=True):
    """Why an execution provider cannot use a device."""

    NONE = member(0)
    DRIVER_INCOMPATIBLE = member(1)
    DEVICE_INCOMPATIBLE = member(2)
    MISSING_DEPENDENCY = member(4)
    UNKNOWN = member(-(2**31))


class OrtDeviceMemoryType(Enumeration):
    """The memory of a device: its own, or such that the host can access."""

    DEFAULT = member(0)
    HOST_ACCESSIBLE = member(5)


class OrtExecutionProviderDevicePolicy(Enumeration):
    """How ONNX Runtime selects the devices of a session."""

    DEFAULT = member(0)
    PREFER_CPU = member(1)
    PREFER_NPU = member(2)
    PREFER_GPU = member(3)
    MAX_PERFORMANCE = member(4)
    MAX_EFFICIENCY = member(5)
    MIN_OVERALL_POWER = member(6)


class OrtHardwareDeviceType(Enumeration):
    """The kind of a piece of hardware."""

    CPU = member(0)
    GPU = member(1)
    NPU = member(2)


class OrtMemType(Enumeration, signed=True):
    """The use of memory: by a device, or on the host for what a device reads or writes."""

    CPU_INPUT = member(-2)
    CPU_OUTPUT = member(-1)
    CPU = member(-1)
    DEFAULT = member(0)


class OrtMemoryInfoDeviceType(Enumeration):
    """The kind of device that memory belongs to."""

    CPU = member(0)
    GPU = member(1)
    NPU = member(3)
    FPGA = member(2)


class OrtSparseFormat(Enumeration):
    """The layout of a sparse tensor."""

    ORT_SPARSE_UNDEFINED = member(0)
    ORT_SPARSE_COO = member(1)
    ORT_SPARSE_CSRC = member(2)
    ORT_SPARSE_BLOCK_SPARSE = member(4)


kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo  # noqa: N816
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested  # noqa: N816
