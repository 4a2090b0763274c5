"""Standard operators called from custom ones."""

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import zrt
from tests.custom_ops.support import ONE, Op, X, build, load, options
from tests.support.together import in_threads
from zrt import Value
from zrt._native.cdata import new_array
from zrt.custom_ops import KernelContext, KernelInfo, invoke
from zrt.custom_ops import Op as Standard
from zrt.custom_ops.node import Attr
from zrt.errors import CallbackError, ClosedError, Error

F = "float32"
ADD: dict[str, Any] = {"inputs": [F, F], "outputs": [F], "version": 14, "types": {"T": F}}


class Calling(Op):
    """Makes a standard operator in `create` and passes it to a test's function in `compute`."""

    def __init__(self, make: Callable[[KernelInfo], Any], call: Callable[[KernelContext, Any], Any]) -> None:
        self.make = make
        self.call = call

    def create(self, info: KernelInfo) -> Any:
        return self.make(info)

    def work(self, context: KernelContext) -> None:
        self.result = self.call(context, context.state)


def call(make: Callable[[KernelInfo], Any], work: Callable[[KernelContext, Any], Any]) -> Any:
    op = Calling(make, work)
    load(ONE, op).run([X])
    return op.result


def refused(make: Callable[[KernelInfo], Any], work: Callable[[KernelContext, Any], Any] = lambda *_: None) -> str:
    with pytest.raises(CallbackError) as caught:
        call(make, work)
    assert isinstance(caught.value.__cause__, Error), caught.value.__cause__
    return f"{type(caught.value.__cause__).__name__}: {caught.value.__cause__}"


def make_add(info: KernelInfo) -> Standard:
    return Standard(info, "Add", **ADD)


def test_invoke() -> None:
    def add(context: KernelContext, op: Standard) -> Any:
        out = np.empty((4,), np.float32)
        op.invoke(context, [context.inputs[0], np.float32([10])], [out])
        return out

    assert np.array_equal(call(make_add, add), X + 10)


def gru(info: KernelInfo, outputs: Sequence[Any]) -> Standard:
    texts = {"direction": "forward", "activations": ["Sigmoid", "Tanh"]}
    numbers = {"hidden_size": 2, "layout": 0, "linear_before_reset": 0}
    types = {"T": F, "T1": "int32"}
    return Standard(info, "GRU", [F, F, F], outputs, version=14, types=types, attributes=texts | numbers)


def test_texts_of_attributes_live_until_onnx_runtime_has_read_them() -> None:
    # An operator that refuses each other direction.
    for _ in range(20):
        call(lambda info: gru(info, [F, F]), lambda *_: None)


@pytest.mark.parametrize("outputs", [[F, F], [F, None], [F]], ids=str)
def test_last_outputs_may_be_left_out(outputs: list[Any]) -> None:
    def work(context: KernelContext, op: Standard) -> Any:
        arrays = [np.empty((3, 1, 1, 2), np.float32), np.empty((1, 1, 2), np.float32)]
        places = [None if kind is None else array for kind, array in zip(outputs, arrays, strict=False)]
        weights = np.ones((1, 6, 2), np.float32)
        op.invoke(context, [np.ones((3, 1, 2), np.float32), weights, weights], places)
        return arrays[0]

    result = call(lambda info: gru(info, outputs), work)
    assert result[-1].tolist() == call(lambda info: gru(info, outputs), work)[-1].tolist()
    assert 0 < result.min() < result.max() < 1


def test_output_left_out_before_others_is_refused() -> None:
    assert "output 0 is left out before others" in refused(lambda info: gru(info, [None, F]))


def test_attributes_of_each_kind() -> None:
    def gemm(info: KernelInfo) -> Any:
        # ONNX Runtime does not fill in ONNX's defaults.
        attributes = {"alpha": 2.0, "beta": 1.0, "transA": 0, "transB": 1}
        many = Standard(info, "Transpose", [F], [F], version=13, types={"T": F}, attributes={"perm": [1, 0]})
        text = Standard(
            info, "DepthToSpace", [F], [F], version=13, types={"T": F}, attributes={"blocksize": 2, "mode": "CRD"}
        )
        return (
            Standard(info, "Gemm", [F, F, None], [F], version=13, types={"T": F}, attributes=attributes),
            many,
            text,
        )

    def work(context: KernelContext, ops: Any) -> Any:
        a, b = np.random.default_rng(0).standard_normal((2, 3, 3), np.float32)
        product, turned, room = np.empty((3, 3), np.float32), np.empty((3, 3), np.float32), np.empty((1, 1, 4, 4), "f")
        ops[0].invoke(context, [a, b, None], [product])
        ops[1].invoke(context, [a], [turned])
        ops[2].invoke(context, [np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)], [room])
        np.testing.assert_allclose(product, 2 * a @ b.T, rtol=1e-5)
        assert np.array_equal(turned, a.T)
        assert room.sum() == 120

    call(gemm, work)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array(1), "UnsupportedError: attribute 'a'"),
        (np.ones((2, 2)), "UnsupportedError: attribute 'a'"),
        (1e300, "ArgumentError: attribute 'a': 1e+300 is larger than any float32"),
        ([1.5, -(10**400)], "ArgumentError: attribute 'a': -1000"),
        (10**400, "ArgumentError: attribute 'a': 1000"),
        (np.float64(-1e300), "ArgumentError: attribute 'a': "),
        # A long double is larger than a float only on some machines.
        (np.finfo(np.longdouble).max, "ArgumentError: attribute 'a': "),
        (2**63, "ArgumentError: attribute 'a'"),
    ],
)
def test_value_that_no_attribute_holds_is_refused(value: Any, message: str) -> None:
    assert message in refused(
        lambda info: Standard(info, "Relu", [F], [F], version=14, types={"T": F}, attributes={"a": value})
    )


def test_float_attributes_are_the_nearest_float32() -> None:
    values = [0.1, 2**100, np.float16(1.5), np.int64(3), -math.inf, np.finfo(np.float32).max]
    assert Attr.of("a", values).values == [float(np.float32(value)) for value in (0.1, 2.0**100, *values[2:])]
    assert math.isnan(Attr.of("a", math.nan).values[0])


def test_invalid_operators_are_refused() -> None:
    def standard(*arguments: Any, **keywords: Any) -> Callable[[KernelInfo], Any]:
        return lambda info: Standard(info, *arguments, **{"version": 14, "types": {"T": F}, **keywords})

    # Without the check a call would crash the process.
    assert "Add" in refused(standard("Add", [F, "int64"], [F]))
    assert "Add" in refused(standard("Add", [F, F], ["int64"]))
    assert "any number of inputs" in refused(standard("Concat", [F, F], [F], version=13, attributes={"axis": 0}))
    assert "any number of inputs" in refused(standard("Sum", [F, F], [F], version=13))
    assert "Transpose" in refused(standard("Transpose", [F], [F], version=13, attributes={"perm": 5}))
    assert "blocksize" in refused(standard("DepthToSpace", [F], [F], version=13))
    assert "UnsupportedError: attribute 'a'" in refused(standard("Relu", [F], [F], attributes={"a": object()}))
    assert "UnsupportedError: attribute 'a'" in refused(standard("Relu", [F], [F], attributes={"a": []}))
    assert "types" in refused(standard("Relu", [F], [F], types=5))
    assert "inputs" in refused(standard("Relu", F, [F]))
    assert "version" in refused(standard("Relu", [F], [F], version=0))
    assert "name" in refused(standard(5, [F], [F]))
    assert "Error" in refused(standard("Relu", [F], [F], types={"Q": F}))
    assert "types" in refused(standard("Relu", [F], [F], types=[]))
    assert "attributes" in refused(standard("Relu", [F], [F], attributes=[]))
    assert "ArgumentError: Relu, types: there is no 'Q', only T" in refused(standard("Relu", [F], [F], types={"Q": F}))
    assert "Relu, types: 'no' is not a dtype" in refused(standard("Relu", [F], [F], types={"T": "no"}))
    assert "Relu, outputs: 'no' is not a dtype" in refused(standard("Relu", [F], ["no"]))
    # Valid, but without a kernel on the CPU.
    assert "FailError: Cos: " in refused(standard("Cos", ["float16"], ["float16"], version=7, types={}))


@pytest.mark.parametrize(
    ("name", "inputs", "output", "types"),
    [
        ("Add", [F, F], F, {"T": "float64"}),
        ("Relu", [F], F, {"T": "float16"}),
        ("Cast", [F], "float64", {"T1": "float64", "T2": F}),
    ],
    ids=["larger", "smaller", "swapped"],
)
def test_types_that_contradict_the_inputs_are_refused(
    name: str, inputs: list[str], output: str, types: dict[str, str]
) -> None:
    """ONNX Runtime would take a kernel of other types, which reads and writes beyond the tensors."""
    attributes = {"to": 11} if name == "Cast" else {}
    constraint, kind = next(iter(types.items()))
    message = refused(
        lambda info: Standard(info, name, inputs, [output], version=13, types=types, attributes=attributes)
    )
    assert f"DTypeError: {name}, types: {constraint!r} is float32 by the inputs and outputs, not {kind}" in message


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64"])
def test_types_follow_from_the_inputs(kind: str) -> None:
    """Without them ONNX Runtime takes any kernel of the operator."""
    x = np.arange(9).astype(kind)

    def work(context: KernelContext, op: Standard) -> Any:
        out = np.zeros_like(x)
        op.invoke(context, [x, x], [out])
        return out

    np.testing.assert_array_equal(call(lambda info: Standard(info, "Add", [kind] * 2, [kind], version=14), work), x + x)


def test_types_follow_from_the_output() -> None:
    def work(context: KernelContext, op: Standard) -> Any:
        out = np.zeros(4, np.float64)
        op.invoke(context, [X], [out])
        return out

    found = call(lambda info: Standard(info, "Cast", [F], ["float64"], version=13, attributes={"to": 11}), work)
    np.testing.assert_array_equal(found, X.astype(np.float64))


@pytest.mark.parametrize(("name", "version"), [("Identity", 1), ("Identity", 21), ("Dropout", 7)])
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_kernels_that_need_a_frame_are_refused(name: str, version: int, domain: str) -> None:
    """A call of them would end the process."""
    types = {"V" if version > 13 else "T": F}

    def make(info: KernelInfo) -> Standard:
        return Standard(info, name, [F], [F], version=version, types=types, domain=domain)

    assert f"UnsupportedError: {name}: its kernel works in a model only" in refused(make)


def test_dropout_of_later_versions_is_another_kernel() -> None:
    def make(info: KernelInfo) -> Standard:
        return Standard(info, "Dropout", [F], [F], version=13, types={"T": F, "T1": F, "T2": "bool"})

    def work(context: KernelContext, op: Standard) -> Any:
        out = np.empty(4, np.float32)
        op.invoke(context, [X], [out])
        return out

    assert np.array_equal(call(make, work), X)


class Changing(Mapping[str, str]):
    """Each way to read it gives something else."""

    def __getitem__(self, key: str) -> str:
        return F

    def __iter__(self) -> Iterator[str]:
        return iter(["T"])

    def __len__(self) -> int:
        return 1

    def values(self) -> Any:
        return ["no"]


def test_types_are_read_once() -> None:
    def make(info: KernelInfo) -> Standard:
        return Standard(info, "Relu", [F], [F], version=14, types=Changing())

    call(make, lambda *_: None)


def test_texts_are_read_once() -> None:
    """The length in bytes is that of the text that ONNX Runtime gets."""

    class Text(str):
        def encode(self, *_: Any) -> bytes:
            raise AssertionError

    attribute = Attr.of(Text("a"), [Text("b")])
    assert [type(each) for each in (attribute.name, *attribute.values)] == [str, str]


def test_invalid_arguments_of_invoke_are_refused() -> None:
    out = np.empty(4, np.float32)

    def bad(*arguments: Any) -> str:
        return refused(make_add, lambda context, op: op.invoke(context, *arguments))

    assert "made for 2, got 1" in bad([X], [out])
    assert "made for 1, got 0" in bad([X, X], [])
    assert "DTypeError: Add, input 1" in bad([X, X.astype(np.float64)], [out])
    assert "ShapeError: Add, output 0: expected shape [4], got [2]" in bad([X, X], [out[:2]])
    assert "Add" in bad([X, X[:3]], [out])
    assert "read-only" in bad([X, X], [np.frombuffer(bytes(16), np.float32)])
    assert "made with one" in bad([X, None], [out])
    assert "expected a list" in bad(X, [out])
    assert "KernelContext" in refused(make_add, lambda context, op: op.invoke(5, [X, X], [out]))


def test_overlapping_memory_is_refused() -> None:
    """The kernel reads elements that it has overwritten already."""
    memory = np.zeros(6, np.float32)

    def overlap(make: Callable[[KernelInfo], Any], inputs: list[Any], outputs: list[Any]) -> str:
        return refused(make, lambda context, op: op.invoke(context, inputs, outputs))

    message = "ArgumentError: Add: output 0 overlaps the memory of input"
    assert f"{message} 1" in overlap(make_add, [X, memory[:4]], [memory[1:5]])
    # Broadcast to the whole output.
    assert f"{message} 0" in overlap(make_add, [memory[:1], X], [memory[:4]])
    value = Value.from_array(memory[:4])
    assert f"{message} 1" in overlap(make_add, [X, value], [memory[1:5]])
    assert f"{message} 1" in overlap(make_add, [X, value], [Value.from_array(memory[1:5])])

    # Two outputs, also where both have all of their memory in common.
    weights = np.ones((1, 6, 2), np.float32)
    for steps in (1, 3):
        outputs = [memory[: 2 * steps].reshape(steps, 1, 1, 2), memory[:2].reshape(1, 1, 2)]
        inputs = [np.ones((steps, 1, 2), np.float32), weights, weights]
        message = overlap(lambda info: gru(info, [F, F]), inputs, outputs)
        assert "GRU: output 1 overlaps the memory of output 0" in message


def test_whole_memory_of_an_input_is_taken_as_output() -> None:
    """As an operator has it that declares `inplace`."""

    def work(context: KernelContext, op: Standard) -> Any:
        memory = np.ones(8, np.float32)
        op.invoke(context, [memory[:4], memory[4:]], [memory[:4]])
        return memory

    assert call(make_add, work).tolist() == [2] * 4 + [1] * 4


def test_output_shape_that_depends_on_data_is_refused() -> None:
    def nonzero(info: KernelInfo) -> Standard:
        return Standard(info, "NonZero", [F], ["int64"], version=13, types={"T": F})

    message = refused(nonzero, lambda context, op: op.invoke(context, [X], [np.empty((1, 3), np.int64)]))
    assert "UnsupportedError" in message
    assert "depends on the inputs' content" in message


def test_op_belongs_to_its_kernel() -> None:
    """It can be made only in `create` and called only in its own kernel, and is closed with the session."""
    kept: list[Any] = []

    def keep(context: KernelContext, op: Standard) -> None:
        kept.append((context.info, op, context))

    session = load(ONE, Calling(make_add, keep))
    session.run([X])
    info, op, context = kept[0]
    with pytest.raises(ClosedError):
        make_add(info)
    with pytest.raises(ClosedError):
        op.invoke(context, [X, X], [X.copy()])
    other = refused(make_add, lambda context, mine: op.invoke(context, [X, X], [X.copy()]))
    assert "another kernel" in other
    del session, context
    kept.clear()
    gc.collect()
    # The kernel was released with the session; the Python object remains.
    assert op.name == "Add"
    op.close()


def test_closed_op_raises() -> None:
    def work(context: KernelContext, op: Standard) -> None:
        op.close()
        op.invoke(context, [X, X], [X.copy()])

    assert "Op is closed" in refused(make_add, work)


def test_values_closed_by_another_thread_stay_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # So large that the system takes the memory of a freed one back.
    shape = (1 << 21,)

    def work(context: KernelContext, op: Standard) -> Any:
        first, second, out = values = [zrt.Value.allocate(shape, F) for _ in range(3)]
        first.numpy()[:], second.numpy()[:], result = 1, 2, out.numpy()

        def closing(kind: str, pointers: Any) -> Any:
            array = new_array(kind, pointers)
            if len(pointers) == 1:
                # Those of the output, which are the last: as another thread could from here on.
                for value in values:
                    value.close()
            return array

        monkeypatch.setattr(invoke, "new_array", closing)
        op.invoke(context, [first, second], [out])
        return result[0]

    assert call(make_add, work) == 3


def test_invoke_with_changing_shapes() -> None:
    def work(context: KernelContext, op: Standard) -> None:
        for size in (1, 2, 3, 2, 1):
            x = np.ones(size, np.float32)
            out = np.empty_like(x)
            op.invoke(context, [x, x], [out])
            assert (out == 2).all()

    call(make_add, work)


CONV_TRANSPOSE = {
    **{"kernel_shape": [4], "strides": [1], "dilations": [1], "pads": [0, 0], "group": 1, "auto_pad": "NOTSET"},
    **{"output_shape": [150], "output_padding": [0]},
}
MAX_POOL = {
    **{"kernel_shape": [3, 4], "strides": [2, 2], "dilations": [1, 3], "auto_pad": "SAME_UPPER", "ceil_mode": 0},
    "storage_order": 0,
}


@pytest.mark.parametrize(
    ("name", "version", "attributes", "inputs", "right", "wrong"),
    [
        ("ConvTranspose", 11, CONV_TRANSPOSE, [np.ones((1, 1, 200)), np.ones((1, 1, 4))], (1, 1, 150), (1, 1)),
        ("MaxPool", 12, MAX_POOL, [np.arange(120).reshape(1, 1, 10, 12)], (1, 1, 5, 3), (1, 1, 5, 6)),
    ],
    ids=["ConvTranspose", "MaxPool"],
)
def test_shape_is_what_the_kernel_writes(
    name: str, version: int, attributes: Any, inputs: list[Any], right: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    """ONNX infers the other shape: the kernel wrote beyond an array of it, or did not fill it."""

    def make(info: KernelInfo) -> Standard:
        types = {"T": F}
        return Standard(info, name, [F] * len(inputs), [F], version=version, types=types, attributes=attributes)

    feeds = [array.astype(np.float32) for array in inputs]

    def work(context: KernelContext, op: Standard) -> Any:
        out = np.full(right, -1, np.float32)
        op.invoke(context, feeds, [out])
        return out

    found = call(make, work)
    assert (found >= 0).all()
    message = refused(make, lambda context, op: op.invoke(context, feeds, [np.full(wrong, -1, np.float32)]))
    assert f"output 0: expected shape {list(right)}, got {list(wrong)}" in message


def test_content_that_the_kernel_refuses_keeps_its_error() -> None:
    def make(info: KernelInfo) -> Standard:
        types = {"T": F, "Tind": "int64"}
        return Standard(info, "Gather", [F, "int64"], [F], version=13, types=types, attributes={"axis": 0})

    def work(context: KernelContext, op: Standard) -> None:
        op.invoke(context, [X, np.array([99])], [np.empty(1, np.float32)])

    for _ in range(2):
        assert "99" in refused(make, work)


def test_invoke_in_several_threads() -> None:
    def add(context: KernelContext, op: Standard) -> None:
        (x,) = context.inputs
        out = np.empty_like(x)
        op.invoke(context, [x, x], [out])
        assert np.array_equal(out, x * 2)

    session = zrt.Session(build(ONE), options([Calling(make_add, add)]))
    in_threads(*[lambda: [session.run([X]) for _ in range(100)]] * 4)
