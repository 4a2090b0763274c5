"""Thread factories: threads of ONNX Runtime's pools that the caller makes; and the CPUs that threads keep to."""

import _thread
import gc
import os
import re
import threading
import weakref
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.compiler import shared_library
from tests.support.libc import GLIBC
from tests.support.threads import (
    MODEL,
    Factory,
    begins_and_raises,
    check,
    forgets,
    interrupted,
    keeps,
    no_daemon,
    on_the_spot,
    raises,
    session,
    started,
    two_cpus,
    unstarted,
)
from zrt import ExecutionMode, Runtime, Session, SessionOptions
from zrt.environment import thread_factory
from zrt.errors import ArgumentError, CallbackError, InvalidProtobufError, OrtError


class TestFactory:
    @pytest.mark.parametrize(
        ("step", "fields", "asked"),
        [
            (unstarted, {}, 3),
            (started, {}, 3),
            # A factory may return anything if a thread does the work.
            (lambda _, work: _thread.start_new_thread(work, ()), {}, 3),
            # The threads of both pools.
            (unstarted, {"execution_mode": ExecutionMode.PARALLEL, "inter_op_num_threads": 3}, 3 + 2),
            # The caller's own thread needs no factory.
            (raises, {"threads": 1}, 0),
        ],
    )
    def test_makes_every_thread_but_the_callers_own(self, step, fields, asked):
        factory = Factory(step)
        it = session(factory, **fields)
        assert factory.asked == asked
        assert len(factory.threads) == (asked if step in (unstarted, started) else 0)
        assert all(thread.is_alive() and thread.daemon for thread in factory.threads)
        for _ in range(3):
            check(it)
        it.close()
        assert factory.ended()

    def test_is_called_on_the_thread_that_loads(self):
        seen = []
        session(Factory(lambda self, work: seen.append(threading.get_ident()) or started(self, work)))
        assert set(seen) == {threading.get_ident()}

    def test_serves_any_number_of_sessions(self):
        factory = Factory()
        options = SessionOptions(intra_op_num_threads=2, thread_factory=factory)
        runtime = Runtime.replicate(MODEL, 2, options, share_weights=True)
        others = [Session(MODEL, options), Session(MODEL, options)]
        assert len(factory.threads) == 4
        runtime.prime()
        runtime.close()
        for other in others:
            check(other)
            other.close()
        del runtime
        gc.collect()
        assert factory.ended()

    def test_threads_may_run_code_before_and_after_the_work(self):
        seen = []

        def make(work):
            def target():
                seen.append("before")
                work()
                seen.append("after")

            return threading.Thread(target=target)

        factory = Factory(lambda self, work: make(work))
        it = session(factory)
        assert seen.count("before") == 3
        assert "after" not in seen
        it.close()
        assert factory.ended()
        assert seen.count("after") == 3

    def test_affinities_are_applied(self, eventually):
        if not two_cpus():
            pytest.skip("this process may not use the first two processors")
        factory = Factory()
        it = session(factory, 3, intra_op_thread_affinities="2;1-2")
        check(it)
        # Each thread sets its own at its start, for which neither the load nor a run waits.
        eventually(lambda: [os.sched_getaffinity(thread.native_id) for thread in factory.threads] == [{1}, {0, 1}])


class TestEnd:
    """The release of a session waits until its threads have left ONNX Runtime's code, on any thread."""

    def test_lane_of_a_closed_session_keeps_the_threads(self):
        factory = Factory()
        it = session(factory)
        lane = it.lane()
        it.close()
        del it
        lane.run()
        assert all(thread.is_alive() for thread in factory.threads)
        lane.close()
        assert factory.ended()

    def test_session_closed_on_another_thread(self, background):
        factory = Factory()
        it = session(factory)
        background(it.close).result()
        assert factory.ended()

    def test_session_in_a_cycle_is_collected(self):
        factory = Factory()
        cycle = [session(factory)]
        cycle.append(cycle)
        del cycle
        gc.collect()
        assert factory.ended()

    def test_session_and_factory_of_one_object_are_collected(self):
        """The session holds no reference to its factory, so an object that owns both is not kept alive."""

        class Server:
            def __init__(self):
                self.factory = Factory()
                self.session = session(self.make)

            def make(self, work):
                return self.factory(work)

        server = Server()
        gone, threads = weakref.ref(server), server.factory
        del server
        gc.collect()
        assert gone() is None
        assert threads.ended()

    def test_session_released_on_a_thread_of_another_session(self):
        inner, outer = Factory(), Factory()
        victim = [session(inner)]

        def make(work):
            def target():
                work()
                victim.clear()

            return threading.Thread(target=target)

        it = session(lambda work: outer.threads.append(make(work)) or outer.threads[-1], 2)
        it.close()
        assert outer.ended()
        assert inner.ended()

    @pytest.mark.parametrize(
        "way",
        [
            "alive",
            "released",
            "in_a_cycle",
            "with_a_lane",
            "closed_by_atexit",
            "run_by_a_daemon",
            "closed_by_a_thread",
            "in_the_child_of_a_fork",
        ],
    )
    def test_interpreter_exits_cleanly(self, script, way):
        assert script("thread_factory_at_exit.py", way).stderr == ""


class TestMistakes:
    """A factory that breaks its contract: the load raises a `CallbackError`, without a crash or a deadlock."""

    @pytest.fixture(autouse=True)
    def no_thread_is_left(self):
        before = set(threading.enumerate())
        yield
        gc.collect()
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
            assert not thread.is_alive()

    # Fails at the first thread, at one in the middle and at the last: ONNX Runtime alone would wait forever for the
    # threads that were made before.
    @pytest.mark.parametrize("before", [0, 1, 2])
    @pytest.mark.parametrize(
        ("step", "words", "cause"),
        [
            (raises, "thread_factory raised ValueError: no more threads", ValueError),
            (begins_and_raises, "thread_factory raised ValueError: no more threads", ValueError),
            (forgets, "thread_factory: it dropped the work", CallbackError),
            (keeps, "thread_factory: no thread started the work within 1 s", CallbackError),
            (on_the_spot, "thread_factory: the work is for another thread than the one that calls", CallbackError),
            (no_daemon, "thread_factory: the thread is no daemon", CallbackError),
        ],
    )
    def test_load_raises_callback_error(self, monkeypatch, step, words, cause, before):
        if step is keeps:
            monkeypatch.setattr(thread_factory, "PATIENCE", 1)
        factory = Factory(*[unstarted] * before, step)
        with pytest.raises(CallbackError, match=f"^model in memory: {re.escape(words)}") as caught:
            session(factory)
        assert type(caught.value.__cause__) is cause
        assert factory.asked == before + 1
        assert factory.ended()
        # Work that is called after the failure returns at once.
        for work in factory.works:
            work()

    def test_factory_that_raises_in_the_second_pool(self):
        factory = Factory(unstarted, unstarted, raises)
        with pytest.raises(CallbackError, match="no more threads"):
            session(factory, 3, execution_mode="PARALLEL", inter_op_num_threads=3)
        assert factory.ended()

    @pytest.mark.parametrize("before", [0, 1])
    def test_keyboard_interrupt_propagates_unwrapped(self, before):
        factory = Factory(*[unstarted] * before, interrupted)
        with pytest.raises(KeyboardInterrupt):
            session(factory)
        assert factory.ended()

    def test_failure_whose_exception_was_lost_raises(self, monkeypatch):
        monkeypatch.setattr(thread_factory.Crew, "keep", lambda self, error: None)
        for before in (0, 1):
            factory = Factory(*[unstarted] * before, raises)
            with pytest.raises(CallbackError, match="thread_factory: it was interrupted"):
                session(factory)
            assert factory.ended()

    def test_work_called_twice_raises(self):
        errors = []

        def twice(work):
            def target():
                work()
                try:
                    work()
                except CallbackError as error:
                    errors.append(str(error))

            return threading.Thread(target=target)

        factory = Factory(lambda _, work: twice(work))
        session(factory).close()
        assert factory.ended()
        assert errors == ["thread_factory: another thread does this work, or did"] * 3

    def test_second_thread_for_the_same_work_is_refused(self):
        errors = []

        def both(self, work):
            def second():
                try:
                    work()
                except CallbackError as error:
                    errors.append(str(error))

            self.threads.append(started(self, second))
            return started(self, second)

        factory = Factory(both)
        it = session(factory, 2)
        check(it)
        it.close()
        assert factory.ended()
        assert errors == ["thread_factory: another thread does this work, or did"]

    def test_failed_load_ends_the_threads(self):
        factory = Factory()
        with pytest.raises(InvalidProtobufError):
            Session(b"no model" * 99, SessionOptions(intra_op_num_threads=4, thread_factory=factory))
        assert factory.ended()

    def test_exception_is_released_with_the_error(self):
        """Neither the factory nor zrt keeps the exception of a failed load."""

        class CarriedError(Exception):
            pass

        def fail(work):
            raise CarriedError

        def load():
            try:
                session(fail)
            except CallbackError as error:
                return weakref.ref(error.__cause__)
            return None

        cause = load()
        gc.collect()
        assert cause() is None


class TestAffinities:
    @given(st.data())
    def test_valid_affinities_are_passed_on_unchanged(self, data):
        most = os.cpu_count()
        processors = st.integers(1, most)
        ranges = st.tuples(processors, processors).map(lambda ends: f"{min(ends)}-{max(ends)}")
        listed = st.lists(processors, min_size=1, max_size=4).map(lambda group: ",".join(map(str, group)))
        groups = data.draw(st.lists(st.one_of(ranges, listed), min_size=1, max_size=5))
        written = ";".join(groups)
        options = SessionOptions(intra_op_num_threads=len(groups) + 1, intra_op_thread_affinities=written)
        assert options.effective_config_entries() == {"session.intra_op_thread_affinities": written}

    @given(st.text(alphabet="0123456789,-;x ", max_size=8), st.integers(2, 4))
    @example("1;1-2", 3)
    @example("01,2,2", 2)
    def test_affinity_is_refused_by_zrt_or_taken_by_ort(self, written, threads):
        options = SessionOptions(intra_op_num_threads=threads, intra_op_thread_affinities=written)
        try:
            options.handle()
        except ArgumentError:
            return
        with Session(MODEL, options) as it:
            check(it)

    @pytest.mark.parametrize(
        ("written", "threads", "words"),
        [
            ("1", 0, "needs intra_op_num_threads of 2 or more, not 0"),
            ("1", 1, "needs intra_op_num_threads of 2 or more, not 1"),
            ("", 2, "'' is neither processors"),
            ("1;", 3, "'' is neither"),
            ("1,", 2, "'1,' is neither"),
            ("1-2-3", 2, "'1-2-3' is neither"),
            ("-1", 2, "'-1' is neither"),
            ("1 ", 2, "'1 ' is neither"),
            ("9" * 5000, 2, "names a processor"),
            ("\u0661", 2, "is neither"),
            ("2-1", 2, "'2-1' ends before it begins"),
        ],
    )
    def test_bad_affinities_are_refused(self, written, threads, words):
        if written == "2-1" and os.cpu_count() < 2:
            pytest.skip("this machine has one processor")
        with pytest.raises(ArgumentError, match=f"^intra_op_thread_affinities: .*{re.escape(words)}"):
            SessionOptions(intra_op_num_threads=threads, intra_op_thread_affinities=written).handle()

    @pytest.mark.skipif(os.cpu_count() == 1, reason="this machine has one processor")
    def test_processors_are_those_of_the_machine(self, monkeypatch):
        # As with musl, in a mask of one CPU.
        monkeypatch.setattr(os, "cpu_count", lambda: 1)
        SessionOptions(intra_op_num_threads=2, intra_op_thread_affinities="2").handle()

    def test_ort_alone_refuses_bad_affinities_at_load(self):
        """Without zrt's check, ORT reports the mistake in words of its own, or not at all."""
        key = "session.intra_op_thread_affinities"
        with pytest.raises(OrtError, match="must consist of only digits"):
            Session(MODEL, SessionOptions(intra_op_num_threads=2, config_entries={key: "a"}))


@pytest.mark.skipif(not GLIBC, reason="preloads a library for glibc")
def test_load_without_threads_or_memory_raises(tmp_path, script, monkeypatch):
    source = (Path(__file__).parent / "scripts" / "starved.c").read_text()
    monkeypatch.setenv("LD_PRELOAD", str(shared_library(tmp_path / "starved.so", source, "-ldl")))
    script("starved_thread_factory.py")
