"""Operators, domains, sessions and what they hold go in any order, and nothing stays."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import zrt
from tests.custom_ops.support import DOMAIN, ONE, TWO, Add, Op, X, build, load
from tests.robustness.conftest import Child
from zrt.bench.machine import resident_bytes
from zrt.custom_ops import KernelContext, KernelInfo
from zrt.errors import CallbackError

MODEL = build(TWO)


class State:
    """What a kernel has, so that a weak reference tells whether it is gone."""


class Stateful(Add):
    def __init__(self) -> None:
        self.states: list[weakref.ref[State]] = []
        self.session: zrt.Session | None = None

    def create(self, info: KernelInfo) -> State:
        state = State()
        self.states.append(weakref.ref(state))
        return state


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order(order: tuple[int, ...]) -> None:
    op = Stateful()
    domain = zrt.CustomOpDomain(DOMAIN, [op])
    session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[domain]))
    lane = session.lane(shapes={"x": 4, "y": 4}, output_shapes={"z": 4})
    (state,) = op.states
    gone = weakref.ref(op)
    things: dict[int, Any] = {0: op, 1: domain, 2: session, 3: lane}
    del op, domain, session, lane
    for number in order:
        del things[number]
        gc.collect()
        if 3 in things:
            things[3].run()
            assert (things[3].outputs["z"] == 0).all()
        if 2 in things:
            assert np.array_equal(things[2].run([X, X])[0], X + X)
    assert gone() is None
    assert state() is None


def test_an_operator_that_holds_its_session() -> None:
    """The collector sees the cycle, for which nobody has to close anything."""
    op = Stateful()
    op.session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain(DOMAIN, [op])]))
    op.session.run([X, X])
    gone, state = weakref.ref(op), op.states[0]
    del op
    gc.collect()
    assert gone() is None
    assert state() is None


def test_a_state_that_holds_its_session_and_info() -> None:
    op = Stateful()
    domain = zrt.CustomOpDomain(DOMAIN, [op])
    session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[domain]))
    state = op.states[0]()
    assert state is not None
    state.__dict__.update(session=session, lane=session.lane(shapes={"x": 4, "y": 4}, output_shapes={"z": 4}))
    del state, session
    gc.collect()
    # The operator and its domain live on.
    assert op.states[0]() is None
    assert not domain.closed


def test_closing_ends_the_kernels() -> None:
    op = Stateful()
    with zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain(DOMAIN, [op])])):
        assert op.states[0]() is not None
    assert op.states[0]() is None


def test_a_failed_load_leaves_nothing() -> None:
    class Second(Op):
        def create(self, info: KernelInfo) -> None:
            raise ValueError

    op = Stateful()
    text = "(float[n] x) => (float[n] z) { a = test.ops.Add(x, x) z = test.ops.Op(a) }"
    for _ in range(3):
        with pytest.raises(CallbackError):
            load(text, op, Second())
    gc.collect()
    assert [state() for state in op.states] == [None] * len(op.states)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_runs_leave_nothing() -> None:
    """Runs that succeed, raise, keep arrays and fill outputs: neither objects nor memory grow."""

    class Mixed(Op):
        turn = 0

        def work(self, context: KernelContext) -> None:
            self.turn += 1
            if self.turn % 3 == 0:
                raise ValueError(self.turn)
            if self.turn % 5 == 0:
                context.parallel_for(lambda index: None, 3)

    session = load(ONE, Mixed())
    feed = np.zeros(1 << 14, np.float32)

    def run(count: int) -> None:
        for _ in range(count):
            with contextlib.suppress(CallbackError):
                session.run([feed])

    run(600)
    gc.collect()
    objects, memory = len(gc.get_objects()), resident_bytes()
    run(6000)
    gc.collect()
    assert len(gc.get_objects()) < objects + 100
    # One array in a hundred kept would be as much.
    assert resident_bytes() < memory + (4 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sessions_leave_nothing() -> None:
    def work(count: int) -> None:
        for _ in range(count):
            op = Stateful()
            op.session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain(DOMAIN, [op])]))
            op.session.run([X, X])
        gc.collect()

    work(40)
    objects, memory = len(gc.get_objects()), resident_bytes()
    work(120)
    assert len(gc.get_objects()) < objects + 100
    assert resident_bytes() < memory + (4 << 20)


STRESS = """
from tests.custom_ops.support import DOMAIN, TWO, Add, X, build
from zrt.errors import CallbackError, ClosedError
MODEL = build(TWO)

class Fickle(Add):
    def create(self, info):
        if random.random() < 0.1:
            raise KeyError("create")
        return object()

    def compute(self, context):
        if random.random() < 0.3:
            raise ValueError("compute")
        super().compute(context)

def work():
    for _ in range(40):
        op = Fickle()
        domain = zrt.CustomOpDomain(DOMAIN, [op])
        try:
            session = zrt.Session(MODEL, zrt.SessionOptions(
                custom_ops=[domain], intra_op_num_threads=1, log_severity_level="FATAL"))
        except CallbackError as error:
            assert isinstance(error.__cause__, KeyError)
            continue
        op.session = session
        lane = session.lane(shapes={"x": 4, "y": 4}, output_shapes={"z": 4})
        shared[random.randrange(8)] = session, lane
        things = [op, domain, session, lane]
        random.shuffle(things)
        del op, domain, session, lane
        while things:
            things.pop()
            other = shared[random.randrange(8)]
            try:
                if other:
                    other[0].run([X, X])
                    if random.random() < 0.1:
                        other[0].close()
            except (CallbackError, ClosedError):
                pass
        if random.random() < 0.2:
            gc.collect()

shared = [None] * 8
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_eight_threads_make_run_and_drop(child: Child) -> None:
    child(STRESS)


EXIT = """
from tests.custom_ops.support import ONE, Op, X, load

class Slow(Op):
    def work(self, context):
        {work}

session = load(ONE, Slow(), intra_op_num_threads={threads})
begun = threading.Event()

def run():
    while True:
        begun.set()
        try:
            session.run([X])
        except zrt.Error:
            pass

for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
begun.wait()
time.sleep(0.05)
print("end")
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", ["pass", "time.sleep(0.001)", "context.parallel_for(lambda i: time.sleep(0.001), 8)"])
def test_the_interpreter_ends_amid_runs(child: Child, work: str, threads: int) -> None:
    """Daemon threads are in operators when the process ends: it ends well all the same."""
    assert child(EXIT.format(work=work, threads=threads)) == "end\n"


def test_a_forked_child_leaves_the_parents_operators_alone(child: Child) -> None:
    script = """
    from tests.custom_ops.support import ONE, Op, X, load
    session = load(ONE, Op())
    session.run([X])
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        del session
        gc.collect()
        # One of its own works there.
        assert (load(ONE, Op()).run([X])[0] == X).all()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
    assert (session.run([X])[0] == X).all()
    """
    child(script)
