"""`from_dlpack`, with numpy and with a made-up library (`Foreign`) whose tensors have any field a test asks for."""

import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import zrt
from tests.support.arrays import Tracked, f32
from tests.support.bindings import bind
from tests.support.capsules import Foreign, read, watched
from tests.support.interrupts import on_its_own
from zrt.errors import ArgumentError, DLPackError, DTypeError, UnsupportedError
from zrt.interop import dlpack
from zrt.interop.dlpack import element_type_in
from zrt.session.call import CALLS_SETTLED
from zrt.types import ElementType, pack
from zrt.values import dlpack_export
from zrt.values.dlpack_export import Device

NUMBERS = [np.dtype(name) for name in ["?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "f", "d"]]
SMALL = [
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
]
PACKED = ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"]

tensors = st.sampled_from(NUMBERS).flatmap(lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, min_side=0)))


class Carried:
    """A tensor that shows only its DLPack methods: numpy cannot read it through ``__array__``."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> Any:
        return self.tensor.__dlpack__(**asked)


class TestNumpy:
    @given(array=tensors)
    def test_round_trip_shares_the_memory(self, array: np.ndarray) -> None:
        value = zrt.from_dlpack(array)
        assert (value.shape, value.element_type.dtype, value.writeable) == (array.shape, array.dtype, True)
        back = np.from_dlpack(value)
        np.testing.assert_array_equal(back, array)
        assert (back.shape, back.dtype) == (array.shape, array.dtype)
        if array.size:
            assert value.address == array.ctypes.data == back.ctypes.data

    @given(array=tensors, data=st.data())
    def test_strided_arrays_are_refused_or_copied(self, array: np.ndarray, data: st.DataObject) -> None:
        if array.ndim:
            steps = data.draw(st.tuples(*[st.sampled_from([1, 2, -1])] * array.ndim))
            array = array[tuple(slice(None, None, step) for step in steps)].T
        copied = zrt.from_dlpack(array, copy=True)
        np.testing.assert_array_equal(copied.numpy(), array)
        if array.size:
            assert not np.shares_memory(copied.numpy(), array)
        if array.flags.c_contiguous:
            np.testing.assert_array_equal(zrt.from_dlpack(array).numpy(), array)
        else:
            with pytest.raises(DLPackError, match=r"weights: is not C-contiguous .* copy=True"):
                zrt.from_dlpack(array, subject="weights")

    @pytest.mark.parametrize("copy", [1, np.True_], ids=repr)
    def test_a_copy_is_asked_for_by_a_bool_alone(self, copy: Any) -> None:
        """Before, a value over the array's own memory came back, which is no copy."""
        with pytest.raises(DTypeError, match="copy: expected True, False or None, got"):
            zrt.from_dlpack(np.zeros(3), copy=copy)
        with pytest.raises(DTypeError, match="copy: expected True, False or None, got"):
            zrt.Value.from_array(np.zeros(3)).__dlpack__(copy=copy)

    def test_read_only_arrays_stay_read_only(self) -> None:
        array = np.zeros(3, np.float32)
        array.flags.writeable = False
        value = zrt.from_dlpack(array)
        assert not value.writeable
        assert not np.from_dlpack(value).flags.writeable
        with pytest.raises(BufferError, match=r"read-only.*max_version=\(1, 0\)"):
            value.__dlpack__()
        assert np.from_dlpack(value, copy=True).flags.writeable

    @pytest.mark.parametrize("dtype", [*NUMBERS, *SMALL], ids=str)
    def test_plain_and_versioned_capsules(self, dtype: np.dtype) -> None:
        array = np.array([[2, 1], [1, 2]], dtype)
        value = zrt.Value.from_array(array)

        class Old(Carried):
            def __dlpack__(self, *, stream: int | None = None) -> Any:
                return self.tensor.__dlpack__(stream=stream)

        for carrier in (Carried(value), Old(value)):
            taken = zrt.from_dlpack(carrier)
            assert taken.address == value.address
            assert taken.numpy().dtype == dtype
            np.testing.assert_array_equal(taken.numpy(), array)
            np.testing.assert_array_equal(zrt.from_dlpack(carrier, copy=True).numpy(), array)

    def test_error_quotes_the_reason_of_the_other_library(self) -> None:
        with pytest.raises(DLPackError, match=r"feed: ndarray does not export it: .*byte order"):
            zrt.from_dlpack(np.zeros(3, ">f4"), subject="feed")

    def test_outputs_lane_outputs_and_sequence_elements_can_be_exported(self, relu: zrt.Session) -> None:
        bound = bind(relu, {"x": f32(-1, 2)}, "y")
        bound.run()
        value = bound.outputs()["y"]
        array = np.from_dlpack(value)
        del bound, value
        gc.collect()
        assert array.tolist() == [0, 2]

        with relu.lane({"x": 3}) as lane:
            seen = zrt.from_dlpack(lane.outputs["y"])
            lane.inputs["x"][...] = [1, -1, 2]
            lane.run()
            assert np.from_dlpack(seen).tolist() == [1, 0, 2]

        [first, _] = zrt.Value.from_sequence([np.ones(2, np.float32), np.zeros(1, np.float32)]).elements()
        assert np.from_dlpack(first).tolist() == [1, 1]


class TestElementTypes:
    @pytest.mark.parametrize("name", PACKED)
    def test_packed_types_stay_packed(self, name: str) -> None:
        array = np.array([[1, 0, 1], [0, 1, 1]]).astype(name)
        value = zrt.Value.from_packed(pack(array, name), name, (2, 3))
        tensor = read(value.__dlpack__(max_version=(1, 1))).tensor
        assert (tensor.bits, tensor.lanes, list(tensor.shape[:2])) == (value.element_type.bits, 1, [2, 3])
        for taken in (zrt.from_dlpack(Carried(value)), zrt.from_dlpack(Carried(value), copy=True)):
            np.testing.assert_array_equal(taken.unpack(), array)


class TestLifetimes:
    @pytest.mark.parametrize("version", [None, (1, 0), (1, 7)])
    def test_deleter_is_called_once_after_the_last_view(self, version: tuple[int, int] | None) -> None:
        foreign = Foreign(version=version)
        value = zrt.from_dlpack(foreign)
        view = value.numpy()
        np.testing.assert_array_equal(view, [[0, 1, 2], [3, 4, 5]])
        again = np.from_dlpack(value)
        del value, view
        gc.collect()
        assert foreign.deleted == 0
        del again
        assert foreign.deleted == 1

    def test_deleter_is_called_for_a_refused_tensor(self) -> None:
        for fields in ({"lanes": 2}, {"device_type": 8}, {"strides": (1, 2)}, {"version": (2, 0)}, {"ndim": -1}):
            foreign = Foreign(**fields)
            with pytest.raises(zrt.Error):
                zrt.from_dlpack(foreign)
            gc.collect()
            assert foreign.deleted == 1, fields

    def test_deleter_is_called_after_a_copy(self) -> None:
        foreign = Foreign(strides=(1, 2))
        value = zrt.from_dlpack(foreign, copy=True)
        assert foreign.deleted == 1
        assert value.numpy().tolist() == [[0, 2, 4], [1, 3, 5]]

    def test_tensor_without_a_deleter(self) -> None:
        foreign = Foreign()
        foreign.managed.deleter = type(foreign.deleter)()
        assert zrt.from_dlpack(foreign).shape == (2, 3)

    def test_capsule_is_consumed_once(self) -> None:
        capsule = zrt.Value.from_array(np.zeros(1)).__dlpack__()

        class Twice:
            def __dlpack_device__(self) -> tuple[int, int]:
                return 1, 0

            def __dlpack__(self, **_: Any) -> Any:
                return capsule

        zrt.from_dlpack(Twice())
        with pytest.raises(DLPackError, match="used_dltensor"):
            zrt.from_dlpack(Twice())

    def test_deleters_are_called_on_many_threads(self) -> None:
        kept = [watched() for _ in range(200)]
        taken = [np.from_dlpack(value) for value, _ in kept]
        alive = [reference for _, reference in kept]
        del kept
        with ThreadPoolExecutor(4) as pool:
            for _ in range(len(taken)):
                pool.submit(taken.pop)
        gc.collect()
        assert not any(reference() is not None for reference in alive)

    def test_capsules_are_released_at_exit(self, script: Callable[..., Any]) -> None:
        script("dlpack_at_exit.py")

    def test_interrupt_at_any_bytecode_leaks_nothing(self) -> None:
        def interrupts(number: int) -> bool:
            """Interrupts at that bytecode; False if there are fewer. The array must be released in either case."""
            left = number

            def trace(frame: Any, event: str, _: object) -> Any:
                nonlocal left
                frame.f_trace_opcodes = True
                if event == "opcode" and frame.f_code.co_filename in (dlpack.__file__, dlpack_export.__file__):
                    left -= 1
                    if left < 0:
                        raise KeyboardInterrupt
                return trace

            array = f32(1, 2).view(Tracked)
            alive = weakref.ref(array)
            sys.settrace(trace)
            try:
                dlpack.from_dlpack(array)
                return False
            except KeyboardInterrupt:
                return True
            finally:
                sys.settrace(None)
                del array
                if alive() is not None:
                    gc.collect()
                assert alive() is None, f"lost at bytecode {number}"

        reached = next(number for number in itertools.count() if not on_its_own(interrupts, number))
        assert reached > 100

    def test_tensors_work_and_are_released_after_a_fork(self, script: Callable[..., Any]) -> None:
        script("dlpack_after_fork.py")


class TestForeign:
    @pytest.mark.parametrize(
        ("fields", "error", "words"),
        [
            ({"code": 7, "bits": 8}, DTypeError, "code 7, 8 bits"),
            ({"lanes": 4}, DTypeError, "4 lanes"),
            ({"code": 0, "bits": 4, "flags": 4}, DLPackError, "INT4 with a byte for each element"),
            ({"code": 0, "bits": 4, "strides": (1, 2)}, DLPackError, "not C-contiguous"),
            ({"shape": None, "ndim": 2}, DLPackError, "2 dimensions"),
            ({"device_type": 2, "device_id": 1 << 16}, DLPackError, "claims to lie on device 65536"),
            ({"byte_offset": 2}, DLPackError, "no multiple of its elements' 4 bytes"),
        ],
        ids=str,
    )
    def test_unusable_tensor_is_refused(self, fields: dict[str, Any], error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=f"tensor: .*{words}"):
            zrt.from_dlpack(Foreign(**fields))

    def test_offsets_and_strides(self) -> None:
        assert zrt.from_dlpack(Foreign(byte_offset=8)).numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
        # The stride of an axis with one element is ignored.
        assert zrt.from_dlpack(Foreign((1, 3), (77, 1))).numpy().tolist() == [[0, 1, 2]]
        assert zrt.from_dlpack(Foreign((2, 0), (5, 9))).shape == (2, 0)
        assert zrt.from_dlpack(Foreign((2, 0), data=None)).shape == (2, 0)
        assert zrt.from_dlpack(Foreign(())).numpy().tolist() == 0
        copied = zrt.from_dlpack(Foreign((2, 2), (-2, 1), byte_offset=8), copy=True)
        assert copied.numpy().tolist() == [[2, 3], [0, 1]]
        assert zrt.from_dlpack(Foreign((1, 2), (1 << 62, 1)), copy=True).numpy().tolist() == [[0, 1]]
        misplaced = zrt.from_dlpack(Foreign((2,), byte_offset=2), copy=True)
        assert misplaced.shape == (2,)

    def test_read_only_flag(self) -> None:
        assert not zrt.from_dlpack(Foreign(flags=1)).writeable
        assert zrt.from_dlpack(Foreign(flags=1), copy=True).writeable

    def test_keywords_passed_to_the_other_library(self) -> None:
        foreign = Foreign()
        zrt.from_dlpack(foreign)
        assert foreign.asked == {"max_version": (1, 1)}
        zrt.from_dlpack(foreign, copy=False, device=zrt.MemoryInfo.cpu(), stream=-1)
        assert foreign.asked == {"max_version": (1, 1), "copy": False, "stream": -1}
        on_device = Foreign(device_type=2, device_id=1)
        zrt.from_dlpack(on_device, copy=True, stream=7)
        assert on_device.asked == {"max_version": (1, 1), "copy": True, "stream": 7}
        zrt.from_dlpack(on_device, device=zrt.MemoryInfo.cpu())
        assert on_device.asked == {"max_version": (1, 1), "dl_device": (1, 0)}

    def test_libraries_before_dlpack_1_0_get_no_new_keywords(self) -> None:
        assert zrt.from_dlpack(Foreign(version=None), copy=True).shape == (2, 3)
        assert zrt.from_dlpack(Foreign(version=None), copy=False).shape == (2, 3)
        with pytest.raises(DLPackError, match="keyword"):
            zrt.from_dlpack(Foreign(version=None), device=zrt.MemoryInfo.cuda())

    @pytest.mark.parametrize(
        ("device_type", "name"),
        [
            (Device.CUDA, "Cuda"),
            (Device.CUDA_MANAGED, "Cuda"),
            (Device.CUDA_HOST, "CudaPinned"),
            (Device.ROCM, "Hip"),
            (Device.ROCM_HOST, "HipPinned"),
        ],
    )
    def test_memory_of_each_device_type(self, device_type: int, name: str) -> None:
        # The test never reads the memory, so the tensor may claim to lie on any device.
        value = zrt.from_dlpack(Foreign(device_type=device_type, device_id=3))
        assert (value.memory.name, value.memory.device_id) == (name, 3)
        assert value.memory.is_host == name.endswith("Pinned")
        back = Device.CUDA if device_type == Device.CUDA_MANAGED else device_type
        assert value.__dlpack_device__() == (back, 3)

    def test_value_on_a_device(self) -> None:
        value = zrt.from_dlpack(Foreign(device_type=Device.CUDA, device_id=3))
        assert value.memory == zrt.MemoryInfo.cuda(3)
        assert zrt.from_dlpack(Foreign(device_type=Device.CUDA_HOST)).memory == zrt.MemoryInfo.cuda_pinned()
        assert read(value.__dlpack__(stream=7)).tensor.device_id == 3
        with pytest.raises(ArgumentError, match="DLPack does not allow 0"):
            value.__dlpack__(stream=0)
        with pytest.raises(UnsupportedError, match=r"Cuda:3; zrt\.copy"):
            value.numpy()
        with pytest.raises(DLPackError, match="on the host"):
            value.__dlpack__(copy=True)


class Readable(Carried):
    """A tensor that numpy can also read through ``__array__``."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.tensor


class TestFeeds:
    def test_tensors_of_other_libraries_are_fed_without_a_copy(self, add: zrt.Session) -> None:
        x = np.arange(4, dtype=np.float32)
        for feed in (Carried(x), Readable(x), Readable(x[::-1][::-1])):
            assert add.run([feed, x])[0].tolist() == [0, 2, 4, 6]
        assert add.run({"x": Readable(x[::-1]), "y": x})[0].tolist() == [3, 3, 3, 3]
        prepared = add.prepare([Carried(x), x])
        x[0] = 5
        assert prepared.run()[0].tolist() == [10, 2, 4, 6]

    def test_tensors_of_many_lengths_share_a_call(self, add: zrt.Session) -> None:
        for size in range(CALLS_SETTLED + 1):
            add.run([np.ones(size, np.float32)] * 2)
        calls = add._calls
        for size in range(100, 103):
            feed = Carried(np.arange(size, dtype=np.float32))
            assert add.run([feed, feed])[0].tolist() == [2 * each for each in range(size)]
        assert add._calls is calls

    def test_errors_name_the_input(self, add: zrt.Session) -> None:
        x = np.arange(4, dtype=np.float32)
        with pytest.raises(DTypeError, match="input 'y': expected float32, got int64"):
            add.run([x, Carried(np.arange(4))])
        with pytest.raises(
            DLPackError, match=r"input 'y': is not C-contiguous .*; zrt\.from_dlpack\(tensor, copy=True\)"
        ):
            add.run([x, Carried(x[::-1])])
        with pytest.raises(zrt.Error, match="input 'y'"):
            add.run([x, Foreign((4,), device_type=8)])

    def test_bfloat16_that_numpy_cannot_read_is_fed(self, load: Callable[..., zrt.Session]) -> None:
        cast = load("(bfloat16[n] x) => (float[n] y) { y = Cast <to = 1> (x) }")

        class Torch(Carried):
            def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
                raise TypeError("no bfloat16 in numpy")

        value = zrt.Value.from_array(np.array([1, 2.5], ml_dtypes.bfloat16))
        assert cast.run([Torch(value)])[0].tolist() == [1, 2.5]


class TestDeviceValues:
    """A CPU-only session refuses values on a device, since ORT would read their addresses as host memory."""

    def test_session_without_a_device_refuses_device_values(self, add: zrt.Session) -> None:
        x = np.ones(4, np.float32)
        away = zrt.from_dlpack(Foreign((4,), device_type=Device.CUDA, device_id=1))
        binding = add.binding()
        for use in (
            lambda: add.run([away, x]),
            lambda: add.run({"x": Foreign((4,), device_type=Device.CUDA, device_id=1), "y": x}),
            lambda: add.prepare({"x": away, "y": x}),
            lambda: binding.bind_input("x", away),
        ):
            with pytest.raises(UnsupportedError, match=r"input 'x' lies on Cuda:1, .* nothing on a device: zrt\.copy"):
                use()
        add.close()
        with pytest.raises(UnsupportedError, match="output 'z' lies on Cuda:1"):
            binding.bind_output("z", away)

    def test_session_without_a_device_takes_pinned_memory(self, add: zrt.Session) -> None:
        x = np.ones(4, np.float32)
        assert add.run([Foreign((4,), device_type=Device.CUDA_HOST), x])[0].tolist() == [1, 2, 3, 4]


def test_element_type_in_a_capsule_leaves_it_whole() -> None:
    for max_version in (None, (1, 0)):
        capsule = np.zeros(2, np.uint8).__dlpack__(max_version=max_version)
        assert element_type_in(capsule) is ElementType.UINT8
        assert element_type_in(capsule) is ElementType.UINT8
    with pytest.raises(DLPackError, match="expected a capsule with a tensor"):
        element_type_in(3)
