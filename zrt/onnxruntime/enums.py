"""The enumerations of the official package, which behave as its binding's do.

Members compare with numbers by value, convert to `int`, and hash as their number; an unknown number makes a member
without a name. Two of them equal only members of their own class: those are marked `strict`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from zrt.onnxruntime import conversions

_Kind = TypeVar("_Kind", bound="_Enumeration")
_Comparison: TypeAlias = "Callable[[_Enumeration, Any], bool]"
_Arithmetic: TypeAlias = "Callable[[_Enumeration, Any], int]"


class _Member:
    """A member in the body of its class; `_Enumeration` puts an object of the class in its place."""

    def __init__(self, value: int) -> None:
        self.value: int = value

    def __get__(self, instance: object, owner: type[_Kind]) -> _Kind:
        return owner(self.value)


class _Members:
    """`__members__`: a new dictionary for each caller, from the class and from its members."""

    def __get__(self, instance: object, owner: type[_Enumeration]) -> dict[str, _Enumeration]:
        return {name: getattr(owner, name) for name in owner._names}


class _Enumeration:
    """The base of all enumerations: a number, with a name if it is a known one."""

    __members__: ClassVar[_Members] = _Members()
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
        return bool(self._number == (other._number if isinstance(other, _Enumeration) else other))

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {self._number}>"

    def __getstate__(self) -> int:
        return self._number

    def __setstate__(self, state: Any) -> None:
        self.__init__(state)  # type: ignore[misc]


def _comparison(compare: Callable[[int, int], bool]) -> _Comparison:
    def method(self: _Enumeration, other: Any) -> bool:
        if self._strict and type(self) is not type(other):
            raise TypeError("Expected an enumeration of matching type!")
        return compare(self._number, int(other))

    return method


def _arithmetic(combine: Callable[[int, int], int]) -> _Arithmetic:
    return lambda self, other: combine(self._number, int(other))


class _Ordered(_Enumeration):
    """An enumeration whose members have an order."""

    __lt__: _Comparison = _comparison(operator.lt)
    __le__: _Comparison = _comparison(operator.le)
    __gt__: _Comparison = _comparison(operator.gt)
    __ge__: _Comparison = _comparison(operator.ge)


class _Flags(_Ordered):
    """An enumeration of flags: a combination of members is an `int`."""

    __and__: _Arithmetic = _arithmetic(operator.and_)
    __rand__: _Arithmetic = __and__
    __or__: _Arithmetic = _arithmetic(operator.or_)
    __ror__: _Arithmetic = __or__
    __xor__: _Arithmetic = _arithmetic(operator.xor)
    __rxor__: _Arithmetic = __xor__

    def __invert__(self) -> int:
        return ~self._number


class ArenaExtendStrategy(_Ordered, strict=True, signed=True):
    """How an arena grows: to the next power of two, or by the requested size."""

    kNextPowerOfTwo: _Member = _Member(0)  # noqa: N815
    kSameAsRequested: _Member = _Member(1)  # noqa: N815


class ExecutionMode(_Enumeration):
    """Whether a session runs nodes one after another or in parallel."""

    ORT_SEQUENTIAL = _Member(0)
    ORT_PARALLEL = _Member(1)


class ExecutionOrder(_Enumeration, strict=True, signed=True):
    """The order of nodes in a session: topological, by priority, or such that it saves memory."""

    DEFAULT = _Member(0)
    PRIORITY_BASED = _Member(1)
    MEMORY_EFFICIENT = _Member(2)


class GraphOptimizationLevel(_Enumeration):
    """Which graph optimizations a session applies at load; each level includes those before it."""

    ORT_DISABLE_ALL = _Member(0)
    ORT_ENABLE_BASIC = _Member(1)
    ORT_ENABLE_EXTENDED = _Member(2)
    ORT_ENABLE_LAYOUT = _Member(3)
    ORT_ENABLE_ALL = _Member(99)


class OrtAllocatorType(_Enumeration, signed=True):
    """Whether an allocator takes memory from the device for each request, or from an arena."""

    INVALID = _Member(-1)
    ORT_DEVICE_ALLOCATOR = _Member(0)
    ORT_ARENA_ALLOCATOR = _Member(1)


class OrtCompileApiFlags(_Flags):
    """When the compilation of a model fails rather than go on."""

    NONE = _Member(0)
    ERROR_IF_NO_NODES_COMPILED = _Member(1)
    ERROR_IF_OUTPUT_FILE_EXISTS = _Member(2)


class OrtCompiledModelCompatibility(_Enumeration):
    """How well a compiled model suits the devices of this machine."""

    EP_NOT_APPLICABLE = _Member(0)
    EP_SUPPORTED_OPTIMAL = _Member(1)
    EP_SUPPORTED_PREFER_RECOMPILATION = _Member(2)
    EP_UNSUPPORTED = _Member(3)


class OrtDeviceEpIncompatibilityReason(_Flags, signed=True):
    """Why an execution provider cannot use a device."""

    NONE = _Member(0)
    DRIVER_INCOMPATIBLE = _Member(1)
    DEVICE_INCOMPATIBLE = _Member(2)
    MISSING_DEPENDENCY = _Member(4)
    UNKNOWN = _Member(-(2**31))


class OrtDeviceMemoryType(_Enumeration):
    """The memory of a device: its own, or such that the host can access."""

    DEFAULT = _Member(0)
    HOST_ACCESSIBLE = _Member(5)


class OrtExecutionProviderDevicePolicy(_Enumeration):
    """How ONNX Runtime selects the devices of a session."""

    DEFAULT = _Member(0)
    PREFER_CPU = _Member(1)
    PREFER_NPU = _Member(2)
    PREFER_GPU = _Member(3)
    MAX_PERFORMANCE = _Member(4)
    MAX_EFFICIENCY = _Member(5)
    MIN_OVERALL_POWER = _Member(6)


class OrtHardwareDeviceType(_Enumeration):
    """The kind of a piece of hardware."""

    CPU = _Member(0)
    GPU = _Member(1)
    NPU = _Member(2)


class OrtMemType(_Enumeration, signed=True):
    """The use of memory: by a device, or on the host for what a device reads or writes."""

    CPU_INPUT = _Member(-2)
    CPU_OUTPUT = _Member(-1)
    CPU = _Member(-1)
    DEFAULT = _Member(0)


class OrtMemoryInfoDeviceType(_Enumeration):
    """The kind of device that memory belongs to."""

    CPU = _Member(0)
    GPU = _Member(1)
    NPU = _Member(3)
    FPGA = _Member(2)


class OrtSparseFormat(_Enumeration):
    """The layout of a sparse tensor."""

    ORT_SPARSE_UNDEFINED = _Member(0)
    ORT_SPARSE_COO = _Member(1)
    ORT_SPARSE_CSRC = _Member(2)
    ORT_SPARSE_BLOCK_SPARSE = _Member(4)


kNextPowerOfTwo: ArenaExtendStrategy = ArenaExtendStrategy.kNextPowerOfTwo  # noqa: N816
kSameAsRequested: ArenaExtendStrategy = ArenaExtendStrategy.kSameAsRequested  # noqa: N816
