"""`KernelInfo`, the argument of `create`: a node's names, types, attributes and constant inputs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from zrt._common.arguments import choose, integer, require_type
from zrt._common.public import public_in
from zrt._native import ffi, lib, status
from zrt._native.cdata import NULL, buffer_at, new_array, numbers, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.custom_ops.call_scoped import CallScoped
from zrt.custom_ops.declare import REQUIRED, Attribute, as_string, other_kind
from zrt.errors import (
    ArgumentError,
    DTypeError,
    FailError,
    NotImplementedByOrtError,
    OutOfRangeError,
    UnsupportedError,
)
from zrt.memory.allocators import Allocator, MemoryInfo, default_allocator, fetch_pairs, free
from zrt.types import ElementType, LogSeverity, MemType
from zrt.values import strings
from zrt.values.type_info import ValueInfo, read_type
from zrt.values.value import Value


def _array(function: Any, ctype: str, *arguments: Any) -> tuple[Any, int]:
    """The array that a function of the table writes, and its length, which the function gives without a buffer."""
    size = ffi.new("size_t *")
    status.check(function(*arguments, NULL, size))
    buffer = new_array(ctype, size[0] or 1)
    status.check(function(*arguments, buffer, size))
    return buffer, size[0]


def _bytes(function: Any, *arguments: Any) -> bytes:
    """The text that a function of the table writes, without the NUL at its end."""
    buffer, size = _array(function, "char", *arguments)
    return bytes(buffer_at(buffer, max(size - 1, 0)))


def _text(function: Any, *arguments: Any) -> str:
    """A name that a function of the table writes."""
    return _bytes(function, *arguments).decode(errors="replace")


def _strings(info: Any, name: bytes) -> list[str]:
    table = api()
    allocator = default_allocator()
    texts, count = status.fetch_array(table.KernelInfoGetAttributeArray_string, "char *", info, name, allocator)
    strings = []
    for i in range(count):
        strings.append(as_string(ffi.string(texts[i])))
        free(allocator, texts[i])
    if texts:
        free(allocator, texts)
    return strings


def _read(info: Any, name: str, kind: Any) -> Any:
    table, key = api(), name.encode()
    if kind is int:
        return int(status.fetch(table.KernelInfoGetAttribute_int64, "int64_t", info, key))
    if kind is float:
        return float(status.fetch(table.KernelInfoGetAttribute_float, "float", info, key))
    if kind is str:
        return as_string(_bytes(table.KernelInfoGetAttribute_string, info, key))
    if kind == list[int]:
        return list(numbers(*_array(table.KernelInfoGetAttributeArray_int64, "int64_t", info, key)))
    if kind == list[float]:
        return list(numbers(*_array(table.KernelInfoGetAttributeArray_float, "float", info, key)))
    if kind == list[str]:
        return _strings(info, key)
    function = table.KernelInfoGetAttribute_tensor
    return Value(Handle.make(table.ReleaseValue, [], function, "OrtValue", info, key, default_allocator())).numpy()


def _has(info: Any, name: str) -> bool:
    """Whether the node has the attribute, of whatever kind: ORT reads any as a list."""
    try:
        _read(info, name, list[int])
    except FailError:
        return False
    return True


def _other_kind(info: Any, name: str, kind: Any) -> Any:
    """The kind that the node's attribute has instead of `kind`; None for no attribute, a graph or an empty list."""
    for other in Attribute.KINDS:
        if other != kind:
            try:
                value = _read(info, name, other)
            except NotImplementedByOrtError:
                # A tensor of a type that ORT has no values of.
                return other
            except FailError:
                continue
            if not _is_empty(value):
                return other
    return None


def _is_empty(value: Any) -> bool:
    """Whether it is an empty list: ORT gives one for each attribute that is no such list."""
    return isinstance(value, list) and not value


def read_attributes(info: Any, declared: Mapping[str, Attribute], node: str) -> Mapping[str, Any]:
    """The declared attributes of a node, each with its value or its default."""
    values = {}
    for name, attribute in declared.items():
        missing = None
        subject = f"{node}: attribute {name!r}"
        try:
            values[name] = _read(info, name, attribute.kind)
        except NotImplementedByOrtError as error:
            raise UnsupportedError(f"{subject} is a tensor of a type that ONNX Runtime cannot read") from error
        except FailError as error:
            missing = error
        if missing is None and not _is_empty(values[name]):
            continue
        other = _other_kind(info, name, attribute.kind)
        if other is not None or (missing is not None and _has(info, name)):
            wrong = other_kind(subject, other, attribute.kind)
            if other is None and attribute.kind is np.ndarray:
                wrong = DTypeError(f"{wrong}, or it is damaged: {missing}")
            raise wrong from missing
        if missing is not None:
            if attribute.default is REQUIRED:
                raise ArgumentError(f"{node} needs the attribute {name!r}: {missing}") from missing
            values[name] = attribute.default
    return MappingProxyType(values)


@public_in("zrt.custom_ops")
class OpLogger:
    """ONNX Runtime's log, for an operator to write to; valid as long as the object that returned it."""

    __slots__ = ("_op_type", "_owner", "_pointer")

    def __init__(self, pointer: Any, owner: CallScoped, op_type: str) -> None:
        self._pointer = pointer
        self._owner = owner
        self._op_type = op_type

    @property
    def severity(self) -> LogSeverity:
        """The lowest level that is logged."""
        return LogSeverity(status.fetch(api().Logger_GetLoggingSeverityLevel, "OrtLoggingLevel", self._opened()))

    def log(self, severity: LogSeverity | str, message: str) -> None:
        """Writes a line at that level; dropped where `severity` is higher."""
        pointer = self._opened()
        level = choose(LogSeverity, severity, "severity")
        require_type(message, str, "message", "a str")
        line = message.replace("\0", "\\0").encode(errors="replace")
        status.check(api().Logger_LogMessage(pointer, int(level), line, b"custom operator", 0, self._op_type.encode()))

    def _opened(self) -> Any:
        self._owner._opened()
        return self._pointer


@public_in("zrt.custom_ops")
class KernelInfo(CallScoped):
    """A kernel's node (``OrtKernelInfo``).

    Names, types and attributes stay readable; everything else is valid only during `CustomOp.create`, in its thread.
    """

    __slots__ = (
        "_standards",
        "attributes",
        "domain",
        "input_names",
        "inputs",
        "node_name",
        "op_type",
        "output_names",
        "outputs",
        "since_version",
    )

    _call = "create"
    node_name: str
    """The node's name in the model."""
    op_type: str
    """The operator's name."""
    domain: str
    """The operator's domain."""
    since_version: int
    """The opset version that introduced this definition of the operator."""
    input_names: tuple[str, ...]
    """The names of the node's inputs; "" for an absent input."""
    output_names: tuple[str, ...]
    """The names of the node's outputs; "" for an absent output."""
    inputs: tuple[ValueInfo | None, ...]
    """The inputs' types and shapes, as far as they are known at load; None for an absent input."""
    outputs: tuple[ValueInfo | None, ...]
    """The outputs' types and shapes, as far as they are known at load; None for an absent output."""
    attributes: Mapping[str, Any]
    """The operator's attributes by name; an attribute that the node leaves out has its default."""

    def __init__(self, info: Any, declared: Mapping[str, Attribute], least_inputs: int, least_outputs: int) -> None:
        table = api()
        self._begin(info)
        # The standard operators made for this kernel (invoke.py), released with it.
        self._standards: list[Handle] = []
        self.node_name = _text(table.KernelInfo_GetNodeName, info)
        self.op_type = _text(table.KernelInfo_GetOperatorType, info)
        self.domain = _text(table.KernelInfo_GetOperatorDomain, info)
        self.since_version = int(status.fetch(table.KernelInfo_GetOperatorSinceVersion, "int", info))
        of_inputs = table.KernelInfo_GetInputCount, table.KernelInfo_GetInputName, table.KernelInfo_GetInputTypeInfo
        of_outputs = table.KernelInfo_GetOutputCount, table.KernelInfo_GetOutputName, table.KernelInfo_GetOutputTypeInfo
        self.input_names, self.inputs = _ports(info, *of_inputs, least_inputs)
        self.output_names, self.outputs = _ports(info, *of_outputs, least_outputs)
        self.attributes = read_attributes(info, declared, f"{self.op_type} {self.node_name!r}")

    def constant_input(self, index: int) -> np.ndarray[Any, Any] | None:
        """An input that is a weight of the model, as a read-only zero-copy view; None where the input is no weight.

        The view is valid only during `create`; in `compute` the weight is among the inputs.
        """
        pointer = self._opened()
        table = api()
        number = integer(index, "input")
        if number >= len(self.input_names):
            raise OutOfRangeError(f"the node has no input {index}: there are {len(self.input_names)}")
        if not self.input_names[number]:
            return None
        constant, place = ffi.new("int *"), ffi.new("const OrtValue **")
        status.check(table.KernelInfoGetConstantInput_tensor(pointer, number, constant, place))
        if not constant[0]:
            return None
        value = pointer_to(place[0], "OrtValue")
        where = MemoryInfo._read(status.fetch(table.GetTensorMemoryInfo, "const OrtMemoryInfo *", value))
        if not where.is_host:
            raise UnsupportedError(f"input {self.input_names[number]!r} lies on {where.name}: there is no numpy view")
        tensor = ffi.new("zrt_op_tensor *")
        status.check(lib.zrt_op_describe(table, value, tensor))
        shape = numbers(tensor.shape, tensor.rank)
        if tensor.element_type == ElementType.STRING:
            return strings.read(Handle.borrow(value), shape)
        return self._lend("input", number, tensor.data, tensor.count, shape, tensor.element_type, False)

    @property
    def config_entries(self) -> dict[str, str]:
        """The session's config entries."""
        return fetch_pairs(api().KernelInfo_GetConfigEntries, self._opened())

    def allocator(self, mem_type: MemType | str = MemType.DEFAULT) -> Allocator:
        """The provider's allocator for a kind of memory; it stays valid after the call."""
        pointer = self._opened()
        kind = choose(MemType, mem_type, "mem_type")
        return allocator_of(api().KernelInfoGetAllocator, pointer, int(kind), kind.name)

    @property
    def logger(self) -> OpLogger:
        """The execution provider's logger."""
        pointer = status.fetch(api().KernelInfo_GetLogger, "const OrtLogger *", self._opened())
        return OpLogger(pointer, self, self.op_type)

    def _abandon(self, error: BaseException) -> None:
        super()._abandon(error)
        end_standards(self._standards)

    def _named(self, role: str, index: int) -> str:
        return f"constant {role} {self.input_names[index]!r}"


def allocator_of(function: Any, owner: Any, memory: Any, name: str) -> Allocator:
    """The allocator that a function of the table returns to a kernel, for the memory called `name`."""
    with status.named(f"this kernel has no allocator for {name}", ArgumentError):
        handle = Handle.make(api().ReleaseAllocator, [], function, "OrtAllocator", owner, memory)
    return Allocator._adopt(handle)


def end_standards(standards: list[Handle]) -> None:
    """Releases the standard operators made for a kernel: they must not outlive its session."""
    for handle in standards:
        lib.zrt_standard_end(handle.pointer)


def _ports(
    info: Any, count_of: Any, name_of: Any, type_of: Any, least: int
) -> tuple[tuple[str, ...], tuple[ValueInfo | None, ...]]:
    """The names and the types of a node's inputs or outputs, which these functions of the table tell."""
    count = status.fetch(count_of, "size_t", info)
    names = [_text(name_of, info, index) for index in range(count)]
    types: list[ValueInfo | None] = [None] * count
    for index, name in enumerate(names):
        # An absent one has no type.
        if name:
            handle = Handle.make(api().ReleaseTypeInfo, [], type_of, "OrtTypeInfo", info, index)
            types[index] = read_type(name, handle.pointer)
    # ORT does not count the last ones if the node leaves them out.
    absent = max(least - count, 0)
    return (*names, *[""] * absent), (*types, *[None] * absent)
