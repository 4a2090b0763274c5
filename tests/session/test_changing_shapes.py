"""Runs with more shapes than have calls of their own: the results are right, and all checks are made."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.arrays import f32
from zrt.errors import AllocationError, ArgumentError, DTypeError, ShapeError, TimeoutError, UnknownNameError
from zrt.session.call import CALLS_SETTLED

Load = Callable[..., zrt.Session]
# So many shapes that the last ones share a call.
SIZES = range(1, CALLS_SETTLED + 12)


def opened(session: zrt.Session, *shape: int, outputs: list[str] | None = None) -> zrt.Session:
    """The session after runs with many shapes: in each run all inputs have the shape (size, *shape)."""
    for size in SIZES:
        feeds = [np.ones((size, *shape), info.element_type.dtype) for info in session.inputs]
        session.run(feeds, outputs)
    return session


def test_other_shapes_share_a_call(load: Load) -> None:
    session = opened(load("(float[n] x, float[n] y) => (float[n] z) { z = Sub(x, y) }"))
    calls = session._calls
    for size in (500, 0, 501, 1, 3, 502):
        x, y = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
        for feeds in ({"x": x, "y": y}, {"y": y, "x": x}, [x, y], (x, y)):
            (z,) = session.run(feeds)
            assert z.tolist() == (x - y).tolist()
            assert z.flags.owndata
    assert session._calls is calls


def test_feeds_are_checked(load: Load) -> None:
    session = opened(load("(float[n, 3] x, float[n, 3] y) => (float[n, 3] z) { z = Sub(x, y) }"), 3)
    good = np.ones((700, 3), np.float32)
    for wrong, error, words in (
        ({"x": good, "y": good.astype(np.float64)}, DTypeError, "input 'y'"),
        ({"x": good, "y": np.ones((700, 4), np.float32)}, ShapeError, "input 'y'"),
        ({"x": good, "y": np.ones(700, np.float32)}, ShapeError, "input 'y'"),
        ({"x": good}, ArgumentError, "input 'y'"),
        ({"x": good, "q": good}, UnknownNameError, "'q'"),
        ([good], ArgumentError, "2 inputs"),
    ):
        with pytest.raises(error, match=words):
            session.run(wrong)
        assert session.run([good, good])[0].shape == (700, 3)


def test_inputs_that_contradict_each_other_are_broadcast(load: Load) -> None:
    session = opened(load("(float[n] x, float[n] y) => (float[n] z) { z = Sub(x, y) }"))
    for size in (600, 601):
        assert session.run([np.full(size, 3, np.float32), f32(1)])[0].tolist() == [2] * size
        assert session.run([f32(1), np.full(size, 3, np.float32)])[0].tolist() == [-2] * size
        (z,) = session.run([np.full(size, 3, np.float32), np.ones(size, np.float32)])
        assert z.tolist() == [2] * size
        # The declaration is still trusted: the output is a fresh array.
        assert z.flags.owndata


def test_arrays_are_copied_where_they_need_it(load: Load) -> None:
    session = opened(load("(float[n, m] x) => (float[n, m] y) { y = Neg(x) }"), 2)
    for size in (700, 701):
        x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
        misaligned = np.frombuffer(bytes(1) + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
        for feed in (x.T, x[:, ::2], x[::-1], misaligned, x.astype(">f4")):
            assert session.run([feed])[0].tolist() == (-np.asarray(feed)).tolist()


def test_outputs_that_follow_and_that_do_not(load: Load) -> None:
    """The size of `found` depends on the data, that of `both` on no one input, and that of `x` is passed through."""
    session = opened(
        load(
            "(float[n] x, float[m] w) => (float[1, k] found, float[n, m] both, float[4] four, float[n] x) { "
            "i = NonZero(x) found = Cast<to = 1>(i) a = Unsqueeze(x, one) b = Unsqueeze(w, zero) both = Mul(a, b) "
            "four = Constant<value_floats = [1.0, 2.0, 3.0, 4.0]>() "
            "zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>() }"
        )
    )
    for n, m in ((800, 2), (3, 801)):
        x, w = np.arange(n, dtype=np.float32), np.full(m, 2, np.float32)
        found, both, four, same = session.run([x, w])
        assert found.tolist() == [[*range(1, n)]]
        assert both.tolist() == np.outer(x, w).tolist()
        assert (four.tolist(), same.tolist()) == ([1, 2, 3, 4], x.tolist())
        x[:] = 9
        assert same.tolist()[:3] == [0, 1, 2]


@pytest.mark.parametrize("shape", ["[]", "[?]", "[?, ?]", "[2, n]"])
def test_shapes_without_names(load: Load, shape: str) -> None:
    session = load(f"(float{shape} x) => (float{shape} y) {{ y = Neg(x) }}")
    for size in (*SIZES, 900, 901):
        x = np.full((size,) if shape == "[?]" else (2, size), size, np.float32)
        assert session.run([x])[0].tolist() == (-x).tolist()


def test_strings(load: Load) -> None:
    session = load("(string[n] x) => (string[n] y) { y = Identity(x) }")
    for size in (*SIZES, 90, 91):
        calls = session._calls
        texts = [f"é{number}" for number in range(size)]
        for kind in (object, str):
            assert session.run([np.array(texts, kind)])[0].tolist() == texts
    assert session._calls is calls


def test_sequences_have_no_general_call(load: Load) -> None:
    """It would take arrays alone: no run could find it."""
    session = load(
        "(seq(float[]) s, float[n] x) => (int64 length, float[n] y) { length = SequenceLength(s) y = Neg(x) }"
    )
    for size in (*SIZES, 60):
        x = np.full(size, size, np.float32)
        length, y = session.run([[x] * 2, x])
        assert (length, y.tolist()) == (2, [-size] * size)
    assert not any(call.general for call in session._calls[1::2])


def test_more_names_than_a_general_call_has_room_for() -> None:
    names = [f"x{number}" for number in range(40)]
    nodes = [models.node("Neg", [name], [f"{name}.out"]) for name in names]
    vectors = [models.tensor(name, 1, [f"n{name}"]) for name in names]
    results = [models.tensor(f"{name}.out", 1, [f"n{name}"]) for name in names]
    session = zrt.Session(models.build(nodes, vectors, results))
    for size in (*SIZES, 50):
        feeds = {name: np.full(size + number, number, np.float32) for number, name in enumerate(names)}
        assert [len(result) for result in session.run(feeds)] == [size + number for number in range(40)]


def test_named_outputs(load: Load) -> None:
    session = load("(float[n] x) => (float[n] y, float[n] z) { y = Neg(x) z = Abs(x) }")
    for outputs, signs in ((["z"], [1]), (["z", "y"], [1, -1]), (None, [-1, 1])):
        opened(session, outputs=outputs)
        calls = session._calls
        for size in (300, 301):
            x = np.full(size, 5, np.float32)
            assert [result.tolist() for result in session.run([x], outputs)] == [[5 * sign] * size for sign in signs]
        assert session._calls is calls


def test_declaration_that_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    """The output has twice the size that the model declares: the first run finds it out, and no other run fails."""
    session = zrt.Session(
        models.parse("(float[n] x) => (float[n] y) { y = Concat<axis = 0>(x, x) }"),
        zrt.SessionOptions(log_severity_level="ERROR"),
    )
    session.run([np.ones(400, np.float32)])
    zrt.Environment.flush_log()
    assert capfd.readouterr().err.count("ExecuteKernel") == 1
    for size in (*SIZES, 401):
        assert session.run([np.ones(size, np.float32)])[0].shape == (2 * size,)
    zrt.Environment.flush_log()
    assert capfd.readouterr().err == ""


def test_declaration_that_proves_wrong_late(capfd: pytest.CaptureFixture[str]) -> None:
    """One run fails, and no call of another shape trusts the declaration any more."""
    session = zrt.Session(
        models.parse("(float[n] x, bool[n] kept) => (float[n] y) { y = Compress<axis = 0>(x, kept) }"),
        zrt.SessionOptions(log_severity_level="ERROR"),
    )
    for size in SIZES:
        session.run([np.ones(size, np.float32), np.ones(size, np.bool_)])
    for size in (2, 3, 19, 50):
        assert session.run([np.ones(size, np.float32), np.arange(size) > 0])[0].shape == (size - 1,)
    zrt.Environment.flush_log()
    assert capfd.readouterr().err.count("ExecuteKernel") == 1


def test_ways_to_run(load: Load) -> None:
    session = opened(load("(float[n] x) => (float[n] y) { y = Neg(x) }"))
    options = zrt.RunOptions(tag="tagged")
    for size in (1000, 1001):
        x = np.full(size, 2, np.float32)
        for (y,) in (
            session.run([x], options=options),
            session.run([x], timeout=60),
            session.submit([x]).result(),
            session.run([zrt.Value.from_array(x)]),
            session.prepare([x]).run(),
        ):
            assert y.tolist() == [-2] * size


def test_run_that_takes_too_long(load: Load) -> None:
    session = load(
        "(int64 n, float[k] x) => (float[k] y) { go = Constant <value = bool {1}> ()\n y = Loop (n, go, x) <body = "
        "step (int64 i, bool c, float[k] a) => (bool d, float[k] b) { d = Identity (c)\n b = Neg (a) }> }"
    )
    for size in SIZES:
        session.run([np.array(1), np.ones(size, np.float32)])
    with pytest.raises(TimeoutError):
        session.run([np.array(2**40), np.ones(99, np.float32)], timeout=0.05)
    assert session.run([np.array(2), f32(1, 2)])[0].tolist() == [1, 2]


def test_memory_comes_back() -> None:
    model = models.parse("(float[n] x) => (float[n] y) { h = Exp(x) y = Neg(h) }")
    session = zrt.Session(model, zrt.SessionOptions(memory="bounded"))
    allocator = session.allocator()
    for size in (*SIZES, 4_000_000):
        session.run([np.zeros(size, np.float32)])
    assert allocator.stats().total_allocated_bytes > 8_000_000
    for size in (3, 4, 5):
        assert session.run([np.zeros(size, np.float32)])[0].tolist() == [-1] * size
    assert allocator.stats().total_allocated_bytes < 8_000_000


def test_threads(load: Load) -> None:
    session = opened(load("(float[n] x, float[n] y) => (float[n] z) { z = Sub(x, y) }"))

    def work(number: int) -> bool:
        x = np.full(2000 + number, number, np.float32)
        expected = [number - 1] * (2000 + number)
        return all(session.run([x, np.ones_like(x)])[0].tolist() == expected for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))


def test_too_much_memory_names_the_shape(load: Load) -> None:
    text = "(float[n] x, float[m] w) => (float[n, m] y) { a = Unsqueeze(x, one) b = Unsqueeze(w, zero) y = Mul(a, b) "
    session = opened(load(text + "zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>() }"))
    feed = np.ones(1 << 24, np.float32)
    with pytest.raises(AllocationError, match=r"output 'y': no memory for an array of the shape \[n, m\]"):
        session.run([feed, feed])


def test_closed_session_refuses(load: Load) -> None:
    session = opened(load("(float[n] x) => (float[n] y) { y = Neg(x) }"))
    session.close()
    with pytest.raises(zrt.errors.ClosedError):
        session.run([np.ones(77, np.float32)])
