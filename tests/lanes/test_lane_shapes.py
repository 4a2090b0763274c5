"""The shapes that a lane is bound with: given, solved from the inputs', or found by trial runs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tests.support import models
from zrt import LaneMemory, Session
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnknownNameError
from zrt.lanes import lane_shapes
from zrt.lanes.lane_shapes import by_name, input_shapes, output_shapes, try_out
from zrt.memory.buffers import Buffer
from zrt.types import ElementType
from zrt.values import Value


def fed(session: Session, *shapes: tuple[int, ...]) -> list:
    """Inputs for trial runs, with data that must be gone afterwards."""
    values = [
        Value.from_buffer(Buffer(shape, info.element_type)) for info, shape in zip(session.inputs, shapes, strict=True)
    ]
    for value in values:
        value.numpy()[...] = 1
    return list(zip(session.inputs, values, strict=True))


@pytest.fixture
def no_trial_runs(monkeypatch):
    def refuse(session, inputs, outputs):
        assert not outputs, "a trial run"
        return {}

    monkeypatch.setattr(lane_shapes, "try_out", refuse)


class TestGiven:
    session = Session(models.tokens())

    def test_a_dict_may_leave_some_out(self):
        assert by_name({"mask": [2, 3]}, self.session.inputs, "input") == {"mask": (2, 3)}
        assert by_name({}, self.session.inputs, "input") == by_name(None, self.session.inputs, "input") == {}

    def test_a_list_may_not(self):
        assert by_name([(1, 2), (3, 4)], self.session.inputs, "input") == {"ids": (1, 2), "mask": (3, 4)}
        with pytest.raises(ArgumentError, match=r"2 inputs \('ids', 'mask'\), got 3 shapes"):
            by_name([(1, 2)] * 3, self.session.inputs, "input")

    def test_dimensions_become_ints(self):
        named = by_name({"ids": (np.int32(2), np.int64(3))}, self.session.inputs, "input")
        assert [type(dim) for dim in named["ids"]] == [int, int]
        # One size alone stands for the shape of rank 1.
        assert by_name({"x": 7}, Session(models.non_zero("n")).inputs, "input") == {"x": (7,)}

    def test_bad_ones(self):
        for given in ("ids", b"ids", 5, {(1, 2)}):
            with pytest.raises(DTypeError, match="shapes: expected a dict or a list of shapes"):
                by_name(given, self.session.inputs, "input")
        with pytest.raises(UnknownNameError, match="no input 'score'; it has 'ids', 'mask'"):
            by_name({"score": (1,)}, self.session.inputs, "input")
        with pytest.raises(ShapeError, match=r"input 'mask'.*\[batch, length\].*\[1\]"):
            by_name({"mask": (1,)}, self.session.inputs, "input")

    def test_inputs_come_from_the_model_where_it_says(self):
        assert input_shapes(Session(models.mixed()), None) == [(2, 3)] * 5
        assert input_shapes(Session(models.scalar_and_empty()), {}) == [(), (0, 3)]
        with pytest.raises(ShapeError, match=r"input 'mask'.*open; give shapes=\{'mask': ...\}"):
            input_shapes(self.session, {"ids": (1, 2)})


class TestSolved:
    def test_from_the_inputs_sizes(self):
        session = Session(models.tokens())
        assert output_shapes(session, [(3, 5), (3, 5)], None) == {"score": (3,)}

    def test_inputs_that_contradict_each_other_settle_nothing(self):
        session = Session(models.tokens())
        assert output_shapes(session, [(3, 5), (1, 5)], None) == {}
        # ORT broadcasts, and so does the lane.
        lane = session.lane([(3, 5), (1, 5)])
        assert lane.outputs["score"].shape == (3,)

    def test_what_is_given_wins(self):
        session = Session(models.tokens())
        assert output_shapes(session, [(3, 5), (1, 5)], {"score": [3]}) == {"score": (3,)}
        assert output_shapes(session, [(3, 5), (3, 5)], {"score": (9,)}) == {"score": (9,)}

    @pytest.mark.usefixtures("no_trial_runs")
    def test_then_nothing_is_run(self):
        for model, shapes in ((models.tokens(), [(3, 5)] * 2), (models.mixed(), None), (models.double(), [(2, 4)])):
            Session(model).lane(shapes)
        Session(models.non_zero()).lane(output_shapes={"indices": (1, 4)})
        Session(models.non_zero()).lane(outputs=LaneMemory.left())
        with pytest.raises(AssertionError, match="a trial run"):
            Session(models.non_zero()).lane()


class TestTrialRuns:
    @pytest.mark.parametrize(
        ("model", "shapes", "expected"),
        [
            (models.convolution, [(2, 1, 5, 7)], (2, 2, 3, 5)),
            (models.computed_reshape, [(3, 8)], (8, 3)),
            (models.flatten_of_unknown_rank, [(2, 3, 4)], (2, 12)),
            (models.squeeze, [(1, 6, 1)], (6,)),
            (models.squeeze, [(1, 1, 1)], ()),
            (models.gather, [(4, 2)], (4, 2, 3)),
        ],
    )
    def test_what_shapes_alone_settle(self, model, shapes, expected):
        session = Session(model())
        inputs = fed(session, *shapes)
        assert try_out(session, inputs, session.outputs) == {session.outputs[0].name: expected}
        for _, value in inputs:
            assert not value.numpy().any()
        lane = session.lane(shapes)
        assert lane.outputs[0].shape == expected
        assert not lane.inputs[0].any()
        lane.run()
        lane.audit().require_zero_copy()

    def test_what_the_data_settles_is_left_alone(self):
        session = Session(models.non_zero())
        inputs = fed(session, (4,))
        assert try_out(session, inputs, session.outputs) == {}
        assert not inputs[0][1].numpy().any()
        assert session.lane().audit().allocations == ("indices: its shape depends on the data",)

    def test_a_model_that_refuses_made_up_data(self, capfd):
        session = Session(models.picky_reshape())
        inputs = fed(session, (6,), (2,))
        assert try_out(session, inputs, session.outputs) == {}
        assert not any(value.numpy().any() for _, value in inputs)
        lane = session.lane()
        # ORT's own line about the failed trial stays out of sight.
        assert capfd.readouterr() == ("", "")
        for shape in ((2, 3), (6, 1)):
            lane.inputs["x"][...] = range(6)
            lane.inputs["shape"][...] = shape
            lane.run()
            np.testing.assert_array_equal(lane.outputs["y"], np.arange(6, dtype=np.float32).reshape(shape))

    def test_some_outputs_of_many(self):
        """What is settled without a trial is bound, and the rest found out or left, each by itself."""
        model = models.build(
            [
                models.node("NonZero", ["x"], ["indices"]),
                models.node("Squeeze", ["x"], ["squeezed"]),
                models.node("Neg", ["x"], ["negative"]),
                models.node("Cast", ["x"], ["words"], to=TensorProto.STRING),
            ],
            [models.tensor("x", models.FLOAT, ["a", "b"])],
            [
                models.tensor("indices", models.INT64, [2, "n"]),
                models.tensor("squeezed", models.FLOAT, None),
                models.tensor("negative", models.FLOAT, ["a", "b"]),
                models.tensor("words", TensorProto.STRING, None),
            ],
        )
        lane = Session(model).lane([(1, 3)])
        assert {port.name: port.allocates for port in lane.audit().outputs} == {
            "indices": "its shape depends on the data",
            "squeezed": "",
            "negative": "",
            "words": "holds strings",
        }
        assert lane.outputs["squeezed"].shape == (3,)
        lane.inputs["x"][...] = [[0, 2, 3]]
        lane.run()
        np.testing.assert_array_equal(lane.outputs["indices"], [[0, 0], [1, 2]])
        np.testing.assert_array_equal(lane.outputs["squeezed"], [0, 2, 3])

    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.refused], ids=lambda kind: kind.name
    )
    def test_made_up_data_of_every_type(self, kind):
        """Three trials: zeros, ones, and something else that is finite."""
        value = Value.from_buffer(Buffer((64,), kind))
        seen = []
        for trial in range(3):
            lane_shapes._fill(value, trial, np.random.default_rng(0))
            seen.append(value.numpy().copy())
        if not kind.packed:
            zeros, ones, others = (array.astype(np.float64) for array in seen)
            np.testing.assert_array_equal(ones, np.ones(64))
            # The one type without a zero has a NaN in its place.
            nothing = np.nan if kind is ElementType.FLOAT8E8M0 else 0
            np.testing.assert_array_equal(zeros, np.full(64, nothing))
            assert len(np.unique(others)) > 1
            assert np.isfinite(others).any()
        assert not np.array_equal(seen[0], seen[1])


@pytest.mark.gpu
def test_inputs_on_a_device_settle_nothing():
    from zrt import MemoryInfo

    session = Session(models.squeeze(), providers=["CUDA"])
    lane = session.lane([(1, 6, 1)], inputs=LaneMemory.allocated(MemoryInfo.cuda()))
    assert lane.audit().allocations == ("y: its shape depends on the data",)
