"""`ShapeContext`, the argument of `infer_shapes`: a node whose output shapes are inferred at load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zrt._common.arguments import integer, require_type, text
from zrt._common.public import public_in
from zrt._native import ffi, lib, status
from zrt._native.cdata import NULL, buffer_at, new_array
from zrt._native.library import api
from zrt.custom_ops.call_scoped import CallScoped
from zrt.custom_ops.declare import REQUIRED, Attribute, as_string, other_kind
from zrt.errors import ArgumentError, OrtError, OutOfRangeError, UnsupportedError
from zrt.types import ElementType, require_tensors
from zrt.values.type_info import Dim, read_shape, write_shape

# The kind of an attribute for each ``OrtOpAttrType``.
_KINDS: dict[int, Any] = {
    lib.ORT_OP_ATTR_INT: int,
    lib.ORT_OP_ATTR_INTS: list[int],
    lib.ORT_OP_ATTR_FLOAT: float,
    lib.ORT_OP_ATTR_FLOATS: list[float],
    lib.ORT_OP_ATTR_STRING: str,
    lib.ORT_OP_ATTR_STRINGS: list[str],
    lib.ORT_OP_ATTR_TENSOR: np.ndarray,
}


@public_in("zrt.custom_ops")
class ShapeContext(CallScoped):
    """A node whose output types and shapes are inferred (``OrtShapeInferContext``); valid only during the call.

    A dimension of a shape is an int, a string for a symbolic size, or None where it is unknown. A shape of unknown
    rank reads as that of a scalar: ONNX Runtime does not distinguish them here.
    """

    __slots__ = ("_certain", "_declared", "_least_inputs", "op_type")

    op_type: str
    """The operator's name."""

    def __init__(
        self, pointer: Any, op_type: str, declared: Mapping[str, Attribute], least_inputs: int, certain: int
    ) -> None:
        self._begin(pointer)
        self._declared = declared
        self._least_inputs = least_inputs
        self._certain = certain
        self.op_type = op_type

    @property
    def input_count(self) -> int:
        """How many inputs the node has, without the last ones if it leaves them out."""
        return int(status.fetch(api().ShapeInferContext_GetInputCount, "size_t", self._opened()))

    def input(self, index: int) -> tuple[ElementType, tuple[Dim, ...] | None]:
        """An input's element type and shape; UNDEFINED and None where the input is unknown or absent."""
        count = self.input_count
        if integer(index, "input") >= count:
            if index < self._least_inputs:
                return ElementType.UNDEFINED, None
            raise OutOfRangeError(f"{self.op_type} has no input {index} here: there are {count}")
        info = status.make(
            api().ShapeInferContext_GetInputTypeShape, "OrtTensorTypeAndShapeInfo", self._opened(), index
        )
        element_type = ElementType(status.fetch(api().GetTensorElementType, "ONNXTensorElementDataType", info))
        if element_type is ElementType.UNDEFINED:
            return element_type, None
        return element_type, read_shape(info)

    def attribute(self, name: str) -> Any:
        """A declared attribute of the node, or its default."""
        declared = self._declared.get(name)
        if declared is None:
            raise ArgumentError(f"{self.op_type} declares no attribute {name!r}")
        pointer = self._opened()
        try:
            value = status.fetch(api().ShapeInferContext_GetAttribute, "const OrtOpAttr *", pointer, text(name, "name"))
        except OrtError as error:
            if declared.default is REQUIRED:
                raise ArgumentError(f"{self.op_type} needs the attribute {name!r}") from error
            return declared.default
        return _read(value, declared.kind, name)

    def set_output(self, index: int, shape: Any, dtype: Any) -> None:
        """Sets the shape and element type of an output that every node of the operator has.

        Optional and variadic outputs are refused with `OutOfRangeError`: ONNX Runtime does not say here which of them
        the node has.
        """
        pointer = self._opened()
        number = integer(index, "output")
        if number >= self._certain:
            # ORT does not check the index and would write past the end of its list of outputs.
            raise OutOfRangeError(f"{self.op_type}: only its first {self._certain} outputs are in every node")
        subject = f"output {index}"
        with status.named(subject):
            kind = ElementType.of(dtype)
        require_tensors(kind, subject)
        require_type(shape, Sequence, subject, "a shape")
        info = write_shape(kind.onnx_code, [_dim(dim, subject) for dim in shape])
        status.check(api().ShapeInferContext_SetOutputTypeShape(pointer, number, info.pointer))


def _dim(dim: Any, subject: str) -> Dim:
    if dim is None:
        return None
    if isinstance(dim, str):
        return text(dim, subject).decode()
    return integer(int(dim) if isinstance(dim, np.integer) else dim, subject, 0, 2**63 - 1)


def _read(attribute: Any, kind: Any, name: str) -> Any:
    if kind == np.ndarray:
        raise UnsupportedError(f"attribute {name!r}: ONNX Runtime reads no tensors during shape inference")
    try:
        code = status.fetch(api().OpAttr_GetType, "OrtOpAttrType", attribute)
    except OrtError:
        # ORT has no number for lists of tensors and other rare kinds.
        code = None
    # None for a kind that no operator can declare.
    came = _KINDS.get(code)
    if came != kind:
        raise other_kind(f"attribute {name!r}", came, kind)
    raw = _raw(attribute, code)
    if kind is str:
        return as_string(raw)
    if kind == list[str]:
        return [as_string(part) for part in raw.split(b"\0")[:-1]]
    numbers = np.frombuffer(raw, np.int64 if kind in (int, list[int]) else np.float32).tolist()
    return numbers[0] if kind in (int, float) else numbers


def _raw(attribute: Any, code: int) -> bytes:
    """The bytes of an attribute of that ``OrtOpAttrType``, as ORT's ``ReadOpAttr`` writes them."""
    read, size = api().ReadOpAttr, ffi.new("size_t *")
    # Without a buffer it fails, and `size` is what it needs.
    status.dismiss(read(attribute, code, NULL, 0, size))
    buffer = new_array("char", size[0])
    status.check(read(attribute, code, buffer, size[0], size))
    return bytes(buffer_at(buffer, size[0]))
