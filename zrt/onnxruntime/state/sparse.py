"""Sparse tensors over a `Value`, and views of their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from zrt.errors import Error
from zrt.onnxruntime.enums import OrtSparseFormat
from zrt.onnxruntime.state.arguments import ARRAY, INT64, Kind, instance, no_constructor, sequence, take
from zrt.onnxruntime.state.devices import CPU, NotPickled, OrtDevice, runtime_error
from zrt.onnxruntime.state.values import device_name, type_name
from zrt.types import SparseFormat
from zrt.values import Value
from zrt.values.sparse import SparseTensor as Content

_SHAPE = sequence(INT64)
_DEVICE = instance(OrtDevice)


def _indices(dtype: type[np.signedinteger[Any]]) -> Kind:
    name = np.dtype(dtype).name
    return Kind(
        f"typing.Annotated[numpy.typing.ArrayLike, numpy.{name}]", lambda given: np.asarray(given).astype(dtype)
    )


_INT64S, _INT32S = _indices(np.int64), _indices(np.int32)


class _View(NotPickled):
    """Base of the views: the arrays of indices of one sparse tensor."""

    __slots__ = ("_content",)

    _content: Content

    def __init__(self) -> None:
        raise no_constructor(self)

    @classmethod
    def _of(cls, content: Content) -> Any:
        made = cls.__new__(cls)
        made._content = content
        return made


class SparseCooView(_View):
    """The indices of a sparse tensor in the format COO."""

    __slots__ = ()

    def indices(self) -> Any:
        """The position of each value: [n] in the flattened tensor, or [n, 2] with rows and columns."""
        return self._content.indices


class SparseCsrView(_View):
    """The indices of a sparse matrix in the format CSR."""

    __slots__ = ()

    def inner(self) -> Any:
        """The column of each value."""
        return self._content.indices

    def outer(self) -> Any:
        """The place in `inner` at which each row begins, and the end of the last."""
        return self._content.indptr


class SparseBlockSparseView(_View):
    """The indices of a sparse matrix of blocks."""

    __slots__ = ()

    def indices(self) -> Any:
        """The rows and columns of the blocks, counted in blocks."""
        return self._content.indices


class SparseTensor(NotPickled):
    """A sparse tensor; the functions below make it from arrays."""

    __slots__ = ("_value",)

    _value: Value

    def __init__(self) -> None:
        raise no_constructor(self)

    @classmethod
    def _of(cls, value: Value) -> SparseTensor:
        made = cls.__new__(cls)
        made._value = value
        return made

    def _to_zrt(self) -> Value:
        return self._value

    @staticmethod
    def sparse_coo_from_numpy(*arguments: Any) -> SparseTensor:
        """A tensor in the format COO: the dense shape, values, indices (one or two numbers a value), the device."""
        forms = {"": (_SHAPE, ARRAY, _INT64S, _DEVICE)}
        _, (shape, values, indices, device) = take("sparse_coo_from_numpy", forms, arguments)
        _check_vector(values, "COO")
        if indices.ndim == 1 and indices.size == 2 * values.size:
            indices = indices.reshape(-1, 2)
        if indices.shape not in ((values.size,), (values.size, 2)):
            raise RuntimeError(f"Index size: {indices.size} must be equal to or twice the values size: {values.size}")
        return _made(Content(SparseFormat.COO, tuple(shape), values, indices), device)

    @staticmethod
    def sparse_csr_from_numpy(*arguments: Any) -> SparseTensor:
        """A matrix in the format CSR: the dense shape, values, columns, the places at which rows begin, the device."""
        forms = {"": (_SHAPE, ARRAY, _INT64S, _INT64S, _DEVICE)}
        _, (shape, values, inner, outer, device) = take("sparse_csr_from_numpy", forms, arguments)
        _check_vector(values, "CSR(C)")
        if len(shape) == 2 and not values.size and not outer.size:
            outer = np.zeros(max(shape[0], 0) + 1, np.int64)
        return _made(Content(SparseFormat.CSR, tuple(shape), values, inner, outer), device)

    @staticmethod
    def blocksparse_from_numpy(*arguments: Any) -> SparseTensor:
        """A matrix of blocks: the dense shape, values [height, width, n], the blocks' rows and columns, the device."""
        forms = {"": (_SHAPE, ARRAY, _INT32S, _DEVICE)}
        _, (shape, values, indices, device) = take("blocksparse_from_numpy", forms, arguments)
        return _made(Content(SparseFormat.BLOCK_SPARSE, tuple(shape), values, indices), device)

    def values(self) -> Any:
        """The values as a read-only view of their memory; strings as a new array."""
        values = self._value.sparse().values
        values.flags.writeable = values.dtype.hasobject
        return values

    def get_coo_data(self) -> SparseCooView:
        """The indices; raises `RuntimeError` for another format."""
        view: SparseCooView = SparseCooView._of(self._content(SparseFormat.COO, "COO"))
        return view

    def get_csrc_data(self) -> SparseCsrView:
        """The indices; raises `RuntimeError` for another format."""
        view: SparseCsrView = SparseCsrView._of(self._content(SparseFormat.CSR, "CSR(C)"))
        return view

    def get_blocksparse_data(self) -> SparseBlockSparseView:
        """The indices; raises `RuntimeError` for another format."""
        view: SparseBlockSparseView = SparseBlockSparseView._of(self._content(SparseFormat.BLOCK_SPARSE, "BlockSparse"))
        return view

    def _content(self, form: SparseFormat, name: str) -> Content:
        content = self._value.sparse()
        if content.format is not form:
            raise RuntimeError(f"This sparse tensor does not contain {name} format")
        return content

    def to_cuda(self, *arguments: Any) -> SparseTensor:
        """Raises `RuntimeError`: ONNX Runtime's C interface copies no sparse tensor to a device."""
        take("to_cuda", {"": (_DEVICE,)}, arguments)
        raise RuntimeError("Cuda is not available in this build")

    def dense_shape(self) -> list[int]:
        """The shape that the tensor stands for."""
        return list(self._value.shape)

    def device_name(self) -> str:
        """The name of the memory that holds the content: "Cpu"."""
        return device_name(self._value)

    def data_type(self) -> str:
        """The type, for example "sparse_tensor(float)"."""
        return type_name(self._value)

    @property
    def format(self) -> OrtSparseFormat:
        """How the indices are stored."""
        return OrtSparseFormat(int(self._value.sparse().format))


def _check_vector(values: np.ndarray[Any, Any], form: str) -> None:
    if values.ndim != 1:
        raise RuntimeError(f"Expecting values 1-D numpy values array for {form} format. Got dims: {values.ndim}")


def _made(content: Content, device: OrtDevice) -> SparseTensor:
    if device.device_type() != CPU:
        raise RuntimeError("a sparse tensor from numpy arrays lies on the CPU, the arrays' own memory")
    if content.values.dtype.hasobject:
        raise RuntimeError(f"Unsupported values data type: {content.values.dtype.num}")
    try:
        return SparseTensor._of(Value.from_sparse(content))
    except Error as error:
        raise runtime_error(error) from error
