"""Several threads at once: the right result or a typed error, no crash.

What could crash runs in processes of their own. Nothing here looks at a clock: threads wait for each other, and
where they race they do so in many turns.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.robustness.conftest import Child
from tests.robustness.race import RACE


def test_one_session_that_others_close(child: Child) -> None:
    """Eight threads run a session, in every way; others close it, drop it and load another in its place."""
    child(
        RACE,
        """
        current = [session()]

        def run(turn):
            same(current[0].run(FEEDS)[0], SUM)

        def run_slowly(turn):
            same(current[0].run([FEEDS["x"][:turn % 4], FEEDS["y"][:turn % 4]], ["z"])[0], SUM[:turn % 4])

        def prepare(turn):
            prepared = current[0].prepare(FEEDS)
            same(prepared.run()[0], SUM)

        def make_lane(turn):
            made = lane(current[0])
            made.run()
            same(made.outputs["z"], SUM)

        def bind(turn):
            bound = binding(current[0])
            bound.run()
            same(bound.numpy()["z"], SUM)

        def allocate(turn):
            value = zrt.Value.allocate((4,), np.float32, current[0].allocator())
            value.numpy()[...] = turn
            same(value.numpy(), [turn] * 4)

        def close(turn):
            former, current[0] = current[0], session()
            former.close()

        def drop(turn):
            current[0] = session()
            gc.collect(0)

        counts = race(run, run, run_slowly, prepare, make_lane, bind, allocate, run, close, drop,
                      errors=zrt.errors.ClosedError)
        assert counts[-2:] == [300, 300]
        assert counts[0] > 0
        """,
    )


def test_one_session_that_ends_in_the_midst(child: Child) -> None:
    """The session is closed and dropped while eight threads are in the midst of its runs: all end as they should."""
    child(
        RACE,
        """
        whole = []
        for _ in range(10):
            one = zrt.Session(models.counting_loop(), QUIET)
            feeds = {"turns": np.array(30_000), "start": np.zeros(2, np.float32)}
            barrier = threading.Barrier(9)

            def run(one):
                barrier.wait()
                try:
                    whole.append(one.run(feeds)[0])
                except zrt.errors.ClosedError:
                    # It was late.
                    pass

            threads = [threading.Thread(target=run, args=(one,)) for _ in range(8)]
            for thread in threads:
                thread.start()
            barrier.wait()
            time.sleep(0.005)
            one.close()
            del one
            gc.collect()
            for thread in threads:
                thread.join()
        assert whole
        for result in whole:
            same(result, [30_000, 30_000])
        """,
    )


def test_terminated_by_another_thread(child: Child) -> None:
    """One object ends the endless runs of several threads, and what was ended works again."""
    child(
        RACE,
        """
        feeds = {"turns": np.array(2**62), "start": np.zeros(2, np.float32)}
        short = {"turns": np.array(3), "start": np.zeros(2, np.float32)}
        made = counting.lane()
        bound = counting.binding()
        prepared = counting.prepare(feeds)
        for name, feed in feeds.items():
            made.inputs[name][...] = feed
            bound.bind_input(name, feed)
        bound.bind_output("end")
        chosen = zrt.RunOptions()
        ways = {
            "run": lambda: counting.run(feeds, options=chosen),
            "prepared": lambda: prepared.run(chosen),
            "lane": lambda: made.run_with(chosen),
            "binding": lambda: bound.run(chosen),
        }
        for _ in range(5):
            ended = []

            def run(way):
                try:
                    way()
                except zrt.errors.TerminatedError:
                    ended.append(way)

            threads = [threading.Thread(target=run, args=(way,)) for way in ways.values()]
            for thread in threads:
                thread.start()
            chosen.terminate()
            for thread in threads:
                thread.join()
            assert len(ended) == 4
            chosen.reset()
            same(counting.run(short, options=chosen)[0], [3, 3])
        for name, feed in short.items():
            made.inputs[name][...] = feed
        made.run()
        same(made.outputs["end"], [3, 3])
        """,
    )


def test_run_options_that_others_close(child: Child) -> None:
    child(
        RACE,
        """
        one = session()
        made, bound, prepared = lane(one), binding(one), one.prepare(FEEDS)
        current = [zrt.RunOptions()]

        def replace(turn):
            former = current[0]
            current[0] = zrt.RunOptions(tag=str(turn))
            former.close()

        def terminate(turn):
            current[0].terminate()
            current[0].reset()

        counts = race(
            lambda turn: same(one.run(FEEDS, options=current[0])[0], SUM),
            lambda turn: made.run_with(current[0]),
            lambda turn: bound.run(current[0]),
            lambda turn: prepared.run(current[0]),
            replace,
            terminate,
            turns=2000,
            errors=(zrt.errors.ClosedError, zrt.errors.TerminatedError),
        )
        assert counts[4] == 2000
        same(made.outputs["z"], SUM)
        """,
    )


def test_closed_in_another_thread(child: Child) -> None:
    """Of each kind one thing: some threads use it, one closes it and puts another in its place."""
    child(
        RACE,
        """
        one = session()
        array = FEEDS["x"].copy()

        def buffer():
            made = zrt.Buffer((4,), np.float32)
            made.array[...] = array
            return made

        def use_left(it):
            it.run()
            same(it.outputs["z"], SUM)

        def use_binding(it):
            it.bind_input("x", FEEDS["x"])
            it.run()
            it.outputs()
            it.numpy()
            it.clear_outputs()
            it.bind_output("z")

        def left():
            made = one.lane({"x": 4, "y": 4}, outputs=zrt.LaneMemory.left())
            for name, feed in FEEDS.items():
                made.inputs[name][...] = feed
            return made

        def use_lane(it):
            it.run()
            same(it.outputs["z"], SUM)
            repr(it)
            it.audit()

        kinds = {
            "lane": (lambda: lane(one), use_lane),
            "left": (left, use_left),
            "binding": (lambda: binding(one), use_binding),
            "prepared": (lambda: one.prepare(FEEDS), lambda it: same(it.run()[0], SUM)),
            "value": (lambda: zrt.Value.from_array(array), lambda it: same(it.numpy(), array)),
            "allocated": (lambda: zrt.Value.allocate((4,), np.float32), lambda it: it.numpy().sum()),
            "fed value": (lambda: zrt.Value.from_array(array), lambda it: one.run({"x": it, "y": array})),
            "buffer": (buffer, lambda it: same(it.array, array)),
            "fed buffer": (buffer, lambda it: same(one.run({"x": it, "y": FEEDS["y"]})[0], SUM)),
            "bound value": (lambda: zrt.Value.from_array(array), lambda it: one.binding().bind_input("x", it)),
            "copied": (buffer, lambda it: zrt.copy(it, np.empty(4, np.float32))),
            "allocator": (one.allocator, lambda it: (it.stats(), zrt.Value.allocate((4,), np.float32, it))),
            "runtime": (lambda: zrt.Runtime(one, 2, shapes=[4, 4]), lambda it: (it.prime(), it.audit())),
        }
        errors = zrt.errors.ClosedError, zrt.errors.BusyError, zrt.errors.ArgumentError
        for name, (make, use) in kinds.items():
            current = [make()]

            def using(turn):
                use(current[0])

            def close(turn):
                former, current[0] = current[0], make()
                former.close()

            counts = race(using, using, using, close, turns=200, errors=errors)
            assert counts[3] == 200, name
            print(name, counts)
        same(one.run(FEEDS)[0], SUM)
        """,
    )


def test_one_lane_in_eight_threads(child: Child) -> None:
    """While one is under way every other use is refused; in the race each run is whole or refused."""
    child(
        RACE,
        """
        made = counting.lane(outputs=zrt.LaneMemory.left())
        made.inputs["turns"][...] = 2**62
        chosen = zrt.RunOptions()
        outcome = []

        def for_ever():
            while not outcome:
                try:
                    made.run_with(chosen)
                except zrt.errors.BusyError:
                    # The other thread was looking.
                    continue
                except zrt.errors.TerminatedError as error:
                    outcome.append(error)

        thread = threading.Thread(target=for_ever)
        thread.start()

        def refused(use):
            try:
                use()
            except zrt.errors.BusyError:
                return True

        while not refused(made.audit):
            pass
        for use in (made.run, lambda: made.run_with(zrt.RunOptions()), lambda: made.prime(3), made.audit,
                    lambda: made.outputs["end"], made.run_with_allocator_stats):
            assert refused(use)
        chosen.terminate()
        thread.join()
        assert len(outcome) == 1
        made.inputs["turns"][...] = 500
        made.run()
        same(made.outputs["end"], [500, 500])

        # Each view is a run's own: it must not change when later runs make theirs.
        kept = []

        def run(turn):
            while True:
                try:
                    return made.run()
                except zrt.errors.BusyError:
                    continue

        def read(turn):
            view = made.outputs["end"]
            same(view, [500, 500])
            kept.append(view)

        counts = race(*[run] * 6, read, read, turns=100)
        assert counts[:6] == [100] * 6
        made.inputs["turns"][...] = 7
        made.run()
        same(made.outputs["end"], [7, 7])
        for view in kept:
            same(view, [500, 500])
        """,
    )


def test_eight_lanes_in_eight_threads(child: Child) -> None:
    child(
        RACE,
        """
        one = session()

        def own(number):
            mine = lane(one)

            def run(turn):
                mine.inputs["x"][...] = number * 1000 + turn
                mine.run()
                same(mine.outputs["z"], [number * 1000 + turn + 1] * 4)

            return run

        assert race(*map(own, range(8)), turns=500, errors=()) == [500] * 8
        """,
    )


def test_one_binding_in_two_threads(child: Child) -> None:
    """Each use is whole or refused; what is read is a whole result of what was bound."""
    child(
        RACE,
        """
        bound = binding(session())
        inputs = [np.full(4, number, np.float32) for number in range(5)]
        place = np.zeros(4, np.float32)
        whole = {tuple(feed + 1) for feed in inputs} | {tuple(SUM)}

        def run(turn):
            bound.run()

        def read(turn):
            for value in bound.numpy().values():
                assert tuple(value.tolist()) in whole or np.shares_memory(value, place)

        def bind(turn):
            bound.bind_input("x", inputs[turn % 5])

        def bind_place(turn):
            bound.bind_output("z", place if turn % 2 else None)

        def clear(turn):
            bound.clear_inputs() if turn % 2 else bound.clear_outputs()
            bound.synchronize_inputs()

        def restore(turn):
            for name, feed in FEEDS.items():
                bound.bind_input(name, feed)
            bound.bind_output("z")

        errors = zrt.errors.BusyError, zrt.errors.ArgumentError
        race(run, read, turns=2000, errors=errors)
        race(run, bind, turns=2000, errors=errors)
        race(run, run, read, bind, bind_place, clear, restore, turns=2000, errors=errors)
        restore(0)
        bound.run()
        same(bound.numpy()["z"], SUM)
        """,
    )


def test_one_dynamic_runtime_in_several_threads(child: Child) -> None:
    child(
        RACE,
        """
        dynamic = zrt.DynamicRuntime(session(), 2, max_buckets=3)

        def run(turn):
            size = turn % 5 + 1
            mine = dynamic.lane({"x": size, "y": size}, turn % 2)
            mine.run()
            assert mine.outputs["z"].shape == (size,)

        def warm(turn):
            dynamic.warm([{"x": size, "y": size} for size in (1, 2, 3)])

        def remove(turn):
            dynamic.remove({"x": 1, "y": 1})
            dynamic.clear()

        def look(turn):
            for bucket in dynamic.buckets:
                assert len(bucket.lanes) == 2
            len(dynamic), dynamic.closed, dynamic.counters.hits

        counts = race(run, run, run, warm, remove, look, turns=400)
        assert sum(counts) > 0
        assert len(dynamic) <= 3
        made = dynamic.lane({"x": 4, "y": 4})
        made.inputs["x"][...], made.inputs["y"][...] = FEEDS["x"], FEEDS["y"]
        made.run()
        same(made.outputs["z"], SUM)

        def close(turn):
            dynamic.close()

        race(run, close, turns=50, errors=(zrt.errors.BusyError, zrt.errors.ClosedError))
        made.run()
        """,
    )


def test_a_dynamic_runtime_that_calls_itself(child: Child) -> None:
    """A key of the caller's may come back into the very runtime that looks it up."""
    child(
        """
        dynamic = zrt.DynamicRuntime(session())
        refused = []

        class Key(str):
            def __hash__(self):
                try:
                    dynamic.lane({"x": 4, "y": 4})
                except zrt.errors.BusyError as error:
                    refused.append(error)
                return super().__hash__()

            def __eq__(self, other):
                return super().__eq__(other)

        key = Key("x")
        dynamic.lane({key: 4, "y": 4}).run()
        assert refused
        dynamic.lane({"x": 4, "y": 4}).run()
        """
    )


def test_sessions_come_and_go_in_threads(child: Child) -> None:
    child(
        RACE,
        """
        options = [zrt.SessionOptions(intra_op_num_threads=count) for count in (1, 2)]

        def load(turn):
            with session(options[turn % 2]) as one:
                made = lane(one)
                same(one.run(FEEDS)[0], SUM)
            made.run()
            same(made.outputs["z"], SUM)

        def drop(turn):
            kept = [lane(session()) for _ in range(2)]
            del kept[0]
            gc.collect(0)

        def fail(turn):
            try:
                zrt.Session(ADD[:-10])
            except zrt.errors.InvalidProtobufError:
                return
            raise AssertionError

        race(*[load] * 5, fail, fail, fail, turns=40, errors=())
        """,
    )


def test_profiling_that_another_thread_ends(child: Child, tmp_path: object) -> None:
    child(
        RACE,
        """
        os.chdir(sys.argv[1])
        for _ in range(10):
            one = zrt.Session(ADD, zrt.SessionOptions(profile_file_prefix="trace", intra_op_num_threads=1))
            race(lambda turn: one.run(FEEDS), lambda turn: one.run(FEEDS),
                 lambda turn: one.end_profiling() if turn % 100 == 50 else None, turns=200, errors=())
            one.close()
        """,
        arguments=[tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])},
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are those of Linux")
@pytest.mark.parametrize("field", ["intra_op_num_threads", "inter_op_num_threads"])
def test_more_threads_than_the_system_has(child: Child, field: str) -> None:
    """ONNX Runtime hangs or crashes where a thread cannot be started, so such a number must not come to it."""
    output = child(
        """
        import resource
        # So that a number which does come through meets the end of the system soon.
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        options = zrt.SessionOptions(**{sys.argv[1]: 100_000}, execution_mode="PARALLEL")
        try:
            session(options)
        except zrt.errors.ArgumentError as error:
            assert sys.argv[1] in str(error)
            print("refused")
        assert np.array_equal(session().run(FEEDS)[0], SUM)
        """,
        arguments=[field],
        timeout=60,
    )
    assert output == "refused\n"


@pytest.mark.slow
def test_stack_of_a_small_thread(child: Child) -> None:
    """A model with more inputs than a small stack has room for (their values once lay there)."""
    child(
        """
        # Their addresses alone take more than the stack has.
        count = 20_000
        names = [f"i{number}" for number in range(count)]
        ones = [models.tensor(name, models.FLOAT, [1]) for name in names]
        wide = models.build([models.node("Sum", names, ["z"])], ones, [models.tensor("z", models.FLOAT, [1])])
        one = zrt.Session(wide, QUIET)
        feeds = dict.fromkeys(names, np.ones(1, np.float32))
        pass_on = [models.node("Identity", ["x"], [name]) for name in names[:2000]]
        outputs = [models.tensor(name, models.FLOAT, [1]) for name in names[:2000]]
        many = zrt.Session(models.build(pass_on, [models.tensor("x", models.FLOAT, [1])], outputs), QUIET)
        results = []

        def run():
            for _ in range(2):
                results.append(one.run(feeds)[0])
                results.append(one.prepare(feeds).run()[0])
                many.run([np.ones(1, np.float32)])

        # (after a first run in a thread of less than 80 KiB Python 3.14 crashes, for a reason that is not known)
        threading.stack_size(128 * 1024)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert [result.tolist() for result in results] == [[count]] * 4
        """
    )
