"""Tensors to and from other libraries, by DLPack: numpy, and libraries that do not exist."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import zrt
from tests.support.arrays import Tracked, f32
from tests.support.capsules import Foreign, Plain, Versioned, read, watched
from zrt.errors import ArgumentError, DLPackError, DTypeError, UnsupportedError
from zrt.interop import dlpack
from zrt.interop.dlpack import Device
from zrt.types import pack

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
    """A value under DLPack's protocol alone."""

    def __init__(self, value: zrt.Value) -> None:
        self.value = value

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> Any:
        return self.value.__dlpack__(**asked)


class TestNumpy:
    @given(array=tensors)
    def test_there_and_back_over_the_same_memory(self, array: np.ndarray) -> None:
        value = zrt.from_dlpack(array)
        assert (value.shape, value.element_type.dtype, value.writeable) == (array.shape, array.dtype, True)
        back = np.from_dlpack(value)
        np.testing.assert_array_equal(back, array)
        assert (back.shape, back.dtype) == (array.shape, array.dtype)
        if array.size:
            assert value.address == array.ctypes.data == back.ctypes.data

    @given(array=tensors, data=st.data())
    def test_what_is_strided_is_refused_or_copied(self, array: np.ndarray, data: st.DataObject) -> None:
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

    def test_later_writes_are_seen_on_both_sides(self) -> None:
        array = np.zeros(3, np.float32)
        value = zrt.from_dlpack(array)
        array[0] = 1
        np.from_dlpack(value)[1] = 2
        assert value.numpy().tolist() == array.tolist() == [1, 2, 0]

    def test_read_only_stays_read_only(self) -> None:
        array = np.zeros(3, np.float32)
        array.flags.writeable = False
        value = zrt.from_dlpack(array)
        assert not value.writeable
        assert not np.from_dlpack(value).flags.writeable
        with pytest.raises(BufferError, match=r"read-only.*max_version=\(1, 0\)"):
            value.__dlpack__()
        assert np.from_dlpack(value, copy=True).flags.writeable

    @pytest.mark.parametrize("dtype", NUMBERS, ids=str)
    def test_by_both_kinds_of_capsules(self, dtype: np.dtype) -> None:
        array = np.array([[0, 1], [1, 0]], dtype)
        value = zrt.Value.from_array(array)

        class Old(Carried):
            def __dlpack__(self, *, stream: int | None = None) -> Any:
                return self.value.__dlpack__(stream=stream)

        for carrier in (Carried(value), Old(value)):
            taken = zrt.from_dlpack(carrier)
            assert taken.address == value.address
            np.testing.assert_array_equal(taken.numpy(), array)

    def test_what_numpy_does_not_give_away_is_an_error_with_its_words(self) -> None:
        with pytest.raises(DLPackError, match=r"feed: the ndarray is not given away: .*byte order"):
            zrt.from_dlpack(np.zeros(3, ">f4"), subject="feed")

    def test_outputs_lanes_and_elements_of_sequences(self, relu: zrt.Session) -> None:
        bound = relu.binding()
        bound.bind_input("x", np.array([-1, 2], np.float32))
        bound.bind_output("y")
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
    @pytest.mark.parametrize("dtype", SMALL, ids=lambda dtype: dtype.__name__)
    def test_of_ml_dtypes(self, dtype: type) -> None:
        array = np.array([1, 2, 0.5], dtype)
        value = zrt.from_dlpack(Carried(zrt.Value.from_array(array)))
        assert value.numpy().dtype == dtype
        np.testing.assert_array_equal(value.numpy(), array)
        copied = zrt.from_dlpack(Carried(value), copy=True)
        np.testing.assert_array_equal(copied.numpy(), array)

    @pytest.mark.parametrize("name", PACKED)
    def test_packed_stay_packed(self, name: str) -> None:
        array = np.array([[1, 0, 1], [0, 1, 1]]).astype(name)
        value = zrt.Value.from_packed(pack(array, name), name, (2, 3))
        tensor = read(value.__dlpack__(max_version=(1, 1))).tensor
        assert (tensor.bits, tensor.lanes, list(tensor.shape[:2])) == (value.element_type.bits, 1, [2, 3])
        for taken in (zrt.from_dlpack(Carried(value)), zrt.from_dlpack(Carried(value), copy=True)):
            np.testing.assert_array_equal(taken.unpack(), array)

    def test_the_library_s_numbers_for_types(self) -> None:
        codes = {
            "bool": (6, 8),
            "int64": (0, 64),
            "uint8": (1, 8),
            "float16": (2, 16),
            "bfloat16": (4, 16),
            "float8_e4m3fn": (10, 8),
            "float8_e8m0fnu": (14, 8),
        }
        for name, (code, bits) in codes.items():
            tensor = read(zrt.Value.from_array(np.zeros(1, name)).__dlpack__()).tensor
            assert (tensor.code, tensor.bits, tensor.lanes) == (code, bits, 1)

    @pytest.mark.parametrize(
        "value",
        [
            zrt.Value.from_strings(["a"]),
            zrt.Value.from_sequence([np.ones(1)]),
            zrt.Value.from_map({"a": 1.5}),
            zrt.Value.from_sparse(zrt.SparseTensor("coo", (3,), np.ones(1), [1])),
        ],
        ids=repr,
    )
    def test_what_dlpack_does_not_carry(self, value: zrt.Value) -> None:
        for ask in (value.__dlpack__, value.__dlpack_device__):
            with pytest.raises(DLPackError, match="tensors of numbers"):
                ask()


class TestCapsule:
    def test_what_it_says(self) -> None:
        array = np.zeros((2, 3, 1), np.int16)
        value = zrt.Value.from_array(array)
        assert value.__dlpack_device__() == (Device.CPU, 0)
        for asked, kind in ((None, Plain), ((0, 8), Plain), ((1, 0), Versioned), ((9, 9), Versioned)):
            capsule = value.__dlpack__(max_version=asked)
            said = read(capsule)
            assert type(said) is kind
            tensor = said.tensor
            assert (tensor.data, tensor.byte_offset) == (array.ctypes.data, 0)
            assert (tensor.device_type, tensor.device_id) == (1, 0)
            assert (tensor.ndim, tensor.shape[:3], tensor.strides[:3]) == (3, [2, 3, 1], [3, 1, 1])
            if isinstance(said, Versioned):
                assert (said.major, said.minor) == min(asked or (0, 0), (1, 1))
                assert said.flags == 0

    def test_copies_say_so(self) -> None:
        value = zrt.Value.from_array(np.arange(3))
        capsule = value.__dlpack__(max_version=(1, 0), copy=True)
        said = read(capsule)
        assert isinstance(said, Versioned)
        assert said.flags == 2
        assert said.tensor.data != value.address

    def test_an_empty_tensor_has_no_address(self) -> None:
        capsule = zrt.Value.from_array(np.zeros((0, 2))).__dlpack__()
        assert read(capsule).tensor.data is None

    @pytest.mark.parametrize(
        ("asked", "error", "words"),
        [
            ({"stream": 1}, ArgumentError, "the host has none, got 1"),
            ({"stream": "1"}, DTypeError, "stream"),
            ({"max_version": 1}, DTypeError, "max_version"),
            ({"max_version": ("1", 0)}, DTypeError, "max_version"),
            ({"dl_device": (2, 0)}, DLPackError, r"\(2, 0\)"),
            ({"dl_device": 2}, DTypeError, "dl_device"),
            ({"copy": "yes"}, DTypeError, "copy"),
            ({"dl_device": (2, 0), "copy": False}, DLPackError, "copy=False"),
        ],
        ids=str,
    )
    def test_what_cannot_be_asked(self, asked: dict[str, Any], error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=words):
            zrt.Value.from_array(np.zeros(1)).__dlpack__(**asked)

    def test_of_a_closed_value_there_is_none(self) -> None:
        value = zrt.Value.from_array(np.zeros(1))
        value.close()
        for ask in (value.__dlpack__, value.__dlpack_device__):
            with pytest.raises(zrt.errors.ClosedError):
                ask()


class TestLifetimes:
    @pytest.mark.parametrize("version", [None, (1, 0)])
    def test_a_capsule_that_nobody_takes_lets_go(self, version: tuple[int, int] | None) -> None:
        value, alive = watched()
        capsule = value.__dlpack__(max_version=version)
        value.close()
        gc.collect()
        assert alive() is not None
        del capsule
        assert alive() is None

    def test_what_was_taken_stays_until_the_last_view_goes(self) -> None:
        value, alive = watched()
        array = np.from_dlpack(value)
        part = array[10:]
        value.close()
        del value, array
        gc.collect()
        assert alive() is not None
        part[0] = 1
        del part
        assert alive() is None

    @pytest.mark.parametrize("version", [None, (1, 0), (1, 7)])
    def test_the_deleter_is_called_once_and_last(self, version: tuple[int, int] | None) -> None:
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

    def test_the_deleter_is_called_where_the_tensor_is_refused(self) -> None:
        for fields in ({"lanes": 2}, {"device_type": 8}, {"strides": (1, 2)}, {"version": (2, 0)}, {"ndim": -1}):
            foreign = Foreign(**fields)
            with pytest.raises(zrt.Error):
                zrt.from_dlpack(foreign)
            gc.collect()
            assert foreign.deleted == 1, fields

    def test_the_deleter_is_called_after_a_copy(self) -> None:
        foreign = Foreign(strides=(1, 2))
        value = zrt.from_dlpack(foreign, copy=True)
        assert foreign.deleted == 1
        assert value.numpy().tolist() == [[0, 2, 4], [1, 3, 5]]

    def test_a_tensor_without_a_deleter(self) -> None:
        foreign = Foreign()
        foreign.managed.deleter = type(foreign.deleter)()
        assert zrt.from_dlpack(foreign).shape == (2, 3)

    def test_a_capsule_is_taken_once(self) -> None:
        capsule = zrt.Value.from_array(np.zeros(1)).__dlpack__()

        class Twice:
            def __dlpack_device__(self) -> tuple[int, int]:
                return 1, 0

            def __dlpack__(self, **_: Any) -> Any:
                return capsule

        zrt.from_dlpack(Twice())
        with pytest.raises(DLPackError, match="used_dltensor"):
            zrt.from_dlpack(Twice())

    def test_deleters_from_many_threads(self) -> None:
        kept = [watched() for _ in range(200)]
        taken = [np.from_dlpack(value) for value, _ in kept]
        alive = [reference for _, reference in kept]
        del kept

        def drop() -> None:
            while taken:
                try:
                    array = taken.pop()
                except IndexError:
                    return
                del array

        threads = [threading.Thread(target=drop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        gc.collect()
        assert not any(reference() is not None for reference in alive)

    def test_at_the_end_of_the_process(self, python: Callable[..., Any]) -> None:
        python("""
            import numpy as np, zrt
            a = np.ones(5)
            value = zrt.from_dlpack(a)
            kept = [value.__dlpack__(), value.__dlpack__(max_version=(1, 0)), np.from_dlpack(value)]
            cycle = [kept]; cycle.append(cycle)
            import sys; sys.modules["kept"] = cycle
        """)

    def test_an_interrupt_at_any_bytecode_loses_nothing(self) -> None:
        def interrupts(number: int) -> bool:
            """Whether the module has a bytecode of that number to be interrupted at; the array must go in any case."""
            left = number

            def trace(frame: Any, event: str, _: object) -> Any:
                nonlocal left
                frame.f_trace_opcodes = True
                if event == "opcode" and frame.f_code.co_filename == dlpack.__file__:
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

        reached = next(number for number in itertools.count() if not interrupts(number))
        assert reached > 100

    def test_in_the_child_of_a_fork(self, python: Callable[..., Any]) -> None:
        python("""
            import os, numpy as np, zrt
            kept = [np.from_dlpack(zrt.Value.from_array(np.ones(5))), zrt.from_dlpack(np.ones(5))]
            child = os.fork()
            del kept
            if child == 0:
                assert np.from_dlpack(zrt.from_dlpack(np.ones(5))).sum() == 5
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        """)


class TestForeign:
    @pytest.mark.parametrize(
        ("fields", "error", "words"),
        [
            ({"code": 5, "bits": 64}, UnsupportedError, "COMPLEX64"),
            ({"code": 7, "bits": 8}, DTypeError, "code 7, 8 bits"),
            ({"code": 2, "bits": 80}, DTypeError, "80 bits"),
            ({"lanes": 4}, DTypeError, "4 lanes"),
            ({"code": 0, "bits": 4, "flags": 4}, DLPackError, "INT4 with a byte for each element"),
            ({"code": 0, "bits": 4, "strides": (1, 2)}, DLPackError, "not C-contiguous"),
            ({"device_type": 8}, DLPackError, "device type 8"),
            ({"ndim": -1}, DLPackError, "-1 dimensions"),
            ({"ndim": 1000}, DLPackError, "1000 dimensions"),
            ({"shape": None, "ndim": 2}, DLPackError, "2 dimensions"),
            ({"shape": (-2, 3)}, zrt.errors.ShapeError, "-2"),
            ({"shape": (2**40, 2**40)}, DLPackError, "bytes"),
            ({"data": None}, DLPackError, "24 bytes at"),
            ({"byte_offset": 2}, DLPackError, "no multiple of its elements' 4 bytes"),
            ({"version": (2, 0)}, DLPackError, "DLPack 2.0"),
        ],
        ids=str,
    )
    def test_what_is_refused(self, fields: dict[str, Any], error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=f"tensor: .*{words}"):
            zrt.from_dlpack(Foreign(**fields))

    def test_offsets_and_strides(self) -> None:
        assert zrt.from_dlpack(Foreign(byte_offset=8)).numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
        # The stride of an axis with one element says nothing.
        assert zrt.from_dlpack(Foreign((1, 3), (77, 1))).numpy().tolist() == [[0, 1, 2]]
        assert zrt.from_dlpack(Foreign((2, 0), (5, 9))).shape == (2, 0)
        assert zrt.from_dlpack(Foreign((2, 0), data=None)).shape == (2, 0)
        assert zrt.from_dlpack(Foreign(())).numpy().tolist() == 0
        copied = zrt.from_dlpack(Foreign((2, 2), (-2, 1), byte_offset=8), copy=True)
        assert copied.numpy().tolist() == [[2, 3], [0, 1]]
        misplaced = zrt.from_dlpack(Foreign((2,), byte_offset=2), copy=True)
        assert misplaced.shape == (2,)

    def test_read_only(self) -> None:
        assert not zrt.from_dlpack(Foreign(flags=1)).writeable
        assert zrt.from_dlpack(Foreign(flags=1), copy=True).writeable

    def test_what_is_asked_of_it(self) -> None:
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

    def test_what_one_of_before_1_0_cannot_be_asked(self) -> None:
        assert zrt.from_dlpack(Foreign(version=None), copy=True).shape == (2, 3)
        assert zrt.from_dlpack(Foreign(version=None), copy=False).shape == (2, 3)
        with pytest.raises(DLPackError, match="keyword"):
            zrt.from_dlpack(Foreign(version=None), device=zrt.MemoryInfo.cuda())

    @pytest.mark.parametrize(
        ("device_type", "memory"),
        [
            (Device.CUDA, zrt.MemoryInfo.cuda(3)),
            (Device.CUDA_MANAGED, zrt.MemoryInfo.cuda(3)),
            (Device.CUDA_HOST, zrt.MemoryInfo.cuda_pinned(3)),
        ],
    )
    def test_where_it_lies(self, device_type: int, memory: zrt.MemoryInfo) -> None:
        # Nothing reads the memory, so that it may be said to lie anywhere.
        value = zrt.from_dlpack(Foreign(device_type=device_type, device_id=3))
        assert value.memory == memory
        assert value.memory.is_host == (device_type == Device.CUDA_HOST)
        back = Device.CUDA if device_type == Device.CUDA_MANAGED else device_type
        assert value.__dlpack_device__() == (back, 3)
        if value.memory.is_host:
            return
        assert read(value.__dlpack__(stream=7)).tensor.device_id == 3
        with pytest.raises(ArgumentError, match="stream: 0 stands for none"):
            value.__dlpack__(stream=0)
        with pytest.raises(UnsupportedError, match=r"Cuda:3; zrt\.copy"):
            value.numpy()
        with pytest.raises(DLPackError, match="on the host"):
            value.__dlpack__(copy=True)

    @pytest.mark.parametrize(("device_type", "name"), [(Device.ROCM, "Hip"), (Device.ROCM_HOST, "HipPinned")])
    def test_rocm(self, device_type: int, name: str) -> None:
        value = zrt.from_dlpack(Foreign(device_type=device_type, device_id=1))
        assert (value.memory.name, value.memory.device_id) == (name, 1)
        assert value.__dlpack_device__() == (device_type, 1)


class Bare:
    """What another library's tensor has: nothing that numpy knows, but DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> Any:
        return self.array.__dlpack__(**asked)


class Readable(Bare):
    """... and a way of numpy's own."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array


class TestFeeds:
    def test_tensors_of_other_libraries_are_fed_as_they_are(self, add: zrt.Session) -> None:
        x = np.arange(4, dtype=np.float32)
        for feed in (Bare(x), Readable(x), Readable(x[::-1][::-1])):
            assert add.run([feed, x])[0].tolist() == [0, 2, 4, 6]
        assert add.run({"x": Readable(x[::-1]), "y": x})[0].tolist() == [3, 3, 3, 3]
        prepared = add.prepare([Bare(x), x])
        x[0] = 5
        assert prepared.run()[0].tolist() == [10, 2, 4, 6]

    def test_refusals_name_the_input(self, add: zrt.Session) -> None:
        x = np.arange(4, dtype=np.float32)
        with pytest.raises(DTypeError, match="input 'y': expected float32, got int64"):
            add.run([x, Bare(np.arange(4))])
        with pytest.raises(DLPackError, match="input 'y': is not C-contiguous"):
            add.run([x, Bare(x[::-1])])
        with pytest.raises(zrt.Error, match="input 'y'"):
            add.run([x, Foreign((4,), device_type=8)])

    def test_a_bfloat16_that_numpy_cannot_read(self, load: Callable[..., zrt.Session]) -> None:
        cast = load("(bfloat16[n] x) => (float[n] y) { y = Cast <to = 1> (x) }")

        class Torch(Carried):
            def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
                raise TypeError("no bfloat16 in numpy")

        value = zrt.Value.from_array(np.array([1, 2.5], ml_dtypes.bfloat16))
        assert cast.run([Torch(value)])[0].tolist() == [1, 2.5]


class TestReach:
    """ORT would read a device's address as the host's in a session that has none: such values are refused by name."""

    def test_without_a_device(self, add: zrt.Session) -> None:
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

    def test_pinned_memory_is_the_host_s(self, add: zrt.Session) -> None:
        x = np.ones(4, np.float32)
        assert add.run([Foreign((4,), device_type=Device.CUDA_HOST), x])[0].tolist() == [1, 2, 3, 4]
