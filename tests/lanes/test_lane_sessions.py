"""`zrt.lanes.lane_sessions`: sessions that are shared, replicated, or made by the caller."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benches.models import build
from tests.support import models
from zrt import Session, SessionOptions
from zrt.errors import (
    ArgumentError,
    ClosedError,
    DTypeError,
    ModelError,
    ModelNotFoundError,
    OrtError,
    ProviderError,
)
from zrt.lanes.lane_sessions import made, replicated, shared

X = np.ones((2, 64), np.float32)


@pytest.fixture(scope="module")
def mlp() -> onnx.ModelProto:
    return build.mlp(64, 2)


@pytest.fixture(scope="module")
def expected(mlp) -> np.ndarray:
    return Session(mlp).run({"x": X})[0]


@pytest.mark.parametrize("lanes", [0, -1, 1 << 17])
def test_number_of_lanes_out_of_range_raises(lanes):
    session = Session(models.add())
    for source in (
        lambda: shared(session, lanes),
        lambda: replicated(models.add(), lanes),
        lambda: made(lambda _: session, lanes),
    ):
        with pytest.raises(ArgumentError, match=f"lanes: {lanes} is not between 1 and"):
            source()


@pytest.mark.parametrize("lanes", [True, 1.0, "2", None, [1]])
def test_number_of_lanes_is_an_int(lanes):
    session = Session(models.add())
    for source in (
        lambda: shared(session, lanes),
        lambda: replicated(models.add(), lanes),
        lambda: made(lambda _: session, lanes),
    ):
        with pytest.raises(DTypeError, match="lanes: expected an int"):
            source()


def test_shared_returns_the_same_session():
    session = Session(models.add())
    assert shared(session, 3) == [session] * 3
    session.close()
    with pytest.raises(ClosedError, match="Session"):
        shared(session, 1)
    for wrong in (models.add(), "model.onnx", None):
        with pytest.raises(DTypeError, match="session: expected a Session"):
            shared(wrong, 1)


class TestReplicated:
    @pytest.mark.parametrize("share_weights", [False, True])
    def test_loads_a_session_for_each_lane_from_every_form_of_model(self, mlp, expected, tmp_path, share_weights):
        data = mlp.SerializeToString()
        path = tmp_path / "mlp.onnx"
        path.write_bytes(data)
        outside = build.with_external_weights(mlp, tmp_path / "outside")
        forms = [(data, None), (mlp, None), (path, None), (str(path), None), (outside, None)]
        forms.append((outside.read_bytes(), outside.parent))
        for model, folder in forms:
            sessions = replicated(model, 2, share_weights=share_weights, external_data_dir=folder)
            assert sessions[0] is not sessions[1]
            for session in sessions:
                np.testing.assert_array_equal(session.run({"x": X})[0], expected)
        # The caller's model is unchanged.
        assert mlp.SerializeToString() == data

    @pytest.mark.parametrize("share_weights", [False, True])
    def test_options_and_providers_apply_to_each_session(self, mlp, share_weights):
        options = SessionOptions(intra_op_num_threads=1, free_dimension_overrides={"batch": 2})
        # An iterator of providers is read once, for all sessions.
        for session in replicated(mlp, 2, options, iter(["CPU"]), share_weights):
            assert session.inputs[0].shape == (2, 64)
            assert session.providers == ("CPUExecutionProvider",)

    @pytest.mark.parametrize("share_weights", [False, True])
    def test_wrong_input_raises_and_is_named(self, mlp, tmp_path, share_weights):
        outside = build.with_external_weights(mlp, tmp_path)
        truncated = tmp_path / "truncated"
        cut = build.with_external_weights(mlp, truncated)
        weights = truncated / "mlp.weights"
        weights.write_bytes(weights.read_bytes()[:100])
        empty = tmp_path / "empty.onnx"
        empty.touch()
        for model, kwargs, error, words in (
            (tmp_path / "none.onnx", {}, ModelNotFoundError, "none.onnx"),
            (tmp_path, {}, ModelError, "is a directory"),
            (empty, {}, ModelError, "is empty"),
            (b"", {}, ModelError, "is empty"),
            (b"\x7fjunk", {}, (ModelError, OrtError), "model in memory"),
            (7, {}, DTypeError, "model: expected a path"),
            (cut, {}, (ModelError, OrtError), r"layer\d\.w|mlp\.onnx"),
            (outside.read_bytes(), {}, (ModelError, OrtError), r"layer\d\.w|mlp\.weights"),
            (outside.read_bytes(), {"external_data_dir": tmp_path / "none"}, ModelNotFoundError, "external_data_dir"),
            (mlp, {"providers": ["Nonsense"]}, ProviderError, "Nonsense"),
            (mlp, {"options": 5}, DTypeError, "options: expected SessionOptions"),
        ):
            with pytest.raises(error, match=words):
                replicated(model, 2, share_weights=share_weights, **kwargs)

    def test_share_weights_is_a_bool(self, mlp):
        for wrong in (1, "yes", None):
            with pytest.raises(DTypeError, match="share_weights: expected True or False"):
                replicated(mlp, 1, share_weights=wrong)


class TestMade:
    def test_factory_is_called_once_for_each_lane_in_order(self):
        asked = []

        def factory(index: int) -> Session:
            asked.append(index)
            return Session(models.add())

        sessions = made(factory, 3)
        assert asked == [0, 1, 2]
        assert len(set(map(id, sessions))) == 3

    def test_factory_may_return_one_session_twice(self):
        session = Session(models.add())
        assert made(lambda _: session, 2) == [session, session]

    def test_factory_error_propagates(self):
        def factory(index: int) -> Session:
            if index == 1:
                raise KeyError("mine")
            return Session(models.add())

        with pytest.raises(KeyError, match="mine"):
            made(factory, 2)

    @pytest.mark.parametrize("junk", [None, "session", models.add, 5])
    def test_factory_that_returns_no_session_raises(self, junk):
        sessions = [Session(models.add()), junk]
        with pytest.raises(DTypeError, match=f"factory: lane 1 got a {type(junk).__name__}, not a Session"):
            made(lambda index: sessions[index], 2)

    def test_factory_must_be_callable(self):
        with pytest.raises(DTypeError, match="factory: expected a function of a lane's index, got Session"):
            made(Session(models.add()), 1)
