"""Initializers of a graph: copied content and borrowed memory."""

from __future__ import annotations

from typing import Any

from zrt.errors import ArgumentError, UnsupportedError
from zrt.graph import attributes, model_proto
from zrt.graph.editor import LEAST_BORROWED
from zrt.types import ElementType
from zrt.values import Value


def copy(given: Any, name: str, subject: str) -> Any:
    """The ``onnx.TensorProto`` with a copy of an array, a scalar, a `Value` or an ``onnx.TensorProto``."""
    onnx = model_proto.package()
    if isinstance(given, Value):
        if given._tensor() and given.element_type.packed:
            made = onnx.TensorProto(name=name, data_type=given.element_type.onnx_code, dims=given.shape)
            made.raw_data = model_proto.raw_of(given)
            return made
        given = given.numpy()
    made = attributes.initializer(given, name, subject)
    if onnx.external_data_helper.uses_external_data(made):
        raise UnsupportedError(f"{subject}: its content lies in a file; from_onnx reads models with such weights")
    return made


def borrowed(given: Any, subject: str) -> Value:
    """The value over the memory to borrow; an error where it cannot be borrowed."""
    value = given if isinstance(given, Value) else Value.from_array(given, subject)
    if not value._tensor() or not value.memory.is_host:
        raise UnsupportedError(f"{subject}: it lies on {value.memory.name}; initializers must be in host memory")
    if value.element_type is ElementType.STRING:
        raise UnsupportedError(f"{subject}: strings cannot be borrowed; copy them")
    if value.nbytes < LEAST_BORROWED:
        raise ArgumentError(
            f"{subject}: it has {value.nbytes} bytes, and ONNX Runtime borrows {LEAST_BORROWED} or more: copy it"
        )
    return value


def placeholder(value: Value, name: str) -> Any:
    """The ``onnx.TensorProto`` without content that stands for borrowed memory."""
    return model_proto.outside(name, value.element_type.onnx_code, value.shape, "borrowed", 0, value.nbytes)
