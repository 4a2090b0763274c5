"""Exceptions of custom operators, which pass through ONNX Runtime to the caller."""

import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zrt
from tests.custom_ops.support import ONE, Op, X, caused_by, load
from tests.robustness.conftest import Child
from tests.support.together import in_threads
from zrt._native import callback_errors
from zrt.custom_ops import KernelContext, KernelInfo, ShapeContext, callbacks, info
from zrt.errors import CallbackError


class Raising(Op):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def work(self, context: KernelContext) -> None:
        raise self.error


def test_cause_keeps_its_traceback() -> None:
    with pytest.raises(CallbackError, match=r"Op.*ValueError: what went wrong") as caught:
        load(ONE, Raising(ValueError("what went wrong"))).run([X])
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    names = []
    trace = cause.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert names[-1] == "work"
    assert "[zrt" not in str(caught.value)


def test_every_kind_of_run_raises(background: Callable[..., Any]) -> None:
    session = load(ONE, Raising(ValueError("no")))
    for run in (
        lambda: session.run([X]),
        lambda: session.run({"x": X}, ["y"], zrt.RunOptions()),
        session.lane(shapes={"x": 4}, output_shapes={"y": 4}).run,
        session.prepare([X]).run,
        background(lambda: session.run([X])).result,
    ):
        with caused_by(ValueError):
            run()


def test_exception_in_create_is_the_cause() -> None:
    class Failing(Op):
        def create(self, info: KernelInfo) -> None:
            raise LookupError(info.op_type)

    with caused_by(LookupError, "LookupError: Op"):
        load(ONE, Failing())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_base_exceptions_are_not_wrapped(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        load(ONE, Raising(error)).run([X])
    assert caught.value is error

    class Stopping(Op):
        def create(self, info: KernelInfo) -> None:
            raise error

    with pytest.raises(type(error)):
        load(ONE, Stopping())


def test_odd_exceptions() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    for odd in (
        MuteError(),
        ValueError("a\0b"),
        ValueError("\ud800"),
        ValueError("x" * 100_000),
        ValueError("[zrt: raised 1]"),
    ):
        with pytest.raises(CallbackError) as caught:
            load(ONE, Raising(odd)).run([X])
        assert caught.value.__cause__ is odd


@pytest.mark.parametrize("name", ["__traceback__", "__cause__", "__context__"])
def test_exception_whose_class_overrides_an_attribute(name: str) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError

    odd = type("OddError", (Exception,), {name: property(refuse)})

    class Inferring(Op):
        def infer_shapes(self, context: ShapeContext) -> None:
            raise odd("no shape")

    with caused_by(odd, "OddError: no"):
        load(ONE, Raising(odd("no"))).run([X])
    with caused_by(odd, "infer_shapes: OddError: no shape"):
        load(ONE, Inferring())


def test_exception_of_a_nested_run() -> None:
    inner = load(ONE, Raising(ValueError("deep")))

    class Outer(Op):
        def work(self, context: KernelContext) -> None:
            inner.run([X])

    with pytest.raises(CallbackError, match="deep") as caught:
        load(ONE, Outer()).run([X])
    middle = caught.value.__cause__
    assert isinstance(middle, CallbackError)
    assert isinstance(middle.__cause__, ValueError)


def test_frames_of_a_kept_exception_hold_no_arrays() -> None:
    """The frames of an exception that is kept must not refer to ORT's memory."""

    class Holding(Op):
        def work(self, context: KernelContext) -> None:
            part = context.inputs[0][1:]
            try:
                raise KeyError(part.size)
            except KeyError:
                raise ValueError from None

    with pytest.raises(CallbackError) as caught:
        load(ONE, Holding()).run([X])
    cause: BaseException | None = caught.value.__cause__
    while cause is not None:
        trace = cause.__traceback__
        while trace is not None:
            assert not any(isinstance(each, np.ndarray) for each in trace.tb_frame.f_locals.values())
            trace = trace.tb_next
        cause = cause.__context__


def test_arrays_of_an_exception_become_copies() -> None:
    """Views in arguments, attributes and earlier exceptions, whole or in part, do not show ONNX Runtime's memory."""

    class Telling(Op):
        def work(self, context: KernelContext) -> None:
            (x,) = context.inputs
            try:
                raise KeyError(x.reshape(2, 2).T)
            except KeyError:
                error = ValueError(x, x[1:], [{"x": (x[::2], np.asarray(memoryview(x)))}])
                error.part = x.view(np.recarray)[2:]  # type: ignore[attr-defined]
                raise error from None

    feed = X.copy()
    with pytest.raises(CallbackError) as caught:
        load(ONE, Telling()).run([feed])
    feed[:] = -1  # The memory of the views.
    error: Any = caught.value.__cause__
    assert not hasattr(error, "__notes__")
    whole, part, [inner] = error.args
    for array, expected in (
        (whole, X),
        (part, X[1:]),
        (inner["x"][0], X[::2]),
        (inner["x"][1], X),
        (error.part, X[2:]),
        (error.__context__.args[0], X.reshape(2, 2).T),
    ):
        assert np.array_equal(array, expected)


def test_arrays_of_an_odd_exception_become_copies(capfd: pytest.CaptureFixture[str]) -> None:
    class OddError(Exception):
        args = property(lambda self: 1 / 0)  # type: ignore[assignment]
        __dict__ = property(lambda self: 1 / 0)  # type: ignore[assignment]

        def add_note(self, note: str) -> None:
            raise KeyError

    part: list[Any] = []

    class Telling(Op):
        def work(self, context: KernelContext) -> None:
            part[:] = [context.inputs[0][1:]]
            raise OddError(tuple(part))

    feed = X.copy()
    with caused_by(OddError):
        load(ONE, Telling()).run([feed])
    feed[:] = -1
    assert np.array_equal(part[0], X[1:])
    assert not capfd.readouterr().err


def test_note_names_views_kept_elsewhere() -> None:
    kept: list[Any] = []

    class Keeping(Op):
        def work(self, context: KernelContext) -> None:
            kept.append(context.inputs[0][1:])
            raise ValueError("no")

    class Making(Op):
        def create(self, info: KernelInfo) -> None:
            kept.append(memoryview(info.constant_input(0)))
            raise ValueError("no")

    weight = "() => (float[n] y) <float[2] w = {1, 2}> { y = test.ops.Op(w) }"
    for run, name in (
        (lambda: load(ONE, Keeping()).run([X]), "input 'x'"),
        (lambda: load(weight, Making()), "constant input 'w'"),
    ):
        with pytest.raises(CallbackError) as caught:
            run()
        cause: Any = caught.value.__cause__
        assert type(cause) is ValueError
        [note] = cause.__notes__
        assert note.startswith(f"{name}: an array, or a view of it, was kept")


def test_eight_threads_raise_at_random() -> None:
    class Fickle(Op):
        def work(self, context: KernelContext) -> None:
            if random.random() < 0.5:
                raise KeyError(threading.get_ident())

    sessions = [load(ONE, Fickle()) for _ in range(2)]

    def work() -> None:
        for turn in range(60):
            error = None
            try:
                (y,) = sessions[turn % 2].run([X])
                assert np.array_equal(y, X)
            except CallbackError as raised:
                error = raised
            # Each thread gets its own.
            assert error is None or repr(error.__cause__) == f"KeyError({threading.get_ident()})"

    in_threads(*[work] * 8)


def test_interrupts_at_any_moment(child: Child) -> None:
    """Ctrl-C anywhere in a compute: KeyboardInterrupt out of the run, nothing printed, and the next run is right."""
    process = child.start("interrupts.py")
    child.finish(process)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_while_a_session_is_released(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C there is neither lost nor printed, and the standard operators are released all the same."""
    ended: list[Any] = []

    def interrupted(standards: Any) -> None:
        ended.append(standards)
        if len(ended) == 1:
            signal.raise_signal(signal.SIGINT)
        info.end_standards(standards)

    def release() -> None:
        session.close()
        # Python looks for signals at its next call.
        time.sleep(0)

    session = load(ONE, Op())
    monkeypatch.setattr(callbacks, "end_standards", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release()
    # Sessions of other tests may end meanwhile.
    assert [standards is ended[0] for standards in ended].count(True) == 2
    assert capfd.readouterr().err == ""


class LateError(ValueError):
    """When it is dropped, another callback fails."""

    def __del__(self) -> None:
        callback_errors.to_message(ValueError("late"))


def test_dropped_exception_may_fail_in_a_callback() -> None:
    def drop() -> None:
        callback_errors.to_message(LateError())
        for _ in range(callback_errors._MOST_KEPT):
            callback_errors.to_message(ValueError("no"))

    in_threads(drop)
