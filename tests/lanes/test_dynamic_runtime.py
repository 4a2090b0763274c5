"""`DynamicRuntime`: buckets of lanes by shape are found, made, warmed and evicted."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from tests.support import models
from zrt import DynamicRuntime, LaneMemory, Session
from zrt.errors import ArgumentError, BusyError, ClosedError, DTypeError, OutOfRangeError, ShapeError, UnknownNameError
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


class TestSources:
    @pytest.mark.parametrize(
        "source",
        [
            lambda **arguments: DynamicRuntime(Session(models.double()), 2, **arguments),
            lambda **arguments: DynamicRuntime.replicate(models.double(), 2, **arguments),
            lambda **arguments: DynamicRuntime.replicate(models.double(), 2, share_weights=True, **arguments),
            lambda **arguments: DynamicRuntime.from_factory(lambda _: Session(models.double()), 2, **arguments),
        ],
        ids=["shared", "replicated", "sharing", "factory"],
    )
    def test_every_source_makes_lanes(self, source):
        runtime = source(max_buckets=2, outputs=LaneMemory.allocated(), synchronize=True)
        for batch in (1, 3, 1):
            for number in range(2):
                lane = runtime.lane(x(batch), number)
                assert lane.synchronize
                assert lane.audit().outputs[0].kind == "allocated"
                lane.inputs["x"][...] = number + batch
                lane.run()
            for number in range(2):
                wanted = np.full((batch, 4), 2 * (number + batch), np.float32)
                np.testing.assert_array_equal(runtime.lane(x(batch), number).outputs["y"], wanted)
        assert runtime.max_buckets == 2
        assert [len(bucket.lanes) for bucket in runtime.buckets] == [2, 2]

    def test_sessions_are_shared_or_one_for_each_lane(self):
        session = Session(models.double())
        runtime = DynamicRuntime(session, 2)
        assert {runtime.lane(x(batch), i).session for batch in (1, 2) for i in (0, 1)} == {session}
        runtime = DynamicRuntime.replicate(models.double(), 2)
        first, second = (runtime.lane(x(1), i).session for i in (0, 1))
        assert first is not second
        # Lane 0 of every bucket runs the same session.
        assert runtime.lane(x(2), 0).session is first

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
        runtime.close()
        with pytest.raises(ClosedError):
            runtime.audit()

    @pytest.mark.parametrize("wrong", [0, -3])
    def test_numbers_out_of_range_raise(self, wrong):
        with pytest.raises(ArgumentError, match=f"lanes: {wrong}"):
            dynamic(wrong)
        with pytest.raises(ArgumentError, match=f"max_buckets: {wrong}"):
            dynamic(max_buckets=wrong)

    def test_wrong_arguments_raise(self):
        for wrong in (True, 1.5, "2", None):
            with pytest.raises(DTypeError, match="max_buckets"):
                dynamic(max_buckets=wrong)
        for name in ("shapes", "output_shapes"):
            with pytest.raises(ArgumentError, match=f"{name}: give shapes to DynamicRuntime.lane"):
                dynamic(**{name: [(1, 4)]})

    def test_unknown_keyword_raises_before_sessions_are_made(self):
        words = "DynamicRuntime: unexpected keyword argument 'input'; its lanes take inputs, outputs, rebind_inputs, "
        for make in (
            dynamic,
            lambda **options: DynamicRuntime.replicate("no such file", **options),
            lambda **options: DynamicRuntime.from_factory(pytest.fail, **options),
        ):
            with pytest.raises(DTypeError, match=words):
                make(input=LaneMemory())

    def test_factory_error_propagates(self):
        def factory(index: int) -> Session:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            DynamicRuntime.from_factory(factory, 1)


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

    def test_static_shapes_may_be_left_out(self):
        runtime = DynamicRuntime(Session(models.add()))
        lane = runtime.lane(None)
        for spelling in ({}, {"x": (4,)}, {"y": 4}, {"y": (4,), "x": (4,)}, [(4,), (4,)], None):
            assert runtime.lane(spelling) is lane
        assert len(runtime) == 1

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
        assert [bucket.output_shapes for bucket in runtime.buckets] == [
            {"indices": (1, 2)},
            {"indices": (1, 3)},
            {},
        ]
        two.inputs["x"][...] = [0, 1, 0, 1]
        two.run()
        np.testing.assert_array_equal(two.outputs["indices"], [[1, 3]])

    @pytest.mark.parametrize(
        ("given", "error", "words"),
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
    def test_wrong_shapes_raise_before_and_after_a_hit(self, given, error, words):
        runtime = dynamic()
        lane = runtime.lane(x(2))
        assert runtime.lane([(2, 4)]) is lane
        for _ in range(2):
            with pytest.raises(error, match=words):
                runtime.lane(given)
            with pytest.raises(UnknownNameError, match="no output 'z'"):
                runtime.lane(x(2), 0, {"z": (2, 4)})
        assert order(runtime) == [2]
        assert runtime.lane(x(2)) is lane

    def test_index_out_of_range_raises(self):
        runtime = dynamic(2)
        for index in (2, -3):
            with pytest.raises(OutOfRangeError, match=f"lane {index}: there are 2, counted from 0"):
                runtime.lane(x(1), index)
        assert runtime.lane(x(1), 1).inputs["x"].shape == (1, 4)

    def test_failed_bucket_evicts_none(self):
        runtime = dynamic(max_buckets=1)
        lane = runtime.lane(x(1))
        with pytest.raises(MemoryError, match="input 'x'"):
            runtime.lane(x(1 << 58))
        assert order(runtime) == [1]
        assert counts(runtime) == (0, 1, 0)
        assert runtime.lane(x(1)) is lane


class TestEviction:
    def test_least_recently_used_is_evicted_first(self):
        runtime = dynamic(max_buckets=3)
        for batch in (1, 2, 3):
            runtime.lane(x(batch))
        assert order(runtime) == [1, 2, 3]
        runtime.lane(x(1))
        assert order(runtime) == [2, 3, 1]
        runtime.lane([[3, 4]])
        assert order(runtime) == [2, 1, 3]
        runtime.lane(x(4))
        assert order(runtime) == [1, 3, 4]
        runtime.lane(x(2))
        assert order(runtime) == [3, 4, 2]
        assert counts(runtime) == (2, 5, 2)
        assert len(runtime) == 3

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

    def test_inspection_and_prime_do_not_change_the_order(self):
        runtime = dynamic(max_buckets=2)
        runtime.lane(x(1)), runtime.lane(x(2))
        assert (len(runtime), len(runtime.buckets), order(runtime)) == (2, 2, [1, 2])
        runtime.prime()
        assert order(runtime) == [1, 2]

    def test_a_held_lane_stays_usable(self):
        runtime = dynamic(max_buckets=1)
        held = runtime.lane(x(2))
        runtime.lane(x(3))
        assert order(runtime) == [3]
        held.inputs["x"][...] = 7
        held.run()
        np.testing.assert_array_equal(held.outputs["y"], np.full((2, 4), 14, np.float32))
        # The next use of the shape makes a new bucket.
        assert runtime.lane(x(2)) is not held

    def test_evicted_lane_without_holder_is_freed_at_once(self):
        gc.collect()
        gc.disable()
        try:
            runtime = dynamic(max_buckets=1)
            dead = weakref.ref(runtime.lane(x(2)))
            runtime.lane([(2, 4)])
            assert dead() is not None
            runtime.lane(x(3))
            assert dead() is None
            dead = weakref.ref(runtime)
            del runtime
            assert dead() is None
        finally:
            gc.enable()

    def test_spellings_are_dropped_with_their_bucket(self):
        runtime = dynamic(max_buckets=1)
        for batch in range(1, 50):
            for _ in range(2):
                runtime.lane(x(batch)), runtime.lane([(batch, 4)]), runtime.lane({"x": [batch, 4]})
        assert len(runtime._spellings) == 2
        assert runtime.counters.evictions == 48

    def test_interrupt_leaves_no_spelling_of_an_evicted_bucket(self):
        class Interrupted(list):
            def append(self, spelling):
                raise KeyboardInterrupt

        runtime = dynamic(max_buckets=1)
        runtime.prebuild([[(2, 4)]])
        [bucket] = runtime.buckets
        bucket.spellings = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            runtime.lane(x(2))
        runtime.lane(x(3))
        assert order(runtime) == [3]
        assert runtime.lane(x(2)).inputs["x"].shape == (2, 4)


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

    def test_prebuild_with_output_shapes(self):
        runtime = DynamicRuntime(Session(models.non_zero("n")))
        runtime.prebuild([([(4,)], {"indices": (1, 2)}), [(4,)]])
        two = runtime.lane([(4,)], output_shapes={"indices": (1, 2)})
        assert two.outputs["indices"].shape == (1, 2)
        assert counts(runtime) == (1, 2, 0)

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

    def test_warm_evicts_no_bucket_that_it_was_asked_for(self):
        runtime = dynamic(max_buckets=2)
        wanted = runtime.lane(x(1))
        runtime.lane(x(2))
        # 1 is the least recently used, and would be evicted when 3 is made.
        runtime.warm([x(3), x(1)])
        assert order(runtime) == [3, 1]
        assert runtime.lane(x(1)) is wanted
        assert runtime.counters.evictions == 1

    def test_wrong_number_of_runs_raises(self):
        for wrong in (-1, True, None):
            with pytest.raises((ArgumentError, DTypeError), match="runs"):
                dynamic().warm([x(1)], wrong)


class TestRelease:
    def test_remove(self):
        runtime = dynamic()
        held = runtime.lane(x(1))
        runtime.lane(x(2))
        assert runtime.remove([[1, 4]]) is True
        assert runtime.remove(x(1)) is False
        assert order(runtime) == [2]
        held.run()
        assert runtime.lane(x(1)) is not held
        # Nothing was evicted.
        assert counts(runtime) == (0, 3, 0)
        with pytest.raises(UnknownNameError, match="no input 'z'"):
            runtime.remove({"z": (1, 4)})

    def test_remove_distinguishes_output_shapes(self):
        runtime = DynamicRuntime(Session(models.non_zero("n")))
        runtime.prebuild([[(4,)], ([(4,)], [(1, 2)])])
        assert runtime.remove([(4,)], {"indices": (1, 3)}) is False
        assert runtime.remove([(4,)], {"indices": (1, 2)}) is True
        assert [bucket.output_shapes for bucket in runtime.buckets] == [{}]

    def test_clear(self):
        runtime = dynamic()
        held = runtime.lane(x(1))
        runtime.lane(x(2))
        runtime.clear()
        assert len(runtime) == 0
        held.run()
        assert runtime.lane(x(1)) is not held
        assert counts(runtime) == (0, 3, 0)

    def test_close(self):
        session = Session(models.double())
        with DynamicRuntime(session, 1) as runtime:
            held = runtime.lane(x(1))
            assert not runtime.closed
        runtime.close()
        assert runtime.closed
        held.run()
        for use in (
            lambda: runtime.lane(x(1)),
            lambda: runtime.prebuild([x(1)]),
            lambda: runtime.warm([x(1)]),
            runtime.prime,
            runtime.clear,
            lambda: runtime.remove(x(1)),
            lambda: runtime.buckets,
            runtime.__enter__,
        ):
            with pytest.raises(ClosedError, match="this DynamicRuntime is closed"):
                use()
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
    def test_second_thread_raises_busy_error(self, monkeypatch):
        """One thread waits inside the construction of a lane while the other tries every call."""
        inside, done = threading.Event(), threading.Event()

        def slow(*arguments, **keywords) -> Lane:
            inside.set()
            assert done.wait(30)
            return Lane(*arguments, **keywords)

        runtime = dynamic()
        lane = runtime.lane(x(1))
        monkeypatch.setattr("zrt.lanes.runtime.make_lane", slow)
        made = []
        owner = threading.Thread(target=lambda: made.append(runtime.lane(x(2))))
        owner.start()
        assert inside.wait(30)
        try:
            for use in (
                lambda: runtime.lane(x(1)),
                lambda: runtime.lane(x(3)),
                lambda: runtime.prebuild([x(1)]),
                lambda: runtime.warm([x(1)]),
                runtime.prime,
                runtime.clear,
                runtime.close,
                lambda: runtime.remove(x(1)),
                lambda: runtime.buckets,
            ):
                with pytest.raises(BusyError, match="this DynamicRuntime is in use by another thread"):
                    use()
            # A lane that was returned before runs in any thread.
            lane.run()
        finally:
            done.set()
            owner.join()
        assert made == [runtime.lane(x(2))]
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

    def test_usable_after_an_error(self):
        runtime = dynamic()
        for wrong in (lambda: runtime.lane({"z": (1, 4)}), lambda: runtime.warm([5]), lambda: runtime.remove(5)):
            with pytest.raises((UnknownNameError, DTypeError)):
                wrong()
        assert runtime.lane(x(1)).inputs["x"].shape == (1, 4)

    def test_threads_may_call_one_after_another(self):
        runtime = dynamic()
        found = []
        for _ in range(3):
            thread = threading.Thread(target=lambda: found.append(runtime.lane(x(1))))
            thread.start()
            thread.join()
        assert len(set(found)) == 1


@pytest.mark.gpu
def test_lanes_on_a_device():
    runtime = DynamicRuntime(Session(models.double(), providers=["CUDA"]), 1)
    for batch in (1, 2, 1):
        lane = runtime.lane(x(batch))
        lane.inputs["x"][...] = batch
        lane.run()
        np.testing.assert_array_equal(lane.outputs["y"], np.full((batch, 4), 2 * batch, np.float32))
