"""`zrt.session.call`: a run laid out for C, misaligned feeds, and a second run after a wrong shape."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import zrt
from zrt._native import ffi, lib
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, FailError, InvalidArgumentError
from zrt.memory.allocators import CPU
from zrt.session.call import Call
from zrt.session.outputs import Wanted


def odd(array: np.ndarray) -> np.ndarray:
    """The same numbers at an address that is not a multiple of their size."""
    memory = np.zeros(array.nbytes + array.itemsize, np.uint8)
    start = 1 - memory.ctypes.data % array.itemsize
    placed = np.ndarray(array.shape, array.dtype, memory, start)
    placed[...] = array
    assert placed.ctypes.data % array.itemsize == 1
    return placed


class TestMisalignedMemory:
    """Compiled code may assume that the address of a number is a multiple of its size."""

    X = np.arange(8, dtype=np.float32).reshape(2, 4)

    # One model whose output shape the feeds determine, and one where ORT allocates the output.
    @pytest.fixture(params=["y = Neg(x)", "s = Shape(x)  y0 = Neg(x)  y = Reshape(y0, s)"])
    def session(self, load, request):
        return load(f"(float[n, m] x) => (float[n, m] y) {{ {request.param} }}")

    def test_misaligned_feed_is_copied(self, session):
        # The first run prepares the call that the next runs use.
        for feed in (self.X, odd(self.X), self.X, odd(self.X)):
            for feeds in ({"x": feed}, [feed]):
                assert session.run(feeds)[0].tolist() == (-self.X).tolist()
                assert session.submit(feeds).result()[0].tolist() == (-self.X).tolist()
                assert asyncio.run(session.run_async(feeds))[0].tolist() == (-self.X).tolist()

    def test_c_returns_a_code_for_misaligned_memory(self, session):
        session.run([self.X])
        call = session._latest
        with pytest.raises(ArgumentError, match="a feed's memory is misaligned"):
            call.run([ffi.from_buffer(odd(self.X))])
        results, places, made = call.arrays()
        room = ffi.NULL if made is None else made.pointer
        memory = [ffi.from_buffer(odd(self.X))]
        code = lib.zrt_call_run(call.reference, ffi.NULL, memory, places, room, id(results))
        assert code == lib.ZRT_MISALIGNED
        assert call.run([ffi.from_buffer(self.X)])[0].tolist() == (-self.X).tolist()

    def test_empty_array_may_be_misaligned(self, session):
        for feed in (self.X[:0].copy(), odd(self.X[:0])) * 2:
            assert session.run([feed])[0].shape == (0, 4)

    def test_bytes_are_always_aligned(self, load):
        session = load("(uint8[n] x) => (uint8[n] y) { y = BitwiseNot(x) }")
        memory = np.arange(9, dtype=np.uint8)
        for start in range(4):
            assert session.run([memory[start : start + 4]])[0].tolist() == (~memory[start : start + 4]).tolist()

    def test_zero_copy_functions_raise_for_misaligned_memory(self, session):
        binding = zrt.IoBinding(session)
        for refuse in (
            zrt.Value.from_array,
            lambda array: session.prepare({"x": array}),
            lambda array: binding.bind_input("x", array),
            lambda array: binding.bind_output("y", array),
        ):
            with pytest.raises(
                ArgumentError, match=r"begins at 0x[0-9a-f]+[159d], no multiple of its elements' 4 bytes"
            ):
                refuse(odd(self.X))


class TestCall:
    @pytest.fixture
    def make(self, relu):
        def make(shape, distrusted=None):
            distrusted = set() if distrusted is None else distrusted
            wanted = Wanted(relu.outputs[0], shape)
            inputs = [(relu.inputs[0], (2,))]
            session, memory = relu._open(), CPU.handle()
            names = relu.input_names
            return Call(
                session, relu._run_options, memory, inputs, [wanted], names, set() if distrusted is None else distrusted
            )

        return make

    @pytest.fixture
    def call(self, make):
        return make((2,))

    def test_runs_over_memory(self, call):
        x = np.array([-1, 2], np.float32)
        assert call.run([ffi.from_buffer(x)])[0].tolist() == [0, 2]
        assert call.layout == (((2,), np.float32),)

    def test_output_left_to_ort_is_the_same(self, make):
        x = np.array([-1, 2], np.float32)
        call = make(None)
        assert call.layout == ((None, np.float32),)
        (y,) = call.run([ffi.from_buffer(x)])
        assert y.tolist() == [0, 2]
        # The memory is ORT's, not numpy's.
        assert not y.flags.owndata

    def test_keeps_the_session(self, call, relu):
        relu.close()
        del relu
        value = zrt.Value.from_array(np.array([-1, 2], np.float32))
        handle = value._open()
        assert call.run([handle.pointer], [handle])[0].tolist() == [0, 2]

    def test_output_without_memory_raises(self, make):
        with pytest.raises(AllocationError, match="output 'y': "):
            make((2**55,)).run([ffi.from_buffer(np.ones(2, np.float32))])

    @pytest.mark.parametrize(
        "feeds",
        [
            {},
            {"z": np.ones(2, np.float32)},
            {"x": np.ones(3, np.float32)},
            {"x": np.ones(2)},
            {"x": [1.0, 2.0]},
            [np.ones(2, np.float32)] * 2,
            None,
        ],
        ids=["none", "name", "shape", "type", "list", "two", "no feeds"],
    )
    def test_memory_of_other_feeds_is_none(self, call, feeds):
        assert call.memory_of(feeds) is None

    def test_memory_of_a_list_goes_by_position(self, call):
        x = np.ones(2, np.float32)
        (memory,) = call.memory_of([x])
        assert ffi.cast("uintptr_t", memory) == x.ctypes.data

    def test_memory_of_a_strided_array_is_that_of_a_copy(self, call):
        (memory,) = call.memory_of({"x": np.arange(4, dtype=np.float32)[::2]})
        assert np.frombuffer(ffi.buffer(memory), np.float32).tolist() == [0, 2]

    def test_wrong_declared_shape_is_left_to_ort_from_then_on(self, make):
        distrusted = set()
        distrusted = set()
        call = make((5,), distrusted)
        x = np.array([-1, 2], np.float32)
        for _ in range(2):
            assert call.run([ffi.from_buffer(x)])[0].tolist() == [0, 2]
            assert call.layout == ((None, np.float32),)
            assert distrusted == {"y"}

    def test_other_failure_is_raised(self, call):
        status = api().CreateStatus(1, b"something else")
        with pytest.raises(FailError, match="something else"):
            call.prepare_retry(int(ffi.cast("uintptr_t", status)), None)

    def test_wrong_shape_without_arrays_is_raised(self, make):
        call = make(None)
        status = api().CreateStatus(2, b"The output OrtValue provided for output 'y'")
        with pytest.raises(InvalidArgumentError, match="OrtValue provided"):
            call.prepare_retry(int(ffi.cast("uintptr_t", status)), call.made_outputs())
