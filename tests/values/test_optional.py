"""Optional inputs and outputs: an absent one is None, and no value of it is passed to ONNX Runtime."""

import gc
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import zrt
from tests.support import models
from tests.support.bindings import bind
from tests.support.lanes import run_on
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from zrt.types import ElementType, ValueKind

TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
TYPES = {"tensor": TENSOR, "sequence": helper.make_sequence_type_proto(TENSOR)}
SILENT = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
X = np.ones(1, np.float32)
ARRAYS = hnp.arrays(np.float32, st.integers(0, 4).map(lambda size: (size,)), elements=st.integers(-9, 9))


@cache
def eats(content: str) -> zrt.Session:
    """A session with an optional input o: has is whether o is fed, the output o is the input o, y = -x."""
    o = helper.make_value_info("o", helper.make_optional_type_proto(TYPES[content]))
    return zrt.Session(
        models.build(
            [helper.make_node("OptionalHasElement", ["o"], ["has"]), helper.make_node("Neg", ["x"], ["y"])],
            [o, models.tensor("x", TensorProto.FLOAT, ["m"])],
            [models.tensor("has", TensorProto.BOOL, []), o, models.tensor("y", TensorProto.FLOAT, ["m"])],
        ),
        SILENT,
    )


@cache
def makes(content: str) -> zrt.Session:
    """A session with an optional output o, present if fill is true: the tensor x, or a sequence of it."""
    kind = TYPES[content]
    optional = helper.make_value_info("o", helper.make_optional_type_proto(kind))
    source = "x" if content == "tensor" else "s"
    filled = [helper.make_node("Optional", [source], ["there"])]
    if content == "sequence":
        filled.insert(0, helper.make_node("SequenceConstruct", ["x"], ["s"]))
    full = helper.make_graph(filled, "full", [], [helper.make_value_info("there", optional.type)])
    none = helper.make_graph(
        [helper.make_node("Optional", [], ["not_there"], type=kind)],
        "none",
        [],
        [helper.make_value_info("not_there", optional.type)],
    )
    return zrt.Session(
        models.build(
            [
                helper.make_node("If", ["fill"], ["o"], then_branch=full, else_branch=none),
                helper.make_node("Neg", ["x"], ["y"]),
            ],
            [models.tensor("fill", TensorProto.BOOL, []), models.tensor("x", TensorProto.FLOAT, ["n"])],
            [optional, models.tensor("y", TensorProto.FLOAT, ["n"])],
        ),
        SILENT,
    )


class TestFeeds:
    @given(given=st.none() | ARRAYS, x=ARRAYS)
    def test_tensor(self, given, x):
        as_value = given if given is None else zrt.Value.from_array(given)
        feeds = [{"o": given, "x": x}, [given, x], {"o": as_value, "x": x}]
        for feed in (*feeds, {"x": x}) if given is None else feeds:
            has, o, y = eats("tensor").run(feed)
            assert has == (given is not None)
            assert o is None if given is None else o.tolist() == given.tolist()
            assert y.tolist() == (-x).tolist()

    @given(given=st.none() | st.lists(ARRAYS, max_size=3))
    def test_sequence(self, given):
        has, o, _ = eats("sequence").run([given, X])
        assert has == (given is not None)
        assert o is None if given is None else [a.tolist() for a in o] == [a.tolist() for a in given]

    def test_prepared(self):
        for _ in range(2):
            assert eats("tensor").prepare([None, X]).run()[:2] == [False, None]
            assert eats("tensor").prepare([X, X]).run()[0]

    def test_wrong_feeds_are_refused(self):
        for session, feed, error, message in (
            (eats("tensor"), np.ones(1), DTypeError, "input 'o': expected float32, got float64"),
            (eats("tensor"), np.ones((1, 1), np.float32), ShapeError, r"input 'o': expected shape \[n\], got \[1, 1\]"),
            (eats("tensor"), object(), DTypeError, "input 'o': expected float32"),
            (
                eats("tensor"),
                zrt.Value.from_sequence([X]),
                DTypeError,
                r"input 'o': expected float32\[n\], got a sequence",
            ),
            (eats("sequence"), X, DTypeError, "input 'o': expected a list, got ndarray"),
            (eats("sequence"), [np.ones(1)], DTypeError, "input 'o', element 0"),
        ):
            with pytest.raises(error, match=message):
                session.run([feed, X])

    def test_only_optional_inputs_may_be_none(self):
        with pytest.raises(DTypeError, match="input 'x': expected float32, got objects"):
            eats("tensor").run([X, None])
        with pytest.raises(ArgumentError, match="input 'x' is missing"):
            eats("tensor").run({"o": None})

    def test_io_binding(self):
        binding = eats("tensor").binding()
        binding.bind_input("x", X)
        for name in ("has", "o", "y"):
            binding.bind_output(name)
        for feed in (None, X, None, X, None):
            binding.bind_input("o", feed)
            binding.run()
            results = binding.numpy()
            assert results["has"] == (feed is not None)
            assert results["o"] is None if feed is None else results["o"].tolist() == [1]
            assert results["y"].tolist() == [-1]
        with pytest.raises(DTypeError, match="input 'x': expected an array"):
            binding.bind_input("x", None)

    def test_model_declarations(self):
        (tensor, _), (sequence, _) = eats("tensor").inputs, eats("sequence").inputs
        assert (tensor.kind, tensor.element_type, tensor.shape) == (ValueKind.OPTIONAL, ElementType.FLOAT, ("n",))
        assert tensor.element.kind is ValueKind.TENSOR
        assert str(tensor) == "o: optional(float32[n])"
        assert str(sequence) == "o: optional(seq(float32[n]))"

    def test_lanes_refuse_optional_inputs(self):
        with pytest.raises(UnsupportedError, match="input 'o' is an optional: a lane binds"):
            eats("tensor").lane([(1,), (1,)])


class TestOutputs:
    @given(fill=st.booleans(), x=ARRAYS)
    def test_tensor(self, fill, x):
        for _ in range(2):
            o, y = makes("tensor").run([np.array(fill), x])
            assert o.tolist() == x.tolist() if fill else o is None
            assert y.tolist() == (-x).tolist()

    @given(fill=st.booleans(), x=ARRAYS)
    def test_sequence(self, fill, x):
        o, _ = makes("sequence").run([np.array(fill), x])
        assert [a.tolist() for a in o] == [x.tolist()] if fill else o is None

    def test_results_belong_to_the_caller(self):
        x = np.ones(2, np.float32)
        o, _ = makes("tensor").run([np.array(True), x])
        o[0] = 5
        assert x.tolist() == [1, 1]
        del x
        gc.collect()
        assert o.tolist() == [5, 1]

    @pytest.mark.parametrize("fill", [False, True])
    def test_io_binding(self, fill):
        for session in (makes("tensor"), makes("sequence")):
            binding = bind(session, {"fill": np.array(fill), "x": X}, "o")
            binding.run()
            results = binding.outputs()
            assert list(results) == ["o"]
            assert isinstance(results["o"], zrt.Value) if fill else results["o"] is None

    def test_in_a_lane(self):
        lane = makes("tensor").lane({"fill": (), "x": (2,)})
        assert lane.outputs["o"] is None
        for fill in (True, False, True):
            outputs = run_on(lane, fill=fill, x=3)
            assert outputs["o"].tolist() == [3, 3] if fill else outputs["o"] is None
            assert outputs["y"].tolist() == [-3, -3]
        assert "optional" in lane.audit().outputs[0].allocates
        sequence = makes("sequence").lane({"fill": (), "x": (2,)})
        assert len(run_on(sequence, fill=True)["o"].to_list()) == 1
