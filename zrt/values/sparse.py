"""`SparseTensor`: the values and indices of a sparse tensor; converts them to ONNX Runtime's values, and back."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from zrt._common import installation
from zrt._common.arguments import choose, wrong_type
from zrt._common.public import public
from zrt._native import cdata, ffi, lib, status
from zrt._native.cdata import NULL, address_of, from_buffer
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from zrt.memory import arrays
from zrt.memory.allocators import cpu_memory, default_allocator
from zrt.types import ElementType, SparseFormat, as_shape, nbytes, new_tensor
from zrt.values import strings
from zrt.values.type_info import read_shape

Array = np.ndarray[Any, Any]


@public
@dataclass(frozen=True, eq=False, slots=True)
class SparseTensor:
    """A sparse tensor in numpy arrays: `shape` is the dense one, and elements without a value are 0.

    It is plain data, which is checked where it is used (`Value.from_sparse`, `Session.run`). With n values:

    - ``"coo"``: `indices` is [n], the positions in the flattened tensor, or for a matrix [n, 2], the row and column of
      each value (the form that SparseToDenseMatMul needs).
    - ``"csr"``, for a matrix: `indices` is [n], the columns, and `indptr` is [rows + 1], the position in `indices` at
      which each row begins and the last one ends.
    - ``"block_sparse"``, for a matrix: `values` is [height, width, n], where ``values[:, :, i]`` is a block, and
      `indices` is [2, n], the blocks' rows and columns, counted in blocks.
    """

    format: SparseFormat | str
    shape: tuple[int, ...]
    values: Array
    indices: Array
    indptr: Array | None = None

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseTensor:
        """From a sparse matrix or array of SciPy: csr, coo and bsr as they are, all other formats through csr.

        An array of another rank than 2 becomes coo.
        """
        if not is_scipy(matrix):
            raise wrong_type("matrix", "a sparse matrix of SciPy", matrix)
        try:
            if matrix.ndim != 2:
                matrix = matrix.tocoo()
            if matrix.format == "coo":
                if matrix.ndim == 2:
                    places = np.stack([matrix.row, matrix.col], axis=1)
                else:
                    places = np.ravel_multi_index(matrix.coords, matrix.shape)
                return cls(SparseFormat.COO, matrix.shape, matrix.data, places)
            if matrix.format == "bsr":
                rows = np.repeat(np.arange(matrix.indptr.size - 1), np.diff(matrix.indptr))
                blocks = np.ascontiguousarray(matrix.data.transpose(1, 2, 0))
                return cls(SparseFormat.BLOCK_SPARSE, matrix.shape, blocks, np.stack([rows, matrix.indices]))
            matrix = matrix.tocsr()
            return cls(SparseFormat.CSR, matrix.shape, matrix.data, matrix.indices, matrix.indptr)
        except ValueError as error:
            raise ArgumentError(f"this sparse matrix of SciPy is inconsistent: {error}") from error

    def copy(self) -> SparseTensor:
        """A copy with arrays of its own."""
        starts = None if self.indptr is None else np.array(self.indptr)
        return SparseTensor(self.format, self.shape, np.array(self.values), np.array(self.indices), starts)

    def scipy(self) -> Any:
        """SciPy's array of the same format: ``coo_array``, ``csr_array`` or ``bsr_array``.

        Raises `UnsupportedError` without SciPy, for strings, and for tensors that are no matrices.
        """
        try:
            from scipy import sparse
        except ImportError:
            raise installation.missing("scipy", "sparse", "an array of SciPy") from None
        tensor = checked(self, "sparse tensor")
        if len(tensor.shape) != 2:
            raise UnsupportedError(f"SciPy's sparse arrays are matrices, and this has the shape {tensor.shape}")
        if arrays.element_type_of(tensor.values, "values") is ElementType.STRING:
            raise UnsupportedError("SciPy has no sparse arrays of strings")
        values, indices = tensor.values, tensor.indices
        try:
            if tensor.format is SparseFormat.COO:
                places = np.unravel_index(indices, tensor.shape) if indices.ndim == 1 else tuple(indices.T)
                return sparse.coo_array((values, places), tensor.shape)
            if tensor.format is SparseFormat.CSR:
                return sparse.csr_array((values, indices, tensor.indptr), tensor.shape)
            if not values.size:
                return sparse.bsr_array(tensor.shape, dtype=values.dtype)
            order = np.lexsort((indices[1], indices[0]))
            starts = np.searchsorted(indices[0][order], np.arange(tensor.shape[0] // values.shape[0] + 1))
            blocks = values.transpose(2, 0, 1)[order]
            return sparse.bsr_array((blocks, indices[1][order], starts), tensor.shape)
        except (TypeError, ValueError) as error:
            raise UnsupportedError(f"SciPy has no such sparse array: {error}") from error

    def __repr__(self) -> str:
        form = getattr(self.format, "name", self.format)
        return f"SparseTensor({form}, shape={self.shape}, values={np.size(self.values)})"


def is_scipy(thing: object) -> bool:
    """Whether it is a sparse matrix or array of SciPy. This does not import SciPy."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(thing))


def checked(tensor: SparseTensor, subject: str) -> SparseTensor:
    """Checks a sparse tensor, and converts its fields to the types that ORT takes.

    The indices are private copies, so that they stay valid after the check.
    """
    form = choose(SparseFormat, tensor.format, f"{subject}: format")
    shape = as_shape(tensor.shape, subject)
    if math.prod(shape) >= 1 << 63:
        raise ShapeError(f"{subject}: the shape {shape} has more than 2**63 - 1 places")
    values = arrays.plain(tensor.values, f"{subject}: values")
    element_type = arrays.element_type_of(values, f"{subject}: values")
    if element_type.refused or element_type.packed:
        reason = element_type.refused or "ONNX Runtime has no sparse tensors of packed types"
        raise UnsupportedError(f"{subject}: {element_type.name} values: {reason}")
    if element_type is not ElementType.STRING:
        values = arrays.native(values)
    if form is not SparseFormat.COO and len(shape) != 2:
        raise ShapeError(f"{subject}: {form.name} is for matrices, and the shape is {shape}")
    if (form is SparseFormat.CSR) != (tensor.indptr is not None):
        raise ArgumentError(f"{subject}: indptr is for CSR and for CSR alone, and the format is {form.name}")
    if form is SparseFormat.BLOCK_SPARSE:
        return _checked_blocks(tensor, shape, values, subject)
    if values.ndim != 1:
        raise ShapeError(f"{subject}: values of {form.name} are [n], not {list(values.shape)}")
    if form is SparseFormat.COO:
        return SparseTensor(form, shape, values, _checked_coo(tensor, shape, len(values), subject))
    indices, indptr = _checked_csr(tensor, shape, len(values), subject)
    return SparseTensor(form, shape, values, indices, indptr)


def _index(thing: Any, dtype: Any, subject: str) -> Array:
    """A private copy of an array of indices."""
    array = arrays.plain(thing, subject)
    if array.dtype.kind not in "iu" and array.size:
        raise DTypeError(f"{subject}: expected integers, got {array.dtype}")
    copied = np.array(array, np.int64, order="C")
    # A number too large for int64 becomes negative here, and so is out of range too.
    wrong = (copied < 0) | (copied > np.iinfo(dtype).max)
    if wrong.any():
        raise ArgumentError(f"{subject}: {array[wrong][0]} is out of range")
    copied = copied.astype(dtype, copy=False)
    copied.flags.writeable = False
    return copied


def _inside(indices: Array, size: int, subject: str) -> None:
    """Refuses indices outside 0 <= index < `size`."""
    wrong = (indices < 0) | (indices >= size)
    if wrong.any():
        raise ArgumentError(f"{subject}: {indices[wrong][0]} is not between 0 and {size - 1}")


def _checked_coo(tensor: SparseTensor, shape: tuple[int, ...], count: int, subject: str) -> Array:
    subject = f"{subject}: indices"
    indices = _index(tensor.indices, np.int64, subject)
    if not count and not indices.size:
        return np.empty((0, 2) if len(shape) == 2 else (0,), np.int64)
    if indices.shape == (count, 2) and len(shape) == 2:
        _inside(indices[:, 0], shape[0], f"{subject}, rows")
        _inside(indices[:, 1], shape[1], f"{subject}, columns")
    elif indices.shape == (count,):
        _inside(indices, math.prod(shape), subject)
    else:
        pairs = f" or [{count}, 2]" if len(shape) == 2 else ""
        raise ShapeError(f"{subject}: expected [{count}]{pairs} for {count} values, got {list(indices.shape)}")
    return indices


def _checked_csr(tensor: SparseTensor, shape: tuple[int, ...], count: int, subject: str) -> tuple[Array, Array]:
    indices = _index(tensor.indices, np.int64, f"{subject}: indices")
    starts = _index(tensor.indptr, np.int64, f"{subject}: indptr")
    if indices.shape != (count,):
        raise ShapeError(f"{subject}: indices: expected [{count}] for {count} values, got {list(indices.shape)}")
    if starts.shape != (shape[0] + 1,):
        raise ShapeError(f"{subject}: indptr: expected [{shape[0] + 1}] for {shape[0]} rows, got {list(starts.shape)}")
    _inside(indices, shape[1], f"{subject}: indices")
    if starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise ArgumentError(f"{subject}: indptr: expected to rise from 0 to {count}")
    return indices, starts


def _checked_blocks(tensor: SparseTensor, shape: tuple[int, ...], values: Array, subject: str) -> SparseTensor:
    form = SparseFormat.BLOCK_SPARSE
    indices = _index(tensor.indices, np.int32, f"{subject}: indices")
    if not values.size and not indices.size:
        return SparseTensor(form, shape, values.reshape(-1), np.empty((2, 0), np.int32))
    if values.ndim != 3 or not values.size:
        raise ShapeError(f"{subject}: values of BLOCK_SPARSE are [height, width, n], not {list(values.shape)}")
    height, width, count = values.shape
    if shape[0] % height or shape[1] % width:
        raise ShapeError(f"{subject}: blocks of {height} x {width} do not divide the shape {shape}")
    if indices.shape != (2, count):
        raise ShapeError(f"{subject}: indices: expected [2, {count}] for {count} blocks, got {list(indices.shape)}")
    _inside(indices[0], shape[0] // height, f"{subject}: indices, rows")
    _inside(indices[1], shape[1] // width, f"{subject}: indices, columns")
    return SparseTensor(form, shape, values, indices)


def to_dense(matrix: Any, shape: tuple[int, ...], subject: str) -> Array:
    """The array of a `SparseTensor` or of SciPy's of this shape; values of one place add up, as in SciPy."""
    tensor = checked(SparseTensor.from_scipy(matrix) if is_scipy(matrix) else matrix, subject)
    # Before memory is taken for it.
    if tensor.shape != shape:
        raise ShapeError(f"{subject}: expected shape {list(shape)}, got {list(tensor.shape)}")
    if arrays.element_type_of(tensor.values, subject) is ElementType.STRING:
        raise DTypeError(f"{subject}: expected numbers, got strings")
    dense, places = np.zeros(tensor.shape, tensor.values.dtype), _places(tensor)
    flat = dense.reshape(-1)
    if np.unique(places).size == places.size:
        # The sum with 0 would lose the sign of -0.0.
        flat[places] = tensor.values
    else:
        np.add.at(flat, places, tensor.values)
    return dense


def _places(tensor: SparseTensor) -> Array:
    """The place of each value in the flat dense tensor, in the shape of the values."""
    indices = tensor.indices
    if tensor.format is SparseFormat.BLOCK_SPARSE:
        if not tensor.values.size:
            return np.empty(tensor.values.shape, np.int64)
        height, width, _ = tensor.values.shape
        rows = indices[0].astype(np.int64) * height + np.arange(height)[:, None, None]
        columns = indices[1].astype(np.int64) * width + np.arange(width)[None, :, None]
        return np.asarray(rows * tensor.shape[1] + columns)
    if tensor.indptr is not None:
        rows = np.repeat(np.arange(tensor.shape[0]), np.diff(tensor.indptr))
        return np.asarray(rows * tensor.shape[1] + indices)
    return np.asarray(indices[:, 0] * tensor.shape[1] + indices[:, 1]) if indices.ndim == 2 else indices


def wrap(matrix: Any, copy: bool, subject: str) -> tuple[Handle, bool]:
    """An ``OrtValue`` from a `SparseTensor` or SciPy's, and whether its values may be written."""
    if not isinstance(matrix, SparseTensor):
        if not is_scipy(matrix):
            raise wrong_type(subject, "a SparseTensor or a sparse matrix of SciPy", matrix)
        matrix = SparseTensor.from_scipy(matrix)
    tensor = checked(matrix, subject)
    element_type = arrays.element_type_of(tensor.values, subject)
    with status.named(subject):
        if copy or element_type is ElementType.STRING:
            return _filled(tensor, element_type), True
        return _borrowed(tensor, element_type, matrix.values), bool(tensor.values.flags.writeable)


# The functions of the table that add the indices of a format to borrowed values, and that copy values and indices.
_USE_AND_FILL: dict[SparseFormat | str, tuple[str, str]] = {
    SparseFormat.COO: ("UseCooIndices", "FillSparseTensorCoo"),
    SparseFormat.CSR: ("UseCsrIndices", "FillSparseTensorCsr"),
    SparseFormat.BLOCK_SPARSE: ("UseBlockSparseIndices", "FillSparseTensorBlockSparse"),
}


def _indices_for_c(tensor: SparseTensor) -> tuple[Any, ...]:
    """The indices of a checked tensor, as the functions of its format take them."""
    if tensor.format is SparseFormat.BLOCK_SPARSE:
        if not tensor.values.size:
            return (0,), 1, NULL
        return tensor.indices.shape, 2, from_buffer("int32_t[]", tensor.indices)
    lists = [tensor.indices]
    if tensor.indptr is not None:
        # ORT expects no row starts for a matrix without values.
        lists.append(tensor.indptr if tensor.values.size else tensor.indices[:0])
    arguments: list[Any] = []
    for indices in lists:
        arguments += (from_buffer("int64_t[]", indices), indices.size) if indices.size else (NULL, 0)
    return tuple(arguments)


def _borrowed(tensor: SparseTensor, element_type: ElementType, owner: Any) -> Handle:
    """A value that borrows the memory of the values, of which the `owner` is alive, and of our copy of the indices."""
    table = api()
    values = from_buffer(tensor.values)
    place = (cpu_memory().pointer, values if tensor.values.size else NULL, tensor.shape, len(tensor.shape))
    kept = Handle.pin((values, owner, tensor.indices, tensor.indptr))
    make = table.CreateSparseTensorWithValuesAsOrtValue
    handle = new_tensor(make, place, tensor.values.shape, element_type, [kept])
    use, _ = _USE_AND_FILL[tensor.format]
    status.check(getattr(table, use)(handle.pointer, *_indices_for_c(tensor)))
    return handle


def _filled(tensor: SparseTensor, element_type: ElementType) -> Handle:
    """A value in memory that ORT owns."""
    table = api()
    handle = new_tensor(table.CreateSparseTensorAsOrtValue, (default_allocator(),), tensor.shape, element_type)
    if element_type is ElementType.STRING:
        encoded = strings.encode(strings.array_of(tensor.values, "values"), "values")
        for index, text in enumerate(encoded):
            if b"\0" in text:
                raise ArgumentError(
                    f"values: string {index}, {text.decode()!r:.80}, has a NUL, at which ONNX Runtime cuts it off"
                )
        values: Any = cdata.strings(encoded)
    else:
        values = from_buffer(tensor.values)
    _, fill = _USE_AND_FILL[tensor.format]
    content = (tensor.values.shape, tensor.values.ndim, values, *_indices_for_c(tensor))
    status.check(getattr(table, fill)(handle.pointer, cpu_memory().pointer, *content))
    return handle


def form(handle: Handle) -> SparseFormat:
    """The format of a sparse ``OrtValue``."""
    return SparseFormat(status.fetch(api().GetSparseTensorFormat, "OrtSparseFormat", handle.pointer))


# The arrays of indices of each format, and their types.
_INDICES = {
    SparseFormat.COO: [(lib.ORT_SPARSE_COO_INDICES, ElementType.INT64)],
    SparseFormat.CSR: [
        (lib.ORT_SPARSE_CSR_INNER_INDICES, ElementType.INT64),
        (lib.ORT_SPARSE_CSR_OUTER_INDICES, ElementType.INT64),
    ],
    SparseFormat.BLOCK_SPARSE: [(lib.ORT_SPARSE_BLOCK_SPARSE_INDICES, ElementType.INT32)],
}


def _described(function: Any, *arguments: Any) -> tuple[int, ...]:
    """The shape from a function of the C table that returns an ``OrtTensorTypeAndShapeInfo``."""
    info = Handle.make(api().ReleaseTensorTypeAndShapeInfo, [], function, "OrtTensorTypeAndShapeInfo", *arguments)
    return tuple(int(dim) for dim in read_shape(info.pointer) or () if isinstance(dim, int))


def _read_index(handle: Handle, which: int, element_type: ElementType) -> Array:
    table = api()
    shape = _described(table.GetSparseTensorIndicesTypeShape, handle.pointer, which)
    count, place = ffi.new("size_t *"), ffi.new("const void **")
    status.check(table.GetSparseTensorIndices(handle.pointer, which, count, place))
    return arrays.view(handle, address_of(place[0]), shape, element_type, False)


def _read_indices(handle: Handle, layout: SparseFormat) -> list[Array]:
    """The indices of that format; for CSR the row starts follow."""
    return [_read_index(handle, which, element_type) for which, element_type in _INDICES[layout]]


def read(handle: Handle, element_type: ElementType, shape: tuple[int, ...], writeable: bool) -> SparseTensor:
    """The content of a sparse ``OrtValue``, as views."""
    table = api()
    layout = form(handle)
    dims = _described(table.GetSparseTensorValuesTypeAndShape, handle.pointer)
    if element_type is ElementType.STRING:
        values = strings.read(handle, dims)
    else:
        place = status.fetch(table.GetSparseTensorValues, "const void *", handle.pointer)
        values = arrays.view(handle, address_of(place), dims, element_type, writeable)
    indices, *starts = _read_indices(handle, layout)
    if layout is SparseFormat.COO:
        return SparseTensor(layout, shape, values, indices if values.size or len(shape) == 2 else np.empty(0, np.int64))
    if layout is SparseFormat.CSR:
        (indptr,) = starts
        return SparseTensor(layout, shape, values, indices, indptr if indptr.size else np.zeros(shape[0] + 1, np.int64))
    return SparseTensor(layout, shape, values, indices if values.size else np.empty((2, 0), np.int32))


def size(handle: Handle, element_type: ElementType) -> int:
    """The size of the values and the indices in bytes."""
    dims = _described(api().GetSparseTensorValuesTypeAndShape, handle.pointer)
    if not math.prod(dims):
        return 0
    values = strings.size(handle) if element_type is ElementType.STRING else nbytes(element_type, dims)
    return values + sum(indices.nbytes for indices in _read_indices(handle, form(handle)))
