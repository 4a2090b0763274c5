"""`Runtime`: lanes over one session, over replicated sessions, or over those of a factory."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from benches.models import build
from tests.support import models
from zrt import BufferPolicy, Lane, LaneMemory, Runtime, Session, SessionOptions
from zrt.errors import ArgumentError, ClosedError, DTypeError, OutOfRangeError, ShapeError, UnknownNameError


def over_shared(lanes: int, **arguments) -> Runtime:
    return Runtime(Session(models.double()), lanes, **arguments)


def over_replicas(lanes: int, **arguments) -> Runtime:
    return Runtime.replicate(models.double(), lanes, **arguments)


def over_sharing_replicas(lanes: int, **arguments) -> Runtime:
    return Runtime.replicate(models.double(), lanes, share_weights=True, **arguments)


def over_a_factory(lanes: int, **arguments) -> Runtime:
    return Runtime.from_factory(lambda _: Session(models.double()), lanes, **arguments)


SOURCES = [over_shared, over_replicas, over_sharing_replicas, over_a_factory]


@pytest.mark.parametrize("source", SOURCES)
class TestEverySource:
    def test_lanes_have_memory_of_their_own(self, source):
        runtime = source(3, shapes=[(2, 4)])
        for number, lane in enumerate(runtime):
            lane.inputs["x"][...] = number
        for lane in runtime:
            lane.run()
        for number in range(3):
            np.testing.assert_array_equal(runtime[number].outputs["y"], np.full((2, 4), 2 * number, np.float32))
        assert len({lane.inputs["x"].ctypes.data for lane in runtime}) == 3

    def test_lanes_run_in_threads(self, source):
        runtime = source(4, shapes={"x": (8, 4)})
        start = threading.Barrier(4)

        def serve(number: int) -> bool:
            lane = runtime[number]
            start.wait()
            right = True
            for step in range(200):
                lane.inputs["x"][...] = number * 1000 + step
                lane.run()
                right &= bool((lane.outputs["y"] == 2 * (number * 1000 + step)).all())
            return right

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(serve, range(4)))

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
        with pytest.raises(TypeError, match="shape"):
            source(1, shape=[(1, 4)])
        with pytest.raises(ArgumentError, match="lanes: 0"):
            source(0, shapes=[(1, 4)])

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
    def test_unknown_keyword_raises_before_sessions_are_made(self):
        words = (
            "Runtime: unexpected keyword argument 'shape'; its lanes take inputs, .*, samples, state, shapes, output_"
        )
        for make in (
            over_shared,
            lambda _, **options: Runtime.replicate("no such file", **options),
            lambda _, **options: Runtime.from_factory(pytest.fail, **options),
            lambda _, **options: Runtime.over([], **options),
        ):
            with pytest.raises(DTypeError, match=words):
                make(1, shape=[(1, 4)])

    def test_sessions_are_shared_or_one_for_each_lane(self):
        session = Session(models.double())
        assert Runtime(session, 2, shapes=[(1, 4)]).sessions == (session, session)
        assert len(set(map(id, over_replicas(2, shapes=[(1, 4)]).sessions))) == 2

    def test_options_reach_every_replica(self):
        options = SessionOptions(free_dimension_overrides={"batch": 3})
        runtime = Runtime.replicate(models.double(), 2, options, ["CPU"])
        assert [lane.inputs["x"].shape for lane in runtime] == [(3, 4)] * 2

    def test_callers_session_stays_open(self):
        session = Session(models.double())
        Runtime(session, 2, shapes=[(1, 4)]).close()
        assert not session.closed
        session.run([np.zeros((1, 4), np.float32)])

    def test_lanes_work_after_the_session_is_closed(self):
        session = Session(models.double())
        runtime = Runtime(session, 2, shapes=[(1, 4)])
        session.close()
        runtime.prime(2)
        with pytest.raises(ClosedError, match="this Session is closed"):
            Runtime(session, 1, shapes=[(1, 4)])

    def test_over_takes_given_sessions(self):
        sessions = [Session(models.double()), Session(models.double())]
        assert Runtime.over(sessions, shapes=[(1, 4)]).sessions == tuple(sessions)
        with pytest.raises(ArgumentError, match="sessions: a runtime has at least one lane"):
            Runtime.over([])
        with pytest.raises(DTypeError, match="session: expected a Session, got str"):
            Runtime.over(["session"])

    def test_factory_may_return_a_session_twice(self):
        pair = [Session(models.double()), Session(models.double())]
        runtime = Runtime.from_factory(lambda index: pair[index % 2], 4, shapes=[(1, 4)])
        assert runtime.sessions == (pair[0], pair[1], pair[0], pair[1])


class TestAsASequence:
    def test_indexing_length_iteration(self):
        runtime = over_shared(3, shapes=[(1, 4)])
        assert len(runtime) == len(runtime.lanes) == 3
        assert list(runtime) == list(runtime.lanes)
        assert all(isinstance(lane, Lane) for lane in runtime)
        assert runtime[0] is runtime.lanes[0]
        assert runtime[-1] is runtime.lanes[2]
        assert len(over_shared(1, shapes=[(1, 4)])) == 1

    @pytest.mark.parametrize("index", [3, -4, 1000])
    def test_index_out_of_range_raises(self, index):
        with pytest.raises(OutOfRangeError, match=f"lane {index}: there are 3, counted from 0"):
            over_shared(3, shapes=[(1, 4)])[index]

    def test_prime_runs_every_lane(self):
        runtime = over_replicas(2, shapes=[(1, 4)])
        # The first of these lanes runs once while it is made.
        left = Runtime.over(runtime.sessions, shapes=[(1, 4)], outputs=LaneMemory.left())
        before = [session.allocator().stats().num_allocs for session in runtime.sessions]
        left.prime(3)
        after = [session.allocator().stats().num_allocs for session in runtime.sessions]
        assert [late - early for early, late in zip(before, after, strict=True)] == [3, 3]
        for wrong in (-1, True, None, 2.0):
            with pytest.raises((ArgumentError, DTypeError), match="runs"):
                runtime.prime(wrong)


def test_freed_by_reference_counting_alone():
    gc.collect()
    gc.disable()
    try:
        runtime = over_replicas(2, shapes=[(1, 4)])
        runtime.prime()
        dead = [weakref.ref(thing) for thing in (runtime, *runtime, *runtime.sessions)]
        view = runtime[0].outputs["y"]
        del runtime
        assert [ref() for ref in dead] == [None] * 5
        assert view.shape == (1, 4)
    finally:
        gc.enable()


@pytest.mark.gpu
def test_lanes_on_a_device():
    runtime = Runtime(Session(build.cnn(), providers=["CUDA"]), 2, shapes=[(2, 1, 28, 28)])
    for number, lane in enumerate(runtime):
        lane.inputs["image"][...] = number
    runtime.prime(2)
    assert not np.array_equal(runtime[0].outputs["logits"], runtime[1].outputs["logits"])
