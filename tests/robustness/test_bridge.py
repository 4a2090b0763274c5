"""Runs and log lines under way while threads race, things are dropped, the process forks or ends."""

from __future__ import annotations

import pytest

from tests.robustness.conftest import Child

# What each script here begins with: a model that runs until it is ended, and one that takes some milliseconds.
BEGIN = """
import asyncio, concurrent.futures
import onnx
from tests.conftest import ENDLESS, LOOP
from zrt.session import async_runs

LOOPING = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> test {LOOP}')
FOREVER = {"n": ENDLESS, "x": np.ones(4, np.float32)}
A_WHILE = {"n": np.array(20_000), "x": np.ones(4, np.float32)}
THREADS = int(sys.argv[1])
SETTINGS = zrt.SessionOptions(intra_op_num_threads=THREADS, log_severity_level="FATAL")

def looping():
    return zrt.Session(LOOPING, SETTINGS)
"""

both = pytest.mark.parametrize("threads", [1, 2], ids=["worker", "pool"])


@both
@pytest.mark.parametrize("kept", ["one.submit(FOREVER)", "held.append(one.submit(FOREVER))", "hold_in_cycle()"])
def test_the_process_ends_while_runs_do_not(child: Child, threads: int, kept: str) -> None:
    """They are ended; whoever holds their futures hears of it, and nothing is said on the way."""
    printed = child(
        BEGIN,
        f"""
        held = []
        one = looping()
        def hold_in_cycle():
            cycle = [one.submit(FOREVER), one]
            cycle.append(cycle)
        for _ in range(20):
            {kept}
        heard = one.submit(FOREVER)
        heard.add_done_callback(lambda done: print(type(done.exception()).__name__, flush=True))
        del one
        """,
        arguments=[threads],
        timeout=60,
    )
    assert printed == "TerminatedError\n"


@both
def test_the_process_ends_while_loops_wait_in_daemons(child: Child, threads: int) -> None:
    child(
        BEGIN,
        """
        one = looping()
        async def wait():
            await asyncio.gather(*(one.run_async(FOREVER) for _ in range(5)))
        def forever():
            while True:
                try:
                    one.submit(FEEDS and A_WHILE).result()
                except zrt.Error:
                    pass
        # The error of an ended run is of no interest.
        threading.excepthook = lambda _: None
        for target in (lambda: asyncio.run(wait()), forever, forever):
            threading.Thread(target=target, daemon=True).start()
        time.sleep(0.1)
        """,
        arguments=[threads],
        timeout=60,
    )


@both
def test_at_the_end_no_run_begins(child: Child, threads: int) -> None:
    printed = child(
        """
        import atexit
        def late():
            try:
                one.submit(A_WHILE)
            except zrt.errors.UnsupportedError as error:
                print(error)
            print(one.run(A_WHILE)[0].tolist())
        atexit.register(late)
        """,
        BEGIN,
        """
        one = looping()
        one.submit(A_WHILE).result()
        """,
        arguments=[threads],
    )
    assert printed == "the interpreter is ending: no run can begin\n[inf, inf, inf, inf]\n"


@both
def test_the_process_is_killed_by_an_error(child: Child, threads: int) -> None:
    """An exception ends the script with runs under way: its traceback and status are Python's."""
    process = child.start(
        BEGIN,
        """
        one = looping()
        runs = [one.submit(FOREVER) for _ in range(5)]
        raise SystemExit(7)
        """,
        arguments=[threads],
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 7
    assert errors == ""


@both
def test_forks_while_runs_are_under_way(child: Child, threads: int) -> None:
    """In the child their futures fail at once, sessions of its own run; in the parent nothing has happened."""
    child(
        BEGIN,
        """
        one = looping()
        runs = [one.submit(A_WHILE) for _ in range(20)]
        endless = one.submit(FOREVER)
        for number in range(4):
            forked = os.fork()
            if forked == 0:
                faulthandler.dump_traceback_later(60, exit=True)
                error = endless.exception(10)
                assert type(error) is zrt.errors.UnsupportedError, error
                assert "forked" in str(error)
                mine = looping()
                assert mine.submit(A_WHILE).result(30)[0].tolist() == [np.inf] * 4
                assert asyncio.run(mine.run_async(A_WHILE))[0].tolist() == [np.inf] * 4
                ended = mine.submit(FOREVER)
                ended.cancel()
                if number % 2:
                    os._exit(0)
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
        assert not endless.done()
        endless.cancel()
        for run in runs:
            assert run.result(60)[0].tolist() == [np.inf] * 4
        """,
        arguments=[threads],
    )


@both
def test_sessions_from_before_a_fork(child: Child, threads: int) -> None:
    """As with `run`: where the threads that are lost are not needed, it goes on, on a thread that is the child's."""
    child(
        BEGIN,
        """
        one = looping()
        assert one.submit(A_WHILE).result(60)[0].tolist() == [np.inf] * 4
        forked = os.fork()
        if forked == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            assert one.run(A_WHILE)[0].tolist() == [np.inf] * 4
            assert one.submit(A_WHILE).result(30)[0].tolist() == [np.inf] * 4
            assert asyncio.run(one.run_async(A_WHILE))[0].tolist() == [np.inf] * 4
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
        """,
        arguments=[threads],
    )


def test_forks_in_the_middle_of_everything(child: Child) -> None:
    """Threads submit, cancel and log at full speed; whatever lock one of them holds, the child goes on."""
    child(
        BEGIN,
        """
        stop = False
        one = zrt.Session(ADD, zrt.SessionOptions(intra_op_num_threads=1, logger="x", log_severity_level="VERBOSE"))
        latest = [None] * 4
        def work(number):
            while not stop:
                latest[number] = future = one.submit(FEEDS)
                if number % 2:
                    future.cancel()
                else:
                    future.result(60)
        workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for worker in workers: worker.start()
        for _ in range(10):
            time.sleep(0.005)
            forked = os.fork()
            if forked == 0:
                faulthandler.dump_traceback_later(60, exit=True)
                mine = session(zrt.SessionOptions(intra_op_num_threads=1, logger="x", log_severity_level="VERBOSE"))
                assert mine.submit(FEEDS).result(30)[0].tolist() == SUM.tolist()
                assert zrt.Environment.flush_log(30)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
        stop = True
        for worker in workers: worker.join()
        """,
        arguments=[1],
    )


@both
def test_drops_under_the_collector(child: Child, threads: int) -> None:
    """Sessions, feeds, options and futures go in any order, and each result that is asked for is right."""
    child(
        BEGIN,
        """
        random.seed(7)
        gc.set_threshold(50)
        held = []
        for number in range(300):
            if number % 40 == 0:
                one = session(zrt.SessionOptions(intra_op_num_threads=THREADS))
            feeds = {"x": np.full(4, number, np.float32), "y": np.ones(4, np.float32)}
            if number % 5 == 0:
                feeds = {name: zrt.Value.from_array(feed) for name, feed in feeds.items()}
            options = zrt.RunOptions(tag=str(number)) if number % 3 == 0 else None
            future = one.submit(feeds, options=options)
            choice = random.random()
            if choice < 0.3:
                held.append((number, future))
            elif choice < 0.5:
                future.cancel()
            elif choice < 0.6:
                cycle = [future, feeds, one]
                cycle.append(cycle)
            if random.random() < 0.1:
                one.close()
                one = session(zrt.SessionOptions(intra_op_num_threads=THREADS))
            if random.random() < 0.1 and held:
                expected, asked = held.pop(random.randrange(len(held)))
                assert asked.result(60)[0].tolist() == [expected + 1.0] * 4
        del one, feeds, options, future
        gc.collect()
        for expected, asked in held:
            assert asked.result(60)[0].tolist() == [expected + 1.0] * 4
        while async_runs._under_way:
            time.sleep(0.001)
        """,
        arguments=[threads],
    )


@both
def test_memory_stays_flat_over_runs(child: Child, threads: int) -> None:
    """A kept run would be a block, its arrays and its options: over 1 KiB."""
    grown = child(
        BEGIN,
        """
        import resource
        one = session(zrt.SessionOptions(intra_op_num_threads=THREADS, logger="x", log_severity_level="ERROR"))
        def turns(number):
            for _ in range(number):
                runs = [one.submit(FEEDS) for _ in range(10)]
                runs[0].cancel()
                for run in runs[1:]:
                    run.result()
            gc.collect()
        turns(100)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        turns(300)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """,
        arguments=[threads],
    )
    assert int(grown) < 1500


@both
def test_sessions_closed_under_load(child: Child, threads: int) -> None:
    """Lanes, plain runs, tasks and futures in threads, over sessions that are closed and replaced beneath them."""
    child(
        BEGIN,
        """
        current = [looping()]
        ends = {"right": 0, "closed": 0}
        stop = time.monotonic() + 1
        few = {"n": np.array(3), "x": np.ones(4, np.float32)}

        def by_lane(one):
            with one.lane({"n": (), "x": 4}) as lane:
                for name, feed in few.items():
                    lane.inputs[name][...] = feed
                lane.run()
                return lane.outputs["y"].copy()

        async def by_tasks(one):
            return (await asyncio.gather(*(one.run_async(few) for _ in range(5))))[-1][0]

        ways = [by_lane, lambda one: one.run(few)[0], lambda one: one.submit(few).result(60)[0],
                lambda one: asyncio.run(by_tasks(one))]

        def going():
            return time.monotonic() < stop or ends["right"] <= 20

        def work(way):
            while going():
                try:
                    assert way(current[0]).tolist() == [8.0] * 4
                    ends["right"] += 1
                except zrt.errors.ClosedError:
                    ends["closed"] += 1

        workers = [threading.Thread(target=work, args=(way,)) for way in ways]
        for worker in workers: worker.start()
        while going():
            time.sleep(0.01)
            old, current[0] = current[0], looping()
            old.close()
        for worker in workers: worker.join(60)
        assert not any(worker.is_alive() for worker in workers)
        """,
        arguments=[threads],
    )


@pytest.mark.slow
def test_interrupts_lose_nothing(child: Child) -> None:
    """Ctrl-C at any moment of `submit`: what was started ends, and later runs are right."""
    child(
        BEGIN,
        """
        import signal
        armed = False
        def interrupt(*_):
            if armed:
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        one = session(zrt.SessionOptions(intra_op_num_threads=THREADS))
        interrupted = 0
        for number in range(200):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, random.random() * 1e-3 + 1e-6)
                for _ in range(100):
                    one.submit(FEEDS)
                armed = False
            except KeyboardInterrupt:
                armed = False
                interrupted += 1
        assert interrupted > 50, interrupted
        end = time.monotonic() + 30
        while async_runs._under_way:
            assert time.monotonic() < end, async_runs._under_way
            time.sleep(0.001)
        assert one.submit(FEEDS).result(60)[0].tolist() == SUM.tolist()
        """,
        arguments=[1],
    )
