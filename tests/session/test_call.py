"""`zrt.session.call`: how a run is laid out for C, which failures it tells apart, and ORT's own values."""

from __future__ import annotations

import asyncio
import sys

import numpy as np
import pytest

import zrt
from zrt._native import ffi
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, FailError, InvalidArgumentError, TerminatedError
from zrt.memory.allocators import CPU
from zrt.session.call import Call, Wanted, failure, shape_was_wrong, was_misaligned
from zrt.types import ElementType, ValueKind
from zrt.values.type_info import ValueInfo


def info(kind: ElementType, *shape: int | str) -> ValueInfo:
    return ValueInfo("y", ValueKind.TENSOR, kind, shape)


class TestWanted:
    def test_plain_tensors_of_known_shape_are_written_into_an_array(self):
        wanted = Wanted(info(ElementType.BFLOAT16, "n", 2), (3, 2))
        array = wanted.empty()
        assert (array.dtype, array.shape) == (ElementType.BFLOAT16.dtype, (3, 2))

    @pytest.mark.parametrize(
        "wanted",
        [
            Wanted(info(ElementType.FLOAT, "n"), None),
            Wanted(info(ElementType.STRING, 2), (2,)),
            Wanted(info(ElementType.INT4, 2), (2,)),
            Wanted(ValueInfo("y", ValueKind.SEQUENCE, ElementType.UNDEFINED, None), None),
            Wanted(info(ElementType.FLOAT, 2), (2,), passes_through=True),
        ],
        ids=["open", "strings", "packed", "sequence", "an input"],
    )
    def test_all_else_is_left_to_ort(self, wanted):
        assert wanted.shape is None

    def test_what_no_memory_can_hold(self):
        with pytest.raises(AllocationError, match=r"output 'y': no memory has room for \[4611686018427387904\]"):
            Wanted(info(ElementType.FLOAT, "n"), (2**62,))
        with pytest.raises(AllocationError, match="output 'y': "):
            Wanted(info(ElementType.FLOAT, "n"), (2**55,)).empty()
        Wanted(info(ElementType.UINT8, "n"), (sys.maxsize,))


def odd(array: np.ndarray) -> np.ndarray:
    """The same numbers at an address that is no multiple of their size."""
    memory = np.zeros(array.nbytes + array.itemsize, np.uint8)
    start = 1 - memory.ctypes.data % array.itemsize
    placed = np.ndarray(array.shape, array.dtype, memory, start)
    placed[...] = array
    assert placed.ctypes.data % array.itemsize == 1
    return placed


class TestMisalignedMemory:
    """Compiled code may take it for granted that a number lies at a multiple of its size."""

    X = np.arange(8, dtype=np.float32).reshape(2, 4)

    # Output shapes that the model settles, and such as ORT must say.
    @pytest.fixture(params=["y = Neg(x)", "s = Shape(x)  y0 = Neg(x)  y = Reshape(y0, s)"])
    def session(self, load, request):
        return load(f"(float[n, m] x) => (float[n, m] y) {{ {request.param} }}")

    def test_no_kernel_sees_it(self, session):
        # The first run prepares what the next ones find.
        for feed in (self.X, odd(self.X), self.X, odd(self.X)):
            for feeds in ({"x": feed}, [feed]):
                assert session.run(feeds)[0].tolist() == (-self.X).tolist()
                assert session.submit(feeds).result()[0].tolist() == (-self.X).tolist()
                assert asyncio.run(session.run_async(feeds))[0].tolist() == (-self.X).tolist()

    def test_the_c_call_refuses_it(self, session):
        session.run([self.X])
        call = session._latest
        with pytest.raises(InvalidArgumentError) as caught:
            call.run_arrays([ffi.from_buffer(odd(self.X))])
        assert was_misaligned(caught.value)
        assert call.run_arrays([ffi.from_buffer(self.X)])[0].tolist() == (-self.X).tolist()

    def test_what_has_no_elements_may_lie_anywhere(self, session):
        for feed in (self.X[:0].copy(), odd(self.X[:0])) * 2:
            assert session.run([feed])[0].shape == (0, 4)

    def test_bytes_may_lie_anywhere(self, load):
        session = load("(uint8[n] x) => (uint8[n] y) { y = BitwiseNot(x) }")
        memory = np.arange(9, dtype=np.uint8)
        for start in range(4):
            assert session.run([memory[start : start + 4]])[0].tolist() == (~memory[start : start + 4]).tolist()

    def test_where_nothing_may_be_copied_it_is_refused(self, session):
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
    def call(self, relu):
        x = relu.inputs[0]
        memory = CPU.handle()
        return Call(relu._open(), relu._run_options, memory, [(x, (2,))], [Wanted(relu.outputs[0], (2,))])

    def test_runs_over_memory(self, call):
        x = np.array([-1, 2], np.float32)
        assert call.run_arrays([ffi.from_buffer(x)])[0].tolist() == [0, 2]
        assert call.settled == (((2,), np.float32),)

    def test_left_open_it_gives_the_same(self, call):
        x = np.array([-1, 2], np.float32)
        opened = call.left_open()
        assert opened.settled is None
        (y,) = opened.run_arrays([ffi.from_buffer(x)])
        assert y.tolist() == [0, 2]
        # ORT's own memory, not numpy's.
        assert not y.flags.owndata

    def test_is_all_that_keeps_the_session(self, call, relu):
        relu.close()
        del relu
        value = zrt.Value.from_array(np.array([-1, 2], np.float32))
        handle = value._open()
        assert call.run_values([handle.pointer], [handle])[0].tolist() == [0, 2]


class TestFailures:
    @staticmethod
    def status(message: bytes, code: int = 1) -> int:
        return int(ffi.cast("uintptr_t", api().CreateStatus(code, message)))

    def test_of_a_terminated_run(self):
        error = failure(self.status(b"Exiting due to terminate flag"))
        assert type(error) is TerminatedError
        assert str(error) == "Exiting due to terminate flag"
        # Whatever else went wrong is told as it is.
        assert type(failure(self.status(b"bad", 2))) is InvalidArgumentError
        assert type(failure(self.status(b"bad"))) is FailError

    def test_of_a_wrong_declaration(self, load):
        binding = load("(float[n] x) => (float[n] y) { y = Neg(x) }").binding()
        binding.bind_input("x", np.ones(3, np.float32))
        binding.bind_output("y", np.ones(2, np.float32))
        with pytest.raises(zrt.errors.ShapeError) as caught:
            binding.run()
        assert shape_was_wrong(caught.value)
        assert not shape_was_wrong(FailError("something else"))
