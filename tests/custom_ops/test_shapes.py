"""`infer_shapes` and its ShapeContext."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import zrt
from tests.custom_ops.support import ONE, Op, X, build, caused_by, load, options
from zrt.custom_ops import Attribute, ShapeContext
from zrt.errors import ArgumentError, ClosedError, DTypeError, OutOfRangeError, UnsupportedError
from zrt.types import ElementType


class Asked(Op):
    """Calls a test's function with each `ShapeContext`."""

    attributes: ClassVar = {
        "n": Attribute(int, 7),
        "f": Attribute(float, 0.5),
        "s": Attribute(str, "none"),
        "ns": Attribute(list[int], [1]),
        "fs": Attribute(list[float], []),
        "ss": Attribute(list[str], []),
        "t": Attribute(np.ndarray, None),
    }

    def __init__(self, infer: Callable[[ShapeContext], Any]) -> None:
        self.infer = infer

    def infer_shapes(self, context: ShapeContext) -> None:
        self.infer(context)


def infer(function: Callable[[ShapeContext], Any], text: str = ONE) -> zrt.Session:
    return load(text, Asked(function))


def test_shapes_are_known_after_the_load() -> None:
    def double(context: ShapeContext) -> None:
        kind, shape = context.input(0)
        assert kind is ElementType.FLOAT
        assert (context.op_type, context.input_count) == ("Op", 1)
        assert shape is not None
        context.set_output(0, (*shape, "m", 3, None), kind)

    session = infer(double, "(float[n, 2] x) => (y) { y = test.ops.Op(x) }")
    assert session.outputs[0].shape == ("n", 2, "m", 3, None)


def test_attributes_are_read() -> None:
    seen: dict[str, Any] = {}

    def read(context: ShapeContext) -> None:
        seen.update({name: context.attribute(name) for name in ("n", "f", "s", "ns", "fs", "ss")})
        with pytest.raises(ArgumentError, match="declares no attribute 'q'"):
            context.attribute("q")
        assert context.attribute("t") is None

    infer(read)
    assert seen == {"n": 7, "f": 0.5, "s": "none", "ns": [1], "fs": [], "ss": []}
    attributes = 'n = 2, f = 1.5, s = "ç", ns = [3, 4], fs = [0.5], ss = ["a", "", "b"]'
    infer(read, f"(float[n] x) => (float[n] y) {{ y = test.ops.Op<{attributes}>(x) }}")
    assert seen == {"n": 2, "f": 1.5, "s": "ç", "ns": [3, 4], "fs": [0.5], "ss": ["a", "", "b"]}


def test_exception_is_raised_by_the_load() -> None:
    def fail(context: ShapeContext) -> None:
        raise ZeroDivisionError("in shapes")

    with caused_by(ZeroDivisionError, "operator 'Op', infer_shapes: ZeroDivisionError: in shapes"):
        infer(fail)


def test_invalid_calls_are_refused() -> None:
    def raising(error: type[Exception], work: Callable[[ShapeContext], Any]) -> None:
        with caused_by(error):
            infer(work)

    raising(OutOfRangeError, lambda context: context.input(1))
    raising(DTypeError, lambda context: context.input("x"))
    raising(ArgumentError, lambda context: context.set_output(0, (-1,), "float32"))
    for shape in (5, "ab", {4}, {4: 1}):
        raising(DTypeError, lambda context, shape=shape: context.set_output(0, shape, "float32"))
    raising(DTypeError, lambda context: context.set_output(0, (1.5,), "float32"))
    raising(DTypeError, lambda context: context.set_output(0, (1,), "nothing"))
    raising(UnsupportedError, lambda context: context.set_output(0, (1,), "complex64"))
    raising(ArgumentError, lambda context: context.set_output(0, ("a\0",), "float32"))
    # ORT would write past the end of its list of outputs.
    raising(OutOfRangeError, lambda context: context.set_output(1, (1,), "float32"))
    raising(OutOfRangeError, lambda context: context.set_output(3, (1,), "float32"))


def test_tensor_attribute_cannot_be_read() -> None:
    model = build(ONE)
    tensor = onnx.numpy_helper.from_array(X)
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("t", tensor))
    with caused_by(UnsupportedError, "reads no tensors during"):
        zrt.Session(model, options([Asked(lambda context: context.attribute("t"))]))


def test_attribute_of_another_kind_raises() -> None:
    for name, text in (("n", "1.5"), ("f", "1"), ("s", "1"), ("ns", "1"), ("ss", "[1.5]")):
        with caused_by(DTypeError, f"attribute '{name}'"):
            infer(
                lambda context, name=name: context.attribute(name),
                f"(float[n] x) => (float[n] y) {{ y = test.ops.Op<{name} = {text}>(x) }}",
            )


def test_list_of_another_kind_raises() -> None:
    make = onnx.helper.make_attribute
    tensor = onnx.numpy_helper.from_array(X)
    graph = onnx.helper.make_graph([], "g", [], [])
    for name, attribute, came in (
        ("ns", make("ns", ""), "kind str"),
        ("ns", make("ns", [], attr_type=onnx.AttributeProto.FLOATS), r"kind list\[float\]"),
        ("fs", make("fs", tensor), "kind numpy.ndarray"),
        ("ss", make("ss", graph), "another kind"),
        ("ss", make("ss", [tensor]), "another kind"),
    ):
        model = build(ONE)
        model.graph.node[0].attribute.append(attribute)
        with caused_by(DTypeError, f"attribute '{name}' is of {came} in the model"):
            zrt.Session(model, options([Asked(lambda context, name=name: context.attribute(name))]))


def test_context_is_closed_after_its_call() -> None:
    kept: list[ShapeContext] = []
    infer(kept.append)
    for ask in (
        lambda: kept[0].input(0),
        lambda: kept[0].input_count,
        lambda: kept[0].attribute("n"),
        lambda: kept[0].set_output(0, (1,), "float32"),
    ):
        with pytest.raises(ClosedError, match="ShapeContext"):
            ask()


def test_sizes_may_be_numpys() -> None:
    session = infer(lambda context: context.set_output(0, (np.int64(2) + 2,), "float32"))
    assert session.outputs[0].shape == (4,)
