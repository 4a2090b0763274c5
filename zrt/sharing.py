"""Weights that several sessions share: initializers loaded once, and the container of their prepacked forms."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from zrt import arrays, loading
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.buffers import Buffer
from zrt.errors import DTypeError, ModelError, UnsupportedError
from zrt.options import path_bytes
from zrt.types import ElementType
from zrt.values import Value

# Smaller ones are scalars, shapes and axes: sharing them saves nothing, and ORT folds them while it optimizes.
SMALLEST_SHARED = 1024


class SharedWeights:
    """A model's large initializers, in memory once, and their prepacked forms.

    Every session that is loaded with it takes its weights from here (``OrtApi::AddInitializer``) and shares what
    the kernels make of them (``PrepackedWeightsContainer``, which works for the CPU provider only). Needs the
    ``onnx`` package, which reads them from the model.
    """

    __slots__ = ("_values", "container", "source")

    def __init__(self, model: loading.Model, external_data_dir: str | os.PathLike[str] | None = None) -> None:
        self._values: dict[str, Value] = {}
        table = api()
        pointer = status.make(table.CreatePrepackedWeightsContainer, "OrtPrepackedWeightsContainer")
        self.source = loading.Source(model)
        for name, array in _large_initializers(model, external_data_dir).items():
            buffer = Buffer(array.shape, array.dtype)
            buffer.array[...] = array
            self._values[name] = Value.from_buffer(buffer, f"initializer {name!r}")
        # The container goes after the sessions, the weights after both.
        parents = [value._open() for value in self._values.values()]
        self.container = Handle.own(pointer, table.ReleasePrepackedWeightsContainer, parents)

    @property
    def names(self) -> tuple[str, ...]:
        """The initializers that are shared."""
        return tuple(self._values)

    @property
    def nbytes(self) -> int:
        """What they take, in bytes."""
        return sum(value.nbytes for value in self._values.values())

    def load(self, options: Handle) -> Handle:
        """A new session with these weights."""
        table = api()
        for name, value in self._values.items():
            status.check(table.AddInitializer(options.pointer, name.encode(), value._open().pointer))
        return loading.create(self.source, options, self.container)


def _large_initializers(model: loading.Model, external_data_dir: str | os.PathLike[str] | None) -> Mapping[str, Any]:
    """The initializers worth sharing, as arrays by name."""
    proto, folder = _parse(model)
    from onnx import TensorProto, numpy_helper

    if external_data_dir is not None:
        folder = os.fsdecode(path_bytes(external_data_dir, "external_data_dir"))
    fed = {value.name for value in proto.graph.input}
    found = {}
    for tensor in proto.graph.initializer:
        if tensor.name in fed or tensor.data_type == TensorProto.STRING:
            continue
        try:
            array = numpy_helper.to_array(tensor, base_dir=folder)
        except (OSError, ValueError) as error:
            raise ModelError(f"initializer {tensor.name!r}: {error}") from error
        if array.nbytes >= SMALLEST_SHARED and not ElementType.of(array.dtype).packed:
            found[tensor.name] = arrays.native(array)
    return found


def _parse(model: loading.Model) -> tuple[Any, str]:
    """The model as an ``onnx.ModelProto`` with external data left where it is, and the folder it lies in."""
    try:
        import onnx
    except ImportError:
        raise UnsupportedError(
            'share_weights reads the model with the onnx package: pip install "onnx==1.21.*"'
        ) from None
    if isinstance(model, onnx.ModelProto):
        return model, ""
    try:
        if isinstance(model, (bytes, bytearray, memoryview)):
            return onnx.load_model_from_string(bytes(model)), ""
        if isinstance(model, (str, os.PathLike)):
            path = os.fsdecode(path_bytes(model, "model"))
            return onnx.load(path, load_external_data=False), os.path.dirname(path)
    # protobuf raises classes of its own, which differ between its implementations.
    except Exception as error:
        raise ModelError(f"the model cannot be read: {error}") from error
    raise DTypeError(f"model: {type(model).__name__} holds no initializers that could be read")
