"""`InferenceSession.run_async`: a callback at the end of a run."""

import contextlib
import queue
import re
import sys
import threading
from typing import Any

import numpy as np
import pytest

from tests.onnxruntime.models import FEEDS, ONES, TWOS, model
from tests.onnxruntime.packages import ours
from tests.support.interrupts import on_its_own
from tests.support.models import LOOP
from zrt.onnxruntime import feeds as feeds_of_runs
from zrt.session import async_runs


def lists(results: Any) -> list[Any]:
    return [result.tolist() for result in results]


@pytest.fixture(scope="module")
def session(ort: Any) -> Any:
    # The official package needs a thread besides the caller's for `run_async`, and may wait forever for a session that
    # is dropped before its last run has returned.
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    return ort.InferenceSession(model(), options)


class TestAsync:
    """`run_async`: a callback at the end of the run, on another thread."""

    @staticmethod
    def ended(session: Any, *arguments: Any) -> tuple[Any, ...]:
        """The arguments of the callback, and whether it was on this thread."""
        calls: list[Any] = []
        done = threading.Event()

        def callback(results: Any, user_data: Any, error: str) -> None:
            calls.append((results, user_data, error, threading.get_ident() == caller))
            done.set()

        caller = threading.get_ident()
        names, feeds, user_data, *options = arguments
        assert session.run_async(names, feeds, callback, user_data, *options) is None
        assert done.wait(30)
        call: tuple[Any, ...] = calls[0]
        return call

    @pytest.mark.parametrize("feed", [ONES, [[1, 1, 1, 1]]])
    def test_callback_gets_the_results(self, ort: Any, session: Any, feed: Any) -> None:
        data = object()
        for options in ([], [None], [ort.RunOptions()]):
            results, user_data, error, here = self.ended(session, None, {"x": feed, "y": ONES}, data, *options)
            assert (lists(results), error, here) == ([TWOS], "", False)
            assert user_data is data

    @pytest.mark.parametrize(
        ("names", "feed", "words"),
        [
            (None, ONES[0], "Invalid rank for input: x Got: 1 Expected: 2 Please fix either the inputs/outputs"),
            (None, ONES.astype("f8"), "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(flo"),
            (["q"], ONES, "Invalid output name: q"),
        ],
    )
    def test_callback_gets_the_error(self, session: Any, names: Any, feed: Any, words: str) -> None:
        results, _, error, here = self.ended(session, names, {"x": feed, "y": ONES}, None)
        assert results == []
        assert error.startswith(words)
        assert not here

    def test_wrong_arguments_raise_at_once(self, session: Any) -> None:
        with pytest.raises(ValueError, match=re.escape("Required inputs (['y']) are missing")):
            session.run_async(None, {"x": ONES}, print, None)
        with pytest.raises(RuntimeError, match="Unable to handle object of type <class 'float'>"):
            session.run_async(None, {"x": 1.0, "y": ONES}, print, None)
        with pytest.raises(TypeError):
            session.run_async(None, FEEDS, 1, None)

    def test_result_that_is_an_input_is_a_copy(self, ort: Any) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        data = model("agraph (float[n] x) => (float[n] y, float[n] x) { y = Identity(x) }")
        x = np.ones(2, np.float32)
        (_, passed), *_ = self.ended(ort.InferenceSession(data, options), None, {"x": x}, None)
        x[:] = 9
        passed[0] = 8
        assert (passed.tolist(), x.tolist()) == ([8, 1], [9, 9])

    def test_results_have_the_form_of_those_of_run(self, ort: Any) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        data = model("agraph (float[n] x) => (float[n] y, seq(float[n]) s) { y = Neg(x) s = SequenceConstruct(x, y) }")
        session, feeds = ort.InferenceSession(data, options), {"x": ort.OrtValue.ortvalue_from_numpy(ONES[0])}
        assert lists(session.run(None, feeds)[:1]) == [[-1] * 4]
        (y, sequence), _, error, _ = self.ended(session, ["y", "s"], feeds, None)
        assert (y.tolist(), lists(sequence), error) == ([-1] * 4, [[1] * 4, [-1] * 4], "")

    @ours
    def test_interrupted_caller_holds_up_no_run(self, ort: Any, session: Any, options: Any, endless: Any) -> None:
        loop = ort.InferenceSession(model(f"agraph {LOOP}"), options)

        def start(left: int) -> None:
            """Starts a run, and interrupts the call as it takes a `Condition`, after it has taken `left` of them."""

            def trace(frame: Any, event: str, _: Any) -> Any:
                nonlocal left
                if event == "return" and frame.f_code is threading.Condition.__enter__.__code__:
                    left -= 1
                    if left < 0:
                        raise KeyboardInterrupt
                return trace

            sys.settrace(trace)
            try:
                with contextlib.suppress(KeyboardInterrupt):
                    loop.run_async(None, endless, lambda *_: None, None, stop)
            finally:
                sys.settrace(None)

        # The first runs start the threads.
        for left in (100, 0, 1, 2):
            stop = ort.RunOptions()
            for _ in range(async_runs._MOST_WORKERS):
                on_its_own(start, left)
            stop.terminate = True
        results, *_ = self.ended(session, None, FEEDS, None)
        assert lists(results) == [TWOS]

    @ours
    @pytest.mark.parametrize("kind", [ZeroDivisionError, MemoryError])
    def test_exception_of_the_callback_is_heard(
        self, session: Any, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
    ) -> None:
        heard: queue.Queue[Any] = queue.Queue()
        calls: list[str] = []

        def callback(results: Any, user_data: Any, error: str) -> None:
            calls.append(error)
            raise kind

        monkeypatch.setattr(threading, "excepthook", heard.put)
        session.run_async(None, FEEDS, callback, None)
        assert heard.get(timeout=30).exc_type is kind
        # The thread goes on.
        assert lists(self.ended(session, None, FEEDS, None)[0]) == [TWOS]
        assert calls == [""]

    @ours
    @pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
    def test_strided_feeds_and_shapes_count_as_they_are_at_the_call(self, ort: Any, options: Any, endless: Any) -> None:
        loop = ort.InferenceSession(model(f"agraph {LOOP}"), options)
        session = ort.InferenceSession(model("agraph (float[n] x) => (float[n] y) { y = Neg(x) }"), options)
        session.run(None, {"x": np.ones(3, np.float32)})
        stop, ended = ort.RunOptions(), queue.Queue[Any]()
        # All threads of the runs are busy until the end.
        for _ in range(async_runs._MOST_WORKERS):
            loop.run_async(None, endless, lambda *_: None, None, stop)
        strided, reshaped = np.ones(6, np.float32), np.ones(3, np.float32)
        try:
            for feed in (strided[::2], reshaped):
                session.run_async(None, {"x": feed}, lambda results, _, error: ended.put((lists(results), error)), None)
            strided[:] = 9
            reshaped.shape = 3, 1
        finally:
            # No later test of the process would find a thread.
            stop.terminate = True
        assert [ended.get(timeout=30) for _ in range(2)] == [([[-1] * 3], "")] * 2

    @ours
    def test_result_that_numpy_has_not_is_an_error(self, ort: Any, session: Any) -> None:
        """Beside strings that only the official package's rules take, so that the run is over values."""
        text = (
            "agraph (string[k] t, float[1] x, int64[n] s) => (float[] z, string[k] u) "
            "{ z = Reshape(x, s) u = Identity(t) }"
        )
        feeds = {"t": np.array([b"a"], "V3"), "x": np.ones(1, np.float32), "s": np.ones(65, np.int64)}
        results, _, error, _ = self.ended(ort.InferenceSession(model(text)), None, feeds, None)
        assert (results, error) == ([], "numpy has no array of 65 dimensions")

    @ours
    def test_error_without_words_is_named(self, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def lacking(_: Any) -> Any:
            raise MemoryError

        monkeypatch.setattr(feeds_of_runs, "result", lacking)
        assert self.ended(session, None, FEEDS, None)[::2] == ([], "MemoryError")

    @ours
    def test_callback_may_be_none(self, ort: Any) -> None:
        assert ort.InferenceSession(model()).run_async(None, FEEDS, None, None) is None

    @ours
    def test_session_and_feeds_may_be_dropped_during_the_run(self, ort: Any) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        ended: queue.Queue[Any] = queue.Queue()
        count = 50
        for _ in range(count):
            session = ort.InferenceSession(model(), options)
            feeds = {name: np.ones((100, 4), np.float32) for name in "xy"}
            session.run_async(None, feeds, lambda results, *_: ended.put(results[0].sum()), None)
            del session, feeds
        assert [ended.get(timeout=30) for _ in range(count)] == [800] * count
