"""`OrtValue`: what it is made of, what it tells, whose memory it shares, and how long that lives."""

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest

from tests.onnxruntime.packages import ours
from tests.support import models
from zrt._native.library import library
from zrt.environment import cuda_parts
from zrt.errors import ProviderError
from zrt.onnxruntime.provider_args import minor
from zrt.values import copy as transfer
from zrt.values.value import Value

# The number of a device that no machine has.
NOT_THERE = 97
BFLOAT16, STRING, BOOL, FLOAT8, INT4 = 16, 8, 9, 17, 22


@pytest.mark.parametrize(
    ("array", "data_type", "element_type"),
    [
        (np.arange(4, dtype=np.float32), "tensor(float)", 1),
        (np.zeros((2, 3), np.int64), "tensor(int64)", 7),
        (np.zeros((0, 3), np.int8), "tensor(int8)", 3),
        (np.zeros((), np.float64), "tensor(double)", 11),
        (np.array([True, False]), "tensor(bool)", 9),
        (np.zeros(3, np.float16), "tensor(float16)", 10),
        (np.zeros((1,) * 40, np.float32), "tensor(float)", 1),
        (np.ma.array([1.0, 2.0], mask=[True, False]), "tensor(double)", 11),
    ],
)
def test_value_from_numpy_describes_the_array(ort, array, data_type, element_type) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert value.shape() == list(array.shape)
    assert value.data_type() == data_type
    assert value.element_type() == element_type
    assert value.tensor_size_in_bytes() == array.nbytes
    assert value.device_name() == "cpu"
    assert value.has_value()
    assert value.is_tensor()
    assert not value.is_sparse_tensor()
    assert not value.is_tensor_sequence()
    np.testing.assert_array_equal(value.numpy(), np.asarray(array))
    if array.size:
        assert value.data_ptr() == array.ctypes.data


def test_value_shares_the_memory_of_the_array_and_keeps_its_shape(ort) -> None:
    array = np.arange(4, dtype=np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    array[0] = 9
    assert value.numpy()[0] == 9
    value.numpy()[1] = 8
    assert array[1] == 8
    value.update_inplace(np.full(4, 7, np.float32))
    assert array.tolist() == [7, 7, 7, 7]
    array.resize((2, 2), refcheck=False)
    assert value.shape() == [4]
    assert value.numpy().tolist() == [7, 7, 7, 7]


def test_value_of_a_read_only_array_keeps_its_shape(ort) -> None:
    array = np.ones(4, np.float32)
    array.flags.writeable = False
    value = ort.OrtValue.ortvalue_from_numpy(array)
    array.resize((2, 2), refcheck=False)
    assert value.shape() == [4]


def test_value_of_a_strided_array_is_a_copy(ort) -> None:
    array = np.arange(6).reshape(2, 3).T
    value = ort.OrtValue.ortvalue_from_numpy(array)
    array[0, 0] = 99
    assert value.numpy().tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    "thing",
    [
        np.array(["a"]),
        np.array([b"a"]),
        np.array(["a", 3], object),
        np.zeros(3, "M8[s]"),
        np.zeros(3, [("a", int)]),
        np.zeros(3, ml_dtypes.bfloat16),
        np.zeros(2, np.complex64),
        np.zeros(2, np.longdouble),
        [1.0, 2.0],
        3,
        None,
        np.float32(3),
    ],
)
def test_value_from_numpy_refuses_all_but_arrays_of_numbers_that_onnx_has(ort, thing, refused) -> None:
    with refused(RuntimeError, str(thing.dtype) if type(thing) is np.ndarray else type(thing).__name__):
        ort.OrtValue.ortvalue_from_numpy(thing)


@pytest.mark.parametrize("device", ["cuda", "gpu", "dml", "webgpu"])
def test_value_on_a_device_that_is_not_there_raises(ort, device) -> None:
    with pytest.raises(RuntimeError, match="Can't allocate memory on the"):
        ort.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32), device, NOT_THERE)
    with pytest.raises(RuntimeError):
        ort.OrtValue.ortvalue_from_shape_and_type([2], np.float32, device, NOT_THERE)


def test_error_of_the_provider_for_the_device_is_a_runtime_error(monkeypatch, tmp_path) -> None:
    """A library for CUDA on a machine without a driver: the error is of onnxruntime's type, and names the driver."""
    from zrt import onnxruntime

    def require(file: str) -> None:
        raise ProviderError(f"{Path(file).name}: there is no NVIDIA driver")

    provider = tmp_path / "libonnxruntime_providers_cuda.so"
    provider.touch()
    monkeypatch.setattr(cuda_parts, "library", lambda: library()._replace(path=str(tmp_path / "libonnxruntime.so")))
    monkeypatch.setattr(transfer, "_CUDA", "one that nobody registered")
    monkeypatch.setattr(cuda_parts, "require", require)
    says = f"Can't allocate memory on the device: .*{provider}.*: there is no NVIDIA driver"
    array = np.zeros(2, np.float32)
    for call in (
        lambda: onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", NOT_THERE),
        lambda: onnxruntime.OrtValue.ortvalue_from_shape_and_type([2], np.float32, "cuda", NOT_THERE),
    ):
        with pytest.raises(RuntimeError, match=says) as caught:
            call()
        assert type(caught.value) is RuntimeError
        assert isinstance(caught.value.__cause__, ProviderError)


@pytest.mark.parametrize(
    ("dtype", "code", "data_type", "nbytes"),
    [
        (np.uint16, BFLOAT16, "tensor(bfloat16)", 6),
        (ml_dtypes.bfloat16, BFLOAT16, "tensor(bfloat16)", 6),
        (np.int16, 10, "tensor(float16)", 6),
        (np.float32, 6, "tensor(int32)", 12),
        (np.uint8, FLOAT8, "tensor(float8e4m3fn)", 3),
        (np.uint8, 19, "tensor(float8e5m2)", 3),
        (np.uint8, INT4, "tensor(int4)", 2),
        (np.uint8, BOOL, "tensor(bool)", 3),
        (np.uint8, 24, "tensor(float8e8m0)", 3),
        (np.uint8, 25, "tensor(uint2)", 1),
        (np.uint8, 26, "tensor(int2)", 1),
    ],
)
def test_value_with_onnx_type_reads_the_bytes_of_the_array(ort, dtype, code, data_type, nbytes) -> None:
    array = np.zeros(3, dtype)
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, code)
    assert value.data_type() == data_type
    assert value.element_type() == code
    assert value.shape() == [3]
    assert value.tensor_size_in_bytes() == nbytes
    assert value.data_ptr() == array.ctypes.data


@pytest.mark.parametrize(
    ("data", "code", "error", "words"),
    [
        (np.zeros(3, np.float32), 11, RuntimeError, "have 4 bytes"),
        (np.zeros(3, np.float32), STRING, RuntimeError, "strings"),
        (np.zeros(3, np.uint8), 0, RuntimeError, "0"),
        (np.zeros(3, np.complex64), 14, RuntimeError, "14"),
        (np.zeros(3, np.uint8), 99, RuntimeError, "99"),
        (np.zeros(3, np.uint8), -1, RuntimeError, "-1"),
        ([1], 1, TypeError, "data"),
        (np.zeros(3, np.float32), "f", TypeError, "onnx_element_type"),
        (np.zeros(3, np.float32), 1.0, TypeError, "onnx_element_type"),
    ],
)
def test_value_with_wrong_onnx_type_raises(ort, data, code, error, words, refused) -> None:
    with refused(error, words):
        ort.OrtValue.ortvalue_from_numpy_with_onnx_type(data, code)


@pytest.mark.parametrize(
    ("code", "name"),
    [(16, "bfloat16"), (18, "float8e4m3fnuz"), (19, "float8e5m2"), (22, "int4"), (21, "uint4"), (26, "int2")],
)
def test_numpy_refuses_types_that_numpy_lacks(ort, code, name, refused) -> None:
    value = ort.OrtValue.ortvalue_from_shape_and_type([4], code)
    with refused(RuntimeError, name):
        value.numpy()


def test_numpy_of_float8_is_bytes(ort) -> None:
    array = np.array([1, 2, 3], np.uint8)
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, FLOAT8)
    assert value.numpy().dtype == np.uint8
    assert value.numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("shape", "data", "data_type", "nbytes"),
    [
        ([2, 3], np.float32, "tensor(float)", 24),
        ((2, 3), np.dtype("int64"), "tensor(int64)", 48),
        (np.array([2, 3]), "float32", "tensor(float)", 24),
        ([], float, "tensor(double)", 8),
        ([0, 3], np.float32, "tensor(float)", 0),
        ([0, 1 << 62], np.float32, "tensor(float)", 0),
        ([1] * 65, np.float32, "tensor(float)", 4),
        ([2], None, "tensor(double)", 16),
        ([2], bool, "tensor(bool)", 2),
        ([2], 16, "tensor(bfloat16)", 4),
        ([3], 22, "tensor(int4)", 2),
        ([2], True, "tensor(float)", 8),
    ],
)
def test_value_of_a_shape_and_a_type(ort, shape, data, data_type, nbytes) -> None:
    value = ort.OrtValue.ortvalue_from_shape_and_type(shape, data)
    assert value.shape() == [int(dim) for dim in shape]
    assert value.data_type() == data_type
    assert value.tensor_size_in_bytes() == nbytes
    assert value.data_ptr() % 64 == 0


@pytest.mark.parametrize(
    ("shape", "data", "error"),
    [
        ([-1], np.float32, RuntimeError),
        ([1 << 40, 1 << 40], np.float32, RuntimeError),
        ([1 << 36], np.float32, MemoryError),
        ([1 << 63], np.float32, TypeError),
        (2, np.float32, TypeError),
        (["a"], np.float32, TypeError),
        ([2.0], np.float32, TypeError),
        ([2], np.str_, RuntimeError),
        ([2], object, RuntimeError),
        ([2], STRING, RuntimeError),
        ([2], 0, RuntimeError),
        ([2], 99, RuntimeError),
        ([2], 1 << 40, TypeError),
        ([2], np.complex64, RuntimeError),
        ([2], ml_dtypes.bfloat16, RuntimeError),
    ],
)
def test_value_of_a_wrong_shape_or_type_raises(ort, shape, data, error) -> None:
    with pytest.raises(error):
        ort.OrtValue.ortvalue_from_shape_and_type(shape, data)


def test_update_inplace_takes_another_value_of_the_same_size(ort) -> None:
    array = np.zeros(4, np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    value.update_inplace(ort.OrtValue.ortvalue_from_numpy(np.full((2, 2), 9, np.float32)))
    assert array.tolist() == [9, 9, 9, 9]
    value.update_inplace(np.arange(4, dtype=np.float32).reshape(2, 2))
    assert array.tolist() == [0, 1, 2, 3]


def test_update_inplace_takes_the_bytes_of_another_type(ort) -> None:
    value = ort.OrtValue.ortvalue_from_shape_and_type([2], BFLOAT16)
    value.update_inplace(np.array([1, 2], np.uint16))


def test_update_inplace_refuses_what_does_not_fit(ort, refused) -> None:
    make = ort.OrtValue.ortvalue_from_numpy
    value = make(np.zeros(4, np.float32))
    with refused(RuntimeError, "5 elements", "4"):
        value.update_inplace(np.zeros(5, np.float32))
    with refused(RuntimeError, "<U1", "tensor(float)"):
        value.update_inplace(np.array(["a"] * 4))
    with refused(RuntimeError, "tensor(double)", "tensor(float)"):
        value.update_inplace(make(np.zeros(4)))
    with refused(RuntimeError, "(5,)", "(4,)"):
        value.update_inplace(make(np.zeros(5, np.float32)))
    with refused(TypeError, "data", "list"):
        value.update_inplace([1.0] * 4)


@ours
@pytest.mark.parametrize(("source", "first_views"), [("allocated", 0), ("from DLPack", 1)])
def test_steps_of_a_loop_make_no_view_of_a_value_anew(
    ort, source: str, first_views: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ort.InferenceSession(models.add(["n"]), providers=["CPUExecutionProvider"])
    array = np.zeros(4, np.float32)
    make = ort.OrtValue
    value = make.ortvalue_from_shape_and_type([4], np.float32) if source == "allocated" else make.from_dlpack(array)
    views = Mock(wraps=Value.numpy)
    monkeypatch.setattr(Value, "numpy", lambda self: views(self))
    monkeypatch.setattr(Value, "from_array", Mock(side_effect=AssertionError))
    binding = session.io_binding()
    binding.bind_output("z")
    for step in range(3):
        value.update_inplace(np.full(4, step, np.float32))
        binding.bind_ortvalue_input("x", value)
        binding.bind_ortvalue_input("y", value)
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].numpy().tolist() == [2 * step] * 4
        assert value.numpy().tolist() == [step] * 4
    assert views.call_count == first_views


@ours
def test_update_inplace_reads_no_other_memory_and_leaves_read_only_memory_alone(ort) -> None:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert not value.numpy().flags.writeable
    for source, says in ((np.zeros(4, np.int8), "Inplace update copies bytes"), (np.ones(4, np.float32), "read-only")):
        with pytest.raises(RuntimeError, match=says):
            value.update_inplace(source)


def test_constructor_takes_the_extension_module_s_value(ort, state, refused) -> None:
    value = state.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32), state.OrtDevice(0, 0, 0))
    assert ort.OrtValue(value).shape() == [2]
    assert ort.OrtValue(value).data_ptr() == value.data_ptr()
    with refused(ValueError, "ortvalue", "int"):
        ort.OrtValue(3)
    with pytest.raises(TypeError):
        state.OrtValue.ortvalue_from_numpy(np.zeros(2), 3)


def test_values_are_neither_pickled_nor_copied_deeply(ort) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))
    for work in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle"):
            work(value)
    assert copy.copy(value).shape() == [2]


def test_array_protocol(ort) -> None:
    array = np.arange(4, dtype=np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert np.asarray(value).ctypes.data == array.ctypes.data
    assert np.array(value).ctypes.data != array.ctypes.data
    assert np.asarray(value, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        value.__array__(np.float64, copy=False)


def test_dlpack_shares_memory_both_ways(ort) -> None:
    array = np.arange(4, dtype=np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert value.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(value).ctypes.data == array.ctypes.data
    assert ort.OrtValue.from_dlpack(array).data_ptr() == array.ctypes.data
    assert ort.OrtValue.from_dlpack(value).data_ptr() == array.ctypes.data
    assert ort.OrtValue.from_dlpack(array.__dlpack__()).shape() == [4]


def test_dlpack_exports_read_only_memory_to_libraries_that_know_it(ort) -> None:
    for array in (np.arange(4, dtype=np.float32), np.array([True, False])):
        array.flags.writeable = False
        taken = np.from_dlpack(ort.OrtValue.ortvalue_from_numpy(array))
        assert (taken.ctypes.data, taken.flags.writeable) == (array.ctypes.data, False)


def test_dlpack_exports_bool_as_uint8_before_132(ort, state) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(np.array([True, False]))
    assert np.from_dlpack(value).dtype == (np.uint8 if minor() < 32 else np.bool_)
    assert ort.OrtValue.from_dlpack(value).data_type() == "tensor(bool)"
    made = state.OrtValue.from_dlpack(np.array([1, 0], np.uint8).__dlpack__(), is_bool_tensor=True)
    assert made.data_type() == "tensor(bool)"


def test_dlpack_refuses_what_it_cannot_share(ort, refused) -> None:
    with refused(RuntimeError, "contiguous"):
        ort.OrtValue.from_dlpack(np.arange(6).reshape(2, 3).T)
    for code in (INT4, FLOAT8):
        with refused(RuntimeError, "DLPack"):
            ort.OrtValue.ortvalue_from_shape_and_type([4], code).__dlpack__()


@pytest.mark.parametrize("error", [BufferError("no"), KeyError("no"), RuntimeError("no")])
def test_dlpack_raises_the_error_of_the_other_library(ort, error) -> None:
    class Thing:
        def __dlpack__(self, **_: object) -> object:
            raise error

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with pytest.raises(type(error)) as caught:
        ort.OrtValue.from_dlpack(Thing())
    assert caught.value is error


def test_dlpack_refuses_read_only_memory(ort) -> None:
    """`DLPack` itself does, without the versions that can mark it."""
    with pytest.raises(BufferError):
        ort.OrtValue.from_dlpack(np.frombuffer(bytes(8)))


@ours
def test_dlpack_of_a_used_capsule_and_of_anything_else_raises(ort) -> None:
    capsule = np.zeros(2).__dlpack__()
    ort.OrtValue.from_dlpack(capsule)
    for wrong in (capsule, [1], 3, None, object()):
        with pytest.raises(RuntimeError):
            ort.OrtValue.from_dlpack(wrong)


def test_uint8_capsule_is_told_without_taking_it(state) -> None:
    capsule = np.zeros(2, np.uint8).__dlpack__()
    assert state.is_dlpack_uint8_tensor(capsule)
    assert state.is_dlpack_uint8_tensor(capsule)
    assert not state.is_dlpack_uint8_tensor(np.zeros(2, np.float32).__dlpack__())
    with pytest.raises(TypeError):
        state.is_dlpack_uint8_tensor(3)
    assert state.OrtValue.from_dlpack(capsule).shape() == [2]


# The official package's vector does not keep an array alive.
COUNT = np.arange(4, dtype=np.float32)


@pytest.fixture
def vector(ort, state) -> Any:
    vector = state.OrtValueVector()
    vector.push_back(ort.OrtValue.ortvalue_from_numpy(COUNT)._ortvalue)
    vector.push_back(np.zeros(3, np.int64).__dlpack__())
    vector.push_back(np.array([1], np.uint8).__dlpack__(), True)
    vector.push_back(dlpack_tensor=np.zeros((2, 2), np.float32).__dlpack__(), is_bool_tensor=False)
    return vector


def test_vector_is_a_sequence_of_values(vector) -> None:
    assert len(vector) == 4
    assert [each.shape() for each in vector] == [[4], [3], [1], [2, 2]]
    assert vector[0].numpy().tolist() == [0, 1, 2, 3]
    assert vector.element_type_at(1) == 7
    assert vector.element_type_at(idx=2) == BOOL
    assert vector.bool_tensor_indices() == [2]
    vector.reserve(10)
    vector.shrink_to_fit()


def test_vector_exports_by_dlpack(vector, ort) -> None:
    class Tensor:
        def __init__(self, capsule: object) -> None:
            self.shape = ort.OrtValue.from_dlpack(capsule).shape()

    assert len(vector.to_dlpacks(None)) == 4
    assert [each.shape for each in vector.to_dlpacks(Tensor)] == [[4], [3], [1], [2, 2]]
    assert Tensor(vector.dlpack_at(3)).shape == [2, 2]
    with pytest.raises(RuntimeError):
        vector.to_dlpacks(3)


def test_vector_refuses_wrong_indices(vector, state) -> None:
    for get in (vector.__getitem__, vector.dlpack_at, vector.element_type_at):
        with pytest.raises(IndexError):
            get(99)
        with pytest.raises(TypeError):
            get(-1)
    with pytest.raises(TypeError):
        vector[0:1]
    with pytest.raises(TypeError):
        vector.reserve(-1)
    with pytest.raises(ValueError, match=r"reserve|values"):
        vector.reserve(1 << 62)
    with pytest.raises(TypeError):
        state.OrtValueVector([])


def test_vector_takes_a_batch_over_the_memory_of_others(state) -> None:
    array = np.arange(4, dtype=np.float32)
    vector = state.OrtValueVector()
    device = state.OrtDevice(0, 0, 0)
    types = [np.float32, np.dtype("float32")]
    vector.push_back_batch([array, array], [array.ctypes.data] * 2, types, [[4], [2, 2]], [device] * 2)
    assert [each.shape() for each in vector] == [[4], [2, 2]]
    assert all(each.data_ptr() == array.ctypes.data for each in vector)
    with pytest.raises(RuntimeError, match="type"):
        vector.push_back_batch([array], [array.ctypes.data], ["no type"], [[4]], [device])
    with pytest.raises(IndexError, match=r"number|vector"):
        vector.push_back_batch([array], [], [np.float32], [[4]], [device])


def test_copy_tensors_refuses_wrong_arguments(ort) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32))
    for sources, targets in [([value], []), ([], [])]:
        with pytest.raises(RuntimeError):
            ort.copy_tensors(sources, targets)
    with pytest.raises(RuntimeError):
        ort.copy_tensors([value], [ort.OrtValue.ortvalue_from_numpy(np.zeros(5, np.float32))])
    with pytest.raises(RuntimeError, match="int"):
        ort.copy_tensors([value], [value], 3)
    with pytest.raises(TypeError):
        ort.copy_tensors(value, value)
    with pytest.raises(AttributeError):
        ort.copy_tensors([1], [2])


@ours
def test_copy_tensors_copies_on_the_host(ort) -> None:
    source, target = np.arange(4.0), np.zeros(4)
    make = ort.OrtValue.ortvalue_from_numpy
    ort.copy_tensors([make(source)], [make(target)])
    assert target.tolist() == [0, 1, 2, 3]


def test_value_keeps_the_array_alive_and_no_longer(ort) -> None:
    class Array(np.ndarray):
        pass

    array = np.arange(100000, dtype=np.float32)
    ended = weakref.ref(array)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    del array
    gc.collect()
    assert value.numpy()[-1] == 99999
    view = value.numpy()
    if ort.__name__ != "onnxruntime":
        del value
        gc.collect()
        assert view[-1] == 99999
    del view
    value = None
    gc.collect()
    assert ended() is None


@ours
def test_values_of_other_sources_keep_their_memory_alive(ort, state) -> None:
    array = np.arange(100000, dtype=np.uint16)
    values = [
        ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.copy(), 4).numpy(),
        ort.OrtValue.from_dlpack(array.copy()).numpy(),
        np.from_dlpack(ort.OrtValue.ortvalue_from_numpy(array.copy())),
    ]
    held = array.copy()
    vector = state.OrtValueVector()
    vector.push_back_batch([held], [held.ctypes.data], [np.uint16], [[100000]], [state.OrtDevice(0, 0, 0)])
    del held
    values.append(vector[0].numpy())
    del vector
    gc.collect()
    for each in values:
        np.testing.assert_array_equal(each, array)
