"""`DynamicRuntime`: buckets of lanes by shape are found, made, warmed and evicted."""

import contextlib
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.support import models
from tests.support.lanes import run_on
from zrt import DynamicRuntime, LaneMemory, Session
from zrt.errors import ArgumentError, BusyError, ClosedError, DTypeError, ShapeError, UnknownNameError
from zrt.lanes.lane import Lane


def dynamic(lanes: int = 1, **arguments) -> DynamicRuntime:
    """A runtime over y = x + x of shape [batch, 4]."""
    return DynamicRuntime(Session(models.double()), lanes, **arguments)


def x(batch: int) -> dict[str, tuple[int, int]]:
    return {"x": (batch, 4)}


def order(runtime: DynamicRuntime) -> list[int]:
    """The buckets' batch sizes, the least recently used first."""
    return [bucket.shapes["x"][0] for bucket in runtime.buckets]


def counts(runtime: DynamicRuntime) -> tuple[int, int, int]:
    counters = runtime.counters
    return counters.hits, counters.misses, counters.evictions


# Calls that need the runtime open, and for themselves alone.
USES: list[Callable[[DynamicRuntime], object]] = [
    lambda runtime: runtime.lane(x(1)),
    lambda runtime: runtime.lane(x(3)),
    lambda runtime: runtime.prebuild([x(1)]),
    lambda runtime: runtime.warm([x(1)]),
    lambda runtime: runtime.remove(x(1)),
    lambda runtime: runtime.buckets,
    DynamicRuntime.prime,
    DynamicRuntime.audit,
    DynamicRuntime.clear,
]


class TestSources:
    @pytest.mark.parametrize(
        ("source", "sessions"),
        [
            (partial(dynamic, 2), 1),
            (partial(DynamicRuntime.replicate, models.double(), 2), 2),
            (partial(DynamicRuntime.replicate, models.double(), 2, share_weights=True), 2),
            (partial(DynamicRuntime.from_factory, lambda _: Session(models.double()), 2), 2),
        ],
        ids=["shared", "replicated", "sharing", "factory"],
    )
    def test_every_source_makes_lanes(self, source, sessions):
        runtime = source(max_buckets=2, outputs=LaneMemory.allocated(), synchronize=True)
        assert len({runtime.lane(x(1), number).session for number in range(2)}) == sessions
        for batch in (1, 3, 1):
            for number in range(2):
                lane = runtime.lane(x(batch), number)
                assert lane.synchronize
                assert lane.audit().outputs[0].kind == "allocated"
                run_on(lane, x=number + batch)
            for number in range(2):
                wanted = np.full((batch, 4), 2 * (number + batch), np.float32)
                np.testing.assert_array_equal(runtime.lane(x(batch), number).outputs["y"], wanted)
        # Lane 0 of every bucket runs the same session.
        assert runtime.lane(x(1), 0).session is runtime.lane(x(3), 0).session
        assert runtime.max_buckets == 2
        assert [len(bucket.lanes) for bucket in runtime.buckets] == [2, 2]

    def test_audit_has_every_lane_of_every_bucket(self):
        runtime = DynamicRuntime(Session(models.non_zero("n")), 2)
        assert runtime.audit() == {}
        runtime.lane({"x": (3,)})
        runtime.lane({"x": (2,)}, output_shapes={"indices": (1, 2)})
        runtime.lane({"x": (3,)})
        audit = runtime.audit()
        assert tuple(audit) == runtime.buckets
        assert [(bucket.shapes["x"], bucket.output_shapes) for bucket in audit] == [
            ((2,), {"indices": (1, 2)}),
            ((3,), {}),
        ]
        for bucket, audits in audit.items():
            assert audits == tuple(lane.audit() for lane in bucket.lanes)
        assert [[each.allocations for each in audits] for audits in audit.values()] == [
            [()] * 2,
            [("indices: the model declares [1, n], ORT makes [1, 0]",)] * 2,
        ]

    def test_wrong_arguments_raise(self):
        for name in ("shapes", "output_shapes"):
            with pytest.raises(ArgumentError, match=f"{name}: give shapes to DynamicRuntime.lane"):
                dynamic(**{name: [(1, 4)]})


class TestLanes:
    def test_hit_returns_the_same_lane(self):
        runtime = dynamic(2)
        lane = runtime.lane(x(2), 1)
        assert runtime.lane(x(2), 1) is lane
        assert runtime.lane(x(2), -1) is lane
        assert runtime.lane(x(2)) is not lane
        assert counts(runtime) == (3, 1, 0)

    def test_all_spellings_of_a_shape_share_a_bucket(self):
        runtime = DynamicRuntime(Session(models.tokens()))
        lane = runtime.lane({"ids": (2, 3), "mask": (2, 3)})
        for spelling in (
            {"mask": (2, 3), "ids": (2, 3)},
            {"ids": [2, 3], "mask": [2, 3]},
            {"ids": (2, 3), "mask": [2, 3]},
            {"ids": (np.int64(2), 3), "mask": np.array([2, 3])},
            [(2, 3), (2, 3)],
            ((2, 3), (2, 3)),
            [[2, 3], (2, 3)],
        ):
            assert runtime.lane(spelling) is lane
            assert runtime.lane(spelling) is lane
        assert counts(runtime) == (14, 1, 0)
        assert runtime.lane({"ids": (2, 3), "mask": (1, 3)}) is not lane
        # Static shapes may be left out.
        runtime = DynamicRuntime(Session(models.add()))
        lane = runtime.lane(None)
        for spelling in ({}, {"x": (4,)}, {"y": 4}, {"y": (4,), "x": (4,)}, [(4,), (4,)], None):
            assert runtime.lane(spelling) is lane

    def test_mutable_spelling_is_read_each_time(self):
        class Changing:
            """A mutable shape that is hashable by identity: it must not be a key."""

            dims = (1, 4)

            def __iter__(self):
                return iter(self.dims)

        runtime = dynamic()
        shape = Changing()
        assert runtime.lane({"x": shape}).inputs["x"].shape == (1, 4)
        shape.dims = (3, 4)
        assert runtime.lane({"x": shape}).inputs["x"].shape == (3, 4)
        for batch in (5, 6, 5):
            assert runtime.lane({"x": iter((batch, 4))}).inputs["x"].shape == (batch, 4)
        assert order(runtime) == [1, 3, 6, 5]

    def test_given_output_shapes_are_part_of_the_key(self):
        runtime = DynamicRuntime(Session(models.non_zero("n")))
        left = runtime.lane([(4,)])
        two = runtime.lane([(4,)], output_shapes={"indices": (1, 2)})
        assert left is not two
        for spelling in ({"indices": [1, 2]}, [(1, 2)], {"indices": (1, 2)}):
            assert runtime.lane({"x": (4,)}, 0, spelling) is two
        assert runtime.lane([(4,)], 0, {"indices": (1, 3)}) not in (left, two)
        assert runtime.lane([(4,)]) is left
        assert [bucket.output_shapes for bucket in runtime.buckets] == [{"indices": (1, 2)}, {"indices": (1, 3)}, {}]
        np.testing.assert_array_equal(run_on(two, x=[0, 1, 0, 1])["indices"], [[1, 3]])

    @pytest.mark.parametrize(
        ("shapes", "error", "words"),
        [
            ({"x": (2, 4), "z": (2, 4)}, UnknownNameError, "no input 'z'"),
            ({"z": (2, 4)}, UnknownNameError, "no input 'z'"),
            ({}, ShapeError, "input 'x'"),
            (None, ShapeError, "input 'x'"),
            ([(2, 4), (2, 4)], ArgumentError, "1 inputs.*got 2"),
            ({"x": (2, 5)}, ShapeError, "input 'x'"),
            ({"x": (2, "4")}, ShapeError, "input 'x'"),
            ("x", DTypeError, "shapes: expected a dict or a list"),
            (7, DTypeError, "shapes: expected a dict or a list"),
        ],
    )
    def test_wrong_shapes_raise_before_and_after_a_hit(self, shapes, error, words):
        runtime = dynamic()
        lane = runtime.lane(x(2))
        assert runtime.lane([(2, 4)]) is lane
        for _ in range(2):
            with pytest.raises(error, match=words):
                runtime.lane(shapes)
            with pytest.raises(error, match=words):
                runtime.remove(shapes)
            with pytest.raises(UnknownNameError, match="no output 'z'"):
                runtime.lane(x(2), 0, {"z": (2, 4)})
        assert order(runtime) == [2]
        assert runtime.lane(x(2)) is lane

    def test_failed_bucket_evicts_none(self):
        runtime = dynamic(max_buckets=1)
        lane = runtime.lane(x(1))
        with pytest.raises(MemoryError, match="input 'x'"):
            runtime.lane(x(1 << 58))
        assert order(runtime) == [1]
        assert counts(runtime) == (0, 1, 0)
        assert runtime.lane(x(1)) is lane

    def test_hit_allocates_nothing_and_calls_no_c_function(self, script):
        kept, none, calls, hits = script("dynamic_runtime_hits.py").stdout.split()
        assert (kept, calls, hits) == (none, "[]", "2600")


class TestEviction:
    def test_random_uses_agree_with_a_reference_list(self):
        """A long random sequence of uses, compared with an LRU list."""
        runtime = dynamic(max_buckets=4)
        kept: list[int] = []
        hits = misses = evictions = 0
        for number in np.random.default_rng(7).integers(1, 8, 300):
            batch = int(number)
            shape = [x(batch), [(batch, 4)], {"x": [batch, 4]}][batch % 3]
            assert runtime.lane(shape).inputs["x"].shape == (batch, 4)
            if batch in kept:
                kept.remove(batch)
                hits += 1
            else:
                misses += 1
                if len(kept) == 4:
                    kept.pop(0)
                    evictions += 1
            kept.append(batch)
            assert order(runtime) == kept
        assert counts(runtime) == (hits, misses, evictions)
        runtime.prime()
        assert order(runtime) == kept
        assert len(runtime) == len(kept)

    def test_a_held_lane_stays_usable(self):
        runtime = dynamic(max_buckets=1)
        held = runtime.lane(x(2))
        runtime.lane(x(3))
        assert order(runtime) == [3]
        np.testing.assert_array_equal(run_on(held, x=7)["y"], np.full((2, 4), 14, np.float32))
        # The next use of the shape makes a new bucket.
        assert runtime.lane(x(2)) is not held

    @pytest.mark.usefixtures("collector_off")
    def test_evicted_lane_without_holder_is_freed_at_once(self):
        runtime = dynamic(max_buckets=1)
        dead = weakref.ref(runtime.lane(x(2)))
        runtime.lane([(2, 4)])
        assert dead() is not None
        runtime.lane(x(3))
        assert dead() is None
        dead = weakref.ref(runtime)
        del runtime
        assert dead() is None

    def test_spellings_of_an_evicted_bucket_make_a_new_one(self):
        runtime = dynamic(max_buckets=1)
        for batch in range(1, 20):
            lanes = {runtime.lane(shapes) for shapes in (x(batch), [(batch, 4)], {"x": [batch, 4]}, x(batch))}
            assert [lane.inputs["x"].shape for lane in lanes] == [(batch, 4)]
        assert runtime.lane(x(1)).inputs["x"].shape == (1, 4)
        assert runtime.counters.evictions == 19


class TestWarm:
    def test_prebuild(self):
        runtime = dynamic(2, max_buckets=3)
        runtime.prebuild([x(1), [(2, 4)], ({"x": [3, 4]}, None)])
        assert order(runtime) == [1, 2, 3]
        assert counts(runtime) == (0, 3, 0)
        runtime.lane(x(2), 1)
        assert counts(runtime) == (1, 3, 0)
        runtime.prebuild(iter([x(1), x(1)]))
        assert order(runtime) == [3, 2, 1]

    def test_warm_runs_every_lane(self):
        runtime = DynamicRuntime.replicate(models.double(), 2, outputs=LaneMemory.left())
        runtime.warm([x(1), x(2)], runs=3)
        allocations = [lane.session.allocator().stats().num_allocs for lane in runtime.buckets[0].lanes]
        assert len(runtime) == 2
        runtime.prime(2)
        after = [lane.session.allocator().stats().num_allocs for lane in runtime.buckets[0].lanes]
        # Two buckets, two runs each, in each of the two sessions.
        assert [late - early for early, late in zip(allocations, after, strict=True)] == [4, 4]
        for lane in (lane for bucket in runtime.buckets for lane in bucket.lanes):
            assert lane.outputs["y"].shape == lane.inputs["x"].shape

    @pytest.mark.parametrize("method", ["prebuild", "warm"])
    def test_too_many_shapes_raise_and_make_no_bucket(self, method):
        runtime = dynamic(max_buckets=2)
        kept = runtime.lane(x(9))
        with pytest.raises(ArgumentError, match="3 different shapes do not fit into max_buckets=2"):
            getattr(runtime, method)([x(1), x(2), x(3)])
        assert order(runtime) == [9]
        assert counts(runtime) == (0, 1, 0)
        # Two spellings of one shape count once.
        getattr(runtime, method)([x(1), [(1, 4)], {"x": [1, 4]}, x(9)])
        assert order(runtime) == [1, 9]
        assert runtime.lane(x(9)) is kept

    @pytest.mark.parametrize(
        ("specs", "error", "words"),
        [
            ([{"x": (1, 4)}, {"x": (1, 5)}], ShapeError, "input 'x'"),
            ([{"x": (1, 4)}, {"z": (1, 4)}], UnknownNameError, "no input 'z'"),
            ([{"x": (1, 4)}, (x(2), {"z": (1, 4)})], UnknownNameError, "no output 'z'"),
            ([{"x": (1, 4)}, (x(2), None, None)], DTypeError, "specs: expected shapes or a pair"),
            ([{"x": (1, 4)}, 5], DTypeError, "shapes: expected a dict or a list"),
        ],
    )
    def test_wrong_spec_makes_no_bucket(self, specs, error, words):
        runtime = dynamic()
        with pytest.raises(error, match=words):
            runtime.warm(specs)
        assert len(runtime) == 0
        runtime.warm([x(1)])

    def test_warm_evicts_no_bucket_that_it_was_asked_for(self):
        runtime = dynamic(max_buckets=2)
        wanted = runtime.lane(x(1))
        runtime.lane(x(2))
        # 1 is the least recently used, and would be evicted when 3 is made.
        runtime.warm([x(3), x(1)])
        assert order(runtime) == [3, 1]
        assert runtime.lane(x(1)) is wanted
        assert runtime.counters.evictions == 1


class TestRelease:
    def test_remove_and_clear(self):
        runtime = dynamic()
        held = runtime.lane(x(1))
        runtime.lane(x(2))
        assert runtime.remove([[1, 4]]) is True
        assert runtime.remove(x(1)) is False
        assert order(runtime) == [2]
        runtime.clear()
        assert len(runtime) == 0
        held.run()
        assert runtime.lane(x(1)) is not held
        # Nothing was evicted.
        assert counts(runtime) == (0, 3, 0)

    def test_prebuild_and_remove_distinguish_output_shapes(self):
        runtime = DynamicRuntime(Session(models.non_zero("n")))
        runtime.prebuild([[(4,)], ([(4,)], [(1, 2)])])
        assert runtime.lane([(4,)], output_shapes={"indices": (1, 2)}).outputs["indices"].shape == (1, 2)
        assert counts(runtime) == (1, 2, 0)
        assert runtime.remove([(4,)], {"indices": (1, 3)}) is False
        assert runtime.remove([(4,)], {"indices": (1, 2)}) is True
        assert [bucket.output_shapes for bucket in runtime.buckets] == [{}]

    def test_close(self):
        session = Session(models.double())
        with DynamicRuntime(session, 1) as runtime:
            held = runtime.lane(x(1))
            assert not runtime.closed
        runtime.close()
        assert runtime.closed
        held.run()
        for use in (*USES, DynamicRuntime.__enter__):
            with pytest.raises(ClosedError, match="this DynamicRuntime is closed"):
                use(runtime)
        assert len(runtime) == 0
        assert not session.closed

    def test_close_releases_replicas(self):
        runtime = DynamicRuntime.replicate(models.double(), 2)
        dead = [weakref.ref(runtime.lane(x(1), i).session) for i in (0, 1)]
        runtime.close()
        gc.collect()
        assert [ref() for ref in dead] == [None, None]

    def test_lanes_outlive_runtime_and_session(self):
        session = Session(models.double())
        runtime = DynamicRuntime(session)
        lane = runtime.lane(x(2))
        session.close()
        runtime.lane(x(2)).run()
        with pytest.raises(ClosedError, match="this Session is closed"):
            runtime.lane(x(3))
        del runtime, session
        gc.collect()
        lane.run()


class TestOwnership:
    def test_second_thread_raises_busy_error(self, monkeypatch, background):
        """One thread waits inside the construction of a lane while the other tries every call."""
        inside, done = threading.Event(), threading.Event()

        def slow(*arguments, **keywords) -> Lane:
            inside.set()
            assert done.wait(30)
            return Lane(*arguments, **keywords)

        runtime = dynamic()
        lane = runtime.lane(x(1))
        monkeypatch.setattr("zrt.lanes.runtime.Session.lane", slow)
        job = background(lambda: runtime.lane(x(2)))
        assert inside.wait(30)
        try:
            for use in (*USES, DynamicRuntime.close):
                with pytest.raises(BusyError, match="this DynamicRuntime is in use by another thread"):
                    use(runtime)
            # A lane that was returned before runs in any thread.
            lane.run()
        finally:
            done.set()
        assert job.result() is runtime.lane(x(2))
        assert order(runtime) == [1, 2]

    def test_close_is_atomic_for_other_threads(self):
        """Another thread asks for a lane at every call and return inside `close`."""
        runtime = dynamic()
        runtime.lane(x(1))

        def ask() -> None:
            with contextlib.suppress(BusyError, ClosedError):
                runtime.lane(x(1))

        def ask_in_a_thread(*_) -> None:
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()

        sys.setprofile(ask_in_a_thread)
        try:
            runtime.close()
        finally:
            sys.setprofile(None)
        assert len(runtime) == 0
        with pytest.raises(ClosedError, match="this DynamicRuntime is closed"):
            runtime.lane(x(1))


@pytest.mark.gpu
def test_lanes_on_a_device():
    runtime = DynamicRuntime(Session(models.double(), providers=["CUDA"]), 1)
    for batch in (1, 2, 1):
        lane = runtime.lane(x(batch))
        np.testing.assert_array_equal(run_on(lane, x=batch)["y"], np.full((batch, 4), 2 * batch, np.float32))
