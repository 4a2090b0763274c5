"""Hypothesis strategies of arbitrary arguments: feeds, shapes, dtypes, and objects whose attributes lie."""

import array as array_module
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import zrt

X, Y = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
FLAGS = X.copy().flags
for each in (X, Y):
    each.setflags(write=False)
FEEDS = {"x": X, "y": Y}


class OwnError(Exception):
    """An exception of the caller's own code; zrt must not wrap it."""


class OwnKeyError(OwnError, KeyError):
    """The same for a failed lookup."""


# The only exceptions that bad input may raise.
typed_errors = suppress(zrt.Error, OwnError)


def works(session: zrt.Session) -> None:
    """Checks the session's results, twice: the second run may take the fast path."""
    for _ in range(2):
        np.testing.assert_array_equal(session.run(FEEDS)[0], X + Y)


# Objects whose attributes lie.


class LyingBytes(bytes):
    """Bytes with the attributes of an array, but shorter."""

    dtype = np.dtype(np.float32)
    shape = (2, 4)
    flags = FLAGS


class LyingArray(np.ndarray):
    """An array that claims to be larger, writeable and contiguous."""

    shape = property(lambda self: (2, 4))
    nbytes = property(lambda self: 32)
    size = property(lambda self: 8)
    ndim = property(lambda self: 2)
    dtype = property(lambda self: np.dtype(np.float32))
    flags = property(lambda self: FLAGS)
    __repr__ = object.__repr__


class HugeArray(LyingArray):
    shape = property(lambda self: (2**24, 4))
    nbytes = property(lambda self: 2**28)


class Raising:
    """Raises at every use."""

    def __getattr__(self, name: str) -> Any:
        raise OwnError(name)

    def __len__(self) -> int:
        raise OwnError("len")

    def __getitem__(self, key: object) -> Any:
        raise OwnError("getitem")

    def __array__(self, *_: object, **__: object) -> Any:
        raise OwnError("array")


class Giving:
    """Returns its argument when it is converted to an array."""

    def __init__(self, thing: Any) -> None:
        self.given = thing

    def __array__(self, *_: object, **__: object) -> Any:
        return self.given


class Interface:
    def __init__(self, interface: Any) -> None:
        self.__array_interface__ = interface


class LongSequence(Sequence[Any]):
    """Reports a wrong length."""

    def __init__(self, items: list[Any], length: int) -> None:
        self.items, self.length = items, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]


class OddMapping(Mapping[Any, Any]):
    """Lists wrong keys and reports a wrong length."""

    def __init__(self, items: dict[Any, Any], keys: list[Any], length: int) -> None:
        self.items_, self.keys_, self.length = items, keys, length

    def __getitem__(self, key: Any) -> Any:
        if key not in self.items_:
            raise OwnKeyError(key)
        return self.items_[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys_)

    def __len__(self) -> int:
        return self.length


def liars() -> list[Any]:
    short = np.zeros(1, np.float32)
    read_only = np.frombuffer(bytes(32), np.float32).reshape(2, 4)
    pointer = X.__array_interface__["data"]
    return [
        LyingBytes(b""),
        LyingBytes(b"ab"),
        short.view(LyingArray),
        short.view(HugeArray),
        np.zeros((2, 4)).view(LyingArray),
        np.zeros((4, 2), np.float32).T.view(LyingArray),
        read_only.view(LyingArray),
        Raising(),
        Giving(None),
        Giving(X[:1]),
        Giving(short.view(LyingArray)),
        Giving([[1.0]]),
        Giving(Giving(X)),
        Interface(5),
        Interface({}),
        Interface({"version": 3, "shape": (-1, 4), "typestr": "<f4", "data": pointer}),
        Interface({"version": 3, "shape": (2, 4), "typestr": "<f3", "data": pointer}),
        Interface({"version": 3, "shape": (2, 4), "typestr": "<f4", "data": pointer, "strides": (1, 1)}),
        Interface({"version": 3, "shape": (0, 4), "typestr": "<f4", "data": (0, False)}),
        Interface({"version": 3, "shape": "ab", "typestr": 5, "data": "no"}),
        array_module.array("f", range(8)),
        array_module.array("b", range(32)),
        (ctypes.c_float * 4 * 2)(),
        memoryview(bytes(32)).cast("f", [2, 4]),
        memoryview(bytes(32)),
        np.zeros((2, 4), np.float32).view(np.matrix),
        np.ma.masked_array(X, mask=X > 3),
        np.rec.array(np.zeros(2, "f4,f4")),
        np.float32(1),
        zrt.Session,
        zrt.Value.from_array(X),
        zrt.Buffer((2, 4), np.float32),
        zrt.ElementType.FLOAT,
        ...,
        NotImplemented,
        X.dtype,
        lambda: X,
    ]


LIARS = st.sampled_from(range(len(liars()))).map(lambda index: liars()[index])

DTYPES = st.one_of(
    st.sampled_from([np.dtype(kind) for kind in "?bBhHiIqQefdgFDGSUVOMm"]),
    hnp.scalar_dtypes(),
    hnp.array_dtypes(),
    hnp.nested_dtypes(),
    st.sampled_from([kind.dtype for kind in zrt.ElementType if kind.bits]),
)


@st.composite
def arrays(draw: Callable[..., Any]) -> np.ndarray:
    """Arrays of any dtype and shape, sliced, transposed, broadcast, read-only."""
    if draw(st.booleans()):
        dtype, shape = np.dtype(np.float32), draw(st.sampled_from([(2, 4), (4, 2), (3, 4), (0, 4), (8, 8), (2, 4, 1)]))
    else:
        dtype, shape = draw(DTYPES), draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = np.zeros(shape, dtype)
    for change in draw(st.lists(st.sampled_from("tsnrbzf"), max_size=3)):
        if change == "t":
            array = array.T
        elif change == "s" and array.ndim:
            array = array[:: draw(st.sampled_from([1, 2, -1]))]
        elif change == "n" and array.dtype.kind in "fiu":
            array = array.astype(array.dtype.newbyteorder())
        elif change == "r":
            array.setflags(write=False)
        elif change == "b":
            array = np.broadcast_to(array, (2, *array.shape))
        elif change == "z" and array.ndim:
            array = array[..., :4]
        elif change == "f":
            array = np.asfortranarray(array)
    return array


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=9),
)
JSON = st.recursive(
    SCALARS,
    lambda each: st.one_of(
        st.lists(each, max_size=3), st.tuples(each, each), st.dictionaries(SCALARS, each, max_size=3)
    ),
    max_leaves=8,
)
FEED = st.one_of(arrays(), LIARS, JSON, st.just(X), st.just(Y))
NAMES = st.one_of(st.sampled_from(["x", "y"]), st.sampled_from(["z", "", "x\0", "\ud800", 0, None, (), b"x"]), SCALARS)
ANY_FEEDS = st.one_of(
    st.fixed_dictionaries({"x": FEED, "y": FEED}),
    st.dictionaries(NAMES, FEED, max_size=3),
    st.lists(FEED, min_size=2, max_size=2),
    st.lists(FEED, max_size=3),
    st.builds(LongSequence, st.lists(FEED, max_size=3), st.integers(0, 3)),
    st.builds(OddMapping, st.dictionaries(NAMES, FEED, max_size=3), st.lists(NAMES, max_size=3), st.integers(0, 3)),
    FEED,
)


SIZES = st.one_of(
    st.integers(0, 5),
    # Sizes that no process can allocate. Sizes in between would use up the machine's memory.
    st.sampled_from([-(2**70), -(2**63), -1, 2**45, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**70]),
    st.sampled_from([1.0, "4", None, True, np.int64(4), np.uint8(4), np.float32(4), 4j, b"4", (), [4]]),
)
SHAPE = st.one_of(
    st.tuples(SIZES, SIZES),
    st.tuples(st.integers(0, 5), st.just(4)),
    st.lists(SIZES, max_size=3),
    st.lists(st.integers(0, 1), min_size=60, max_size=70),
    SIZES,
    JSON.filter(lambda value: not isinstance(value, int)),
)
ANY_SHAPES = st.one_of(
    st.fixed_dictionaries({"x": SHAPE, "y": SHAPE}),
    st.dictionaries(NAMES, SHAPE, max_size=3),
    st.lists(SHAPE, max_size=3),
    st.builds(LongSequence, st.lists(SHAPE, max_size=3), st.integers(0, 3)),
    SHAPE,
)
