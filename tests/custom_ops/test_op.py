"""Declarations of custom operators: types, ports, attributes, versions, shared memory."""

import re
from collections import UserDict
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import helper

import zrt
from tests.custom_ops.support import DOMAIN, ONE, TWO, Add, Op, X, build, caused_by, load, one_node, options
from zrt.custom_ops import Attribute, CustomOp, DeviceTensor, Input, KernelContext, KernelInfo, Output, ShapeContext
from zrt.custom_ops.declare import kind_name
from zrt.custom_ops.description import Description
from zrt.errors import (
    ArgumentError,
    CallbackError,
    ClosedError,
    DTypeError,
    Error,
    OutOfRangeError,
    ProviderError,
    ShapeError,
    UnsupportedError,
)
from zrt.memory.allocators import CPU
from zrt.types import ElementType

TYPES = [kind for kind in ElementType if not kind.refused and kind is not ElementType.STRING]
# ONNX Runtime has tensors of these types, but does not accept them for a port of any type.
UNCOUNTED = (ElementType.UINT2, ElementType.INT2, ElementType.FLOAT8E8M0)


def _identity(kind: ElementType, declared: ElementType | None) -> zrt.Session:
    class Same(CustomOp):
        inputs = (declared,)
        outputs = (declared,)

        def compute(self, context: KernelContext) -> None:
            (x,) = context.inputs
            context.output(0, (4,))[...] = x

    return one_node(Same(), ["x"], ["y"], kind.onnx_code, 4)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_element_types(kind: ElementType, declared: bool) -> None:
    """Every element type, declared or accepted by a port of any type, is passed on bit by bit."""
    if not declared and kind in UNCOUNTED:
        with pytest.raises(Error, match="invalid"):
            _identity(kind, None)
        return
    session = _identity(kind, kind if declared else None)
    raw = np.arange(1, 4 * max(kind.bits, 8) // 8 + 1, dtype=np.uint8)
    if kind.packed:
        raw = raw[: (4 * kind.bits + 7) // 8]
        (result,) = session.run([zrt.Value.from_packed(raw, kind, (4,))])
        assert np.array_equal(result.numpy(), raw)
    else:
        raw = raw % 2 if kind is ElementType.BOOL else raw
        (result,) = session.run([raw.view(kind.dtype)])
        assert result.dtype == kind.dtype
        assert result.tobytes() == raw.tobytes()


@pytest.mark.parametrize("declared", [str, "string", ElementType.STRING])
def test_strings(declared: Any) -> None:
    class Upper(CustomOp):
        inputs = (Input(dtype=declared),)
        outputs = (declared,)

        def compute(self, context: KernelContext) -> None:
            (x,) = context.inputs
            assert not x.flags.writeable
            y = context.output(0, x.shape)
            for index, text in np.ndenumerate(x):
                y[index] = text.upper()

    session = load("(string[n] x) => (string[n] y) { y = test.ops.Upper(x) }", Upper())
    (result,) = session.run([np.array(["ab", "ç", "", "a\0b"], object)])
    assert result.tolist() == ["AB", "Ç", "", "A\0B"]


def test_output_of_strings_is_one_array_however_often_it_is_asked_for() -> None:
    class Upper(CustomOp):
        inputs = (str,)
        outputs = (str,)

        def compute(self, context: KernelContext) -> None:
            (x,) = context.inputs
            for index, text in enumerate(x):
                context.output(0, x.shape)[index] = text.upper()

    session = load("(string[n] x) => (string[n] y) { y = test.ops.Upper(x) }", Upper())
    assert session.run([["a", "b", "c"]])[0].tolist() == ["A", "B", "C"]


def test_missing_string_of_an_output_raises() -> None:
    class Lazy(CustomOp):
        inputs = (str,)
        outputs = (str,)

        def compute(self, context: KernelContext) -> None:
            context.output(0, (2,))[0] = "one"

    session = load("(string[n] x) => (string[n] y) { y = test.ops.Lazy(x) }", Lazy())
    with pytest.raises(CallbackError, match="output 'y': element 1: expected a str or bytes, got NoneType"):
        session.run([np.array(["a"], object)])


def test_variadic_ports() -> None:
    class Double(CustomOp):
        inputs = (Input(dtype=np.float32, variadic=True),)
        outputs = (Output(dtype=np.float32, variadic=True),)

        def compute(self, context: KernelContext) -> None:
            for index, x in enumerate(context.inputs):
                context.output(index, x.shape)[...] = x * 2

    session = load("(float[n] x, float[m] y) => (float[n] a, float[m] b) { a, b = test.ops.Double(x, y) }", Double())
    a, b = session.run([X, X[:2]])
    assert np.array_equal(a, X * 2)
    assert np.array_equal(b, X[:2] * 2)


def test_variadic_input_of_several_types() -> None:
    class Count(CustomOp):
        inputs = (Input(variadic=True, homogeneous=False, least=2),)
        outputs = (np.int64,)

        def compute(self, context: KernelContext) -> None:
            context.output(0, ())[...] = sum(x.size for x in context.inputs)

    session = load("(float[n] x, int64[m] y) => (int64 k) { k = test.ops.Count(x, y) }", Count())
    assert session.run([X, np.arange(3)])[0] == 7
    with pytest.raises(Error, match="Count"):
        load("(float[n] x) => (int64 k) { k = test.ops.Count(x) }", Count())


def test_optional_ports() -> None:
    seen = []

    class Maybe(CustomOp):
        inputs = (np.float32, Input(dtype=np.float32, optional=True), np.float32)
        outputs = (np.float32, Output(dtype=np.float32, optional=True), Output(dtype=np.float32, optional=True))

        def compute(self, context: KernelContext) -> None:
            seen.append(([x is None for x in context.inputs], context.info.input_names, context.info.inputs[1]))
            seen.append([context.output(index, (1,)) is None for index in range(context.output_count)])

    one_node(Maybe(), ["x", "", "x"], ["a", "", "b"], onnx.TensorProto.FLOAT, 1).run([X[:1]])
    assert seen == [([False, True, False], ("x", "", "x"), None), [False, True, False]]


def test_last_ports_that_are_left_out() -> None:
    """They are absent, as those between others are; a variadic port has as many as the node gives."""
    seen: list[Any] = []

    class Maybe(CustomOp):
        inputs = (np.float32, Input(dtype=np.float32, optional=True))
        outputs = (np.float32, Output(dtype=np.float32, optional=True))

        def create(self, info: KernelInfo) -> None:
            assert (info.input_names, info.output_names) == (("x", ""), ("y", ""))
            assert (info.inputs[1], info.outputs[1], info.constant_input(1)) == (None, None, None)

        def infer_shapes(self, context: ShapeContext) -> None:
            seen.append((context.input_count, context.input(1)))
            with pytest.raises(OutOfRangeError):
                context.input(2)

        def compute(self, context: KernelContext) -> None:
            x, other = context.inputs
            context.output(0, x.shape)[...] = x
            seen.append((other, context.output(1, x.shape), context.output_count))
            with pytest.raises(OutOfRangeError, match="there are 2"):
                context.output(2, x.shape)

    class Several(CustomOp):
        inputs = (np.float32, Input(dtype=np.float32, variadic=True, least=0))
        outputs = (np.float32,)

        def compute(self, context: KernelContext) -> None:
            seen.append(len(context.inputs))
            context.output(0, (1,))[...] = 1

    one_node(Maybe(), ["x"], ["y"], onnx.TensorProto.FLOAT, 1).run([X[:1]])
    assert seen[0] == (1, (zrt.ElementType.UNDEFINED, None))
    assert seen[-1] == (None, None, 1)
    one_node(Several(), ["x"], ["y"], onnx.TensorProto.FLOAT, 1).run([X[:1]])
    assert seen[-1] == 1


class Increment(CustomOp):
    inputs = (np.float32,)
    outputs = (np.float32,)
    inplace: ClassVar = {0: 0}

    def __init__(self) -> None:
        self.shared: list[bool] = []

    def infer_shapes(self, context: ShapeContext) -> None:
        kind, shape = context.input(0)
        context.set_output(0, shape, kind)

    def compute(self, context: KernelContext) -> None:
        (x,) = context.inputs
        y = context.output(0, x.shape)
        self.shared.append(np.shares_memory(x, y))
        np.add(x, 1, out=y)


def test_inplace() -> None:
    """Where shapes are known at load, an output reuses an input's memory, but never the caller's."""
    op = Increment()
    text = "a = test.ops.Increment(x) b = test.ops.Increment(a) c = test.ops.Increment(b) y = test.ops.Increment(c)"
    session = load(f"(float[4] x) => (float[4] y) {{ {text} }}", op)
    assert np.array_equal(session.run([X])[0], X + 4)
    assert np.array_equal(X, np.arange(4))
    assert op.shared[0] is False
    assert True in op.shared


class Column(CustomOp):
    inputs = (np.float32,)
    outputs = (np.float32,)
    aliases: ClassVar = {0: 0}

    def __init__(self) -> None:
        self.shared: list[bool] = []

    def compute(self, context: KernelContext) -> None:
        (x,) = context.inputs
        y = context.output(0, (x.size, 1))
        assert not y.flags.writeable
        self.shared.append(np.shares_memory(x, y))


class Changing(UserDict[int, int]):
    """Its items are not those of its keys."""

    def items(self) -> Any:
        return {0: 0}.items()


@pytest.mark.parametrize("pairs", ["inplace", "aliases"])
def test_pairs_are_those_that_were_checked(pairs: str) -> None:
    description = Description(type("Odd", (Op,), {pairs: Changing({7: 7})})())
    found = getattr(description.handle.pointer, pairs)
    assert (found.count, found.inputs[0], found.outputs[0]) == (1, 0, 0)


def test_aliases() -> None:
    """An aliased output shares its input's memory within a graph; as an output of the model it is a copy."""
    op = Column()
    session = load("(float[4] x) => (float[4, 1] y) { a = test.ops.Column(x) y = test.ops.Column(a) }", op)
    (y,) = session.run([X])
    assert np.array_equal(y, X[:, None])
    assert op.shared == [True, False]


def test_alias_that_a_device_cannot_copy_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a device: the outputs only look as if they lay on one."""
    shown = KernelContext._view

    def on_device(self: Any, role: str, *arguments: Any) -> Any:
        view = shown(self, role, *arguments)
        return DeviceTensor(0, view.shape, ElementType.FLOAT, CPU) if role == "output" else view

    class Flat(CustomOp):
        inputs = (np.float32,)
        outputs = (np.float32,)
        aliases: ClassVar = {0: 0}

        def compute(self, context: KernelContext) -> None:
            context.output(0, (4, 1))

    session = load("(float[4] x) => (float[4, 1] y) { y = test.ops.Flat(x) }", Flat())
    monkeypatch.setattr(KernelContext, "_view", on_device)
    with caused_by(UnsupportedError, "output 'y' aliases input 0, and ONNX Runtime gives it other memory on a device"):
        session.run([X])


@pytest.mark.parametrize("nodes", ["y = test.ops.Less(x)", "a = Neg(x) b = test.ops.Less(a) y = Neg(b)"])
def test_alias_of_fewer_elements_raises(nodes: str) -> None:
    """Whether the output shares the input's memory or not."""

    class Less(Column):
        def compute(self, context: KernelContext) -> None:
            context.output(0, (2,))

    session = load(f"(float[4] x) => (float[n] y) {{ {nodes} }}", Less())
    with caused_by(ShapeError, "output 0 has 2 elements, and the input that it is 4"):
        session.run([X])


class Copied(CustomOp):
    inputs = (str,)
    outputs = (str,)

    def compute(self, context: KernelContext) -> None:
        (x,) = context.inputs
        context.output(0, x.shape)[...] = x


class Rows(Copied):
    aliases: ClassVar = {0: 0}

    def compute(self, context: KernelContext) -> None:
        y = context.output(0, (2, 1))
        assert y.tolist() == [["a"], ["ç"]]
        assert not y.flags.writeable


@pytest.mark.parametrize(
    "nodes", ["y = test.ops.Rows(x)", "a = test.ops.Copied(x) b = test.ops.Rows(a) y = test.ops.Copied(b)"]
)
def test_aliases_of_strings(nodes: str) -> None:
    """`compute` only calls `output`, whether ONNX Runtime copies the strings or not."""
    session = load(f"(string[n] x) => (string[n, m] y) {{ {nodes} }}", Copied(), Rows())
    assert session.run([["a", "ç"]])[0].tolist() == [["a"], ["ç"]]


@pytest.mark.parametrize("inputs", [["x"], ["x", "", "x"]])
def test_alias_of_an_absent_input_raises(inputs: list[str]) -> None:
    maybe = Input(dtype=np.float32, optional=True)

    class Aliasing(CustomOp):
        inputs = (np.float32, maybe, maybe)
        outputs = (np.float32,)
        aliases: ClassVar = {1: 0}

        def compute(self, context: KernelContext) -> None:
            context.output(0, (4,))

    with caused_by(ArgumentError, "output 'y' aliases input 1, which the node does not have"):
        one_node(Aliasing(), inputs, ["y"], onnx.TensorProto.FLOAT, 4).run([X])


class Scale(Op):
    name = "Op"
    attributes: ClassVar = {
        "factor": float, "count": Attribute(int, 3), "label": Attribute(str, "none"),
        "sizes": Attribute(list[int], (1, 2)), "weights": Attribute(list[float], ()), "names": Attribute(list[str], ()),
        "table": Attribute(np.ndarray, None),
    }  # fmt: skip

    def create(self, info: KernelInfo) -> Any:
        return info.attributes

    def compute(self, context: KernelContext) -> None:
        (x,) = context.inputs
        assert context.state is context.attributes
        context.output(0, x.shape)[...] = x * context.state["factor"]
        self.seen = dict(context.attributes)


def test_attributes() -> None:
    op = Scale()
    text = 'y = test.ops.Op<factor = 2.0, label = "ç", sizes = [7], weights = [1.5], names = ["a", ""]>(x)'
    model = build(f"(float[n] x) => (float[n] y) {{ {text} }}")
    table = onnx.numpy_helper.from_array(np.eye(2, dtype=np.int8))
    model.graph.node[0].attribute.append(helper.make_attribute("table", table))
    assert np.array_equal(zrt.Session(model, options([op])).run([X])[0], X * 2)
    assert np.array_equal(op.seen.pop("table"), np.eye(2))
    assert op.seen == {
        "factor": 2.0, "count": 3, "label": "ç", "sizes": [7], "weights": [1.5], "names": ["a", ""],
    }  # fmt: skip


@pytest.mark.parametrize("kind", [str, list[str]], ids=kind_name)
def test_strings_of_attributes_keep_bytes_that_are_no_utf8(kind: Any) -> None:
    """Models have whole files in such attributes."""
    seen = []

    class Declares(Op):
        attributes: ClassVar = {"a": kind}

        def create(self, info: KernelInfo) -> Any:
            seen.append(info.attributes["a"])

        def infer_shapes(self, context: ShapeContext) -> None:
            seen.append(context.attribute("a"))

    model = build(ONE)
    content = b"\xff\xfe\xc3"
    model.graph.node[0].attribute.append(helper.make_attribute("a", content if kind is str else [content]))
    zrt.Session(model, options([Declares()]))
    assert len(seen) > 1
    for each in seen:
        text = each if kind is str else each[0]
        assert text.encode(errors="surrogateescape") == content


def test_missing_attribute_or_wrong_kind_raises() -> None:
    with caused_by(ArgumentError, "needs the attribute 'factor'"):
        load(ONE, Scale())
    with caused_by(DTypeError, r"'count' is of kind float in the model, expected int"):
        load("(float[n] x) => (float[n] y) { y = test.ops.Op<factor = 2.0, count = 1.0>(x) }", Scale())


_GRAPH = helper.make_graph(
    [helper.make_node("Identity", ["x"], ["z"])], "g", [], [helper.make_tensor_value_info("z", 1, None)]
)
# For each kind of attribute a value, and its name in messages.
VALUES: list[tuple[Any, str]] = [
    (1, "kind int"), (1.5, "kind float"), ("s", "kind str"), ("", "kind str"), ([1], "kind list[int]"),
    ([1.5], "kind list[float]"), (["", "s"], "kind list[str]"),
    (onnx.numpy_helper.from_array(np.zeros((0, 2), np.float32)), "kind numpy.ndarray"), (_GRAPH, "another kind"),
]  # fmt: skip


@pytest.mark.parametrize("kind", Attribute.KINDS, ids=kind_name)
def test_attribute_of_any_other_kind_raises(kind: Any) -> None:
    class Declares(Op):
        attributes: ClassVar = {"a": Attribute(kind, None)}

    op = Declares()
    for value, name in VALUES:
        # ONNX Runtime reads a graph as an empty list.
        if name == f"kind {kind_name(kind)}" or (value is _GRAPH and kind in (list[int], list[float], list[str])):
            continue
        model = build(ONE)
        model.graph.node[0].attribute.append(helper.make_attribute("a", value))
        with caused_by(DTypeError, f"'a' is of {re.escape(name)} in the model, expected {re.escape(kind_name(kind))}"):
            zrt.Session(model, options([op]))


def test_tensors_that_cannot_be_read_are_named() -> None:
    def load_with(kind: Any, tensor: onnx.TensorProto) -> None:
        class Declares(Op):
            attributes: ClassVar = {"a": Attribute(kind, None)}

        model = build(ONE)
        model.graph.node[0].attribute.append(helper.make_attribute("a", tensor))
        zrt.Session(model, options([Declares()]))

    unknown = onnx.numpy_helper.from_array(np.ones(2, np.complex64))
    with caused_by(UnsupportedError, "attribute 'a' is a tensor of a type that ONNX Runtime cannot read"):
        load_with(np.ndarray, unknown)
    for kind in (int, list[int]):
        with caused_by(DTypeError, "attribute 'a' is of kind numpy.ndarray in the model, expected"):
            load_with(kind, unknown)
    short = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[2], raw_data=b"abc")
    # ONNX Runtime 1.32 itself refuses such a model.
    with pytest.raises(Error, match=r"attribute 'a' .* or it is damaged: .* size mismatch|raw_data size \(3 bytes\)"):
        load_with(np.ndarray, short)


@pytest.mark.parametrize("kind", [list[int], list[float], list[str]], ids=kind_name)
def test_empty_list_attribute(kind: Any) -> None:
    class Declares(Op):
        attributes: ClassVar = {"a": kind}

        def create(self, info: KernelInfo) -> Any:
            assert info.attributes["a"] == []

    model = build(ONE)
    name = {int: "INTS", float: "FLOATS", str: "STRINGS"}[kind.__args__[0]]
    of = onnx.AttributeProto.AttributeType.Value(name)
    model.graph.node[0].attribute.append(helper.make_attribute("a", [], attr_type=of))
    zrt.Session(model, options([Declares()]))


def test_versions() -> None:
    class Old(Op):
        end_version = 2

    class New(Op):
        since_version = 3

    load(ONE, Old(), version=2)
    load(ONE, New(), version=3)
    load(ONE, New(), version=7)
    with pytest.raises(Error, match="Op"):
        load(ONE, New(), version=2)
    # ONNX Runtime ignores the last version, except next to a later operator of the same name, which it refuses.
    load(ONE, Old(), version=3)


def test_each_node_has_its_own_state() -> None:
    class Named(Op):
        def create(self, info: KernelInfo) -> str:
            assert (info.op_type, info.domain, info.since_version) == ("Op", DOMAIN, 1)
            assert [port.name for port in info.inputs if port] == list(info.input_names)
            return info.node_name

        def work(self, context: KernelContext) -> None:
            seen.append((context.state, context.info.input_names, context.info.output_names))

    seen: list[Any] = []
    load("(float[n] x) => (float[n] y) { [one] a = test.ops.Op(x) [two] y = test.ops.Op(a) }", Named()).run([X])
    assert seen == [("one", ("x",), ("a",)), ("two", ("a",), ("y",))]


def test_one_domain_serves_many_sessions() -> None:
    with zrt.CustomOpDomain(DOMAIN, [Add()]) as domain:
        sessions = [zrt.Session(build(TWO), zrt.SessionOptions(custom_ops=[domain])) for _ in range(3)]
    assert domain.closed
    assert repr(domain) == "CustomOpDomain('test.ops': closed)"
    for session in sessions:
        assert np.array_equal(session.run([X, X])[0], X + X)
    with pytest.raises(ClosedError, match="CustomOpDomain is closed"):
        zrt.Session(build(TWO), zrt.SessionOptions(custom_ops=[domain]))


def test_invalid_declarations_are_refused() -> None:
    def refuse(error: type[Error], message: str, **attributes: Any) -> None:
        with pytest.raises(error, match=message):
            zrt.CustomOpDomain("d", [type("Bad", (Op,), {"name": "Bad", **attributes})()])

    refuse(DTypeError, "inputs: expected a list, got str", inputs="float32")
    refuse(DTypeError, "operator 'Bad', input 0: 'no' is not a dtype", inputs=("no",))
    refuse(ProviderError, "operator 'Bad': provider 'no'", provider="no")
    refuse(ArgumentError, "only the last one", inputs=(Input(variadic=True), np.float32))
    refuse(ArgumentError, "optional or variadic", inputs=(Input(variadic=True, optional=True),))
    refuse(ArgumentError, "one declared type", outputs=(np.float64,), aliases={0: 0})
    refuse(ArgumentError, "of one input, not of several", inputs=(np.float32,) * 2, aliases={0: 0, 1: 0})
    refuse(ArgumentError, "end_version", since_version=3, end_version=2)
    with pytest.raises(ArgumentError, match="neither compute nor function"):
        zrt.CustomOpDomain("d", [type("Bad", (CustomOp,), {"outputs": (np.float32,)})()])


@pytest.mark.gpu
def test_device_operator_gets_addresses() -> None:
    seen = []

    class OnDevice(CustomOp):
        inputs = (np.float32, Input(dtype=np.int64, memory="CPU_INPUT"))
        outputs = (np.float32,)
        provider = "CUDA"

        def compute(self, context: KernelContext) -> None:
            x, host = context.inputs
            y = context.output(0, x.shape)
            seen.append((x, host.copy(), y, context.stream))

    session = zrt.Session(
        build("(float[n] x, int64[1] k) => (float[n] y) { y = test.ops.OnDevice(x, k) }"),
        options([OnDevice()]),
        providers=["CUDA", "CPU"],
    )
    session.run([X, np.array([5])])
    ((x, host, y, stream),) = seen
    assert x.memory.name == y.memory.name == "Cuda"
    assert x.shape == y.shape == (4,)
    assert x.address != y.address
    assert host == 5
    assert stream


def test_node_whose_inputs_are_weights_is_computed_in_every_run() -> None:
    calls: list[int] = []

    class Counting(Op):
        def work(self, context: KernelContext) -> None:
            calls.append(len(context.inputs[0]))
            super().work(context)

        def infer_shapes(self, context: ShapeContext) -> None:
            kind, shape = context.input(0)
            context.set_output(0, shape, kind)

    text = "(float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { t = test.ops.Op(w)  y = Add(x, t) }"
    session = load(text, Counting())
    assert calls == []
    for _ in range(2):
        assert session.run([X])[0].tolist() == [1, 3, 5, 7]
    assert calls == [4, 4]
