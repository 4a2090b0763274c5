"""`SparseTensor` over a `Value`, and views of its indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from zrt.onnxruntime import conversions, errors
from zrt.onnxruntime.devices import OrtDevice
from zrt.onnxruntime.enums import OrtSparseFormat
from zrt.onnxruntime.node_args import type_string
from zrt.onnxruntime.wrapper import Wrapper, itself
from zrt.types import SparseFormat
from zrt.values.sparse import SparseTensor as Content
from zrt.values.value import Value

Array = np.ndarray[Any, Any]

_DEVICE_NAMES = {"Hip": "gpu"}


def type_name(value: Value) -> str:
    """A value's type as the official package writes it: "tensor(float)", "seq(map(int64,tensor(float)))"."""
    return f"tensor({value.element_type.onnx_name})" if value.is_tensor else type_string(value._info())


def device_name(value: Value) -> str:
    """The name of the device that holds a value, in lower case."""
    return _DEVICE_NAMES.get(value.memory.name, value.memory.name.lower())


class SparseCooView(Wrapper):
    """The indices of a sparse tensor in the format COO."""

    _wrapped: Content

    def indices(self) -> Array:
        """The position of each value: [n] in the flattened tensor, or [n, 2] with rows and columns."""
        return self._wrapped.indices


class SparseCsrView(Wrapper):
    """The indices of a sparse matrix in the format CSR."""

    _wrapped: Content

    def inner(self) -> Array:
        """The column of each value."""
        return self._wrapped.indices

    def outer(self) -> Array:
        """The place in `inner` at which each row begins, and the end of the last."""
        return self._wrapped.indptr  # type: ignore[return-value]


class SparseBlockSparseView(Wrapper):
    """The indices of a sparse matrix of blocks."""

    _wrapped: Content

    def indices(self) -> Array:
        """The rows and columns of the blocks, counted in blocks."""
        return self._wrapped.indices


class SparseTensor(Wrapper):
    """A tensor that is mostly zeros: its values and their places."""

    _wrapped: Value

    def __init__(self, sparse_tensor: SparseTensor) -> None:
        """A second object for the same tensor."""
        if not isinstance(sparse_tensor, SparseTensor):
            raise ValueError(f"sparse_tensor: expected a SparseTensor, got {type(sparse_tensor).__name__}")
        self._wrapped = sparse_tensor._wrapped

    _tensor = property(itself)
    _get_c_tensor = itself
    __copy__ = itself

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Sequence[int], values: Array, coo_indices: np.typing.ArrayLike, ort_device: OrtDevice
    ) -> Self:
        """A tensor in the format COO.

        `values` is [n]. `coo_indices`, of int64, is [n] with places in the flattened tensor, or [n, 2] (or flat, 2n)
        with rows and columns. The tensor shares the memory of the values, but for strings, and keeps it alive.
        """
        indices = _indices(coo_indices, np.int64, "coo_indices")
        if indices.ndim == 1 and indices.size == 2 * np.size(values):
            indices = indices.reshape(-1, 2)
        return cls._of(_sparse(SparseFormat.COO, dense_shape, values, indices, None, ort_device))

    @classmethod
    def sparse_csr_from_numpy(
        cls,
        dense_shape: Sequence[int],
        values: Array,
        inner_indices: np.typing.ArrayLike,
        outer_indices: np.typing.ArrayLike,
        ort_device: OrtDevice,
    ) -> Self:
        """A matrix in the format CSR.

        `values` and `inner_indices`, the columns, are [n]; `outer_indices` is [rows + 1], the place at which each row
        begins and the last one ends. The matrix shares the memory of the values, but for strings, and keeps it alive.
        """
        inner = _indices(inner_indices, np.int64, "inner_indices")
        outer = _indices(outer_indices, np.int64, "outer_indices")
        if len(dense_shape) == 2 and not np.size(values) and not outer.size:
            outer = np.zeros(max(dense_shape[0], 0) + 1, np.int64)
        return cls._of(_sparse(SparseFormat.CSR, dense_shape, values, inner, outer, ort_device))

    @classmethod
    def blocksparse_from_numpy(
        cls, dense_shape: Sequence[int], values: Array, indices: np.typing.ArrayLike, ort_device: OrtDevice, /
    ) -> Self:
        """A matrix of blocks: the dense shape, values [height, width, n], the blocks' rows and columns, the device."""
        blocks = _indices(indices, np.int32, "indices")
        return cls._of(_sparse(SparseFormat.BLOCK_SPARSE, dense_shape, values, blocks, None, ort_device))

    def values(self) -> Array:
        """The values as a read-only view of their memory; strings as a new array."""
        values = self._wrapped.sparse().values
        values.flags.writeable = values.dtype.hasobject
        return values

    def as_coo_view(self) -> SparseCooView:
        """The indices of the format COO; raises `RuntimeError` for another format."""
        return SparseCooView._of(self._content(SparseFormat.COO))

    def as_csrc_view(self) -> SparseCsrView:
        """The indices of the format CSR; raises `RuntimeError` for another format."""
        return SparseCsrView._of(self._content(SparseFormat.CSR))

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        """The indices of blocks; raises `RuntimeError` for another format."""
        return SparseBlockSparseView._of(self._content(SparseFormat.BLOCK_SPARSE))

    get_coo_data = as_coo_view
    get_csrc_data = as_csrc_view
    get_blocksparse_data = as_blocksparse_view

    def _content(self, form: SparseFormat) -> Content:
        content = self._wrapped.sparse()
        if content.format is not form:
            has = OrtSparseFormat(int(content.format)).name
            raise RuntimeError(f"the sparse tensor has the format {has}, not {form.name}")
        return content

    def to_cuda(self, ort_device: OrtDevice) -> SparseTensor:
        """Raises `RuntimeError`: ONNX Runtime's C interface copies no sparse tensor to a device."""
        conversions.instance(ort_device, OrtDevice, "ort_device")
        raise RuntimeError("the C interface of ONNX Runtime copies no sparse tensor to CUDA")

    def format(self) -> OrtSparseFormat:
        """How the indices are stored."""
        return OrtSparseFormat(int(self._wrapped.sparse().format))

    def dense_shape(self) -> list[int]:
        """The shape that the tensor stands for."""
        return list(self._wrapped.shape)

    def data_type(self) -> str:
        """The type, for example "sparse_tensor(float)"."""
        return type_name(self._wrapped)

    def device_name(self) -> str:
        """The name of the device with the content, in lower case: "cpu"."""
        return device_name(self._wrapped)


def _indices(places: Any, dtype: type[np.signedinteger[Any]], subject: str) -> Array:
    try:
        return np.asarray(places).astype(dtype)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"{subject}: {error}") from error


def _sparse(form: SparseFormat, shape: Any, values: Any, indices: Any, outer: Any, device: OrtDevice) -> Value:
    if not conversions.instance(device, OrtDevice, "ort_device")._is_cpu:
        raise RuntimeError("a sparse tensor from numpy arrays lies on the CPU, the arrays' own memory")
    if conversions.instance(values, np.ndarray, "values").dtype.hasobject:
        raise RuntimeError(f"values: a sparse tensor has no elements of {values.dtype}")
    sizes = tuple(conversions.integers(shape, "dense_shape"))
    with errors.as_runtime_error():
        return Value.from_sparse(Content(form, sizes, values, indices, outer))
