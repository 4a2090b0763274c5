"""Operators, domains, sessions and kernels' states are dropped in any order, and nothing leaks."""

import contextlib
import gc
import itertools
import sys
import sysconfig
import weakref
from collections.abc import Callable
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
    """A kernel's state; weak references to it show whether it was released."""


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
def test_objects_dropped_in_any_order(order: tuple[int, ...]) -> None:
    op = Stateful()
    domain = zrt.CustomOpDomain(DOMAIN, [op])
    session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[domain]))
    lane = session.lane(shapes={"x": 4, "y": 4}, output_shapes={"z": 4})
    (state,) = op.states
    gone = weakref.ref(op)
    held: dict[int, Any] = {0: op, 1: domain, 2: session, 3: lane}
    del op, domain, session, lane
    for number in order:
        del held[number]
        gc.collect()
        if 3 in held:
            held[3].run()
            assert (held[3].outputs["z"] == 0).all()
        if 2 in held:
            assert np.array_equal(held[2].run([X, X])[0], X + X)
    assert gone() is None
    assert state() is None


def test_operator_that_holds_its_session_is_collected() -> None:
    op = Stateful()
    op.session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain(DOMAIN, [op])]))
    op.session.run([X, X])
    gone, state = weakref.ref(op), op.states[0]
    del op
    gc.collect()
    assert gone() is None
    assert state() is None


def test_state_that_holds_its_session_is_collected() -> None:
    op = Stateful()
    domain = zrt.CustomOpDomain(DOMAIN, [op])
    session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[domain]))
    state = op.states[0]()
    assert state is not None
    state.__dict__.update(session=session, lane=session.lane(shapes={"x": 4, "y": 4}, output_shapes={"z": 4}))
    del state, session
    gc.collect()
    # The operator and its domain are still alive.
    assert op.states[0]() is None
    assert not domain.closed


def test_closing_a_session_releases_its_kernels() -> None:
    op = Stateful()
    with zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain(DOMAIN, [op])])):
        assert op.states[0]() is not None
    assert op.states[0]() is None


def test_failed_load_releases_its_kernels() -> None:
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


def leaks_nothing(work: Callable[[], object], count: int) -> None:
    """Checks that `count` calls let neither objects nor memory grow."""

    def repeat() -> tuple[int, int]:
        for _ in range(count):
            work()
        gc.collect()
        return len(gc.get_objects()), resident_bytes()

    # As often before as after: without a GIL the garbage of all these calls may wait for the collection.
    objects, memory = repeat()
    more_objects, more_memory = repeat()
    assert more_objects < objects + 100
    assert more_memory < memory + (4 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_runs_leak_nothing() -> None:
    """Runs that succeed, raise and use other threads."""

    class Mixed(Op):
        turn = 0

        def work(self, context: KernelContext) -> None:
            self.turn += 1
            if self.turn % 3 == 0:
                raise ValueError(self.turn)
            if self.turn % 5 == 0:
                context.parallel_for(lambda index: None, 3)

    session = load(ONE, Mixed())
    # One array leaked in a hundred would exceed the limit.
    feed = np.zeros(1 << 14, np.float32)

    def run() -> None:
        with contextlib.suppress(CallbackError):
            session.run([feed])

    leaks_nothing(run, 6000)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sessions_leak_nothing() -> None:
    def work() -> None:
        op = Stateful()
        op.session = zrt.Session(MODEL, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain(DOMAIN, [op])]))
        op.session.run([X, X])

    leaks_nothing(work, 120)


def test_sessions_made_run_and_dropped_in_eight_threads(child: Child) -> None:
    child("drop_in_threads.py")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", ["nothing", "sleep", "parallel_for"])
def test_process_ends_while_daemon_threads_run_operators(child: Child, work: str, threads: int) -> None:
    assert child("end_during_runs.py", [work, threads]) == "end\n"


def test_process_ends_while_daemon_threads_load_models_that_fail(child: Child) -> None:
    """Python makes a thread that waits for the GIL exit, which must not unwind ONNX Runtime's frames."""
    for number in range(10):
        assert child("end_during_loads.py", [0.15 + number / 100]) == "end\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="this Python has address space in reserve for the copy"
)
def test_kept_array_without_memory_for_its_copy_has_no_elements(child: Child) -> None:
    assert child("no_memory.py") == "(0,)\n"


def test_operator_that_runs_after_the_interpreters_end_raises(child: Child) -> None:
    assert child("late.py").endswith("operator Op: the interpreter has ended\n")


def test_forked_child_leaves_the_parents_operators_alone(child: Child) -> None:
    child("fork.py")


@pytest.mark.parametrize("language", ["python", "c"])
def test_fork_while_another_thread_is_in_a_serialized_operator(child: Child, language: str) -> None:
    child("fork_in_an_operator.py", [language])
