"""KernelContext and KernelInfo, which are valid only during their call."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zrt
from tests.custom_ops.support import ONE, TWO, Add, Op, X, build, caused_by, load, options
from tests.support.together import in_threads
from zrt._native import lib
from zrt.custom_ops import CustomOp, KernelContext, KernelInfo
from zrt.custom_ops import context as module
from zrt.errors import (
    AllocationError,
    ArgumentError,
    BusyError,
    CallbackError,
    ClosedError,
    DTypeError,
    OutOfRangeError,
    ShapeError,
    UnsupportedError,
)
from zrt.types import LogSeverity


def within(work: Callable[[KernelContext], Any], **keywords: Any) -> Any:
    """The result of `work`, called in a `compute`."""
    results: list[Any] = []

    class Asking(Op):
        def work(self, context: KernelContext) -> None:
            results.append(work(context))

    with load(ONE, Asking(), **keywords) as session:
        session.run([X])
    return results[0]


def failing(work: Callable[[KernelContext], Any]) -> BaseException:
    """The exception of `work`, called in a `compute`."""
    with pytest.raises(CallbackError) as caught:
        within(work)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


def test_inputs_are_read_only_views() -> None:
    def look(context: KernelContext) -> None:
        (x,) = context.inputs
        assert context.inputs[0] is x
        assert np.array_equal(x, X)
        # Zero-copy: the memory of the feed.
        assert x.ctypes.data == X.ctypes.data
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 5
        with pytest.raises(ValueError, match="WRITEABLE"):
            x.flags.writeable = True

    within(look)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda context: context.output(1, (1,)), OutOfRangeError),
        (lambda context: context.output(True, (1,)), DTypeError),
        (lambda context: context.output(0, "ab"), ShapeError),
        (lambda context: context.output(0, (2**63,)), ShapeError),
        # The output already exists with another shape.
        (lambda context: context.output(0, (9,)), ShapeError),
        (lambda context: context.info.constant_input(2), ClosedError),
        (lambda context: context.allocator(zrt.MemoryInfo.cuda()), ArgumentError),
        (lambda context: context.allocator(5), DTypeError),
        (lambda context: context.parallel_for(5, 1), DTypeError),
        (lambda context: context.parallel_for(print, -1), ArgumentError),
        (lambda context: context.logger.log("LOUD", "x"), ArgumentError),
        (lambda context: context.logger.log("INFO", 5), DTypeError),
        (lambda context: context.scratch(3, str), UnsupportedError),
        (lambda context: context.scratch(-1), ShapeError),
        (lambda context: context.scratch((1,) * 65), UnsupportedError),
        (lambda context: context.scratch((0, 2**62, 2**62), np.float32), ShapeError),
        (lambda context: context.scratch((2**62, 2**62), np.float32), AllocationError),
        (lambda context: context.resource(1, 0), UnsupportedError),
    ],
)
def test_wrong_call_raises(call: Callable[[KernelContext], Any], error: type[Exception]) -> None:
    assert type(failing(call)) is error


@pytest.mark.parametrize("kind", [np.float32, str])
@pytest.mark.parametrize("shape", [(1,) * 65, (0, 2**62, 2**62)])
def test_output_that_numpy_has_no_array_for_raises(kind: type, shape: tuple[int, ...]) -> None:
    class Large(CustomOp):
        inputs = (np.float32,)
        outputs = (kind,)

        def compute(self, context: KernelContext) -> None:
            context.output(0, shape)

    name = "string" if kind is str else "float"
    session = load(f"(float[4] x) => ({name} y) {{ y = test.ops.Large(x) }}", Large())
    with caused_by(ShapeError, "output.* numpy has no such array"):
        session.run([X])


def test_member_of_an_enum_is_an_index() -> None:
    ports = IntEnum("ports", ["X"], start=0)
    assert np.array_equal(within(lambda context: context.output(ports.X, (4,)).copy()), X)


def test_missing_output_raises() -> None:
    class Idle(Op):
        def compute(self, context: KernelContext) -> None:
            pass

    with pytest.raises(CallbackError, match="compute made no output 'y'"):
        load("(float[n] x) => (float[n] z) { y = test.ops.Op(x) z = Relu(y) }", Idle()).run([X])


def test_output_whose_shape_depends_on_data() -> None:
    class Positive(Op):
        def compute(self, context: KernelContext) -> None:
            (x,) = context.inputs
            positive = x[x > 0]
            context.output(0, positive.shape)[...] = positive

    session = load("(float[n] x) => (float[k] y) { y = test.ops.Op(x) }", Positive())
    for feed in (X, -X, X[:2], X[:0]):
        assert np.array_equal(session.run([feed])[0], feed[feed > 0])


def test_kept_array_raises() -> None:
    """A whole array, a part of it or another object over its memory: the error names it, and no pointer dangles."""
    for keep in (
        lambda x: x,
        lambda x: x[1:],
        lambda x: x.reshape(2, 2).T,
        lambda x: memoryview(x),
        lambda x: np.asarray(x).view(np.int32),
    ):
        kept: list[Any] = []
        error = failing(lambda context, keep=keep, kept=kept: kept.append(keep(context.inputs[0])))
        assert isinstance(error, ArgumentError)
        assert "input 'x'" in str(error)
        assert "keep a copy" in str(error)
    kept = []
    error = failing(lambda context: kept.append(context.output(0, (4,))))
    assert "output 'y'" in str(error)
    # An array that was kept whole has become a copy.
    assert np.array_equal(kept[0], X)


def test_array_in_a_cycle_or_about_to_be_dropped_is_not_kept() -> None:
    def cycle(context: KernelContext) -> None:
        loop: list[Any] = [context.inputs[0]]
        loop.append(loop)

    def thread(context: KernelContext) -> None:
        (x,) = context.inputs
        done = threading.Event()
        thread = threading.Thread(target=lambda part: (part.sum(), done.set()), args=(x[1:],))
        thread.start()
        done.wait()

    within(cycle)
    within(thread)


def test_context_is_closed_after_its_call() -> None:
    context = within(lambda context: context)
    for ask in (
        lambda: context.inputs,
        lambda: context.output(0, (1,)),
        lambda: context.allocator(),
        lambda: context.logger,
        lambda: context.stream,
        lambda: context.resource(1, 1),
        lambda: context.parallel_for(print, 1),
    ):
        with pytest.raises(ClosedError, match="KernelContext is valid only during its call"):
            ask()
    assert context.info.op_type == "Op"
    logger = within(lambda context: context.logger)
    with pytest.raises(ClosedError):
        logger.log("INFO", "late")


def test_other_threads_may_use_the_arrays_but_not_the_context() -> None:
    def look(context: KernelContext) -> Any:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(np.sum, context.inputs[0]).result() == 6
            with pytest.raises(BusyError, match="thread of its call"):
                pool.submit(lambda: context.inputs).result()

    within(look)


def test_create_reads_the_kernel_info() -> None:
    seen: dict[str, Any] = {}

    class Curious(CustomOp):
        name = "Op"
        inputs = (np.float32, np.float32)
        outputs = (np.float32,)

        def create(self, info: KernelInfo) -> Any:
            seen["entries"] = info.config_entries
            seen["severity"] = info.logger.severity
            seen["memory"] = info.allocator().memory.name
            seen["constant"] = info.constant_input(1).tolist(), info.constant_input(0)
            seen["types"] = [str(port) for port in (*info.inputs, *info.outputs)]
            with pytest.raises(OutOfRangeError):
                info.constant_input(2)
            with pytest.raises(ArgumentError):
                info.allocator("MOON")
            seen["info"] = info
            return None

        def compute(self, context: KernelContext) -> None:
            x, weights = context.inputs
            np.add(x, weights, out=context.output(0, x.shape))

    text = "(float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = test.ops.Op(x, w) }"
    session = load(text, Curious(), config_entries={"my.key": "my value"})
    assert np.array_equal(session.run([X])[0], X + np.arange(1, 5))
    info = seen.pop("info")
    assert seen.pop("entries")["my.key"] == "my value"
    assert seen == {
        "severity": LogSeverity.FATAL,
        "memory": "Cpu",
        "constant": ([1, 2, 3, 4], None),
        "types": ["x: float32[4]", "w: float32[4]", "y: float32[4]"],
    }
    for ask in (lambda: info.constant_input(1), lambda: info.allocator(), lambda: info.logger):
        with pytest.raises(ClosedError, match="KernelInfo is valid only"):
            ask()


def test_kept_constant_input_raises() -> None:
    class Keeping(Add):
        def create(self, info: KernelInfo) -> Any:
            return info.constant_input(1)

    with pytest.raises(CallbackError, match=r"constant input 'y'.*create.*keep a copy"):
        load("(float[4] x) => (float[4] z) <float[4] y = {1, 2, 3, 4}> { z = test.ops.Add(x, y) }", Keeping())


def test_scratch_memory() -> None:
    def work(context: KernelContext) -> Any:
        room = context.scratch((3, 4), np.float32)
        room[...] = 1
        assert room.shape == (3, 4)
        assert context.scratch((0, 2)).shape == (0, 2)
        return room

    # Scratch memory may be kept: its last view frees it.
    assert within(work).sum() == 12


def test_allocators_outlive_the_session() -> None:
    allocator = within(lambda context: context.allocator())
    assert allocator.memory.name == "Cpu"
    assert allocator.stats().raw is not None


def test_logger(capfd: pytest.CaptureFixture[str]) -> None:
    def say(context: KernelContext) -> None:
        assert context.logger.severity is LogSeverity.WARNING
        context.logger.log("WARNING", "from an operator: ç")
        context.logger.log("INFO", "too quiet")

    within(say, log_severity_level="WARNING")
    errors = capfd.readouterr().err
    assert "from an operator: ç" in errors
    assert "too quiet" not in errors


def test_cpu_kernel_has_no_stream() -> None:
    assert within(lambda context: context.stream) == 0


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("batches", [0, 1, 7])
def test_parallel_for(threads: int, batches: int) -> None:
    def work(context: KernelContext) -> list[int]:
        turns = [0] * 100

        def turn(index: int) -> None:
            turns[index] += 1
            # The context is valid in these threads too, for a nested loop as well.
            assert context.inputs[0].size == 4
            if index == 50:
                context.parallel_for(lambda inner: None, 10)

        context.parallel_for(turn, 100, batches)
        context.parallel_for(turn, 0)
        return turns

    assert within(work, intra_op_num_threads=threads) == [1] * 100


def test_turns_of_parallel_for_share_an_output() -> None:
    """Each turn asks for the output, and gets the same memory."""

    class Spread(Op):
        def compute(self, context: KernelContext) -> None:
            (x,) = context.inputs

            def turn(index: int) -> None:
                context.output(0, x.shape)[index] = x[index] * 3

            context.parallel_for(turn, x.size, x.size)

    session = load(ONE, Spread(), intra_op_num_threads=4)
    for _ in range(50):
        assert np.array_equal(session.run([X])[0], X * 3)


def test_parallel_for_raises_the_first_exception() -> None:
    def work(context: KernelContext) -> None:
        def turn(index: int) -> None:
            raise KeyError(index)

        context.parallel_for(turn, 50)

    assert isinstance(failing(work), KeyError)


def test_no_turn_calls_python_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of many turns ends soon after an exception, or Ctrl-C."""
    turns = []
    turn = module._Job.turn

    def counted(job: Any, index: int) -> None:
        turns.append(index)
        turn(job, index)

    monkeypatch.setattr(module._Job, "turn", counted)
    assert isinstance(failing(lambda context: context.parallel_for(lambda index: 1 / index, 50)), ZeroDivisionError)
    assert turns == [0]


def test_parallel_for_has_no_empty_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []

    def loop(*arguments: Any) -> Any:
        batches.append(arguments[3])
        return lib.zrt_parallel_for(*arguments)

    monkeypatch.setattr(module, "lib", SimpleNamespace(zrt_parallel_for=loop))
    within(lambda context: context.parallel_for(lambda index: None, 3, 2**31 - 1))
    assert batches == [3]


def test_compute_may_run_sessions() -> None:
    """`compute` runs another session, and its own."""
    inner = zrt.Session(build(TWO), options([Add()]))
    mine: list[zrt.Session] = []

    class Deep(Op):
        serialize = True

        def compute(self, context: KernelContext) -> None:
            (x,) = context.inputs
            y = inner.run([x, x])[0]
            if x.size > 1:
                y[1:] = mine[0].run([x[1:]])[0]
            context.output(0, x.shape)[...] = y

    mine.append(load(ONE, Deep()))
    assert np.array_equal(mine[0].run([X])[0], X * 2)


def test_compute_may_close_its_session() -> None:
    mine: list[zrt.Session] = []

    class Closing(Op):
        def work(self, context: KernelContext) -> None:
            mine[0].close()

    mine.append(load("(float[n] x) => (float[n] y) { a = test.ops.Op(x) y = test.ops.Op(a) }", Closing()))
    assert np.array_equal(mine[0].run([X])[0], X)
    with pytest.raises(ClosedError):
        mine[0].run([X])


def test_serialize() -> None:
    class Alone(Op):
        serialize = True
        inside = 0
        most = 0

        def work(self, context: KernelContext) -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            threading.Event().wait(0.001)
            self.inside -= 1

    op = Alone()
    settings = options([op])
    sessions = [zrt.Session(build(ONE), settings) for _ in range(2)]
    in_threads(*[lambda: [session.run([X]) for _ in range(5) for session in sessions]] * 4)
    assert op.most == 1
