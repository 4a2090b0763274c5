"""Feeds with side effects when they are read, and memory that changes while it is in use."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import zrt
from tests.robustness.anything import FEEDS, OwnError, X, Y, works
from tests.robustness.conftest import Child
from tests.robustness.vocabulary import QUIET
from tests.support import models

# numpy warns when the shape of an array is set.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Changing(dict[str, Any]):
    """Calls a function each time that a feed is read."""

    def __init__(self, feeds: Mapping[str, Any], deed: Callable[[], object]) -> None:
        super().__init__(feeds)
        self.deed = deed

    def __getitem__(self, name: str) -> Any:
        self.deed()
        return super().__getitem__(name)

    def __len__(self) -> int:
        self.deed()
        return super().__len__()

    def keys(self) -> Any:
        self.deed()
        return super().keys()


class ChangingArray:
    """Calls a function when it is converted to an array."""

    def __init__(self, array: Any, deed: Callable[[], object]) -> None:
        self.array, self.deed = array, deed

    def __array__(self, *_: object, **__: object) -> Any:
        self.deed()
        return self.array


def changing(deed: Callable[[], object], array: Any = X) -> list[Any]:
    return [
        Changing({"x": array, "y": Y}, deed),
        {"x": ChangingArray(array, deed), "y": Y},
        [array, ChangingArray(Y, deed)],
    ]


@pytest.mark.parametrize("way", range(3))
def test_feed_that_closes_the_session(way: int) -> None:
    session = zrt.Session(models.add(["n", 4]), QUIET)
    works(session)
    feeds = changing(session.close)[way]
    try:
        result = session.run(feeds)[0]
    except zrt.errors.ClosedError:
        pass
    else:
        np.testing.assert_array_equal(result, X + Y)
    assert session.closed
    with pytest.raises(zrt.errors.ClosedError):
        session.run(FEEDS)


@pytest.mark.parametrize("way", range(3))
def test_feed_that_runs_the_session(session: zrt.Session, way: int) -> None:
    works(session)
    other = np.ones((3, 4), np.float32)
    feeds = changing(lambda: session.run([other, other]))[way]
    np.testing.assert_array_equal(session.run(feeds)[0], X + Y)
    works(session)


@pytest.mark.parametrize("way", range(3))
def test_exception_of_a_feed_is_raised(session: zrt.Session, way: int) -> None:
    def fail() -> None:
        raise OwnError

    works(session)
    with pytest.raises(OwnError):
        session.run(changing(fail)[way])
    works(session)


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
@pytest.mark.parametrize("way", range(3))
def test_feed_that_reshapes_another_array(session: zrt.Session, way: int) -> None:
    """The other array gets a new shape during the call: the run uses the arrays that were checked."""
    works(session)
    array = X.copy()

    def change() -> None:
        # numpy refuses to move the memory of an array that is in use (unless `refcheck=False`).
        try:
            array.resize((2000, 2000))
        except ValueError:
            array.shape = (4, 2) if array.shape == (2, 4) else (2, 4)

    for _ in range(20):
        try:
            result = session.run(changing(change, array)[way])[0]
        except zrt.Error:
            continue
        assert result.shape == (2, 4)
    works(session)


def test_array_in_use_cannot_be_resized(session: zrt.Session) -> None:
    array = X.copy()
    holders = [zrt.Value.from_array(array), session.prepare([array, Y])]
    with pytest.raises(ValueError, match="resize"):
        array.resize((1, 1))
    assert len(holders) == 2


def test_strings_that_change_while_they_are_read(child: Child) -> None:
    child("values/changing_strings.py")
