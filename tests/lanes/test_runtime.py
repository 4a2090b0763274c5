"""`Runtime`: lanes over one session, over replicated sessions, or over those of a factory."""

import gc
import weakref
from functools import partial

import numpy as np
import onnx
import pytest

import zrt
from benches.models import build
from tests.support import models
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt import BufferPolicy, DynamicRuntime, Lane, LaneMemory, Runtime, Session, SessionOptions
from zrt.errors import (
    ClosedError,
    DTypeError,
    ModelError,
    ModelNotFoundError,
    OrtError,
    ProviderError,
    ShapeError,
    UnknownNameError,
)


def over_shared(lanes: int, **arguments) -> Runtime:
    return Runtime(Session(models.double()), lanes, **arguments)


over_replicas = partial(Runtime.replicate, models.double())

SOURCES = {
    "shared": over_shared,
    "replicated": over_replicas,
    "sharing": partial(over_replicas, share_weights=True),
    "factory": partial(Runtime.from_factory, lambda _: Session(models.double())),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
class TestEverySource:
    def test_lanes_have_memory_of_their_own_and_run_in_threads(self, source):
        runtime = source(4, shapes={"x": (8, 4)})
        assert len({ports[0].ctypes.data for lane in runtime for ports in (lane.inputs, lane.outputs)}) == 8

        def serve(number: int) -> None:
            for step in range(number * 1000, number * 1000 + 200):
                assert (run_on(runtime[number], x=step)["y"] == 2 * step).all()

        in_threads(*(partial(serve, number) for number in range(4)))

    def test_lane_options_apply_to_every_lane(self, source):
        policy = BufferPolicy(alignment=4096)
        runtime = source(
            2,
            shapes=[(2, 4)],
            output_shapes=[(2, 4)],
            inputs=LaneMemory.buffers(policy),
            outputs=LaneMemory.left(),
            rebind_inputs=True,
            synchronize=True,
        )
        audits = runtime.audit()
        assert len(audits) == 2
        for lane, audit in zip(runtime, audits, strict=True):
            assert audit.synchronize
            assert audit.inputs[0].rebound
            assert audit.inputs[0].policy == str(policy)
            assert audit.inputs[0].address == lane.inputs["x"].ctypes.data
            assert audit.outputs[0].kind == "left"
            audit.require_zero_copy()

    def test_wrong_lane_options_raise(self, source):
        with pytest.raises(ShapeError, match=r"input 'x'.*\[batch, 4\] is open"):
            source(1)
        with pytest.raises(UnknownNameError, match="no input 'z'"):
            source(1, shapes={"z": (1, 4)})

    def test_close_releases_lanes_and_sessions(self, source):
        with source(2, shapes=[(1, 4)]) as runtime:
            view = runtime[1].outputs["y"]
            sessions = [weakref.ref(session) for session in runtime.sessions]
            runtime.prime()
        runtime.close()
        for use in (runtime.prime, runtime.audit, runtime[0].run, lambda: runtime.sessions):
            with pytest.raises(ClosedError, match="this Lane is closed"):
                use()
        # A closed runtime holds neither memory nor sessions, though the object is still alive.
        gc.collect()
        assert [session() for session in sessions] == [None] * 2
        assert view.shape == (1, 4)


class TestSessions:
    @pytest.mark.parametrize("kind", [Runtime, DynamicRuntime])
    def test_unknown_keyword_raises_before_sessions_are_made(self, kind):
        words = f"^{kind.__name__}: unexpected keyword argument 'shape'; its lanes take inputs, .*, samples, state"
        for make in (
            partial(kind, Session(models.double())),
            partial(kind.replicate, "no such file"),
            partial(kind.from_factory, pytest.fail),
            partial(Runtime.over, []) if kind is Runtime else partial(kind, "no session"),
        ):
            with pytest.raises(DTypeError, match=words):
                make(shape=[(1, 4)])

    def test_sessions_are_shared_or_one_for_each_lane(self):
        session = Session(models.double())
        assert Runtime(session, 2, shapes=[(1, 4)]).sessions == (session, session)
        assert len(set(map(id, over_replicas(2, shapes=[(1, 4)]).sessions))) == 2

    def test_callers_session_stays_open(self):
        session = Session(models.double())
        Runtime(session, 2, shapes=[(1, 4)]).close()
        session.run([np.zeros((1, 4), np.float32)])

    def test_over_takes_given_sessions(self):
        sessions = [Session(models.double()), Session(models.double())]
        assert Runtime.over(sessions, shapes=[(1, 4)]).sessions == tuple(sessions)


X = np.ones((2, 64), np.float32)


class TestReplicas:
    @pytest.fixture
    def mlp(self) -> onnx.ModelProto:
        return build.mlp(64, 2)

    @pytest.fixture
    def expected(self, mlp) -> np.ndarray:
        return Session(mlp).run({"x": X})[0]

    @pytest.mark.parametrize("share_weights", [False, True])
    def test_loads_a_session_for_each_lane_from_every_form_of_model(self, mlp, expected, tmp_path, share_weights):
        data = mlp.SerializeToString()
        path = tmp_path / "mlp.onnx"
        path.write_bytes(data)
        outside = build.with_external_weights(mlp, tmp_path / "outside")
        forms = [(data, None), (mlp, None), (path, None), (str(path), None), (outside, None)]
        forms.append((outside.read_bytes(), outside.parent))
        for model, folder in forms:
            runtime = Runtime.replicate(
                model, 2, share_weights=share_weights, external_data_dir=folder, shapes=[(2, 64)]
            )
            assert runtime[0].session is not runtime[1].session
            for session in runtime.sessions:
                np.testing.assert_array_equal(session.run({"x": X})[0], expected)
        # The caller's model is unchanged.
        assert mlp.SerializeToString() == data

    @pytest.mark.parametrize("share_weights", [False, True])
    def test_weights_are_those_of_the_options_folder(self, tmp_path, share_weights):
        """Others lie beside the model."""
        path = models.save_apart(models.weighted(), tmp_path / "m.onnx", "w.bin")
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "w.bin").write_bytes(np.full(64, 5, np.float32).tobytes())
        key = zrt.SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH
        options = zrt.SessionOptions(config_entries={key: str(tmp_path / "new")})
        for session in Runtime.replicate(path, 2, options, share_weights=share_weights).sessions:
            assert set(session.run([np.ones(64, np.float32)])[0].tolist()) == {6.0}

    def test_weights_of_an_old_model_are_shared(self):
        """Before IR version 4 each weight has to be an input too, and no run may feed it."""
        proto = models.parsed("(float[4096] x) => (float[4096] y) { y = Add(x, w) }", w=np.ones(4096, np.float32))
        proto.ir_version = 3
        proto.opset_import[0].version = 8
        proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4096]))
        [info] = zrt.list_initializers(proto)
        assert not info.overridable
        assert list(zrt.read_weights(proto)) == ["w"]
        for session in Runtime.replicate(proto, 2, share_weights=True).sessions:
            assert session.initializers == ()
            assert set(session.run([np.ones(4096, np.float32)])[0].tolist()) == {2.0}

    def test_initializers_of_a_wrong_type(self, mlp):
        options = zrt.SessionOptions(initializers=[np.ones(1)])
        with pytest.raises(DTypeError, match="initializers"):
            Runtime.replicate(mlp, 2, options, share_weights=True)

    @pytest.mark.parametrize("share_weights", [False, True])
    def test_options_and_providers_apply_to_each_session(self, mlp, share_weights):
        options = SessionOptions(intra_op_num_threads=1, free_dimension_overrides={"batch": 2})
        # An iterator of providers is read once, for all sessions.
        for session in Runtime.replicate(mlp, 2, options, iter(["CPU"]), share_weights=share_weights).sessions:
            assert session.inputs[0].shape == (2, 64)
            assert session.providers == ("CPUExecutionProvider",)

    @pytest.mark.parametrize("share_weights", [False, True])
    def test_wrong_input_raises_and_is_named(self, mlp, tmp_path, share_weights):
        outside = build.with_external_weights(mlp, tmp_path)
        truncated = tmp_path / "truncated"
        cut = build.with_external_weights(mlp, truncated)
        weights = truncated / "mlp.weights"
        weights.write_bytes(weights.read_bytes()[:100])
        for model, kwargs, error, words in (
            (cut, {}, (ModelError, OrtError), r"layer\d\.w|mlp\.onnx"),
            (outside.read_bytes(), {}, (ModelError, OrtError), r"layer\d\.w|mlp\.weights"),
            (outside.read_bytes(), {"external_data_dir": tmp_path / "none"}, ModelNotFoundError, "external_data_dir"),
            (mlp, {"providers": ["Nonsense"]}, ProviderError, "Nonsense"),
            (mlp, {"options": 5}, DTypeError, "options: expected SessionOptions"),
        ):
            with pytest.raises(error, match=words):
                Runtime.replicate(model, 2, share_weights=share_weights, **kwargs)


class TestFactory:
    def test_it_is_called_once_for_each_lane_in_order(self):
        asked = []
        pair = [Session(models.double()), Session(models.double())]

        def factory(index: int) -> Session:
            asked.append(index)
            return pair[index % 2]

        runtime = Runtime.from_factory(factory, 4, shapes=[(1, 4)])
        assert asked == [0, 1, 2, 3]
        assert runtime.sessions == (*pair, *pair)

    def test_its_error_propagates(self):
        def factory(index: int) -> Session:
            if index == 1:
                raise KeyError("mine")
            return Session(models.add())

        with pytest.raises(KeyError, match="mine"):
            Runtime.from_factory(factory, 2)


class TestAsASequence:
    def test_indexing_length_iteration(self):
        runtime = over_shared(3, shapes=[(1, 4)])
        assert len(runtime) == len(runtime.lanes) == 3
        assert list(runtime) == list(runtime.lanes)
        assert all(isinstance(lane, Lane) for lane in runtime)
        assert runtime[0] is runtime.lanes[0]
        assert runtime[-1] is runtime.lanes[2]
        with pytest.raises(DTypeError, match="lane: expected an index, got slice"):
            runtime[0:1]
        assert len(over_shared(1, shapes=[(1, 4)])) == 1

    def test_prime_runs_every_lane(self):
        runtime = over_replicas(2, shapes=[(1, 4)])
        # The first of these lanes runs once while it is made.
        left = Runtime.over(runtime.sessions, shapes=[(1, 4)], outputs=LaneMemory.left())
        before = [session.allocator().stats().num_allocs for session in runtime.sessions]
        left.prime(3)
        after = [session.allocator().stats().num_allocs for session in runtime.sessions]
        assert [late - early for early, late in zip(before, after, strict=True)] == [3, 3]


@pytest.mark.usefixtures("collector_off")
def test_freed_by_reference_counting_alone():
    runtime = over_replicas(2, shapes=[(1, 4)])
    runtime.prime()
    dead = [weakref.ref(each) for each in (runtime, *runtime, *runtime.sessions)]
    view = runtime[0].outputs["y"]
    del runtime
    assert [ref() for ref in dead] == [None] * 5
    assert view.shape == (1, 4)


@pytest.mark.gpu
def test_lanes_on_a_device():
    runtime = Runtime(Session(build.cnn(), providers=["CUDA"]), 2, shapes=[(2, 1, 28, 28)])
    for number, lane in enumerate(runtime):
        lane.inputs["image"][...] = number
    runtime.prime(2)
    assert not np.array_equal(runtime[0].outputs["logits"], runtime[1].outputs["logits"])
