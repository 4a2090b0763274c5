"""Optional inputs and outputs: an absent one is None, and no value of it is passed to ONNX Runtime."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, TypeProto, helper

import zrt
from tests.support import models
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from zrt.types import ElementType, ValueKind

TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
SEQUENCE = helper.make_sequence_type_proto(TENSOR)
SILENT = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
X = np.ones(1, np.float32)
ARRAYS = hnp.arrays(np.float32, st.integers(0, 4).map(lambda size: (size,)), elements=st.integers(-9, 9))


def eats(kind: TypeProto) -> zrt.Session:
    """A session with an optional input o: has is whether o is fed, the output o is the input o, y = -x."""
    o = helper.make_value_info("o", helper.make_optional_type_proto(kind))
    return zrt.Session(
        models.build(
            [helper.make_node("OptionalHasElement", ["o"], ["has"]), helper.make_node("Neg", ["x"], ["y"])],
            [o, models.tensor("x", TensorProto.FLOAT, ["m"])],
            [models.tensor("has", TensorProto.BOOL, []), o, models.tensor("y", TensorProto.FLOAT, ["m"])],
        ),
        SILENT,
    )


def makes(kind: TypeProto) -> zrt.Session:
    """A session with an optional output o, present if fill is true: the tensor x, or a sequence of it."""
    optional = helper.make_value_info("o", helper.make_optional_type_proto(kind))
    made = "x" if kind is TENSOR else "s"
    filled = [helper.make_node("Optional", [made], ["there"])]
    if kind is SEQUENCE:
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


@pytest.fixture(scope="module")
def eats_tensor() -> zrt.Session:
    return eats(TENSOR)


@pytest.fixture(scope="module")
def eats_sequence() -> zrt.Session:
    return eats(SEQUENCE)


@pytest.fixture(scope="module")
def makes_tensor() -> zrt.Session:
    return makes(TENSOR)


@pytest.fixture(scope="module")
def makes_sequence() -> zrt.Session:
    return makes(SEQUENCE)


class TestFeeds:
    @given(given=st.none() | ARRAYS, x=ARRAYS)
    def test_tensor(self, eats_tensor, given, x):
        as_value = given if given is None else zrt.Value.from_array(given)
        feeds = [{"o": given, "x": x}, [given, x], {"o": as_value, "x": x}]
        for feed in (*feeds, {"x": x}) if given is None else feeds:
            has, o, y = eats_tensor.run(feed)
            assert has == (given is not None)
            assert o is None if given is None else o.tolist() == given.tolist()
            assert y.tolist() == (-x).tolist()

    @given(given=st.none() | st.lists(ARRAYS, max_size=3))
    def test_sequence(self, eats_sequence, given):
        has, o, _ = eats_sequence.run([given, X])
        assert has == (given is not None)
        assert o is None if given is None else [a.tolist() for a in o] == [a.tolist() for a in given]

    def test_prepared(self, eats_tensor):
        for _ in range(2):
            assert eats_tensor.prepare([None, X]).run()[:2] == [False, None]
            assert eats_tensor.prepare([X, X]).run()[0]

    def test_wrong_feeds_are_refused(self, eats_tensor, eats_sequence):
        for session, feed, error, message in (
            (eats_tensor, np.ones(1), DTypeError, "input 'o': expected float32, got float64"),
            (eats_tensor, np.ones((1, 1), np.float32), ShapeError, r"input 'o': expected shape \[n\], got \[1, 1\]"),
            (eats_tensor, object(), DTypeError, "input 'o': expected float32"),
            (
                eats_tensor,
                zrt.Value.from_sequence([X]),
                DTypeError,
                r"input 'o': expected float32\[n\], got a sequence",
            ),
            (eats_sequence, X, DTypeError, "input 'o': expected a list, got ndarray"),
            (eats_sequence, [np.ones(1)], DTypeError, "input 'o', element 0"),
        ):
            with pytest.raises(error, match=message):
                session.run([feed, X])

    def test_only_optional_inputs_may_be_none(self, eats_tensor):
        with pytest.raises(DTypeError, match="input 'x': expected float32, got objects"):
            eats_tensor.run([X, None])
        with pytest.raises(ArgumentError, match="input 'x' is missing"):
            eats_tensor.run({"o": None})

    def test_io_binding(self, eats_tensor):
        binding = eats_tensor.binding()
        binding.bind_input("x", X)
        for name in ("has", "o", "y"):
            binding.bind_output(name)
        for feed in (None, X, None, X, None):
            binding.bind_input("o", feed)
            binding.run()
            found = binding.numpy()
            assert found["has"] == (feed is not None)
            assert found["o"] is None if feed is None else found["o"].tolist() == [1]
            assert found["y"].tolist() == [-1]
        with pytest.raises(DTypeError, match="input 'x': expected an array"):
            binding.bind_input("x", None)

    def test_model_declarations(self, eats_tensor, eats_sequence):
        (tensor, _), (sequence, _) = eats_tensor.inputs, eats_sequence.inputs
        assert (tensor.kind, tensor.element_type, tensor.shape) == (ValueKind.OPTIONAL, ElementType.FLOAT, ("n",))
        assert tensor.element.kind is ValueKind.TENSOR
        assert str(tensor) == "o: optional(float32[n])"
        assert str(sequence) == "o: optional(seq(float32[n]))"

    def test_lanes_refuse_optional_inputs(self, eats_tensor):
        with pytest.raises(UnsupportedError, match="input 'o' is an optional: a lane binds"):
            eats_tensor.lane([(1,), (1,)])


class TestOutputs:
    @given(fill=st.booleans(), x=ARRAYS)
    def test_tensor(self, makes_tensor, fill, x):
        for _ in range(2):
            o, y = makes_tensor.run([np.array(fill), x])
            assert o.tolist() == x.tolist() if fill else o is None
            assert y.tolist() == (-x).tolist()

    @given(fill=st.booleans(), x=ARRAYS)
    def test_sequence(self, makes_sequence, fill, x):
        o, _ = makes_sequence.run([np.array(fill), x])
        assert [a.tolist() for a in o] == [x.tolist()] if fill else o is None

    def test_results_belong_to_the_caller(self, makes_tensor):
        x = np.ones(2, np.float32)
        o, _ = makes_tensor.run([np.array(True), x])
        o[0] = 5
        assert x.tolist() == [1, 1]
        del x
        gc.collect()
        assert o.tolist() == [5, 1]

    @pytest.mark.parametrize("fill", [False, True])
    def test_io_binding(self, makes_tensor, makes_sequence, fill):
        for session in (makes_tensor, makes_sequence):
            binding = session.binding()
            binding.bind_input("fill", np.array(fill))
            binding.bind_input("x", X)
            binding.bind_output("o")
            binding.run()
            found = binding.outputs()
            assert list(found) == ["o"]
            assert isinstance(found["o"], zrt.Value) if fill else found["o"] is None

    def test_in_a_lane(self, makes_tensor, makes_sequence):
        lane = makes_tensor.lane({"fill": (), "x": (2,)})
        assert lane.outputs["o"] is None
        for fill in (True, False, True):
            lane.inputs["fill"][...] = fill
            lane.inputs["x"][...] = 3
            lane.run()
            assert lane.outputs["o"].tolist() == [3, 3] if fill else lane.outputs["o"] is None
            assert lane.outputs["y"].tolist() == [-3, -3]
        assert "optional" in lane.audit().outputs[0].allocates
        sequence = makes_sequence.lane({"fill": (), "x": (2,)})
        sequence.inputs["fill"][...] = True
        sequence.run()
        assert len(sequence.outputs["o"].to_list()) == 1
