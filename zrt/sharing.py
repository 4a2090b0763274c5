"""Weights that several sessions share: initializers loaded once, and the container of their prepacked forms."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from zrt import arrays, loading
from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.arguments import path_bytes
from zrt.buffers import Buffer
from zrt.errors import ModelError, UnsupportedError
from zrt.types import ElementType
from zrt.values import Value

# Smaller ones are scalars, shapes and axes: sharing them saves nothing, and ORT folds them while it optimizes.
SMALLEST_SHARED = 1024


class SharedWeights:
    """A model's large initializers, in memory once, and their prepacked forms.

    Every session that is loaded with it takes its weights from here and shares what the kernels make of them
    (``PrepackedWeightsContainer``, which works for the CPU provider only). What the optimizer makes anew of the
    weights, each session keeps for itself: a convolution's and its batch norm's, say. Needs the ``onnx`` package,
    which reads them from the model.
    """

    __slots__ = ("_folder", "_values", "container", "source")

    def __init__(self, model: loading.Model, external_data_dir: str | os.PathLike[str] | None = None) -> None:
        proto, subject, beside = _parse(model)
        # A folder of the caller's is among the options already.
        self._folder = beside if external_data_dir is None else b""
        folder = beside if external_data_dir is None else path_bytes(external_data_dir, "external_data_dir")
        self._values: dict[str, Value] = {}
        for tensor, array in _large_initializers(proto, os.fsdecode(folder)):
            buffer = Buffer(array.shape, array.dtype)
            buffer.array[...] = array
            self._values[tensor.name] = Value.from_buffer(buffer, f"initializer {tensor.name!r}")
            _leave_out(tensor, buffer.nbytes)
        # What is left of the model: each session parses it, and finds no weights to copy.
        self.source = loading.Source(proto)
        self.source.subject = subject
        table = api()
        pointer = status.make(table.CreatePrepackedWeightsContainer, "OrtPrepackedWeightsContainer")
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
        names = [ffi.new("char[]", name.encode()) for name in self._values]
        handles = [value._open() for value in self._values.values()]
        pointers = [handle.pointer for handle in handles]
        # They stand in for data outside the model, which saves a copy in each session ...
        status.check(table.AddExternalInitializers(options.pointer, names, pointers, len(names)))
        for name, pointer in zip(names, pointers, strict=True):
            # ... and are the caller's, without which the container keeps nothing of them.
            status.check(table.AddInitializer(options.pointer, name, pointer))
        if self._folder:
            # For what stays outside: small initializers, and those of subgraphs.
            key = b"session.model_external_initializers_file_folder_path"
            status.check(table.AddSessionConfigEntry(options.pointer, key, self._folder))
        return loading.create(self.source, options, self.container)


def trim_heap() -> None:
    """Gives the system back what loading freed: glibc would keep more of it than the weights take."""
    # No other C library has the function, nor the habit.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _large_initializers(proto: Any, folder: str) -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
    """The initializers worth sharing, each with its content."""
    from onnx import TensorProto, numpy_helper

    fed = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        if tensor.name in fed or tensor.data_type == TensorProto.STRING:
            continue
        try:
            array = numpy_helper.to_array(tensor, base_dir=folder)
        # A file that is missing, too short or outside the folder raises what the onnx package pleases.
        except Exception as error:
            raise ModelError(f"initializer {tensor.name!r}: {error}") from error
        if array.nbytes >= SMALLEST_SHARED and not ElementType.of(array.dtype).packed:
            yield tensor, arrays.native(array)


def _leave_out(tensor: Any, nbytes: int) -> None:
    """Turns an initializer into one whose data is said to lie outside the model, where nobody looks for it."""
    described = type(tensor)(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    described.data_location = type(tensor).EXTERNAL
    for key, entry in (("location", "shared"), ("offset", "0"), ("length", str(nbytes))):
        described.external_data.add(key=key, value=entry)
    tensor.CopyFrom(described)


def _parse(model: loading.Model) -> tuple[Any, str, bytes]:
    """The model as an ``onnx.ModelProto`` of our own, its name in messages, and the folder of its external data."""
    try:
        import onnx
    except ImportError:
        raise UnsupportedError(
            'share_weights reads the model with the onnx package: pip install "onnx==1.21.*"'
        ) from None
    with loading.Source(model) as source:
        try:
            if source.path is None:
                return onnx.ModelProto.FromString(bytes(ffi.buffer(source.data))), source.subject, b""
            proto = onnx.load(os.fsdecode(source.path), load_external_data=False)
            return proto, source.subject, os.path.dirname(os.path.abspath(source.path))
        # protobuf raises classes of its own, which differ between its implementations.
        except Exception as error:
            raise ModelError(f"{source.subject} cannot be read: {error}") from error
