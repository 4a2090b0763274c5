"""The enumerations of the official package, which behave as its binding's do.

Members compare with numbers by value, convert to `int`, and hash as their number; an unknown number makes a member
without a name. Two of them equal only members of their own class: those are marked `strict`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from zrt.onnxruntime import conversions

Kind = TypeVar("Kind", bound="Enumeration")
Comparison: TypeAlias = "Callable[[Enumeration, Any], bool]"
Arithmetic: TypeAlias = "Callable[[Enumeration, Any], int]"


class Member:
    """A member in the body of its class; `Enumeration` puts an object of the class in its place."""

    def __init__(self, value: int) -> None:
        self.value: int = value

    def __get__(self, instance: object, owner: type[Kind]) -> Kind:
        return owner(self.value)


class _Members:
    """`__members__`: a new dictionary for each caller, from the class and from its members."""

    def __get__(self, instance: object, owner: type[Enumeration]) -> dict[str, Enumeration]:
        return {name: getattr(owner, name) for name in owner._names}


class Enumeration:
    """The base of all enumerations: a number, with a name if it is a known one."""

    __members__: ClassVar[_Members] = _Members()
    _number: int
    _names: ClassVar[dict[str, int]] = {}
    _strict: ClassVar[bool] = False
    _limits: ClassVar[tuple[int, int]] = conversions.UINT32

    def __init_subclass__(cls, strict: bool = False, signed: bool = False) -> None:
        numbers = {name: member.value for name, member in vars(cls).items() if isinstance(member, Member)}
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


def _comparison(compare: Callable[[int, int], bool]) -> Comparison:
    def method(self: Enumeration, other: Any) -> bool:
        if self._strict and type(self) is not type(other):
            raise TypeError("Expected an enumeration of matching type!")
        return compare(self._number, int(other))

    return method


def _arithmetic(combine: Callable[[int, int], int]) -> Arithmetic:
    return lambda self, other: combine(self._number, int(other))


class Ordered(Enumeration):
    """An enumeration whose members have an order."""

    __lt__: Comparison = _comparison(operator.lt)
    __le__: Comparison = _comparison(operator.le)
    __gt__: Comparison = _comparison(operator.gt)
    __ge__: Comparison = _comparison(operator.ge)


class Flags(Ordered):
    """An enumeration of flags: a combination of members is an `int`."""

    __and__: Arithmetic = _arithmetic(operator.and_)
    __rand__: Arithmetic = __and__
    __or__: Arithmetic = _arithmetic(operator.or_)
    __ror__: Arithmetic = __or__
    __xor__: Arithmetic = _arithmetic(operator.xor)
    __rxor__: Arithmetic = __xor__

    def __invert__(self) -> int:
        return ~self._number


class ArenaExtendStrategy(Ordered, strict=True, signed=True):
    """How an arena grows: to the next power of two, or by the requested size."""

    kNextPowerOfTwo: Member = Member(0)  # noqa: N815
    kSameAsRequested: Member = Member(1)  # noqa: N815


class ExecutionMode(Enumeration):
    """Whether a session runs nodes one after another or in parallel."""

    ORT_SEQUENTIAL = Member(0)
    ORT_PARALLEL = Member(1)


class ExecutionOrder(Enumeration, strict=True, signed=True):
    """The order of nodes in a session: topological, by priority, or such that it saves memory."""

    DEFAULT = Member(0)
    PRIORITY_BASED = Member(1)
    MEMORY_EFFICIENT = Member(2)


class GraphOptimizationLevel(Enumeration):
    """Which graph optimizations a session applies at load; each level includes those before it."""

    ORT_DISABLE_ALL = Member(0)
    ORT_ENABLE_BASIC = Member(1)
    ORT_ENABLE_EXTENDED = Member(2)
    ORT_ENABLE_LAYOUT = Member(3)
    ORT_ENABLE_ALL = Member(99)


class OrtAllocatorType(Enumeration, signed=True):
    """Whether an allocator takes memory from the device for each request, or from an arena."""

    INVALID = Member(-1)
    ORT_DEVICE_ALLOCATOR = Member(0)
    ORT_ARENA_ALLOCATOR = Member(1)


class OrtCompileApiFlags(Flags):
    """When the compilation of a model fails rather than go on."""

    NONE = Member(0)
    ERROR_IF_NO_NODES_COMPILED = Member(1)
    ERROR_IF_OUTPUT_FILE_EXISTS = Member(2)


class OrtCompiledModelCompatibility(Enumeration):
    """How well a compiled model suits the devices of this machine."""

    EP_NOT_APPLICABLE = Member(0)
    EP_SUPPORTED_OPTIMAL = Member(1)
    EP_SUPPORTED_PREFER_RECOMPILATION = Member(2)
    EP_UNSUPPORTED = Member(3)


class OrtDeviceEpIncompatibilityReason(Flags, signed=True):
    """Why an execution provider cannot use a device."""

    NONE = Member(0)
    DRIVER_INCOMPATIBLE = Member(1)
    DEVICE_INCOMPATIBLE = Member(2)
    MISSING_DEPENDENCY = Member(4)
    UNKNOWN = Member(-(2**31))


class OrtDeviceMemoryType(Enumeration):
    """The memory of a device: its own, or such that the host can access."""

    DEFAULT = Member(0)
    HOST_ACCESSIBLE = Member(5)


class OrtExecutionProviderDevicePolicy(Enumeration):
    """How ONNX Runtime selects the devices of a session."""

    DEFAULT = Member(0)
    PREFER_CPU = Member(1)
    PREFER_NPU = Member(2)
    PREFER_GPU = Member(3)
    MAX_PERFORMANCE = Member(4)
    MAX_EFFICIENCY = Member(5)
    MIN_OVERALL_POWER = Member(6)


class OrtHardwareDeviceType(Enumeration):
    """The kind of a piece of hardware."""

    CPU = Member(0)
    GPU = Member(1)
    NPU = Member(2)


class OrtMemType(Enumeration, signed=True):
    """The use of memory: by a device, or on the host for what a device reads or writes."""

    CPU_INPUT = Member(-2)
    CPU_OUTPUT = Member(-1)
    CPU = Member(-1)
    DEFAULT = Member(0)


class OrtMemoryInfoDeviceType(Enumeration):
    """The kind of device that memory belongs to."""

    CPU = Member(0)
    GPU = Member(1)
    NPU = Member(3)
    FPGA = Member(2)


class OrtSparseFormat(Enumeration):
    """The layout of a sparse tensor."""

    ORT_SPARSE_UNDEFINED = Member(0)
    ORT_SPARSE_COO = Member(1)
    ORT_SPARSE_CSRC = Member(2)
    ORT_SPARSE_BLOCK_SPARSE = Member(4)


kNextPowerOfTwo: ArenaExtendStrategy = ArenaExtendStrategy.kNextPowerOfTwo  # noqa: N816
kSameAsRequested: ArenaExtendStrategy = ArenaExtendStrategy.kSameAsRequested  # noqa: N816
