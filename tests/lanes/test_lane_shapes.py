"""`zrt.lanes.lane_shapes`: a lane's shapes are given, solved from the inputs' shapes, or found by trial runs."""

import tracemalloc
import weakref

import numpy as np
import pytest

from tests.support import models
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt import DynamicRuntime, LaneMemory, Runtime, Session
from zrt.errors import AllocationError, ArgumentError, DTypeError, ShapeError, UnknownNameError
from zrt.lanes import lane_shapes
from zrt.lanes.lane_shapes import DEPENDS_ON_DATA, NOT_TRIED, ON_DEVICE
from zrt.memory.buffers import Buffer
from zrt.types import ElementType
from zrt.values.value import Value


def outputs(session: Session, shapes=None, output_shapes=None, **options) -> dict[str, tuple[int, ...] | str]:
    """The outputs of a lane: the shape of each, or why ORT allocates it."""
    audit = session.lane(shapes, output_shapes, **options).audit()
    return {port.name: port.allocates or port.shape for port in audit.outputs}


class TestSolvedShapes:
    def test_contradicting_inputs_resolve_no_output(self):
        session = Session(models.tokens())
        assert outputs(session, [(3, 5), (1, 5)], trials=False) == {"score": NOT_TRIED}
        # ORT broadcasts these inputs, so trial runs find the shape.
        assert outputs(session, [(3, 5), (1, 5)]) == {"score": (3,)}

    def test_given_output_shapes_win(self):
        session = Session(models.tokens())
        assert outputs(session, [(3, 5), (1, 5)], {"score": [3]}, trials=False) == {"score": (3,)}
        assert outputs(session, [(3, 5), (3, 5)], {"score": (9,)}) == {"score": (9,)}

    def test_memory_in_the_place_of_a_shape_is_refused(self):
        session, array = Session(models.double()), np.zeros((2, 4), np.float32)
        words = r"{} '{}': expected a shape, got .* given by {}s={{'{}': \.\.\.}}"
        for memory in (array, Value.from_array(array), Buffer((2, 4), np.float32)):
            for shapes in ({"x": memory}, [memory]):
                with pytest.raises(ShapeError, match=words.format("input", "x", "input", "x")):
                    session.lane(shapes)
            with pytest.raises(ShapeError, match=words.format("output", "y", "output", "y")):
                session.lane({"x": (2, 4)}, {"y": memory})
        assert session.lane({"x": np.array([2, 4])}).inputs["x"].shape == (2, 4)

    def test_known_shapes_need_no_trial_runs(self, trials):
        for model, shapes in ((models.tokens(), [(3, 5)] * 2), (models.mixed(), None), (models.double(), [(2, 4)])):
            Session(model).lane(shapes)
        Session(models.non_zero()).lane(output_shapes={"indices": (1, 0)})
        Session(models.non_zero()).lane(outputs=LaneMemory.left())
        assert trials == []
        # Zeros do not make the given shape: one trial run shows that the inputs' shapes are right.
        Session(models.non_zero()).lane(output_shapes={"indices": (1, 4)})
        assert len(trials) == 1
        Session(models.non_zero()).lane()
        assert len(trials) == 1 + 3

    def test_ports_without_memory_have_a_reason(self, trials):
        assert outputs(Session(models.to_strings())) == {"y": "holds strings"}
        assert outputs(Session(models.to_sequence())) == {"y": "is a sequence"}
        assert outputs(Session(models.passing_through())) == {
            "x": "is an input as well, and ORT returns that input's memory",
            "y": (3,),
        }
        assert trials == []


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
    def test_find_shapes_that_follow_from_the_inputs_shapes(self, trials, model, shapes, expected):
        session = Session(model())
        assert outputs(session, shapes) == {session.outputs[0].name: expected}
        assert len(trials) == 3
        lane = session.lane(shapes)
        assert not lane.inputs[0].any()
        lane.inputs[0].flat = [number % 2 for number in range(lane.inputs[0].size)]
        np.testing.assert_array_equal(run_on(lane)[0], session.run([lane.inputs[0]])[0])
        lane.audit().require_zero_copy()

    def test_leave_shapes_that_depend_on_the_data(self, trials):
        session = Session(models.non_zero())
        assert outputs(session) == {"indices": DEPENDS_ON_DATA}
        for _ in range(2):
            lane = session.lane()
        # The result is kept, although it is no shape.
        assert len(trials) == 3
        assert not lane.inputs["x"].any()

    def test_failed_trial_leaves_the_output_to_ort(self, capfd):
        session = Session(models.picky_reshape())
        assert outputs(session)["y"].startswith("a trial run failed, so its shape is not known; samples gives")
        lane = session.lane()
        assert not any(view.any() for view in lane.inputs.values())
        # ORT does not log the failure of a trial.
        assert capfd.readouterr() == ("", "")
        for shape in ((2, 3), (6, 1)):
            np.testing.assert_array_equal(
                run_on(lane, x=range(6), shape=shape)["y"], np.arange(6, dtype=np.float32).reshape(shape)
            )

    def test_each_output_is_resolved_by_itself(self):
        model = """
            (float[a, b] x) => (int64[2, n] indices, float[] squeezed, float[a, b] negative, string[] words) {
                indices = NonZero(x)
                squeezed = Squeeze(x)
                negative = Neg(x)
                words = Cast <to = 8> (x)
            }
        """
        lane = Session(models.parse(model)).lane([(1, 3)])
        assert {port.name: port.allocates for port in lane.audit().outputs} == {
            "indices": "its shape depends on the data",
            "squeezed": "",
            "negative": "",
            "words": "holds strings",
        }
        assert lane.outputs["squeezed"].shape == (3,)
        np.testing.assert_array_equal(run_on(lane, x=[[0, 2, 3]])["indices"], [[0, 0], [1, 2]])
        np.testing.assert_array_equal(lane.outputs["squeezed"], [0, 2, 3])

    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.refused], ids=lambda kind: kind.name
    )
    def test_data_is_made_for_every_type(self, kind):
        """Zeros, then ones, then other finite numbers."""
        value = Value.from_buffer(Buffer((64,), kind))
        seen = []
        for trial in range(3):
            lane_shapes._fill(value.numpy(), kind, trial, np.random.default_rng(0))
            seen.append(value.numpy().copy())
        if not kind.packed:
            zeros, ones, others = (array.astype(np.float64) for array in seen)
            np.testing.assert_array_equal(ones, np.ones(64))
            # float8e8m0 has no zero, and 0 becomes NaN.
            zero = np.nan if kind is ElementType.FLOAT8E8M0 else 0
            np.testing.assert_array_equal(zeros, np.full(64, zero))
            assert len(np.unique(others)) > 1
            assert np.isfinite(others).any()
        assert not np.array_equal(seen[0], seen[1])


SHAPES = {"x": (1, 6, 1)}


class TestKeptResults:
    def test_lanes_of_one_session_share_the_trial_runs(self, trials):
        session = Session(models.squeeze())
        for _ in range(3):
            assert session.lane(SHAPES).outputs["y"].shape == (6,)
        assert len(trials) == 3
        assert session.lane({"x": (1, 5, 1)}).outputs["y"].shape == (5,)
        assert len(trials) == 6

    def test_dynamic_runtime_runs_trials_once_for_each_bucket(self, trials):
        runtime = DynamicRuntime(Session(models.squeeze()), lanes=4, max_buckets=2)
        runtime.prebuild([{"x": (1, size, 1)} for size in (2, 3)])
        runtime.prebuild([{"x": (1, size, 1)} for size in (4, 5)])
        assert len(trials) == 4 * 3
        # A bucket that is made again after its eviction needs no trials.
        assert runtime.lane({"x": (1, 2, 1)}).outputs["y"].shape == (2,)
        assert runtime.counters.misses == 5
        assert len(trials) == 4 * 3

    @pytest.mark.parametrize("share_weights", [False, True])
    def test_replicated_sessions_share_the_trial_runs(self, trials, share_weights):
        runtime = Runtime.replicate(models.squeeze(), lanes=8, share_weights=share_weights, shapes=SHAPES)
        assert len(set(runtime.sessions)) == 8
        assert {lane.outputs["y"].shape for lane in runtime} == {(6,)}
        assert len(trials) == 3

    def test_sessions_of_a_factory_run_trials_of_their_own(self, trials):
        different = [models.squeeze(), models.flatten_of_unknown_rank()]
        runtime = Runtime.from_factory(lambda index: Session(different[index]), lanes=2, shapes=SHAPES)
        assert [lane.outputs["y"].shape for lane in runtime] == [(6,), (1, 6)]
        assert len(trials) == 6

    def test_lanes_without_trials_neither_store_nor_use_results(self, trials):
        session = Session(models.squeeze())
        assert outputs(session, SHAPES, trials=False) == {"y": NOT_TRIED}
        assert outputs(session, SHAPES) == {"y": (6,)}
        assert outputs(session, SHAPES, trials=False) == {"y": NOT_TRIED}
        assert len(trials) == 3

    @pytest.mark.parametrize("failing", [0, 1, 2])
    @pytest.mark.parametrize("error", [AllocationError, KeyboardInterrupt])
    def test_failure_is_not_kept(self, monkeypatch, error, failing):
        session = Session(models.squeeze())
        run_trial, runs = lane_shapes._run_trial, []

        def fails(binding):
            runs.append(1)
            if len(runs) == failing + 1:
                raise error("no memory")
            return run_trial(binding)

        monkeypatch.setattr(lane_shapes, "_run_trial", fails)
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                session.lane(SHAPES)
        else:
            (sentence,) = session.lane(SHAPES).audit().allocations
            assert sentence.startswith("y: a trial run failed, so its shape is not known")
        assert session.lane(SHAPES).outputs["y"].shape == (6,)
        assert len(runs) == failing + 1 + 3

    def test_data_of_trials_takes_no_memory_beside_the_inputs(self, load):
        session = load("(float[n] x) => (int64[1, k] y) { y = NonZero(x) }")
        tracemalloc.start()
        try:
            session.lane({"x": (1 << 20,)})
            _, highest = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert highest < 4 << 20

    def test_no_memory_for_the_trials_data_is_not_kept(self, monkeypatch):
        session = Session(models.squeeze())

        def refuse(*_):
            raise AllocationError("no memory")

        with monkeypatch.context() as patch:
            patch.setattr(lane_shapes, "Buffer", refuse)
            assert session.lane(SHAPES).audit().allocations
        assert session.lane(SHAPES).outputs["y"].shape == (6,)

    @pytest.mark.usefixtures("collector_off")
    def test_results_keep_no_session_alive(self):
        session = Session(models.squeeze())
        replicas = Runtime.replicate(models.squeeze(), lanes=2, shapes=SHAPES)
        session.lane(SHAPES)
        dead = [weakref.ref(each) for each in (session, *replicas.sessions)]
        del session, replicas
        assert [ref() for ref in dead] == [None] * 3

    def test_number_of_results_is_bounded(self, monkeypatch, trials):
        monkeypatch.setattr(lane_shapes, "RESULTS_KEPT", 4)
        session = Session(models.squeeze())
        for size in range(2, 20):
            assert outputs(session, {"x": (1, size, 1)}) == {"y": (size,)}
        assert len(trials) == 18 * 3
        for size, runs in ((19, 0), (2, 3)):
            del trials[:]
            outputs(session, {"x": (1, size, 1)})
            assert len(trials) == runs

    def test_threads_agree(self):
        session = Session(models.squeeze())

        def resolve_all() -> None:
            for size in range(2, 30):
                assert outputs(session, {"x": (1, size, 1)})["y"] == (size,)

        in_threads(*[resolve_all] * 8)


@pytest.mark.gpu
def test_inputs_on_a_device_get_no_trial_runs():
    from zrt import MemoryInfo

    session = Session(models.squeeze(), providers=["CUDA"])
    lane = session.lane([(1, 6, 1)], inputs=LaneMemory.allocated(MemoryInfo.cuda()))
    assert lane.audit().allocations == (f"y: {ON_DEVICE}",)


@pytest.mark.parametrize(
    ("output_shapes", "error", "words"),
    [
        ({"q": (1,)}, UnknownNameError, "output_shapes: the model has no output 'q'"),
        ([(1,)] * 3, ArgumentError, "output_shapes: the model has"),
        (5, DTypeError, "output_shapes: expected a dict or a list"),
    ],
)
def test_wrong_output_shapes_are_named(add, output_shapes, error, words):
    with pytest.raises(error, match=f"^{words}"):
        add.lane({"x": (1,), "y": (1,)}, output_shapes=output_shapes)
