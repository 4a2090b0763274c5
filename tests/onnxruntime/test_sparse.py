"""`SparseTensor`: its formats, views and refusals."""

import copy
import gc
from typing import Any

import numpy as np
import pytest

from tests.onnxruntime.packages import ours

VALUES = np.array([1, 2, 3], np.float32)
DIAGONAL = np.array([0, 4, 8], np.int64)


@pytest.fixture
def cpu(ort) -> Any:
    return ort.OrtDevice.make("cpu", 0)


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        (DIAGONAL, [0, 4, 8]),
        ([0, 4, 8], [0, 4, 8]),
        (DIAGONAL.astype(np.int32), [0, 4, 8]),
        (np.array([[0, 0], [1, 1], [2, 2]]), [[0, 0], [1, 1], [2, 2]]),
        (np.array([0, 0, 1, 1, 2, 2]), [[0, 0], [1, 1], [2, 2]]),
    ],
)
def test_coo_has_values_and_indices(ort, cpu, indices, expected) -> None:
    tensor = ort.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, indices, cpu)
    assert tensor.values().tolist() == [1, 2, 3]
    assert not tensor.values().flags.writeable
    assert tensor.values().ctypes.data == VALUES.ctypes.data
    assert tensor.as_coo_view().indices().tolist() == expected
    assert not tensor.as_coo_view().indices().flags.writeable
    assert tensor.format() == ort.OrtSparseFormat.ORT_SPARSE_COO
    assert tensor.dense_shape() == [3, 3]
    assert tensor.data_type() == "sparse_tensor(float)"
    assert tensor.device_name() == "cpu"


def test_format_is_an_attribute_in_the_extension_module(ort, state, cpu) -> None:
    tensor = state.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, DIAGONAL, cpu._get_c_device())
    assert isinstance(tensor, state.SparseTensor)
    assert tensor.format == state.OrtSparseFormat.ORT_SPARSE_COO
    assert ort.SparseTensor(tensor).format() == state.OrtSparseFormat.ORT_SPARSE_COO


def test_copy_is_the_same_tensor(ort, cpu) -> None:
    tensor = ort.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, DIAGONAL, cpu)
    assert copy.copy(tensor).values().ctypes.data == VALUES.ctypes.data


def test_csr_has_columns_and_rows(ort, cpu) -> None:
    tensor = ort.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, np.array([0, 1, 2]), np.array([0, 1, 2, 3]), cpu)
    assert tensor.values().tolist() == [1, 2, 3]
    assert tensor.as_csrc_view().inner().tolist() == [0, 1, 2]
    assert tensor.as_csrc_view().outer().tolist() == [0, 1, 2, 3]
    assert tensor.format() == ort.OrtSparseFormat.ORT_SPARSE_CSRC


def test_blocks_have_rows_and_columns(ort, state, cpu) -> None:
    values, indices = np.arange(8, dtype=np.float32).reshape(2, 2, 2), np.array([[0, 1], [0, 1]], np.int32)
    made = state.SparseTensor.blocksparse_from_numpy([4, 4], values, indices, cpu._get_c_device())
    tensor = ort.SparseTensor(made)
    assert tensor.format() == ort.OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE
    np.testing.assert_array_equal(tensor.values(), values)
    view = tensor.as_blocksparse_view()
    if ort.__name__ != "onnxruntime":
        np.testing.assert_array_equal(view.indices(), indices)


def test_strings_are_copied(ort, cpu) -> None:
    tensor = ort.SparseTensor.sparse_coo_from_numpy([3, 3], np.array(["a", "bé", "c"]), DIAGONAL, cpu)
    assert tensor.values().tolist() == ["a", "bé", "c"]
    assert tensor.data_type() == "sparse_tensor(string)"


def test_empty_tensor(ort, cpu) -> None:
    tensor = ort.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES[:0], DIAGONAL[:0], cpu)
    assert tensor.values().tolist() == []
    assert tensor.as_coo_view().indices().size == 0


def test_view_of_another_format_raises(ort, cpu, refused) -> None:
    tensor = ort.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, DIAGONAL, cpu)
    with refused(RuntimeError, "COO", "CSR"):
        tensor.as_csrc_view()
    with refused(RuntimeError, "COO", "BLOCK_SPARSE"):
        tensor.as_blocksparse_view()
    tensor = ort.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, np.array([0, 1, 2]), np.array([0, 1, 2, 3]), cpu)
    with refused(RuntimeError, "COO", "CSR"):
        tensor.as_coo_view()


@pytest.mark.parametrize(
    ("values", "indices", "error"),
    [
        (VALUES, DIAGONAL[:2], RuntimeError),
        (VALUES[None], DIAGONAL, RuntimeError),
        (np.array(["a", "b", "c"], object), DIAGONAL, RuntimeError),
        ([1.0, 2.0], [0, 4], TypeError),
        (VALUES, ["a", "b", "c"], TypeError),
        (VALUES, [0, 1, 2**70], TypeError),
    ],
)
def test_wrong_values_or_indices_raise(ort, cpu, values, indices, error) -> None:
    with pytest.raises(error):
        ort.SparseTensor.sparse_coo_from_numpy([3, 3], values, indices, cpu)


@pytest.mark.parametrize("indices", [[0, 4, 99], [0, -4, 2]])
@ours
def test_indices_out_of_range_raise(ort, indices) -> None:
    with pytest.raises(RuntimeError, match=r"not between 0 and 8|out of range"):
        ort.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, indices, ort.OrtDevice.make("cpu", 0))


def test_csr_of_a_vector_raises(ort, cpu) -> None:
    with pytest.raises(RuntimeError):
        ort.SparseTensor.sparse_csr_from_numpy([9], VALUES, np.array([0, 1, 2]), np.array([0, 9, 2, 3]), cpu)


def test_to_cuda_raises_without_cuda(ort, cpu) -> None:
    tensor = ort.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, DIAGONAL, cpu)
    with pytest.raises(RuntimeError):
        tensor.to_cuda(ort.OrtDevice.make("cuda", 0))


def test_value_holds_a_sparse_tensor(ort, cpu) -> None:
    tensor = ort.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, DIAGONAL, cpu)
    value = ort.OrtValue.ort_value_from_sparse_tensor(tensor)
    assert value.is_sparse_tensor()
    assert not value.is_tensor()
    assert value.has_value()
    assert value.shape() == [3, 3]
    assert value.data_type() == "sparse_tensor(float)"
    assert value.element_type() == 1
    assert value.device_name() == "cpu"
    for method in (value.numpy, value.data_ptr, value.tensor_size_in_bytes, value.__dlpack__, value.__dlpack_device__):
        with pytest.raises(RuntimeError):
            method()
    assert value.as_sparse_tensor().values().tolist() == [1, 2, 3]
    assert tensor.values().tolist() == [1, 2, 3]


def test_dense_value_holds_no_sparse_tensor(ort, refused) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(VALUES)
    with pytest.raises(RuntimeError):
        value.as_sparse_tensor()
    with pytest.raises(AttributeError):
        ort.OrtValue.ort_value_from_sparse_tensor(3)
    with refused(ValueError, "sparse_tensor"):
        ort.SparseTensor(3)


def test_views_outlive_the_tensor(ort, cpu) -> None:
    values = np.arange(1000, dtype=np.float32)
    tensor = ort.SparseTensor.sparse_coo_from_numpy([1000], values.copy(), np.arange(1000), cpu)
    kept, indices = tensor.values(), tensor.as_coo_view().indices()
    del tensor
    gc.collect()
    np.testing.assert_array_equal(kept, values)
    np.testing.assert_array_equal(indices, np.arange(1000))
