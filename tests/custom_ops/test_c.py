"""Operators whose `compute` is a function in C."""

import ctypes
import gc
import weakref
from collections import UserList
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.custom_ops.support import DOMAIN, TWO, Add, X, build, load, one_node, options
from tests.support.together import in_threads
from zrt.custom_ops import CFunction, CustomOp, Input, Output
from zrt.errors import ArgumentError, DTypeError, Error

F = np.float32


@pytest.fixture(scope="module")
def functions(compiled: Callable[[str], Path]) -> ctypes.CDLL:
    return ctypes.CDLL(str(compiled("functions.c")))


def in_c(inputs: tuple[Any, ...], outputs: tuple[Any, ...], called: str = "Op", **attributes: Any) -> CustomOp:
    """An operator with a function in C."""
    kind = type(called, (CustomOp,), {"name": called, "inputs": inputs, "outputs": outputs, **attributes})
    op: CustomOp = kind()
    return op


def test_python_c_and_standard_operators_agree(functions: ctypes.CDLL) -> None:
    text = f"""(float[n] x, float[n] y) => (float[n] a, float[n] b, float[n] c) {{
        a = Add(x, y)
        b = {DOMAIN}.Add(x, y)
        c = {DOMAIN}.AddInC(x, y)
    }}"""
    mine = in_c((F, F), (F,), "AddInC", function=CFunction(functions.add))
    session = zrt.Session(build(text), options([Add(), mine]))
    x, y = np.random.default_rng(0).standard_normal((2, 1000), F)
    a, b, c = session.run([x, y])
    assert np.array_equal(a, b)
    assert np.array_equal(a, c)


def test_address_in_every_form(functions: ctypes.CDLL) -> None:
    import cffi

    ffi = cffi.FFI()
    number = ctypes.cast(functions.add, ctypes.c_void_p).value
    assert number is not None

    class Numba:
        """An object with an address, like Numba's cfunc."""

        address = number

    for address in (functions.add, number, ctypes.c_void_p(number), ffi.cast("void *", number), Numba()):
        session = load(TWO, in_c((F, F), (F,), "Add", function=CFunction(address)))
        assert np.array_equal(session.run([X, X])[0], X + X)


def test_numba() -> None:
    numba = pytest.importorskip("numba", reason="numba is not installed")
    from numba.core import cgutils
    from numba.extending import intrinsic

    types = numba.types

    @intrinsic
    def pointer(typing, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], cgutils.voidptr_t)

        return types.voidptr(types.int64), generate

    # A zrt_op_tensor is five words: data, shape, rank, count, element_type.
    words = types.CPointer(types.int64)

    @numba.cfunc(types.int32(words, types.uintp, words, types.uintp, types.voidptr))
    def compute(inputs, input_count, outputs, output_count, user_data):
        count = outputs[3]
        x = numba.carray(pointer(inputs[0]), count, np.float32)
        y = numba.carray(pointer(inputs[5]), count, np.float32)
        z = numba.carray(pointer(outputs[0]), count, np.float32)
        for i in range(count):
            z[i] = x[i] + y[i]
        return 0

    session = load(TWO, in_c((F, F), (F,), "Add", function=CFunction(compute)))
    assert np.array_equal(session.run([X, X])[0], X + X)


def test_shape_function_and_user_data(functions: ctypes.CDLL) -> None:
    by = ctypes.c_float(2.5)
    function = CFunction(functions.shift, shape=functions.shift_shape, user_data=ctypes.pointer(by), keep=by)
    op = in_c((F,), (F, Output(dtype=np.int64, optional=True)), function=function)
    session = load("(float[n, m] x) => (float[n, m] y, int64 r) { y, r = test.ops.Op(x) }", op)
    del by
    gc.collect()
    y, rank = session.run([X.reshape(2, 2)])
    assert np.array_equal(y, X.reshape(2, 2) + 2.5)
    assert rank == 2
    # Without its second output.
    session = load("(float[n] x) => (float[n] y) { y = test.ops.Op(x) }", op)
    assert np.array_equal(session.run([X])[0], X + 2.5)


def test_shaped_like(functions: ctypes.CDLL) -> None:
    op = in_c((F, F), (F,), function=CFunction(functions.shift, shaped_like=[1]))
    session = load("(float[n] x, float[m] y) => (float[m] z) { z = test.ops.Op(x, y) }", op)
    assert session.run([X, X[:2]])[0].shape == (2,)


class Fading(UserList[int]):
    """It is empty when it is read for the second time."""

    def __iter__(self) -> Iterator[int]:
        yield from (self.pop() for _ in range(len(self)))


def test_shaped_like_is_read_once(functions: ctypes.CDLL) -> None:
    op = in_c((F, F), (F,), function=CFunction(functions.shift, shaped_like=Fading([1])))
    session = load("(float[n] x, float[m] y) => (float[m] z) { z = test.ops.Op(x, y) }", op)
    assert session.run([X, X[:2]])[0].shape == (2,)


def test_absent_output_needs_no_shape(functions: ctypes.CDLL) -> None:
    function = CFunction(functions.shift, shaped_like=[0, 1])
    maybe = {"dtype": np.int64, "optional": True}
    op = in_c((F, Input(**maybe)), (F, Output(**maybe)), function=function)
    for outputs in (["y"], ["y", ""]):
        session = one_node(op, ["x", ""], outputs, onnx.TensorProto.FLOAT, 4)
        assert np.array_equal(session.run([X])[0], X)
    session = load("(float[n] x) => (float[n] y, int64[m] z) { y, z = test.ops.Op(x) }", op)
    absent = "the input that an output has its shape of is absent"
    with pytest.raises(Error, match=absent):
        session.run([X])
    # The node names the input, by the empty name of an absent one.
    maybe = {"dtype": F, "optional": True}
    op = in_c((F, Input(**maybe)), (F, Output(**maybe)), function=function)
    with pytest.raises(Error, match=absent):
        one_node(op, ["x", ""], ["y", "z"], onnx.TensorProto.FLOAT, 4).run([X])


def test_failing_functions_raise(functions: ctypes.CDLL) -> None:
    one = "(float[n] x) => (float[n] y) { y = test.ops.Op(x) }"
    with pytest.raises(Error, match="operator Op: its function returned 42"):
        load(one, in_c((F,), (F,), function=CFunction(functions.fails))).run([X])
    for shape, message in ((functions.bad_shape, "negative size"), (functions.no_shape, "for the shapes failed")):
        with pytest.raises(Error, match=message):
            load(one, in_c((F,), (F,), function=CFunction(functions.add, shape=shape))).run([X])


def test_serialize_in_c(functions: ctypes.CDLL) -> None:
    op = in_c((F,), (F,), function=CFunction(functions.counts), serialize=True)
    session = load("(float[1] x) => (float[1] y) { y = test.ops.Op(x) }", op)
    in_threads(*[lambda: [session.run([X[:1]]) for _ in range(200)]] * 4)
    assert session.run([X[:1]])[0] == 801


def test_more_tensors_than_fit_on_the_stack(functions: ctypes.CDLL) -> None:
    op = in_c((Input(dtype=F, variadic=True),), (F,), function=CFunction(functions.shift))
    names = ", ".join(["x"] * 40)
    session = load(f"(float[n] x) => (float[n] y) {{ y = test.ops.Op({names}) }}", op)
    assert np.array_equal(session.run([X])[0], X)


def test_library_of_a_function_outlives_its_sessions(compiled: Callable[[str], Path]) -> None:
    class Library(ctypes.CDLL):
        pass

    library = Library(str(compiled("functions.c")))
    gone = weakref.ref(library)
    op = in_c((F, F), (F,), "Add", function=CFunction(library.add, keep=library))
    lane = load(TWO, op).lane(shapes={"x": 4, "y": 4}, output_shapes={"z": 4})
    del op, library
    gc.collect()
    assert gone() is not None
    lane.run()
    del lane
    gc.collect()
    assert gone() is None


def test_bad_functions_are_refused() -> None:
    def refuse(error: type[Error], message: str, *arguments: Any, **keywords: Any) -> None:
        with pytest.raises(error, match=message):
            zrt.CustomOpDomain("d", [in_c((F,), (F,), function=CFunction(*arguments, **keywords))])

    refuse(DTypeError, "function.compute: expected an address", "add")
    refuse(DTypeError, "function.compute: expected an address", None)
    refuse(ArgumentError, "function.compute", -1)
    refuse(ArgumentError, "function.compute", 2**64)
    refuse(DTypeError, "function.shape: expected an address", 1, shape=object())
    refuse(ArgumentError, "there is no input 1", 1, shaped_like=[1])
    refuse(ArgumentError, "1 outputs, 2 inputs are named", 1, shaped_like=[0, 0])
    refuse(DTypeError, "shaped_like", 1, shaped_like=5)
    with pytest.raises(ArgumentError, match="no input 0"):
        zrt.CustomOpDomain("d", [in_c((), (F,), function=CFunction(1))])
    with pytest.raises(ArgumentError, match=r"operator 'Op'\.aliases: not with a function in C"):
        zrt.CustomOpDomain("d", [in_c((F,), (F,), function=CFunction(1), aliases={0: 0})])
    if "AzureExecutionProvider" in zrt.available_providers():
        with pytest.raises(ArgumentError, match="compute on the host"):
            zrt.CustomOpDomain("d", [in_c((F,), (F,), function=CFunction(1), provider="Azure")])
