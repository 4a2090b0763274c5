"""`Lane`: runs, failed runs, allocations and lifetimes."""

import inspect
import itertools
import sys
import weakref
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import zrt
from benches.models import build
from tests.support import models
from tests.support.arrays import random
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt import Lane, LaneMemory, RunOptions, Session, SessionOptions
from zrt.bench.machine import resident_bytes
from zrt.errors import BusyError, ClosedError, DTypeError, ShapeError, TerminatedError


@pytest.fixture
def long_run(background):
    """A run of `counting_loop` in another thread, terminated after the block; yields its options."""

    @contextmanager
    def run(lane: Lane):
        options = RunOptions()
        lane.inputs["turns"][...] = 10**15
        job = background(lambda: lane.run_with(options))
        job.under_way()
        try:
            yield options
        finally:
            options.terminate()
        with pytest.raises(TerminatedError):
            job.result()

    return run


@pytest.fixture
def counting() -> Lane:
    return Session(models.counting_loop(), SessionOptions(intra_op_num_threads=1)).lane()


class TestRunning:
    def test_run_with_options(self):
        lane = Session(models.add()).lane()
        lane.inputs["x"][...] = 1
        lane.run_with(RunOptions(tag="tagged", log_severity_level="ERROR"))
        np.testing.assert_array_equal(lane.outputs["z"], np.ones(4, np.float32))
        with pytest.raises(DTypeError, match="options: expected RunOptions"):
            lane.run_with(None)

    def test_lane_is_usable_after_a_terminated_run(self, counting, long_run):
        with long_run(counting) as options:
            pass
        counting.inputs["turns"][...] = 3
        with pytest.raises(TerminatedError):
            counting.run_with(options)
        options.reset()
        counting.run_with(options)
        np.testing.assert_array_equal(counting.outputs["end"], np.array([3, 3], np.float32))
        counting.run()

    def test_second_thread_raises_busy_error(self, counting, long_run):
        with long_run(counting):
            for use in (
                counting.run,
                lambda: counting.run_with(RunOptions()),
                counting.prime,
                counting.audit,
                counting.run_with_allocator_stats,
            ):
                with pytest.raises(BusyError, match="this Lane is in use by another thread"):
                    use()
        np.testing.assert_array_equal(run_on(counting, turns=2)["end"], np.array([2, 2], np.float32))

    def test_reading_a_left_output_during_a_run_raises_busy_error(self, long_run):
        session = Session(models.counting_loop(), SessionOptions(intra_op_num_threads=1))
        lane = session.lane(outputs=LaneMemory.left())
        with long_run(lane), pytest.raises(BusyError, match="this Lane"):
            lane.outputs["end"]

    def test_prime(self, counting):
        counting.inputs["turns"][...] = 1
        before = counting.session.allocator().stats().num_allocs
        counting.prime(3)
        each = (counting.session.allocator().stats().num_allocs - before) // 3
        counting.prime()
        assert counting.session.allocator().stats().num_allocs - before == 4 * each > 0
        counting.prime(0)
        assert counting.session.allocator().stats().num_allocs - before == 4 * each

    def test_allocator_statistics_around_a_run(self):
        session = Session(build.cnn().SerializeToString())
        lane = session.lane([(1, 1, 28, 28)])
        lane.prime(2)
        stats = lane.run_with_allocator_stats()
        assert stats.delta.num_allocs == stats.after.num_allocs - stats.before.num_allocs > 0
        assert stats.delta.bytes_in_use == 0
        # A run allocates only an intermediate block, which the arena has already.
        assert stats.delta.num_arena_extensions == 0
        left = session.lane([(1, 1, 28, 28)], outputs=LaneMemory.left())
        left.prime(2)
        assert left.run_with_allocator_stats(session.allocator()).delta.num_allocs == stats.delta.num_allocs + 1

    def test_runs_allocate_no_python_memory(self, script):
        for measured in script("run_allocations.py").stdout.splitlines():
            nothing, *runs = measured.split()
            # Runs allocate as much as a call of an empty function, both in blocks that stay and in the peak.
            assert runs == [nothing] * 3


class TestBuiltin:
    """`Lane.run` without arguments is C's alone."""

    def test_run_has_no_frame_of_python(self, counting):
        functions = []
        run = counting.run
        sys.setprofile(lambda frame, event, _: functions.append(frame.f_code.co_name) if event == "call" else None)
        try:
            counting.run()
            run()
        finally:
            sys.setprofile(None)
        assert functions == []

    def test_it_shows_its_arguments_and_its_text(self, counting):
        assert list(inspect.signature(Lane.run).parameters) == ["self", "timeout"]
        assert list(inspect.signature(counting.run).parameters) == ["timeout"]
        assert "timeout" in inspect.getdoc(Lane.run)

    def test_arguments_are_checked(self, counting):
        for arguments, names in ((("soon", 1), {}), ((), {"limit": 1}), ((1,), {"timeout": 1})):
            with pytest.raises(TypeError, match=r"run\(\)"):
                counting.run(*arguments, **names)
        counting.run(None)
        counting.run(timeout=None)

    def test_feeds_of_a_run_are_written_before(self, counting):
        with pytest.raises(DTypeError, match="a lane's run takes no feeds: write them into `inputs`"):
            counting.run({"x": np.zeros(1, np.float32)})

    def test_it_takes_lanes_only(self, counting):
        for other in (3, counting.session, object()):
            with pytest.raises(TypeError, match="Lane"):
                Lane.run(other)
        with pytest.raises(ClosedError):
            Lane.run(Lane.__new__(Lane))

    def test_a_subclass_may_replace_it(self):
        class Doubled(Lane):
            def run(self, timeout=None):
                self.inputs["x"][...] *= 2
                super().run(timeout)
                super().run()

        lane = Doubled(Session(models.add()))
        np.testing.assert_array_equal(run_on(lane, x=1)["z"], np.full(4, 2, np.float32))

    def test_other_threads_of_python_go_on(self, counting, background):
        busy = counting._open().pointer
        counting.inputs["turns"][...] = 200_000
        job = background(counting.run)
        seen = 0
        while job.running:
            seen += busy.busy
        assert seen > 0


@pytest.mark.official
@pytest.mark.parametrize("name", ["cnn", pytest.param("squeezenet", marks=pytest.mark.onnx_data("light"))])
def test_8_lanes_in_8_threads_agree_with_onnxruntime(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    data = build.MODELS[name]().SerializeToString()
    session = Session(data, SessionOptions(intra_op_num_threads=1))
    official_options = onnxruntime.SessionOptions()
    official_options.intra_op_num_threads = 1
    official = onnxruntime.InferenceSession(data, official_options, providers=["CPUExecutionProvider"])
    (image,) = session.inputs
    shape = tuple(size if isinstance(size, int) else 2 for size in image.shape)
    images = [random(seed, shape) for seed in range(16)]
    expected = [official.run(None, {image.name: each}) for each in images]
    runtime = zrt.Runtime(session, lanes=8, shapes=[shape])

    def serve(number: int) -> None:
        for turn in range(len(images)):
            index = (number + turn) % len(images)
            outputs = run_on(runtime[number], **{image.name: images[index]})
            for output, wanted in zip(outputs.values(), expected[index], strict=True):
                np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-6)

    in_threads(*(partial(serve, number) for number in range(8)))


class TestLifetimes:
    def test_view_stays_when_the_lane_is_closed(self):
        with Session(models.add()).lane() as lane:
            view = lane.inputs["x"]
            view[...] = 5
            assert not lane.closed
        lane.close()
        assert lane.closed
        np.testing.assert_array_equal(view, np.full(4, 5, np.float32))
        assert repr(lane) == "Lane(closed)"

    def test_a_run_that_was_taken_before_the_close_raises(self, counting):
        run = counting.run
        counting.close()
        for arguments in ((), (1,)):
            with pytest.raises(ClosedError, match="this Lane is closed"):
                run(*arguments)

    def test_lane_works_after_its_session_is_closed(self):
        session = Session(models.non_zero())
        lane, other = session.lane(), session.lane(outputs=LaneMemory.left())
        session.close()
        with pytest.raises(ClosedError, match="this Session is closed"):
            session.lane()
        for each in (lane, other):
            each.inputs["x"][...] = [0, 1, 0, 1]
            each.prime(2)
            np.testing.assert_array_equal(each.outputs["indices"], [[1, 3]])
            assert each.run_with_allocator_stats().after.num_allocs >= 0
            each.audit().require_zero_copy()

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_closed_and_dropped_in_any_order(self, order):
        session = Session(models.double())
        runtime = zrt.Runtime(session, 2, shapes=[(1, 4)])
        lane = session.lane([(1, 4)], outputs=LaneMemory.left())
        for each in (*runtime, lane):
            run_on(each, x=4)
        views = [(each.inputs["x"], each.outputs["y"]) for each in (*runtime, lane)]
        owners = [session, runtime, lane]
        del session, runtime, lane, each
        for index in order:
            owners[index].close()
            owners[index] = None
            for x, y in views:
                np.testing.assert_array_equal(x, np.full((1, 4), 4, np.float32))
                np.testing.assert_array_equal(y, np.full((1, 4), 8, np.float32))

    def test_closing_during_a_run_lets_it_end(self, counting, long_run):
        with long_run(counting):
            view = counting.outputs["end"]
            counting.close()
            with pytest.raises(ClosedError):
                counting.run()
        assert view.shape == (2,)

    @pytest.mark.usefixtures("collector_off")
    @pytest.mark.parametrize("outputs", [LaneMemory.buffers(), LaneMemory.allocated(), LaneMemory.left()])
    def test_freed_by_reference_counting_alone(self, outputs):
        session = Session(models.non_zero("size"))
        lane = session.lane([(4,)], outputs=outputs)
        lane.run()
        lane.audit()
        dead = [weakref.ref(lane), weakref.ref(session), weakref.ref(lane._open())]
        view = lane.outputs["indices"]
        del lane, session
        assert [ref() for ref in dead] == [None] * 3
        assert view.shape == (1, 0)

    @pytest.mark.usefixtures("collector_off")
    def test_failed_run_keeps_no_reference_to_the_lane(self):
        lane = Session(models.non_zero()).lane(output_shapes={"indices": (1, 2)})
        dead = weakref.ref(lane)
        with pytest.raises(ShapeError):
            lane.run()
        del lane
        assert dead() is None

    def test_view_may_be_the_last_owner_of_a_session(self, script):
        """The release of the session waits for threads that need the GIL."""
        script("view_owns_session.py")

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_close_frees_the_memory_at_once(self):
        # Two buffers of 64 MiB; the Lane object itself is still alive.
        lane = Session(models.double(("n",))).lane([(16 << 20,)])
        lane.run()
        full = resident_bytes()
        lane.close()
        assert full - resident_bytes() > 120 << 20

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_making_and_dropping_lanes_leaks_no_memory(self, script):
        # The script makes 1,800 lanes; a leak of one lane in each round would be about 1 MiB.
        assert int(script("lanes_in_a_loop.py").stdout) < 512 << 10
