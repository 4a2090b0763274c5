"""`Op`: a standard operator that a custom operator calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zrt._common import one_node
from zrt._common.arguments import integer, require_type, text, wrong_type
from zrt._common.public import public_in
from zrt._native import ffi, lib, status
from zrt._native.cdata import NULL, new_array, strings
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.custom_ops.context import KernelContext
from zrt.custom_ops.info import KernelInfo
from zrt.custom_ops.node import Attr
from zrt.errors import (
    ArgumentError,
    DTypeError,
    Error,
    NotImplementedByOrtError,
    OrtError,
    ShapeError,
    UnsupportedError,
)
from zrt.loading.session_options import SessionOptions
from zrt.session.session import Session
from zrt.types import ElementType
from zrt.values.type_info import type_name
from zrt.values.value import Value, as_value

# Added to an operator's inputs to find out whether it is variadic: no other operator accepts so many more.
MANY = 64

# The operators that copy their input by a kernel that asks the frame of a session for the input's type: without a
# session it ends the process. Each with the first version that has another kernel.
FRAMED = {"Identity": 1 << 31, "Dropout": 12}

# The number of combinations of input shapes whose output shapes an `Op` caches.
SHAPES_KEPT = 256

_QUIET = SessionOptions(
    graph_optimization_level="DISABLE_ALL", intra_op_num_threads=1, inter_op_num_threads=1, log_severity_level="FATAL"
)


@public_in("zrt.custom_ops")
class Op(Owner):
    """A standard operator's kernel, made in a custom operator's `create` and called in its `compute`.

    `domain` and `version` name the operator's opset. `inputs` and `outputs` list the element types, None for an
    optional one that is left out: of outputs only the last ones can be. `types` maps the operator's type constraints
    to element types (``{"T1": "int32"}``), where that of an input or output that is left out chooses the kernel.
    `attributes` are ints, floats, strings and lists of them. Give all of them: ONNX Runtime fills in no defaults here,
    and many kernels need every attribute.

    ONNX Runtime does not check such a kernel as it checks a model's nodes, so zrt loads a model of this one node
    first. `UnsupportedError` is raised for variadic operators (Concat, Sum), whose kernel would see only the first
    input, for Identity and Dropout before opset 12, and at `invoke` for operators whose output shape depends on the
    content of the inputs (Reshape, NonZero).

    An `Op` belongs to the kernel that it was made for, and is released with it.
    """

    __slots__ = ("_attributes", "_domain", "_inferred", "_info", "_version", "_written", "inputs", "name", "outputs")

    name: str
    """The operator's name."""
    inputs: tuple[ElementType | None, ...]
    """The element types of its inputs."""
    outputs: tuple[ElementType | None, ...]
    """The element types of its outputs."""

    def __init__(
        self,
        info: KernelInfo,
        name: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        version: int,
        types: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> None:
        self._handle = None
        require_type(info, KernelInfo, "info", "a KernelInfo")
        kernel = info._opened()
        types, attributes = {} if types is None else types, {} if attributes is None else attributes
        for subject, argument in (("types", types), ("attributes", attributes)):
            require_type(argument, Mapping, subject, "a dict")
        label = text(name, "name")
        self.name, self._domain, self._version = name, domain, integer(version, "version", 1)
        self.inputs, self.outputs = _types(inputs, f"{name}, inputs"), _types(outputs, f"{name}, outputs")
        self._written = _written(self.outputs, f"{name}, output")
        self._attributes = [Attr.of(key, value) for key, value in attributes.items()]
        self._info = info
        self._inferred: dict[Any, tuple[tuple[int, ...] | None, ...]] = {}
        with status.named(f"{name}, types"):
            chosen = {text(each, "a name").decode(): ElementType.of(kind) for each, kind in types.items()}
        where = text(domain, "domain")
        self._check()
        bound = self._bound(label, where, chosen)
        handles = [attribute.handle() for attribute in self._attributes]
        table = api()
        handle = Handle.block("zrt_standard", (), lib.zrt_standard_free)
        block = handle.pointer
        block.api = table
        info._standards.append(handle)
        with status.named(self.name):
            status.check(
                table.CreateOp(
                    kernel,
                    label,
                    where,
                    self._version,
                    strings([each.encode() for each in bound]),
                    # ONNX Runtime reads ONNX's numbers here, as in a model, not its own.
                    new_array("ONNXTensorElementDataType", [kind.onnx_code for kind in bound.values()]),
                    len(bound),
                    new_array("const OrtOpAttr *", [each.pointer for each in handles]),
                    len(handles),
                    len(self.inputs),
                    self._written,
                    ffi.addressof(block, "op"),
                )
            )
        self._handle = handle

    def _model(self, shapes: Sequence[tuple[int, ...]] | None, more: int = 0) -> bytes:
        """The model of a node, in which ONNX Runtime checks more than in a lone kernel; `shapes` are the inputs'."""
        known = iter(shapes or ())
        types = self.inputs + self.inputs[-1:] * more
        inputs = [None if kind is None else one_node.tensor_type(kind.onnx_code, next(known, None)) for kind in types]
        outputs = [None if kind is None else one_node.tensor_type(kind.onnx_code) for kind in self.outputs]
        attributes = [each.proto() for each in self._attributes]
        return one_node.one_node(self.name, self._domain, self._version, inputs, outputs, attributes)

    def _check(self) -> None:
        if self._version < FRAMED.get(self.name, 0) and self._domain in ("", "ai.onnx"):
            raise UnsupportedError(f"{self.name}: its kernel works in a model only; copy the input into the output")
        try:
            Session(self._model(None), _QUIET)
        except NotImplementedByOrtError:
            # The node is valid, and an execution provider other than the CPU's may have a kernel.
            pass
        except OrtError as error:
            raise ArgumentError(f"{self.name}: {error}") from error
        if not self.inputs:
            return
        try:
            Session(self._model(None, MANY), _QUIET)
        except NotImplementedByOrtError:
            pass
        except Error:
            return
        raise UnsupportedError(f"{self.name} takes any number of inputs: ONNX Runtime would see only the first")

    def _bound(self, name: bytes, domain: bytes, chosen: dict[str, ElementType]) -> dict[str, ElementType]:
        """The type of each constraint: those of the inputs and outputs, and `chosen` ones of others.

        ONNX Runtime takes any: by a wrong one it would choose a kernel that reads and writes beyond the tensors.
        """
        ports, known = _constraints(name, domain, self._version)
        bound = {
            constraint: kind
            for constraints, kinds in zip(ports, (self.inputs, self.outputs), strict=True)
            for constraint, kind in zip(constraints, kinds, strict=False)
            if constraint is not None and kind is not None
        }
        for constraint, kind in chosen.items():
            if constraint not in known:
                raise ArgumentError(f"{self.name}, types: there is no {constraint!r}, only {', '.join(sorted(known))}")
            if bound.setdefault(constraint, kind) is not kind:
                right, given = type_name(bound[constraint]), type_name(kind)
                raise DTypeError(
                    f"{self.name}, types: {constraint!r} is {right} by the inputs and outputs, not {given}"
                )
        return bound

    def _shapes(self, fed: list[Value]) -> tuple[tuple[int, ...] | None, ...]:
        """The outputs' shapes for these inputs; None for one that depends on content."""
        shapes = tuple(value.shape for value in fed)
        inferred = self._inferred.get(shapes)
        if inferred is None:
            try:
                session = Session(self._model(shapes), _QUIET)
            except NotImplementedByOrtError as error:
                raise UnsupportedError(f"{self.name}: its outputs' shapes are not known: {error}") from error
            except OrtError as error:
                raise ShapeError(f"{self.name}: {error}") from error
            with session:
                inferred = tuple(info.static_shape for info in session.outputs)
                if None not in inferred and all(value.memory.is_host for value in fed):
                    # ONNX's inference is wrong for some operators, and the kernel writes as much as it computes.
                    inferred = tuple(result.shape for result in session.run(fed))
            if len(self._inferred) >= SHAPES_KEPT:
                self._inferred = {}
            self._inferred[shapes] = inferred
        return inferred

    def invoke(self, context: KernelContext, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Computes `outputs` from `inputs`: arrays or `Value` objects of matching shapes, None for those left out.

        An output may have the whole memory of an input, as `CustomOp.inplace` allows, but only of an operator that
        computes each element from the one at its place (Relu, Add): others give wrong numbers. Arrays that overlap in
        another way raise `ArgumentError`.

        The first call with new input shapes takes a millisecond and a run of the operator more, which tell the output
        shapes.
        """
        handle = self._open()
        if not isinstance(context, KernelContext):
            raise wrong_type("context", "a KernelContext", context)
        pointer = context._opened()
        if context.info is not self._info:
            raise ArgumentError(f"{self.name} was made for {self._info.node_name!r}, another kernel")
        fed = _values(inputs, self.inputs, f"{self.name}, input")
        places = _values(outputs, self.outputs, f"{self.name}, output")
        wanted = iter(self._shapes([value for value in fed if value is not None]))
        for index, place in enumerate(places):
            if place is None:
                continue
            shape = next(wanted)
            if not place.writeable:
                raise ArgumentError(f"{self.name}, output {index}: the array is read-only")
            if shape is None:
                raise UnsupportedError(f"{self.name}: the shape of output {index} depends on the inputs' content")
            if place.shape != shape:
                raise ShapeError(f"{self.name}, output {index}: expected shape {list(shape)}, got {list(place.shape)}")
        self._check_memory(fed, places)
        # Another thread may close a value meanwhile.
        read, written = _handles(fed), _handles(places)
        sources, targets = ([each.pointer for each in handles] for handles in (read, written))
        status.check(api().InvokeOp(pointer, handle.pointer.op, sources, len(fed), targets, self._written))

    def _check_memory(self, inputs: list[Value | None], outputs: list[Value | None]) -> None:
        """Raises if the kernel would write into memory of another tensor; an output may have all of an input's."""
        read, written = list(map(_span, inputs)), list(map(_span, outputs))
        for number, place in enumerate(written):
            for index, other in enumerate(read):
                if _overlap(place, other) and place != other:
                    raise ArgumentError(f"{self.name}: output {number} overlaps the memory of input {index}")
            for index, other in enumerate(written[:number]):
                if _overlap(place, other):
                    raise ArgumentError(f"{self.name}: output {number} overlaps the memory of output {index}")


def _constraints(name: bytes, domain: bytes, version: int) -> tuple[list[list[str | None]], set[str]]:
    """The type constraints of an operator's inputs and of its outputs, None for a fixed type; and all their names."""
    table = ffi.cast("const zrt_schema_api *", api().GetEpApi())
    schema = status.make(table.GetOpSchema, "void", name, version, domain)
    if schema == NULL:
        raise UnsupportedError(f"{name.decode()}: this library does not tell the types of its inputs and outputs")
    try:
        ports: list[list[str | None]] = []
        for count, constraint_of in (
            (table.OpSchema_GetNumInputs, table.OpSchema_GetInputTypeConstraint),
            (table.OpSchema_GetNumOutputs, table.OpSchema_GetOutputTypeConstraint),
        ):
            constraints = [
                status.make(constraint_of, "void", schema, index)
                for index in range(status.fetch(count, "size_t", schema))
            ]
            ports.append([None if each == NULL else _name_of(table, each) for each in constraints])
    finally:
        table.ReleaseOpSchema(schema)
    return ports, {each for constraints in ports for each in constraints if each is not None}


def _name_of(table: Any, constraint: Any) -> str:
    return status.string(status.make(table.OpSchemaTypeConstraint_GetTypeParamName, "const char", constraint))


def _types(types: Any, subject: str) -> tuple[ElementType | None, ...]:
    require_type(types, Sequence, subject, "a list of element types")
    with status.named(subject):
        return tuple(None if each is None else ElementType.of(each) for each in types)


def _written(outputs: tuple[ElementType | None, ...], subject: str) -> int:
    """How many outputs a kernel may write: up to the last that is wanted. It writes all of these."""
    count = max((index + 1 for index, kind in enumerate(outputs) if kind is not None), default=0)
    if None in outputs[:count]:
        raise UnsupportedError(
            f"{subject} {outputs.index(None)} is left out before others: ONNX Runtime writes it, so give it a type"
        )
    return count


def _values(arrays: Any, types: tuple[ElementType | None, ...], subject: str) -> list[Value | None]:
    if isinstance(arrays, (str, np.ndarray)) or not isinstance(arrays, Sequence):
        raise wrong_type(f"{subject}s", "a list of arrays", arrays)
    if len(arrays) != len(types):
        raise ArgumentError(f"{subject}s: it was made for {len(types)}, got {len(arrays)}")
    values = []
    for index, (each, kind) in enumerate(zip(arrays, types, strict=True)):
        if (each is None) != (kind is None):
            raise ArgumentError(f"{subject} {index}: it was made {'without' if kind is None else 'with'} one")
        value = None if each is None else as_value(each, f"{subject} {index}")
        if value is not None and value.element_type is not kind:
            came, expected = value.element_type.name, ElementType.of(kind).name
            raise DTypeError(f"{subject} {index}: expected {expected}, got {came}")
        values.append(value)
    return values


def _span(value: Value | None) -> range:
    """The addresses of a tensor; none for one of strings, which has memory of its own."""
    if value is None or value.element_type is ElementType.STRING:
        return range(0)
    return range(start := value.address, start + value.nbytes)


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def _handles(values: Sequence[Value | None]) -> list[Handle]:
    return [Handle.borrow(NULL) if value is None else value._open() for value in values]
