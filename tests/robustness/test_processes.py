"""Forks and further interpreters: what is of the parent's goes on there, and the child neither hangs nor crashes."""

from __future__ import annotations

import os

import pytest

from tests.robustness.conftest import Child

FORK = """

threads = int(sys.argv[2])
many = bench.cnn()
images = {"image": np.ones((4, 1, 28, 28), np.float32)}
one = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads))
made = one.lane({"image": (4, 1, 28, 28)})
made.inputs["image"][...] = 1
bound = one.binding()
bound.bind_input("image", images["image"])
bound.bind_output("logits")
view = made.outputs["logits"]
value = zrt.Value.allocate((4,), np.float32, one.allocator())
wanted = one.run(images)[0]
made.run()
bound.run()

def same(found, wanted):
    assert np.array_equal(found, wanted)

def in_child():
    what = sys.argv[1]
    if what == "drop":
        globals().update(one=None, made=None, bound=None, view=None, value=None)
        gc.collect()
    elif what == "close":
        for thing in (value, bound, made, one):
            thing.close()
    elif what == "look":
        view.sum(), value.numpy(), made.audit(), repr(one)
        bound.outputs()
    elif what == "own":
        with zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads)) as own:
            same(own.run(images)[0], wanted)
            mine = own.lane({"image": (4, 1, 28, 28)})
        mine.run()
        del mine
        gc.collect()
    elif what == "own, kept":
        global kept
        kept = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads))
        same(kept.run(images)[0], wanted)
    elif what == "run":
        same(one.run(images)[0], wanted)
        made.run()
        bound.run()
        one.lane({"image": (1, 1, 28, 28)}).run()
    elif what == "fork":
        ended = os.fork()
        if ended:
            assert os.waitpid(ended, 0)[1] == 0

def wait(process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended, code = os.waitpid(process, os.WNOHANG)
        if ended:
            assert code == 0, f"the forked process ended with {code}"
            return
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    raise AssertionError("the forked process hangs")
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


# A run of what the parent made is not among the promises where it has a pool of threads: they are the parent's.
@needs_fork
@pytest.mark.parametrize(
    ("what", "threads"),
    [(what, threads) for what in ("exit", "drop", "close", "look", "own", "own, kept", "fork") for threads in (1, 3)]
    + [("run", 1)],
)
def test_fork_after_use(child: Child, what: str, threads: int) -> None:
    """A child that only ends, or that works with things of its own, neither hangs nor crashes; the parent goes on."""
    child(
        FORK,
        """
        process = os.fork()
        if not process:
            in_child()
            sys.exit(0)
        wait(process)
        same(one.run(images)[0], wanted)
        made.run()
        same(view, wanted)
        """,
        arguments=[what, threads],
    )


@needs_fork
def test_fork_in_the_midst_of_runs(child: Child) -> None:
    """Other threads are at work while the process forks."""
    child(
        FORK,
        """
        stop = threading.Event()

        def work():
            mine = one.lane({"image": (4, 1, 28, 28)})
            while not stop.is_set():
                mine.run()
                one.run(images)
                zrt.Value.from_array(wanted).numpy()

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for _ in range(20):
            process = os.fork()
            if not process:
                # What a worker had in hand goes with the process: Python ends it without its threads.
                os._exit(0)
            wait(process)
        stop.set()
        for worker in workers:
            worker.join()
        same(one.run(images)[0], wanted)
        """,
        arguments=["exit", 2],
    )


@needs_fork
def test_a_pool_of_forked_processes(child: Child) -> None:
    child(
        FORK,
        """
        import multiprocessing

        def infer(number):
            own = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=1))
            return own.run({"image": images["image"] * number})[0]

        with multiprocessing.get_context("fork").Pool(2) as pool:
            for number, result in enumerate(pool.map(infer, range(4))):
                same(result, one.run({"image": images["image"] * number})[0])
        """,
        arguments=["exit", 3],
    )


OTHER = '''
CODE = """
import warnings
warnings.simplefilter("ignore")
try:
    import numpy as np
    from zrt.session.session import Session
except ImportError:
    # What is no fit for several interpreters says so; numpy does from the second on.
    pass
else:
    feeds = {"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)}
    session = Session(ADD)
    lane = session.lane({"x": 4, "y": 4})
    lane.run()
    view = lane.outputs["z"]
    assert session.run(feeds)[0].sum() == 8
"""
'''


def test_another_interpreter(child: Child) -> None:
    """In a second interpreter of the process zrt works or cannot be imported."""
    child(
        OTHER,
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            try:
                import _xxsubinterpreters as interpreters
            except ImportError:
                sys.exit(0)
        code = f"import sys; sys.path[:] = {sys.path!r}; ADD = {ADD!r}" + CODE
        one = session()
        for _ in range(3):
            other = interpreters.create()
            interpreters.run_string(other, code)
            interpreters.destroy(other)
            assert np.array_equal(one.run(FEEDS)[0], SUM)
        gc.collect()
        lane(one).run()
        """,
    )
