"""Subclasses of int, str and bytes whose methods lie, and integers too large to print."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zrt
from tests.robustness import sums
from tests.support import models
from tests.support.decoding import CACHES, HEAD, HEADS, decoder_session
from zrt.errors import ArgumentError, DTypeError, Error, OutOfRangeError, ShapeError, UnknownNameError

# Python refuses to convert an integer of so many digits to a string.
BEYOND = 10**5000


class Two(int):
    """An int whose methods return another number; C reads the one in its memory."""

    def __int__(self) -> int:
        return 1 << 40

    __index__ = __int__

    def __le__(self, other: object) -> bool:
        return True

    __lt__ = __ge__ = __gt__ = __le__

    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


class Word(str):
    """A str whose `encode` returns no bytes, and which denies that it contains NUL."""

    __slots__ = ()

    def encode(self, *arguments: Any) -> Any:
        return 5

    def __contains__(self, other: object) -> bool:
        return False


class Long(bytes):
    """Bytes with a wrong length, which decode to nothing."""

    def __len__(self) -> int:
        return 1 << 40

    def decode(self, *arguments: Any) -> str:
        return ""


@pytest.fixture
def session() -> zrt.Session:
    return sums.session()


def test_int_subclass_counts_by_its_content() -> None:
    assert zrt.Value.allocate((Two(2),), np.float32).shape == (2,)
    assert zrt.Allocator.default().allocate(Two(2)).nbytes == 2
    with pytest.raises(ArgumentError, match="nbytes"):
        zrt.Allocator.default().allocate(Two(-2))
    with pytest.raises(ShapeError, match="out of range"):
        zrt.Value.allocate((Two(-2),), np.float32)


def test_int_subclass_as_capacity_counts_by_its_content() -> None:
    session = decoder_session()
    lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, Two(4), step=Two(1)))
    assert (lane.state.capacity, lane.step) == (4, 1)
    with pytest.raises(ShapeError, match="at most"):
        lane.state.write({name: np.ones((1, HEADS, 1 << 16, HEAD), np.float32) for name in CACHES})


def test_str_subclass_counts_by_its_content() -> None:
    options = zrt.RunOptions(tag=Word("tag"), config_entries={Word("key"): Word("entry")})
    assert options.tag == "tag"
    with pytest.raises(ArgumentError, match="NUL"):
        zrt.RunOptions(tag=Word("ta\0g"))


class Same(str):
    """A str that equals every other one."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def test_subclass_as_name_counts_by_its_content() -> None:
    session = zrt.Session(
        models.parse("(float[n] x, float[n] y) => (float[n] d, float[n] e) { d = Sub(x, y) e = Sub(y, x) }")
    )
    feeds = {"x": np.full(1, 5, np.float32), "y": np.full(1, 1, np.float32)}
    assert session.run(feeds, [Same("d")]) == [4]
    assert session.run(feeds, ["e"]) == [-4]
    values = {name: zrt.Value.from_array(array) for name, array in feeds.items()}
    for order in ([Same("x"), Same("y")], ["y", "x"]):
        difference, _ = session.run_values({name: values[str.__str__(name)] for name in order})
        assert difference is not None
        assert difference.numpy() == [4]
    with pytest.raises(UnknownNameError, match="'f'"):
        session.run(feeds, [Same("f")])


def test_bytes_subclass_counts_by_its_content() -> None:
    assert zrt.Value.from_strings([Long(b"abc"), "d"]).numpy().tolist() == ["abc", "d"]


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda s: zrt.Allocator.default().allocate(BEYOND), ArgumentError),
        (lambda s: zrt.Allocator.default().allocate(-BEYOND), ArgumentError),
        (lambda s: zrt.Environment().flush_log(BEYOND), ArgumentError),
        (lambda s: zrt.Value.allocate((BEYOND,), np.float32), ShapeError),
        (lambda s: zrt.Value.allocate((0.5, BEYOND), np.float32), ShapeError),
        (lambda s: s.lane({"x": (-BEYOND,), "y": (1,)}), ShapeError),
        (lambda s: s.lane({BEYOND: (1,)}), UnknownNameError),
        (lambda s: s.run({BEYOND: 1}), UnknownNameError),
        (lambda s: s.run({"x": [0.5, BEYOND], "y": [0.5, 0.5]}), DTypeError),
        (lambda s: s.run({"x": np.zeros(1, "f4"), "y": np.zeros(1, "f4")}, [BEYOND]), UnknownNameError),
        (lambda s: s.binding().bind_input(BEYOND, np.zeros(1, "f4")), UnknownNameError),
        (lambda s: s.lane({"x": 1, "y": 1}).inputs[BEYOND], OutOfRangeError),
        (lambda s: zrt.Runtime(s, shapes={"x": 1, "y": 1})[BEYOND], OutOfRangeError),
        (lambda s: zrt.compatibility_info(models.add(["n"]), BEYOND), DTypeError),
        (lambda s: zrt.Value.from_sequence([[0.5, BEYOND]]), DTypeError),
        (lambda s: zrt.Buffer((BEYOND,), np.float32), ShapeError),
        (lambda s: zrt.SessionOptions(logger=BEYOND).handle(), DTypeError),
        (lambda s: zrt.RunOptions(shrink_arenas=BEYOND), DTypeError),
    ],
)
def test_huge_integers_are_refused(
    use: Callable[[zrt.Session], object], error: type[Error], session: zrt.Session
) -> None:
    with pytest.raises(error):
        use(session)


@pytest.mark.parametrize("names", [np.array(["x", "z"]), np.zeros(2, "V4"), [["z"]], {"z": 1}])
def test_non_string_name_is_unknown(names: Any, session: zrt.Session) -> None:
    feeds = {"x": np.zeros(1, np.float32), "y": np.zeros(1, np.float32)}
    with pytest.raises(UnknownNameError):
        session.run(feeds, [names])
    with pytest.raises(UnknownNameError):
        session.binding().bind_input(names, feeds["x"])
    with pytest.raises(ArgumentError):
        zrt.SessionOptions(execution_mode=names).handle()


class Odd(float):
    """A float whose methods raise, or return something else than the number in its memory."""

    def __float__(self) -> float:
        raise RuntimeError

    def __le__(self, other: object) -> bool:
        return True

    __lt__ = __ge__ = __gt__ = __eq__ = __le__
    __hash__ = float.__hash__

    def __add__(self, other: float) -> float:
        return float("nan")

    __radd__ = __add__

    def __repr__(self) -> str:
        raise RuntimeError


X = np.ones(2, np.float32)

# Each waits, or runs, with a timeout.
TIMED: dict[str, Callable[[zrt.Session, Any], object]] = {
    "Session.run": lambda session, timeout: session.run([X, X], timeout=timeout),
    "Session.submit": lambda session, timeout: session.submit([X, X], timeout=timeout).result(),
    "Session.prepare": lambda session, timeout: session.prepare([X, X]).run(timeout=timeout),
    "Lane.run": lambda session, timeout: session.lane({"x": 2, "y": 2}).run(timeout),
    "StatefulLane.run": lambda session, timeout: session.lane({"x": 2, "y": 2}, state={"z": "x"}).run(None, timeout),
    "Environment.flush_log": lambda session, timeout: zrt.Environment().flush_log(timeout),
    "a future's result": lambda session, timeout: session.submit([X, X]).result(timeout),
    "a future's exception": lambda session, timeout: session.submit([X, X]).exception(timeout),
}

each_timed = pytest.mark.parametrize("run", TIMED.values(), ids=TIMED.keys())


@each_timed
@pytest.mark.parametrize("timeout", [Odd(60.0), Two(60), np.float64(60), 60], ids=["Odd", "Two", "float64", "int"])
def test_subclass_as_timeout_counts_by_its_content(session: zrt.Session, run: Any, timeout: Any) -> None:
    run(session, timeout)


# Timeouts that no clock reaches, and those that are no number of Python.
BEYOND_CLOCKS = (Odd("nan"), Odd("inf"), float("nan"), float("inf"), 10**400, BEYOND, np.float64("nan"))
NO_NUMBERS = (True, np.bool_(True), np.float32(60), np.int64(60), "60", 1j, object(), [60])
WRONG = [*((each, ArgumentError) for each in BEYOND_CLOCKS), *((each, DTypeError) for each in NO_NUMBERS)]


@each_timed
@pytest.mark.parametrize(("timeout", "error"), WRONG, ids=[type(each).__name__ for each, _ in WRONG])
def test_wrong_timeout_is_refused(session: zrt.Session, run: Any, timeout: Any, error: type[Error]) -> None:
    with pytest.raises(error, match="timeout"):
        run(session, timeout)
